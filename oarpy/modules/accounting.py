"""Accounting: every job that has ended is added once to the consumption of its user, project and queue.

USED is the time a job ran, without the time when it was suspended and had given its resources back. ASKED is its
walltime from the same start. Both are multiplied by the number of its resources of type ``default``, and cut exactly at
the borders of aligned windows (in UTC). Jobs that never ran, or hold nothing, are marked and add nothing.
GPU_USED and GPU_ASKED are the same for the GPUs that a job asked for.

Counted jobs that are old are moved to the past, month by month (``history.keep_live``). Archived months are dropped
when their time is over (``history.retention``). Also removed are changes that the stream of events no longer needs
(``history.keep_changes``), old verdicts (``scheduler.verdict_history``), the use of kinds of jobs after a month, and
calls of brokers and profiles that were taken for them after a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import psycopg

from oarpy.configuration import Configuration
from oarpy.model.errors import UsageError
from oarpy.modules.loop.module import Outcome
from oarpy.store import accounting, event_stream
from oarpy.store.analytics import job_kinds
from oarpy.store.database import Connection
from oarpy.store.grid import door_calls, part_events
from oarpy.store.jobs import bag_profiles
from oarpy.store.jobs.submissions import drop_keys
from oarpy.store.passes import verdict_history
from oarpy.store.past import months, moving
from oarpy.store.past.tables import filed_tables

BATCH = 10_000
"""Jobs counted in one transaction, by default."""
MOVED = 2_000
"""Submissions moved to the past in one run, by default."""
_LOOK = timedelta(hours=1)
_CALLS_KEPT = timedelta(days=1)
"""How long a broker may ask a call again and get the same answer."""
_EVENTS_KEPT = timedelta(days=30)
"""How long a broker may ask again for events that it has had."""


def account(connection: Connection, window: int, limit: int = BATCH) -> int:
    """Count up to ``limit`` ended jobs in windows of ``window`` seconds, in one transaction; return how many.

    Killed at any moment, it has counted all of them or none. Several may run at once.
    """
    if window <= 0:
        raise UsageError(f"accounting window of {window} seconds", hint="modules.accounting_window is above 0")
    with connection.transaction():
        return accounting.account(connection, window, limit)


def file_away(connection: Connection, now: datetime, keep_live: int, limit: int = MOVED) -> int:
    """Move up to ``limit`` submissions of closed months to the past.

    Return the number of moved jobs, 0 when none are left. These are submissions whose jobs are counted and ended in a
    month that was over ``keep_live`` seconds ago.
    """
    horizon = (now.astimezone(UTC) - timedelta(seconds=keep_live)).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    moved = 0
    for month, submissions in moving.batches(moving.due(connection, horizon, limit)):
        # another job may just have come to refer to one of them: they stay until the next time
        with suppress(psycopg.errors.ForeignKeyViolation), connection.transaction():
            moved += moving.move(connection, month, submissions)
    return moved


def expire(connection: Connection, now: datetime, retention: int) -> tuple[date, ...]:
    """Drop the archived months that were over ``retention`` seconds ago; return them. Others are left alone."""
    oldest = (now.astimezone(UTC) - timedelta(seconds=retention)).date().replace(day=1)
    gone = tuple(
        month.month
        for month in months.months(connection)
        if month.month < oldest and month.archive is not None and month.dropped_at is None
    )
    for month in gone:
        with connection.transaction():
            months.lock(connection)
            months.drop(connection, filed_tables(connection), month)
    return gone


class Accounting:
    """The module: counts ended jobs, batch by batch. Once an hour it looks for jobs of closed months to move."""

    name = "accounting"

    def __init__(self, configuration: Configuration) -> None:
        self.period = configuration.modules.accounting
        self._window = configuration.modules.accounting_window
        self._history = configuration.history
        self._verdict_days = configuration.scheduler.verdict_history
        self._next_look: datetime | None = None

    def files(self) -> Sequence[int]:
        """Return nothing: notifications alone are a reason to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Count one batch; again if it was full. With nothing to count, move one batch that is due."""
        if counted := account(connection, self._window):
            drop_keys(connection)
            return Outcome(f"accounted {counted}", again=counted == BATCH)
        if self._next_look is not None and now < self._next_look:
            return Outcome()
        moved = file_away(connection, now, self._history.keep_live) if self._history.keep_live else 0
        if moved:
            return Outcome(f"moved {moved} to the past", again=True)
        self._next_look = now + _LOOK
        verdict_history.prune(connection, now - timedelta(days=self._verdict_days))
        job_kinds.prune(connection, now - timedelta(days=job_kinds.DAYS))
        door_calls.prune(connection, now - _CALLS_KEPT)
        part_events.prune(connection, now - _EVENTS_KEPT)
        bag_profiles.prune(connection, now - _CALLS_KEPT)
        event_stream.prune(connection, now - timedelta(seconds=self._history.keep_changes))
        gone = expire(connection, now, self._history.retention) if self._history.retention else ()
        return Outcome(f"dropped {', '.join(f'{month:%Y-%m}' for month in gone)}") if gone else Outcome()
