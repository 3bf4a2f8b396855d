"""The messages for a launcher that follow from the rows of its application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from oarpy.model.states import NegotiationState
from oarpy.negotiation.modules.conversation import Conversation
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.negotiation.store.growth import JobGrowth

OVER = (NegotiationState.GHOST, NegotiationState.FINISHED)
"""States of an application whose job is over."""
ENDED = (NegotiationState.FINISH_SENT, *OVER)
"""States of an application whose end is known."""

SHOWN = (NegotiationState.SUBMITTED, NegotiationState.REQUEST_SENT, NegotiationState.WAITING)
"""States in which an application is shown views."""

Message = dict[str, object]


def attached(row: ApplicationRow) -> Message:
    """Return the answer to a launcher that continues with an application."""
    return {"message": "attached", "job": row.job, "state": row.state, "tag": row.tag, "serial": row.serial}


def news(
    row: ApplicationRow,
    hosts: Mapping[str, Sequence[str]],
    cluster_of: Mapping[str, str],
    grown: JobGrowth,
    heard: Conversation,
) -> Iterator[Message]:
    """Yield the news for a launcher, in order; ``hosts`` are those that the job holds, by cluster.

    ``cluster_of`` names the cluster of any host: some may have come and gone since.

    A view that the launcher did not take is left out: the next view has the clusters of both. The start is sent again
    when the job was given other hosts before it ran.
    """
    over = row.state in ENDED
    if row.state in SHOWN and row.serial > (heard.serial or 0):
        yield view(row, heard.serial)
        heard.serial = row.serial
    estimate = row.told
    if estimate is not None and row.state == NegotiationState.WAITING and estimate != heard.estimate:
        yield {"message": "estimate", **estimate}
        heard.estimate = estimate
    if row.state == NegotiationState.STARTED and hosts and heard.placed != row.placed:
        heard.placed = row.placed
        heard.growth.begin(grown)
        yield start(row, hosts)
    if row.state == NegotiationState.STARTED and heard.placed is not None:
        yield from heard.growth.news(grown, cluster_of)
    if over and not heard.ended:
        heard.ended = True
        yield {"message": "ended", "reason": row.ended or "error"}


def view(row: ApplicationRow, since: int | None) -> Message:
    """Return the view, with the changes after view ``since`` (None: all of it)."""
    after = since or 0
    changes = {name: profile for name, (serial, profile) in row.view.items() if since is None or serial > since}
    message: Message = {"message": "changeNotify", "serial": row.serial, "changes": changes}
    if names := [name for name, (serial, _, _, _) in row.informed.items() if serial > after]:
        message["cinfo"] = names
    if names := [name for name, (_, serial, _, _) in row.informed.items() if serial > after]:
        message["icinfo"] = names
    if groups := {name: some for name, (serial, some) in row.groups.items() if name in changes or serial > after}:
        message["exact"] = groups
    return message


def has_news(message: Message) -> bool:
    """Tell whether a view has more than its number."""
    return any(message.get(word) for word in ("changes", "cinfo", "icinfo", "exact"))


def start(row: ApplicationRow, hosts: Mapping[str, Sequence[str]]) -> Message:
    """Return the start message."""
    begin = row.started or 0
    return {
        "message": "startNotify",
        "tag": row.tag,
        "hosts": row.hosts,
        "names": {name: list(some) for name, some in hosts.items()},
        "until": begin + (row.walltime or 0),
    }
