"""What a pass writes of extensions: hosts that are given, estimates, and hosts that others will take."""

from __future__ import annotations

import json

from oarpy.model.reasons import local_instant, sentence
from oarpy.model.states import ExtensionState
from oarpy.negotiation.passes.extension_line import ExtensionLine, held_id, waiting_id
from oarpy.scheduler.decide import Decisions
from oarpy.scheduler.plan import Placement
from oarpy.scheduler.snapshot import Snapshot
from oarpy.store import notifications
from oarpy.store.database import Connection
from oarpy.store.jobs import extensions
from oarpy.store.jobs.extensions import ExtensionRow, Grant


def write(connection: Connection, line: ExtensionLine, decided: Decisions, snapshot: Snapshot) -> None:
    """Write what was decided about the extensions of a line, and let those of ended jobs be over."""
    rows = {waiting_id(one.row.id): one.row for one in line.rows if one.row.state == ExtensionState.WAITING}
    ended = extensions.end(connection)
    ids_of = snapshot.platform.ids_of
    grants = [Grant(one.job, rows[one.job].id, ids_of(one.bits)) for one in decided.grown if one.job in rows]
    granted = extensions.grant(connection, grants)
    placements = decided.plan.by_job() if rows else {}
    told = [
        (row.id, text)
        for job, row in rows.items()
        if row.id not in granted and job in placements and (text := _news(row, placements[job]))
    ]
    extensions.estimate(connection, told)
    hosts = {held_id(one): one for one in line.hosts if not one.leaving}
    wanted = [(hosts[part].job, hosts[part].resources, at) for part, at in decided.reclaimed if part in hosts]
    extensions.reclaim(connection, wanted)
    if line.hosts:
        extensions.take(connection, snapshot.now)
    if ended or told or wanted:
        notifications.tell(connection, "negotiator")


def next_look(line: ExtensionLine, decided: Decisions, now: float) -> float | None:
    """Return the instant at which the next host is to be taken (epoch seconds), None if none is.

    What was due by ``now`` is on its way: who confirms that it is gone tells passes.
    """
    staying = {held_id(one): one.reclaim_at for one in line.hosts if not one.leaving}
    dates = [at for at in staying.values() if at is not None]
    dates += [at for part, at in decided.reclaimed if part in staying]
    return min((at for at in dates if at > now), default=None)


def _news(row: ExtensionRow, placement: Placement) -> str:
    """Return an estimate as JSON, nothing if it is the one told last."""
    estimate = {
        "tag": row.tag,
        "start": placement.start,
        "verdict": str(placement.verdict),
        "reason": sentence(placement.reason, local_instant),
    }
    return "" if estimate == row.told else json.dumps(estimate)
