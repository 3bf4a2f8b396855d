"""Series that can have no job when they should, for ``oarpy db check``: the error and its repair."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from oarpy.model.errors import OarpyError
from oarpy.model.submission import Submission
from oarpy.recurrence.rules import read_rule
from oarpy.store.database import Connection
from oarpy.store.jobs import recurring
from oarpy.store.jobs.recurring import DueSeries


def contradictions(connection: Connection) -> Iterator[str]:
    """Yield the contradictions, one line each with its repair."""
    now = datetime.now(UTC)
    for series in recurring.waiting(connection):
        yield from _faults(series, now)


def _faults(series: DueSeries, now: datetime) -> Iterator[str]:
    its = f"recurring job {series.number}"
    try:
        Submission.from_record({**series.submission, "user": series.user})
    except OarpyError as error:
        yield f"{its} has a submission that cannot be read, {error}: oardel --recurring {series.number}"
    try:
        latest = read_rule(series.rule).after(now, now)
    except OarpyError as error:
        yield f"{its} has a rule that cannot be read, {error}: oardel --recurring {series.number}"
        return
    if series.due > latest:
        yield (
            f"{its} is due later than by its rule, '{series.rule}': "
            f"UPDATE recurring_jobs SET next_due_at = '{latest.isoformat()}' WHERE recurring_id = {series.number}"
        )
