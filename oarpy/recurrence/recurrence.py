"""The module that submits recurring jobs when they are due.

At each due time it submits once, whatever is killed: the transaction that stores the jobs also moves the series to its
next due time, and ``recurring_submissions`` has one submission for a due time. Due times that were missed count as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import psycopg
import structlog

from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError, Unreachable
from oarpy.modules.loop.module import Outcome
from oarpy.recurrence import series as all_series
from oarpy.recurrence.rules import Rule, read_rule
from oarpy.store.database import Connection
from oarpy.store.jobs import recurring
from oarpy.store.jobs.recurring import DueSeries
from oarpy.store.refusals import first_line, is_refusal

log = structlog.get_logger()

_BATCH = 20
"""Due times of one run: signs of life come in between."""
REFUSED = "RECURRING_JOB_REFUSED"
ENDED = "RECURRING_JOB_ENDED"
_ITSELF = "oarpy"
"""Who ended a series whose rule cannot be read."""


class Recurrence:
    """Submits the jobs of each series at its due times."""

    name = "recurrence"
    period = 10.0

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def files(self) -> Sequence[int]:
        """Return nothing: notifications and due times are the reasons to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Submit what is due, a transaction each."""
        due = recurring.due(connection, now, _BATCH)
        submitted = sum(self._submitted(connection, series, now) for series in due)
        following = recurring.next_due(connection)
        return Outcome(
            f"submitted {submitted}, refused or gone {len(due) - submitted}" if due else "nothing",
            again=len(due) == _BATCH,
            wake_at=None if following is None else following.timestamp(),
        )

    def _submitted(self, connection: Connection, series: DueSeries, now: datetime) -> bool:
        try:
            rule = read_rule(series.rule)
        except OarpyError as error:  # written by hand into the database
            self._end(connection, series, str(error))
            return False
        try:
            job = all_series.submit(connection, self._configuration, series, rule.after(series.due, now), now)
        except Unreachable:
            raise
        except OarpyError as error:
            self._refuse(connection, series, rule, now, str(error))
            return False
        except psycopg.Error as error:
            if not is_refusal(error):
                raise
            self._refuse(connection, series, rule, now, f"refused by the database: {first_line(error)}")
            return False
        except Exception as error:  # what is wrong with a series stops no other
            log.exception("recurring job failed", recurring=series.number, user=series.user)
            self._refuse(connection, series, rule, now, f"it cannot be submitted ({error!r})"[:1000])
            return False
        if job is None:
            return False
        log.info("recurring job submitted", recurring=series.number, user=series.user, job=job, due=str(series.due))
        return True

    def _refuse(self, connection: Connection, series: DueSeries, rule: Rule, now: datetime, reason: str) -> None:
        """Have the series go on without the jobs of this due time, and tell so."""
        words = f"its submission due at {series.due.astimezone():%Y-%m-%d %H:%M:%S} was refused: {reason}"
        with connection.transaction():
            if recurring.take(connection, series, rule.after(series.due, now), reason):
                recurring.tell_refusal(connection, series, REFUSED, words)
        log.warning("recurring job refused", recurring=series.number, user=series.user, reason=reason)

    def _end(self, connection: Connection, series: DueSeries, reason: str) -> None:
        with connection.transaction():
            recurring.end(connection, [series.number], _ITSELF)
            recurring.tell_refusal(connection, series, ENDED, f"it was ended: {reason}")
        log.warning("recurring job ended", recurring=series.number, user=series.user, reason=reason)
