"""Extensions as a part of the state of the cluster, and the writing of decisions about them.

Decisions are granted hosts, estimates, and hosts that others will take.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from oarpy.cluster_state.state_part import StatePart
from oarpy.cluster_state.stored_jobs import StoredHolder
from oarpy.configuration import Configuration
from oarpy.model.reasons import local_instant, sentence
from oarpy.model.states import ExtensionState
from oarpy.negotiation.passes.extension_line import ExtensionLine
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.snapshot import HoldingJob, PartId, Snapshot, WaitingJob
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.jobs import extensions as rows_of_extensions
from oarpy.store.jobs.extensions import ExtensionRow, Grant, RevocableHost


class Extensions(StatePart):
    """The extensions of the cluster."""

    THERE = rows_of_extensions.ANY_THERE

    def __init__(self, configuration: Configuration) -> None:
        self._line = ExtensionLine(configuration.negotiation)

    def read_held(self, connection: Connection, *, any_there: bool) -> None:
        """Read the extensions that are not over."""
        self._line.read(connection, any_there=any_there)

    def left_alone(self, rows: list[StoredHolder]) -> list[StoredHolder]:
        """Return rows of jobs without the hosts that others may take from them."""
        return self._line.without_revocable(rows)

    def jobs(self, snapshot: Snapshot, withheld: Collection[int]) -> tuple[Sequence[WaitingJob], Sequence[HoldingJob]]:
        """Return the extensions that running jobs ask for, and the hosts that may be taken from them."""
        return self._line.waiting(snapshot, withheld), self._line.holding(snapshot)

    def write(self, connection: Connection, decided: Decisions, snapshot: Snapshot, gone: Collection[int]) -> None:
        """Write the decisions, and end the extensions of ended jobs."""
        line = self._line
        if not line.rows:
            return
        waiting = [extension.row for extension in line.rows if extension.row.state == ExtensionState.WAITING]
        rows: dict[int, ExtensionRow] = {PartId.of_extension(row.id): row for row in waiting}
        ended = rows_of_extensions.end(connection)
        ids_of = snapshot.platform.ids_of
        grants = [
            Grant(start.job, rows[start.job].id, ids_of(start.bits)) for start in decided.grown if start.job in rows
        ]
        granted = rows_of_extensions.grant(connection, grants)
        placements = decided.plan.by_job() if rows else {}
        estimates = [
            (row.id, text)
            for job, row in rows.items()
            if row.id not in granted and job in placements and (text := _news(row, placements[job]))
        ]
        rows_of_extensions.estimate(connection, estimates)
        hosts: dict[int, RevocableHost] = {
            PartId.of_host(host.resources[0]): host for host in line.hosts if not host.leaving
        }
        wanted = [(hosts[part].job, hosts[part].resources, at) for part, at in decided.reclaimed if part in hosts]
        rows_of_extensions.reclaim(connection, wanted)
        if line.hosts:
            rows_of_extensions.take(connection, snapshot.now)
        if ended or estimates or wanted:
            notifications.tell(connection, "negotiator")

    def next_pass(self, decided: Decisions, snapshot: Snapshot, now: float) -> float | None:
        """Return the instant at which the next host is to be taken, None if none is.

        Hosts due by ``now`` are already being taken; the confirmation that they are gone wakes passes.
        """
        staying = {PartId.of_host(host.resources[0]): host.reclaim_at for host in self._line.hosts if not host.leaving}
        dates = [at for at in staying.values() if at is not None]
        dates += [at for part, at in decided.reclaimed if part in staying]
        look = min((at for at in dates if at > now), default=None)
        return None if look is None else max(look, now + 1)


def _news(row: ExtensionRow, placement: Placement) -> str:
    """Return an estimate as JSON, nothing if it is the same as the last one sent."""
    estimate = {
        "tag": row.tag,
        "start": placement.start,
        "verdict": str(placement.verdict),
        "reason": sentence(placement.reason, local_instant),
    }
    return "" if estimate == row.told else json.dumps(estimate)
