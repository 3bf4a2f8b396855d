"""The facts that a launcher can ask about clusters, and short marks that show when they have changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.negotiation.core.clusters import HostCluster

Informed = Mapping[str, tuple[int, int, str, str]]
"""By cluster: the numbers of the views that named it for its facts and for its links, and the marks of these."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Clusters, counted as one application counts, the links between them, and the security time in seconds."""

    clusters: Sequence[HostCluster]
    links: Sequence[tuple[str, str, float, float]]
    security_time: float

    def message(self, wanted: Sequence[str] | None) -> dict[str, object]:
        """Return the facts about some clusters, or all."""
        some = [cluster for cluster in self.clusters if wanted is None or cluster.name in wanted]
        names = {cluster.name for cluster in some}
        return {
            "message": "clustersInfo",
            "clusters": {cluster.name: self._facts(cluster) for cluster in some},
            "links": [link for link in map(list, self.links) if link[0] in names and link[1] in names],
        }

    def marks(self) -> dict[str, tuple[str, str]]:
        """Return for each cluster a mark of its facts, and one of its links."""
        return {
            cluster.name: (
                _mark(self._facts(cluster)),
                _mark([link for link in self.links if cluster.name in link[:2]]),
            )
            for cluster in self.clusters
        }

    def _facts(self, cluster: HostCluster) -> dict[str, object]:
        properties = {name: _plain(value) for name, value in cluster.properties.items()}
        return {
            "hosts": cluster.size,
            "resources": dict(cluster.resources),
            "properties": properties,
            "consumables": dict(cluster.consumables),
            "security_time": self.security_time,
        }


def renewed(
    informed: Informed, marks: Mapping[str, tuple[str, str]], names: Iterable[str], serial: int
) -> dict[str, tuple[int, int, str, str]] | None:
    """Return the facts sent to an application when view ``serial`` names the changed clusters, None if none changed.

    ``names`` are the clusters that it is shown. Other clusters and removed ones are named once.
    """
    now = {name: marks.get(name, _NO_MARKS) for name in names} | {
        name: _NO_MARKS for name in informed if name not in set(names)
    }
    sent = {}
    for name, (facts, links) in now.items():
        facts_serial, links_serial, old_facts, old_links = informed.get(name, (0, 0, "", _mark([])))
        sent[name] = (
            facts_serial if facts == old_facts else serial,
            links_serial if links == old_links else serial,
            facts,
            links,
        )
    return None if sent == {name: tuple(entry) for name, entry in informed.items()} else sent


def _mark(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


_NO_MARKS = ("", _mark([]))
"""The marks of a cluster that does not exist (any more)."""


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool) else str(value)
