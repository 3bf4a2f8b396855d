"""The module that submits recurring jobs when they are due.

At each due time it submits once, whatever is killed: the transaction that stores the jobs also moves the series to its
next due time, and ``recurring_submissions`` has one submission for a due time. Due times that were missed count as one.

What may pass by itself, such as a rule that fails or a user whom the system does not know, puts a due time off: it is
tried again for an hour, or until the next due time, and refused after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
import structlog

from oarpy.admission.rules.rules import RuleFailed
from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError, Unreachable
from oarpy.modules.loop.module import Outcome
from oarpy.recurrence import series as all_series
from oarpy.recurrence.rules import Rule, read_rule
from oarpy.recurrence.series import NoAccount
from oarpy.store.database import Connection
from oarpy.store.jobs import recurring
from oarpy.store.jobs.recurring import DueSeries
from oarpy.store.refusals import first_line, is_refusal

log = structlog.get_logger()

_AGAIN = timedelta(seconds=20)
"""After this time a due time that was put off is tried again."""
_PATIENCE = timedelta(hours=1)
_BATCH = 20
"""Due times of one run: signs of life come in between."""
PUT_OFF = "RECURRING_JOB_PUT_OFF"
REFUSED = "RECURRING_JOB_REFUSED"
ENDED = "RECURRING_JOB_ENDED"
_ITSELF = "oarpy"
"""Who ended a series whose rule cannot be read."""


@dataclass(frozen=True, slots=True)
class _PutOff:
    """When a due time is tried again, and how long it is."""

    again: datetime
    until: datetime


class Recurrence:
    """Submits the jobs of each series at its due times."""

    name = "recurrence"
    period = 10.0

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._put_off: dict[int, _PutOff] = {}

    def files(self) -> Sequence[int]:
        """Return nothing: notifications and due times are the reasons to run."""
        return ()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Submit what is due, a transaction each."""
        before, self._put_off = self._put_off, {}
        later = {number: put_off for number, put_off in before.items() if now < put_off.again}
        due = recurring.due(connection, now, later, _BATCH)
        submitted = sum(self._submitted(connection, series, now, before.get(series.number)) for series in due)
        self._put_off |= later
        waits = [put_off.again for put_off in self._put_off.values()]
        if (following := recurring.next_due(connection, self._put_off)) is not None:
            waits.append(following)
        return Outcome(
            f"submitted {submitted}, others {len(due) - submitted}" if due else "nothing",
            again=len(due) == _BATCH,
            wake_at=min(waits).timestamp() if waits else None,
        )

    def _submitted(self, connection: Connection, series: DueSeries, now: datetime, put_off: _PutOff | None) -> bool:
        try:
            rule = read_rule(series.rule)
        except OarpyError as error:  # written by hand into the database
            self._end(connection, series, str(error))
            return False
        try:
            job = all_series.submit(connection, self._configuration, series, rule.after(series.due, now), now)
        except Unreachable:
            raise
        except (RuleFailed, NoAccount, OSError) as error:
            until = min(now + _PATIENCE, rule.after(series.due, now)) if put_off is None else put_off.until
            if now + _AGAIN < until:
                self._try_again(connection, series, _PutOff(now + _AGAIN, until), "" if put_off else str(error))
            else:
                self._refuse(connection, series, rule, now, str(error))
            return False
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

    def _try_again(self, connection: Connection, series: DueSeries, put_off: _PutOff, reason: str) -> None:
        """Put a due time off; admins are told the ``reason`` if there is one."""
        self._put_off[series.number] = put_off
        if reason:
            with connection.transaction():
                words = f"its submission due at {_date(series)} is tried again: {reason}"
                recurring.note(connection, series, PUT_OFF, words)
            log.warning("recurring job put off", recurring=series.number, user=series.user, reason=reason)

    def _refuse(self, connection: Connection, series: DueSeries, rule: Rule, now: datetime, reason: str) -> None:
        """Have the series go on without the jobs of this due time, and tell so."""
        words = f"its submission due at {_date(series)} was refused: {reason}"
        with connection.transaction():
            if recurring.take(connection, series, rule.after(series.due, now), reason):
                recurring.tell_refusal(connection, series, REFUSED, words)
        log.warning("recurring job refused", recurring=series.number, user=series.user, reason=reason)

    def _end(self, connection: Connection, series: DueSeries, reason: str) -> None:
        with connection.transaction():
            recurring.end(connection, [series.number], _ITSELF)
            recurring.tell_refusal(connection, series, ENDED, f"it was ended: {reason}")
        log.warning("recurring job ended", recurring=series.number, user=series.user, reason=reason)


def _date(series: DueSeries) -> str:
    return f"{series.due.astimezone():%Y-%m-%d %H:%M:%S}"
