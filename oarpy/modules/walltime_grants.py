"""Pending walltime changes: those whose time has come are granted as far as the plan of the pass leaves room."""

from __future__ import annotations

import structlog

from oarpy.configuration import Walltime
from oarpy.model.errors import OarpyError
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.model.walltime_limits import limit_of
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.snapshot import Snapshot
from oarpy.scheduler.walltime_change import Change, Replan, grants
from oarpy.store import walltime_changes
from oarpy.store.database import Connection
from oarpy.store.walltime_changes import Change as Row

log = structlog.get_logger()


def grant_walltimes(
    connection: Connection, snapshot: Snapshot, made: Plan, rules: Walltime, replan: Replan
) -> float | None:
    """Grant what can be granted now; return when (epoch seconds) time alone changes that, None when never."""
    rows = walltime_changes.pending(connection)
    if not rows:
        return None
    now = snapshot.now
    over = [row.job for row in rows if row.state in FINAL_STATES]
    walltime_changes.drop(connection, over, "the job has ended")
    late = [row.job for row in rows if row.job not in over and row.give_up_at is not None and row.give_up_at <= now]
    walltime_changes.drop(connection, late, "it could not be granted in time")
    running = [row for row in rows if row.state == JobState.RUNNING and row.job not in late]
    wakes = [row.give_up_at for row in running if row.give_up_at is not None]
    changes = []
    for row in running:
        seconds, due = _applicable(row, rules, now)
        if due > now:
            wakes.append(due)
        elif seconds:
            changes.append(Change(row.job, seconds, row.whole, row.delay_next_jobs))
    granted = grants(snapshot, made, changes, replan) if changes else {}
    walltime_changes.grant(connection, sorted(granted.items()))
    return min(wakes, default=None)


def _applicable(row: Row, rules: Walltime, now: float) -> tuple[int, float]:
    """Return the seconds that may be granted at one time, and from when on."""
    if row.walltime is None or row.ends_at is None:
        return 0, now
    if row.pending < 0:
        return row.pending, now
    if row.ends_at <= now:
        return 0, now  # its node is ending it
    if row.forced:
        return row.pending, now
    first = row.walltime - row.granted
    try:
        apply_time = limit_of(rules.apply_time, row.queue, first)
        increment = limit_of(rules.increment, row.queue, first)
    except OarpyError as error:
        log.error("walltime", reason=str(error))
        return 0, now
    seconds = min(row.pending, increment) if increment > 0 and not row.whole else row.pending
    return seconds, row.ends_at - apply_time if apply_time > 0 else now
