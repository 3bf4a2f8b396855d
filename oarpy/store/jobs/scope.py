"""Which jobs a query is about, as the WHERE clause shared by listings, details and requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from psycopg.sql import SQL, Composable

from oarpy.store.database import Connection
from oarpy.store.past.reading import first_found, is_in_past, with_past

Condition: TypeAlias = tuple[str, tuple[object, ...]]
"""SQL text of a checked filter and the values of its ``%s`` (``oarpy.admission.filters.filters.Filter.sql``)."""

FILTER_COLUMNS = {
    "job_id": "bigint",
    "array_id": "bigint",
    "array_index": "integer",
    "job_name": "text",
    "job_user": "text",
    "project": "text",
    "queue_name": "text",
    "job_type": "text",
    "types": "text",
    "state": "text",
    "reservation": "text",
    "message": "text",
    "command": "text",
    "properties": "text",
    "launching_directory": "text",
    "stdout_file": "text",
    "stderr_file": "text",
    "walltime": "interval",
    "submission_time": "timestamptz",
    "start_time": "timestamptz",
    "stop_time": "timestamptz",
    "exit_code": "integer",
    "resubmit_job_id": "bigint",
}
"""Columns a user's condition on jobs may name (OAR's names) and their types; ``types`` is a blank-separated text."""

_FILTERED = """
    j.job_id IN (
        SELECT job_id FROM (
            SELECT job_id, array_id, array_index, job_name, user_name AS job_user, project, queue_name,
                   kind AS job_type, array_to_string(types, ' ') AS types, state,
                   coalesce(reservation_state, 'None') AS reservation, message,
                   CASE WHEN %s::text IS NULL OR user_name = %s THEN command END AS command, properties,
                   launching_directory, stdout_path AS stdout_file, stderr_path AS stderr_file, walltime,
                   submitted_at AS submission_time, started_at AS start_time, ended_at AS stop_time,
                   exit_status AS exit_code, resubmit_of AS resubmit_job_id
            FROM jobs) AS jobs
        WHERE {condition})
"""


@dataclass(frozen=True, slots=True)
class JobScope:
    """The jobs that meet every condition. Ids, ids of arrays, ``ranges`` of ids (both ends included) and names add up.

    ``live`` leaves finished jobs out, ``since`` leaves out jobs that ended before it. The condition sees the commands
    of ``reader``'s jobs alone; None: of all jobs.
    """

    job_ids: tuple[int, ...] = ()
    array_ids: tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = ()
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    queue: str | None = None
    condition: Condition | None = None
    since: datetime | None = None
    live: bool = True
    reader: str | None = ""

    def where(self) -> tuple[Composable, list[object]]:
        """Return the condition on ``jobs`` named ``j``, and the values of its ``%s``."""
        parts: list[Composable] = []
        values: list[object] = []
        if self.live:
            parts.append(SQL("is_live(j.state)"))
        if self.since is not None:
            parts.append(SQL("(is_live(j.state) OR j.ended_at >= %s)"))
            values.append(self.since)
        numbers: list[Composable] = []
        for ids, part in ((self.job_ids, "j.job_id = ANY(%s)"), (self.array_ids, "j.array_id = ANY(%s)")):
            if ids:
                numbers.append(SQL(part))
                values.append(list(ids))
        for bounds in self.ranges:
            numbers.append(SQL("j.job_id BETWEEN %s AND %s"))
            values += bounds
        if self.names:
            numbers.append(SQL("j.job_name = ANY(%s)"))
            values.append(list(self.names))
        if numbers:
            parts.append(SQL("({})").format(SQL(" OR ").join(numbers)))
        for wanted, part in (
            (self.users, "j.user_name = ANY(%s)"),
            (self.states, "j.state = ANY(%s)"),
        ):
            if wanted:
                parts.append(SQL(part))
                values.append(list(wanted))
        if self.queue is not None:
            parts.append(SQL("j.queue_name = %s"))
            values.append(self.queue)
        if self.condition is not None:
            text, parameters = self.condition
            # checked and rebuilt by oarpy.admission.filters.filters: quoted names of FILTER_COLUMNS and placeholders
            parts.append(SQL(_FILTERED).format(condition=SQL(text)))
            values += [self.reader, self.reader, *parameters]
        return SQL(" AND ").join(parts) if parts else SQL("true"), values


@contextmanager
def reached(connection: Connection, scope: JobScope) -> Iterator[None]:
    """Inside, queries find every job of ``scope``: they read the past too if the live tables are not enough."""
    named = bool(scope.job_ids or scope.array_ids) and not scope.ranges
    if not scope.live and is_in_past(connection, scope.job_ids, scope.array_ids, others=not named):
        with with_past(connection):
            yield
    else:
        yield


# The ids that are ids of jobs, and of arrays.
_KNOWN = """
    SELECT ARRAY(SELECT job_id FROM jobs WHERE job_id = ANY(%s)),
           ARRAY(SELECT DISTINCT array_id FROM jobs WHERE array_id = ANY(%s))
