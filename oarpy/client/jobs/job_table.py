"""Jobs one a line: the text formats of ``oarstat``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TypeAlias

from oarpy.client.rendering import Column, Table, elapsed, local_date
from oarpy.model.errors import UsageError
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import ListedJob

FORMATS = ("1", "2", "3", "csv", "ids")
"""1: names and dates, 2: durations and messages (the default), 3: both with predicted starts."""

DEFAULT_FORMAT = "2"

Cell = Callable[[ListedJob, float], str]

Field: TypeAlias = "tuple[Column, Cell]"

_ID: Field = (Column("Job id", 9), lambda job, now: str(job.job_id))
_ARRAY: tuple[Field, ...] = (
    (Column("A. id", 9), lambda job, now: str(job.array_id)),
    (Column("A. index", 8), lambda job, now: str(job.array_index)),
)
_NAME: Field = (Column("Name", 14), lambda job, now: job.name)
_STATE: Field = (Column("S"), lambda job, now: JobState(job.state).letter)
_QUEUE: Field = (Column("Queue", 10), lambda job, now: job.queue)
_SUBMITTED: Field = (Column("Submission Date", 19), lambda job, now: local_date(job.submitted))
_DURATION: Field = (Column("Duration", 10), lambda job, now: duration(job, now))
_MESSAGE: Field = (Column("System message", 48), lambda job, now: message(job))
_START: Field = (Column("Start Date", 20), lambda job, now: start(job))

_LAYOUTS: dict[str, tuple[Field, ...]] = {
    "1": (_NAME, (Column("User", 14), lambda job, now: job.user), _SUBMITTED, _STATE, _QUEUE),
    "2": (_STATE, (Column("User", 8), lambda job, now: job.user), _DURATION, _MESSAGE),
    "3": (
        _STATE,
        (Column("User", 8), lambda job, now: job.user),
        _NAME,
        _QUEUE,
        _SUBMITTED,
        _START,
        _DURATION,
        _MESSAGE,
    ),
}
_LAYOUTS["csv"] = (*_LAYOUTS["3"], (Column("Project"), lambda job, now: job.project))


def check_format(text: str) -> str:
    """Return ``text`` if it names a format, else raise :class:`UsageError`."""
    if text not in FORMATS:
        raise UsageError(f"unknown output format '{text[:40]}'", hint="one of " + ", ".join(FORMATS))
    return text


def job_table(jobs: Sequence[ListedJob], layout: str, now: float, *, arrays: bool = False) -> Table:
    """Return ``jobs`` in one of :data:`FORMATS` (not ``ids``); ``now`` is the database's time in epoch seconds."""
    columns = (_ID, *(_ARRAY if arrays else ()), *_LAYOUTS[layout])
    return _table(columns, [[cell(job, now) for _, cell in columns] for job in jobs])


def compact_table(jobs: Sequence[ListedJob], layout: str, now: float) -> Table:
    """Return ``jobs`` with one line, ``N@array``, for the N members of an array that has more than one listed."""
    columns = (_ID, *_LAYOUTS[layout])
    rows = []
    for array_id, members in groupby(sorted(jobs, key=_array_order), key=lambda job: job.array_id):
        listed = list(members)
        row = [cell(listed[0], now) for _, cell in columns]
        if len(listed) > 1:
            own = {"Job id": f"{len(listed)}@{array_id}", "S": "-", "Duration": "-", "Start Date": "-"}
            row = [own.get(column.title, text) for (column, _), text in zip(columns, row, strict=True)]
        rows.append(row)
    return _table(columns, rows)


def duration(job: ListedJob, now: float) -> str:
    """Return how long the job has run, or ran, as ``h:mm:ss``."""
    return elapsed(0 if job.started is None else (job.ended or now) - job.started)


def message(job: ListedJob) -> str:
    """Return the job's message, followed by the reason why it still waits."""
    return f"{job.message} ({job.reason})".lstrip() if job.reason else job.message


def start(job: ListedJob) -> str:
    """Return when the job started; a prediction is marked with ``~``."""
    return f"~{local_date(job.predicted)}" if job.started is None and job.predicted else local_date(job.started)


def _array_order(job: ListedJob) -> tuple[int, int]:
    return job.array_id, job.job_id


def _table(columns: Sequence[Field], rows: Sequence[Sequence[str]]) -> Table:
    return Table(tuple(column for column, _ in columns), tuple(map(tuple, rows)))
