"""Recurring jobs: series that are due, what became of each due time, and the series of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.events import NewEvent, log
from oarpy.store.rows import read

# Two submissions of a user count one after the other.
_LOCK_USER = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy recurring ' || %s, 0))"
_COUNT = "SELECT count(*) FROM recurring_jobs WHERE user_name = %s AND ended_at IS NULL"
_INSERT = """
    INSERT INTO recurring_jobs (user_name, rule, submission, next_due_at) VALUES (%s, %s, %s, %s) RETURNING recurring_id
"""

_GOES_ON = """
    SELECT recurring_id AS number, user_name AS user, rule, submission, next_due_at AS due FROM recurring_jobs
    WHERE ended_at IS NULL"""
_DUE = f"""{_GOES_ON} AND next_due_at <= %s AND NOT recurring_id = ANY (%s)
    ORDER BY next_due_at, recurring_id LIMIT %s
"""
_NEXT = "SELECT min(next_due_at) FROM recurring_jobs WHERE ended_at IS NULL AND NOT recurring_id = ANY (%s)"

# Whoever takes a due time holds the row until the jobs are there, or the refusal is: no other takes the same.
_TAKE = """
    UPDATE recurring_jobs SET last_due_at = next_due_at, next_due_at = %(next)s, refusal = %(refusal)s
    WHERE recurring_id = %(number)s AND next_due_at = %(due)s AND ended_at IS NULL RETURNING recurring_id
"""
_SUBMITTED = """
    WITH made AS (
        INSERT INTO recurring_submissions (recurring_id, due_at, submission_id)
        SELECT %(number)s, %(due)s, submission_id FROM jobs WHERE job_id = %(job)s)
    UPDATE recurring_jobs SET last_job = %(job)s WHERE recurring_id = %(number)s
"""
_NOTICE = """
    INSERT INTO notices (recurring_id, tag, comment)
    SELECT recurring_id, 'ERROR', %s FROM recurring_jobs WHERE recurring_id = %s AND submission ->> 'notify' <> ''
"""

_WAITING = f"{_GOES_ON} ORDER BY recurring_id"

_SERIES = """
    SELECT recurring_id AS number, user_name AS user, rule, submission ->> 'name' AS name,
           coalesce(submission ->> 'command', '') AS command, extract(epoch FROM next_due_at)::float8 AS next_due,
           extract(epoch FROM last_due_at)::float8 AS last_due, last_job, refusal,
           extract(epoch FROM ended_at)::float8 AS ended, ended_by
    FROM recurring_jobs
    WHERE CASE WHEN %(numbers)s::bigint[] IS NULL THEN ended_at IS NULL ELSE recurring_id = ANY(%(numbers)s) END
      AND user_name = coalesce(%(user)s, user_name)
    ORDER BY recurring_id
"""
_LOCK = "SELECT FROM recurring_jobs WHERE recurring_id = ANY(%s) ORDER BY recurring_id FOR UPDATE"
_END = """
    UPDATE recurring_jobs SET ended_at = clock_timestamp(), ended_by = %s
    WHERE recurring_id = ANY(%s) AND ended_at IS NULL
"""

_OF_JOBS = """
    SELECT j.job_id AS job, r.recurring_id AS number, extract(epoch FROM r.due_at)::float8 AS due
    FROM jobs j JOIN recurring_submissions r USING (submission_id) WHERE j.job_id = ANY(%s)
"""


@dataclass(frozen=True, slots=True)
class DueSeries:
    """A series that goes on, and its next ``due`` time; ``submission`` is a record of it."""

    number: int
    user: str
    rule: str
    submission: Mapping[str, Any]
    due: datetime


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """A series; instants in epoch seconds. ``last_job`` is the first job of the last submission that was admitted."""

    number: int
    user: str
    rule: str
    name: str | None
    command: str
    next_due: float
    last_due: float | None
    last_job: int | None
    refusal: str
    ended: float | None
    ended_by: str | None


@dataclass(frozen=True, slots=True)
class SeriesOfJob:
    """The series that a job came of, and its due time in epoch seconds."""

    job: int
    number: int
    due: float


def count_of_user(connection: Connection, user: str) -> int:
    """Return how many series of a user go on; until the transaction ends, no other counts them."""
    connection.execute(_LOCK_USER, [user])
    row = connection.execute(_COUNT, [user]).fetchone()
    assert row is not None
    return int(row[0])


def insert(connection: Connection, user: str, rule: str, submission: Mapping[str, object], next_due: datetime) -> int:
    """Store a series; return its number."""
    row = connection.execute(_INSERT, [user, rule, Jsonb(submission), next_due]).fetchone()
    assert row is not None
    return int(row[0])


def due(connection: Connection, now: datetime, but: Iterable[int], limit: int) -> list[DueSeries]:
    """Return up to ``limit`` series with a due time that has come, the earliest first, without some."""
    return read(connection, _DUE, DueSeries, [now, list(but), limit])


def waiting(connection: Connection) -> list[DueSeries]:
    """Return all series that go on, by number."""
    return read(connection, _WAITING, DueSeries)


def next_due(connection: Connection, but: Iterable[int]) -> datetime | None:
    """Return the earliest due time of all series without some; None when there are no others."""
    row = connection.execute(_NEXT, [list(but)]).fetchone()
    return None if row is None else row[0]


def take(connection: Connection, series: DueSeries, following: datetime, refusal: str = "") -> bool:
    """Take a due time, and have the series wait for the ``following`` one; False when it was taken or is no more.

    The due time counts as refused if there is a ``refusal``. The caller owns the transaction.
    """
    values = {"number": series.number, "due": series.due, "next": following, "refusal": refusal}
    return connection.execute(_TAKE, values).rowcount == 1


def note_submitted(connection: Connection, series: DueSeries, first_job: int) -> None:
    """Note the submission of a due time that was taken, by its first job."""
    connection.execute(_SUBMITTED, {"number": series.number, "due": series.due, "job": first_job})


def note(connection: Connection, series: DueSeries, event: str, words: str) -> str:
    """Log what happened to a series; return the text."""
    text = f"recurring job {series.number} of {series.user}: {words}"
    log(connection, [NewEvent(event, text)])
    return text


def tell_refusal(connection: Connection, series: DueSeries, event: str, words: str) -> None:
    """Log what happened to a series, and tell its user, if its submission asks for notices."""
    connection.execute(_NOTICE, [note(connection, series, event, words), series.number])


def series(connection: Connection, numbers: Sequence[int] | None, user: str | None) -> list[SeriesRow]:
    """Return these series, ended or not, or without ``numbers`` all that go on; of one ``user``, if one is given."""
    return read(connection, _SERIES, SeriesRow, {"numbers": None if numbers is None else list(numbers), "user": user})


def lock(connection: Connection, numbers: Sequence[int]) -> None:
    """Hold these series until the transaction ends: none of their due times is taken meanwhile."""
    connection.execute(_LOCK, [list(numbers)])


def end(connection: Connection, numbers: Sequence[int], by: str) -> None:
    """End these series."""
    connection.execute(_END, [by, list(numbers)])


def of_jobs(connection: Connection, jobs: Sequence[int]) -> dict[int, SeriesOfJob]:
    """Return the series of the jobs that came of one, by job."""
    return {row.job: row for row in read(connection, _OF_JOBS, SeriesOfJob, [list(jobs)])}
