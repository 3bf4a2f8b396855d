"""Starts that failed on one node and may succeed on another: the job goes elsewhere, and its node gets a strike.

Examples are a user who is unknown there, a missing directory, or a process that cannot be made. One such start proves
nothing, since its user may have removed the directory. So the job waits again, and keeps away from that node. A node
where starts of several users fail within a minute is suspected: it would take one job after the other.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from oarpy.admission.filters.filters import compile_filter, join_conditions
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types
from oarpy.store.database import Connection
from oarpy.store.jobs import requeueing
from oarpy.store.jobs.execution import LiveRow
from oarpy.store.passes import snapshot_rows
from oarpy.store.platform.nodes import Fault
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import PROLOGUE, Ended, Refused, Report, ScriptEnded

STRUCK = "START_FAILURES"
"""Type of the event of a node that is suspected for starts that failed."""

_WINDOW = 60.0
"""Seconds for which a failed start counts."""
_LEAST_USERS = 2
"""Users whose starts must have failed: the failures of one user suspect no node."""

_UNKNOWN_USER = "NO_SUCH_USER"


@dataclass(frozen=True, slots=True)
class FailedStart:
    """A job that never ran on ``node``, for a reason that may be the node's, in words."""

    key: JobKey
    node: str
    why: str


def failed_start(node: str, report: Report) -> FailedStart | None:
    """Return the failed start in a node's ``report`` that may succeed on another node, None without one."""
    match report:
        case Ended():
            failed = report.by_node
        case Refused():
            failed = report.reason == _UNKNOWN_USER
        case ScriptEnded():
            failed = report.kind == PROLOGUE and report.outcome == _UNKNOWN_USER
        case _:
            return None
    return FailedStart(report.key, node, report.detail) if failed else None


@dataclass(slots=True)
class FailedStarts:
    """Starts that failed in one round: the jobs that go elsewhere and why, and the nodes that are at fault."""

    elsewhere: dict[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


class Strikes:
    """The starts that failed on each node in the last minute. Forgetting them only has a node tried for longer."""

    def __init__(self, limit: int) -> None:
        """Suspect a node at ``limit`` failed starts; 0: none is."""
        self._limit = limit
        self._of: defaultdict[str, deque[tuple[float, str]]] = defaultdict(deque)
        """By node, the instants and users of failed starts."""

    def record(
        self, connection: Connection, starts: Sequence[FailedStart], jobs: Mapping[int, LiveRow], now: float
    ) -> FailedStarts:
        """Have the jobs whose starts failed keep away from those nodes, and count the failures against the nodes."""
        failed = FailedStarts()
        if not starts:
            return failed
        rows = {row.id: row for row in requeueing.failed(connection, [start.key.job for start in starts])}
        kinds = snapshot_rows.property_kinds(connection)
        for start in starts:
            row, job = rows[start.key.job], jobs[start.key.job]
            row = rows[row.id] = replace(row, properties=_away_from(row.properties, start.node))
            # a job on a host of the site has no other host, and a reservation has its resources
            bound = row.reserved or read_types(job.types).host
            if not bound and _admits(connection, row.properties, kinds, len(job.nodes)):
                requeueing.set_properties(connection, row.id, row.properties)
                failed.elsewhere[row.id] = start.why
            if not read_types(job.types).host:
                failed.faults += self._count(start, row.user, now)
        return failed

    def _count(self, start: FailedStart, user: str, now: float) -> Collection[Fault]:
        """Count a start that failed; return the fault of a node that has too many."""
        strikes = self._of[start.node]
        strikes.append((now, user))
        while strikes[0][0] <= now - _WINDOW:
            strikes.popleft()
        several = len({user for _, user in strikes}) >= _LEAST_USERS
        if not self._limit or len(strikes) < self._limit or not several:
            return ()
        text = f"{len(strikes)} starts failed within a minute, the last: {start.why}"
        del self._of[start.node]
        return (Fault(start.node, STRUCK, start.key.job, text[:500]),)


def _away_from(properties: str, node: str) -> str:
    """Return a job's condition, with ``node`` excluded."""
    return join_conditions(properties, f"network_address IS NULL OR network_address <> '{node}'")


def _admits(connection: Connection, properties: str, kinds: Mapping[str, str], nodes: int) -> bool:
    """Tell whether a condition admits that number of present nodes."""
    try:
        condition = compile_filter(properties, kinds)
    except UsageError:
        return False
    return requeueing.nodes_among(connection, snapshot_rows.matching(connection, *condition.sql)) >= nodes