"""


def known(connection: Connection, job_ids: Sequence[int], array_ids: Sequence[int]) -> tuple[set[int], set[int]]:
    """Return the ids among ``job_ids`` that are jobs and among ``array_ids`` that are arrays, ended or not."""
    row = connection.execute(_KNOWN, (list(job_ids), list(array_ids))).fetchone()
    assert row is not None
    return set(row[0]), set(row[1])


_IDS = "SELECT j.job_id FROM jobs j WHERE {where} ORDER BY j.job_id"


def ids(connection: Connection, scope: JobScope) -> list[int]:
    """Return the ids of the jobs of ``scope`` in order."""
    where, values = scope.where()
    return [job for (job,) in connection.execute(SQL(_IDS).format(where=where), values)]


_ANY = "SELECT EXISTS (SELECT FROM jobs j WHERE {where})"

_ARRAYS = "SELECT DISTINCT j.array_id FROM jobs j WHERE {where} ORDER BY j.array_id"


def is_met(connection: Connection, scope: JobScope) -> bool:
    """Tell whether there is a job of ``scope``."""
    where, values = scope.where()
    return connection.execute(SQL(_ANY).format(where=where), values).fetchone() == (True,)


def arrays(connection: Connection, scope: JobScope) -> list[int]:
    """Return the arrays of the jobs of ``scope`` in order."""
    where, values = scope.where()
    return [array for (array,) in connection.execute(SQL(_ARRAYS).format(where=where), values)]


# The array of the newest job of a user.
_LAST_ARRAY = "SELECT array_id FROM jobs WHERE user_name = %s ORDER BY job_id DESC LIMIT 1"

_HAS_JOBS = "SELECT EXISTS (SELECT FROM jobs WHERE user_name = %s)"


def last_array(connection: Connection, user: str) -> int | None:
    """Return the array of the last job that ``user`` submitted, ended or not."""

    def found() -> int | None:
        row = connection.execute(_LAST_ARRAY, [user]).fetchone()
        return None if row is None else int(row[0])

    return first_found(connection, found)


# The array of the newest job of a name.
_LAST_NAMED = "SELECT array_id FROM jobs WHERE job_name = %s ORDER BY job_id DESC LIMIT 1"


def last_named(connection: Connection, name: str) -> int | None:
    """Return the array of the newest job of this name, ended or not."""

    def found() -> int | None:
        row = connection.execute(_LAST_NAMED, [name]).fetchone()
        return None if row is None else int(row[0])

    return first_found(connection, found)


def has_jobs(connection: Connection, user: str) -> bool:
    """Tell whether ``user`` ever submitted a job that is still known."""

    def found() -> bool | None:
        return connection.execute(_HAS_JOBS, [user]).fetchone() == (True,) or None

    return first_found(connection, found) is True
