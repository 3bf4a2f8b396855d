"""What rows of an application mean for its launcher, as messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from oarpy.model.states import NegotiationState
from oarpy.modules.negotiator.conversation import Conversation
from oarpy.scheduler.negotiation.clusters import HostCluster
from oarpy.store.negotiation.applications import ApplicationRow

ENDED = (NegotiationState.FINISH_SENT, NegotiationState.GHOST, NegotiationState.FINISHED)

SHOWN = (NegotiationState.SUBMITTED, NegotiationState.REQUEST_SENT, NegotiationState.WAITING)
"""States in which an application is shown views."""

Message = dict[str, object]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a launcher can ask about clusters."""

    clusters: tuple[HostCluster, ...]
    links: Sequence[tuple[str, str, float, float]]
    consumables: Mapping[str, object]
    security_time: float

    def message(self, wanted: Sequence[str] | None) -> Message:
        """Return what there is to say about some clusters, or all."""
        some = [one for one in self.clusters if wanted is None or one.name in wanted]
        names = {one.name for one in some}
        return {
            "message": "clustersInfo",
            "clusters": {one.name: self._facts(one) for one in some},
            "links": [link for link in map(list, self.links) if link[0] in names and link[1] in names],
        }

    def _facts(self, cluster: HostCluster) -> Message:
        properties = {name: _plain(value) for name, value in cluster.properties.items()}
        return {
            "hosts": len(cluster.hosts),
            "resources": dict(cluster.resources),
            "properties": properties,
            "consumables": dict(self.consumables),
            "security_time": self.security_time,
        }


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool) else str(value)


def attached(row: ApplicationRow) -> Message:
    """Return the answer to who goes on with an application."""
    return {"message": "attached", "job": row.job, "state": row.state, "tag": row.tag, "serial": row.serial}


def news(row: ApplicationRow, hosts: Mapping[str, Sequence[str]], heard: Conversation) -> Iterator[Message]:
    """Yield what the launcher was not told yet, in order; ``hosts`` are those that the job holds, by cluster.

    A view that it did not take yet is left out: the next one has the clusters of both.
    """
    over = row.state in ENDED
    if row.state in SHOWN and row.serial > (heard.serial or 0):
        yield view(row, heard.serial)
        heard.serial = row.serial
    told = row.told
    if told is not None and row.state == NegotiationState.WAITING and told != heard.estimate:
        yield {"message": "estimate", **told}
        heard.estimate = told
    if row.state == NegotiationState.STARTED and hosts and not heard.started:
        heard.started = True
        yield start(row, hosts)
    if over and not heard.ended:
        heard.ended = True
        yield {"message": "ended", "reason": row.ended or "error"}


def view(row: ApplicationRow, since: int | None) -> Message:
    """Return the view, with the clusters that changed after view ``since`` (None: all of them)."""
    changes = {name: profile for name, (serial, profile) in row.view.items() if since is None or serial > since}
    return {"message": "changeNotify", "serial": row.serial, "changes": changes}


def start(row: ApplicationRow, hosts: Mapping[str, Sequence[str]]) -> Message:
    """Return what is told at the start."""
    begin = row.started or 0
    return {
        "message": "startNotify",
        "tag": row.tag,
        "hosts": row.hosts,
        "names": {name: list(some) for name, some in hosts.items()},
        "until": begin + (row.walltime or 0),
    }
