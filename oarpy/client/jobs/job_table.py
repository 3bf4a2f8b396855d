"""Jobs one a line: the text formats of ``oarstat``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from oarpy.client.jobs.description import end_reason, exit_text, start_interval
from oarpy.client.rendering import (
    BLUE,
    CYAN,
    DIM,
    GREEN,
    MAGENTA,
    RED,
    YELLOW,
    Column,
    Look,
    Table,
    elapsed,
    local_date,
)
from oarpy.model.errors import UsageError
from oarpy.model.reasons import sentence
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import ArrayProgress, ListedJob

FORMATS = ("1", "2", "3", "csv", "ids")
"""1: names and dates, 2: durations and messages (the default), 3: both with predicted starts."""

DEFAULT_FORMAT = "2"

Cell = Callable[[ListedJob, float], str]

Field: TypeAlias = "tuple[Column, Cell]"

_COLOURS: dict[str, str] = {"R": GREEN, "W": YELLOW, "H": BLUE, "S": MAGENTA, "L": CYAN, "F": CYAN, "E": RED, "T": DIM}
"""The colours of the letters of states."""

_ID: Field = (Column("Job id", 9), lambda job, now: str(job.job_id))
_ARRAY: tuple[Field, ...] = (
    (Column("A. id", 9), lambda job, now: str(job.array_id)),
    (Column("A. index", 8), lambda job, now: str(job.array_index)),
)
_EXIT: Field = (
    Column("Exit", 4, colour=lambda cell: RED if cell not in ("", "0") else ""),
    lambda job, now: exit_text(job.exit_status),
)
_NAME: Field = (Column("Name", 14), lambda job, now: job.name)
_STATE: Field = (Column("S", colour=lambda cell: _COLOURS.get(cell, "")), lambda job, now: JobState(job.state).letter)
_QUEUE: Field = (Column("Queue", 10), lambda job, now: job.queue)
_SUBMITTED: Field = (Column("Submission Date", 19), lambda job, now: local_date(job.submitted))
_DURATION: Field = (Column("Duration", 10), lambda job, now: duration(job, now))
_MESSAGE: Field = (Column("System message", 48), lambda job, now: message(job, now))
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
        _EXIT,
        _MESSAGE,
    ),
}
_LAYOUTS["csv"] = (
    *_LAYOUTS["3"],
    (Column("Project"), lambda job, now: job.project),
    (Column("End reason"), lambda job, now: end_reason(job.state, job.exit_status, job.end_events)),
)


def check_format(text: str) -> str:
    """Return ``text`` if it names a format, else raise :class:`UsageError`."""
    if text not in FORMATS:
        raise UsageError(f"unknown output format '{text[:40]}'", hint="one of " + ", ".join(FORMATS))
    return text


def job_table(jobs: Sequence[ListedJob], layout: str, now: float, seen: Look, *, arrays: bool = False) -> Table:
    """Return ``jobs`` in one of :data:`FORMATS` (not ``ids``); ``now`` is the database's time in epoch seconds."""
    columns = (_ID, *(_ARRAY if arrays else ()), *_shown(layout, jobs, seen))
    return _table(columns, [[cell(job, now) for _, cell in columns] for job in jobs])


def _shown(layout: str, jobs: Sequence[ListedJob], seen: Look) -> tuple[Field, ...]:
    """Return the columns. Programs read formats 1 and 2 as OAR has them; people see exit codes there, if there are."""
    fields = _LAYOUTS[layout]
    if seen.terminal and layout == "2" and any(job.exit_status is not None for job in jobs):
        return (*fields[:-1], _EXIT, fields[-1])
    return fields


def progress_table(
    jobs: Sequence[ListedJob], progress: Mapping[int, ArrayProgress], layout: str, now: float, seen: Look
) -> Table:
    """Return ``jobs`` with one line, ``SIZE@array``, for an array, and how many of its members have ended."""
    done = Column("Done", 8, colour=lambda cell: RED if "failed" in cell else "")
    columns = (_ID, *_shown(layout, jobs, seen))
    rows = []
    for array_id, members in groupby(sorted(jobs, key=_array_order), key=lambda job: job.array_id):
        listed, size = list(members), progress[array_id].size
        own = _of_arrays(f"{size}@{array_id}") if size > 1 else {}
        row = [own.get(column.title, cell(listed[0], now)) for column, cell in columns]
        rows.append([row[0], _progress(progress[array_id]) if size > 1 else "", *row[1:]])
    return _table([columns[0], (done, lambda job, now: ""), *columns[1:]], rows)


def _progress(array: ArrayProgress) -> str:
    return f"{array.ended}/{array.size}" + (f", {array.failed} failed" if array.failed else "")


def _of_arrays(title: str) -> dict[str, str]:
    """Return the cells of a line that stands for several jobs."""
    return {"Job id": title, "S": "-", "Duration": "-", "Start Date": "-", "Exit": "-"}


def compact_table(jobs: Sequence[ListedJob], layout: str, now: float) -> Table:
    """Return ``jobs`` with one line, ``N@array``, for the N members of an array that has more than one listed."""
    columns = (_ID, *_LAYOUTS[layout])
    rows = []
    for array_id, members in groupby(sorted(jobs, key=_array_order), key=lambda job: job.array_id):
        listed = list(members)
        row = [cell(listed[0], now) for _, cell in columns]
        if len(listed) > 1:
            own = _of_arrays(f"{len(listed)}@{array_id}")
            row = [own.get(column.title, text) for (column, _), text in zip(columns, row, strict=True)]
        rows.append(row)
    return _table(columns, rows)


def duration(job: ListedJob, now: float) -> str:
    """Return how long the job has run, or ran, as ``h:mm:ss``."""
    return elapsed(0 if job.started is None else (job.ended or now) - job.started)


def message(job: ListedJob, now: float) -> str:
    """Return the job's message, followed by when it is expected to start and the reason why it still waits."""
    prediction = expected(job, now)
    reason = sentence(job.why, local_date)
    waits = f"{prediction}: {reason}" if prediction and reason else prediction or reason
    return f"{job.message} ({waits})".lstrip() if waits else job.message


def start(job: ListedJob) -> str:
    """Return when the job started; a prediction is marked with ``~``."""
    return f"~{local_date(job.predicted)}" if job.started is None and job.predicted else local_date(job.started)


def expected(job: ListedJob, now: float) -> str:
    """Return the predicted interval of a waiting job's start, empty once that is over."""
    if job.earliest is None or job.latest is None or job.started is not None or job.latest < now:
        return ""
    return start_interval(job.earliest, job.latest, now)


def _array_order(job: ListedJob) -> tuple[int, int]:
    return job.array_id, job.job_id


def _table(columns: Sequence[Field], rows: Sequence[Sequence[str]]) -> Table:
    return Table(tuple(column for column, _ in columns), tuple(map(tuple, rows)))
