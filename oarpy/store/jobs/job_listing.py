"""Jobs in brief, as ``oarstat`` lists them: a line for each job, states, arrays, and dependencies.

A list comes from one query, through the indexes of live jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from psycopg.sql import SQL

from oarpy.model.reasons import Reason, reason_of
from oarpy.store.database import Connection
from oarpy.store.jobs.kill_requests import OPEN_REQUEST, reason_of_kill
from oarpy.store.jobs.scope import JobScope


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in brief. Times are epoch seconds; ``predicted`` and ``reason`` come from the last scheduling pass.

    ``exit_status`` is as from ``wait``. ``earliest`` and ``latest`` are the first predicted interval of the start, if
    there was one. ``walltime`` is in seconds, None before the job has its place.
    """

    job_id: int
    array_id: int
    array_index: int
    name: str
    user: str
    project: str
    queue: str
    state: str
    message: str
    submitted: float
    started: float | None
    ended: float | None
    predicted: float | None
    reason: str
    reason_data: str | None
    """The reason as JSON; None where ``reason`` has all that is known."""
    exit_status: int | None
    earliest: float | None
    latest: float | None
    walltime: float | None
    end_events: Sequence[str]
    """For a job in Error: the kinds of its events, in order."""

    @property
    def why(self) -> Reason:
        """Why the job waits, as the last pass has it; or why it is being killed."""
        return reason_of(self.reason, self.reason_data)


# The summary of a job begins with the number of resources of its request; for a job that grows and shrinks, with its
# present number.
_MESSAGE = """
    CASE WHEN j.state IN ('Running', 'Resuming') AND j.message ~ '^R=' AND EXISTS (
        SELECT FROM resizes r WHERE r.job_id = j.job_id
    ) THEN regexp_replace(j.message, '^R=[0-9]+', 'R=' || (
        SELECT count(*) FROM assigned_resources a WHERE a.job_id = j.job_id AND upper_inf(a.during)
    )) ELSE j.message END
"""


def events_of_error(job: LiteralString) -> LiteralString:
    """Return the SQL expression of the kinds of events of ``job``, in order, if it is in Error; else of none."""
    kinds = f"SELECT e.type FROM event_logs e WHERE e.job_id = {job}.job_id ORDER BY e.event_id"  # noqa: S608 - a text
    return f"CASE WHEN {job}.state = 'Error' THEN ARRAY({kinds}) ELSE ARRAY[]::text[] END"


# The columns of a listing for each job, with the answer of the last pass; for a job that is being killed, that and why.
_LIST = f"""
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.project, j.queue_name, j.state, {_MESSAGE},
           extract(epoch FROM j.submitted_at)::float8, extract(epoch FROM j.started_at)::float8,
           extract(epoch FROM j.ended_at)::float8,
           extract(epoch FROM coalesce(g.start_time, gate.opens_at, gate.expected_at))::float8,
           coalesce({reason_of_kill("j", "k")}, g.reason, ''),
           CASE WHEN {reason_of_kill("j", "k")} IS NULL THEN g.reason_data::text END,
           j.exit_status, extract(epoch FROM f.earliest_start)::float8, extract(epoch FROM f.latest_start)::float8,
           extract(epoch FROM coalesce(gate.walltime, j.walltime))::float8, {events_of_error("j")}
    FROM jobs j LEFT JOIN gantt_predictions g ON g.job_id = j.job_id
        LEFT JOIN launch_gates gate ON gate.job_id = j.job_id AND j.state = 'toLaunch'
        LEFT JOIN LATERAL {OPEN_REQUEST} k ON true
        LEFT JOIN first_predictions f ON f.job_id = g.job_id AND g.start_time IS NOT NULL AND k.job_id IS NULL
    WHERE {{where}}
    ORDER BY j.job_id
"""  # noqa: S608 - an expression of the source

# The state alone.
_STATES = "SELECT j.job_id, j.state FROM jobs j WHERE {where} ORDER BY j.job_id"

# The time of the database, which wrote every other time shown.
_NOW = "SELECT extract(epoch FROM clock_timestamp())::float8"


def listing(connection: Connection, scope: JobScope) -> tuple[ListedJob, ...]:
    """Return the jobs of ``scope`` in order of id."""
    where, values = scope.where()
    cursor = connection.execute(SQL(_LIST).format(where=where), values, binary=True)
    return tuple(ListedJob(*row) for row in cursor.fetchall())


@dataclass(frozen=True, slots=True)
class ArrayProgress:
    """How far an array is: its size, and how many of its members have ended and failed."""

    size: int
    ended: int
    failed: int


# If a member was submitted again, its last copy counts.
_ARRAYS = """
    WITH members AS (
        SELECT DISTINCT ON (array_id, array_index) array_id, array_index, state, exit_status
        FROM jobs WHERE array_id = ANY(%s) ORDER BY array_id, array_index, job_id DESC
    )
    SELECT array_id, max(array_index), max(array_index) - count(*) FILTER (WHERE is_live(state)),
           count(*) FILTER (WHERE state = 'Error' OR (state = 'Terminated' AND exit_status <> 0))
    FROM members GROUP BY array_id
"""


def array_progress(connection: Connection, array_ids: Sequence[int]) -> dict[int, ArrayProgress]:
    """Return the progress of these arrays. Members that have moved to the past only count as ended."""
    rows = connection.execute(_ARRAYS, [list(array_ids)]).fetchall()
    return {array: ArrayProgress(*counts) for array, *counts in rows}


def states(connection: Connection, scope: JobScope) -> tuple[tuple[int, str], ...]:
    """Return ``(job id, state)`` of the jobs of ``scope`` in order of id."""
    where, values = scope.where()
    return tuple(connection.execute(SQL(_STATES).format(where=where), values, binary=True).fetchall())


def database_time(connection: Connection) -> float:
    """Return the clock of the database, in epoch seconds."""
    row = connection.execute(_NOW).fetchone()
    assert row is not None
    return float(row[0])


@dataclass(frozen=True, slots=True)
class JobDependency:
    """``job`` waits for ``required``; ``outcome`` is ``ok``, ``notok``, or empty for any."""

    job: int
    required: int
    outcome: str


# From the given jobs in both directions; ended jobs lead no further.
_DEPENDENCIES = """
    WITH RECURSIVE reached AS (
        SELECT j.job_id, true AS leads_on FROM jobs j WHERE {where}
        UNION
        SELECT n.job_id, is_live(j.state)
        FROM reached r
        CROSS JOIN LATERAL (
            SELECT required_job_id FROM job_dependencies WHERE job_id = r.job_id
            UNION ALL SELECT job_id FROM job_dependencies WHERE required_job_id = r.job_id) AS n (job_id)
        JOIN jobs j ON j.job_id = n.job_id
        WHERE r.leads_on
    )
    SELECT d.job_id, d.required_job_id, CASE d.outcome WHEN 'any' THEN '' ELSE d.outcome END FROM job_dependencies d
    WHERE d.job_id IN (SELECT job_id FROM reached) AND d.required_job_id IN (SELECT job_id FROM reached)
    ORDER BY 1, 2
"""


def dependencies(connection: Connection, scope: JobScope) -> list[JobDependency]:
    """Return the dependencies of the jobs of ``scope``, in both directions, and of the jobs found, and so on."""
    where, values = scope.where()
    return [JobDependency(*row) for row in connection.execute(SQL(_DEPENDENCIES).format(where=where), values)]


@dataclass(frozen=True, slots=True)
class FailedMember:
    """A member of an array that failed; ``exit_status`` is that of ``wait``, ``events`` are the kinds, in order."""

    job_id: int
    array_id: int
    array_index: int
    name: str
    user: str
    state: str
    message: str
    exit_status: int | None
    directory: str
    stderr: str
    hosts: Sequence[str]
    events: Sequence[str]


# The last copy of each member counts: a member that waits or runs again has not failed.
_FAILED = """
    SELECT j.job_id, j.array_id, j.array_index, j.job_name, j.user_name, j.state, j.message, j.exit_status,
           j.launching_directory, j.stderr_path,
           ARRAY(SELECT DISTINCT r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
                 WHERE a.job_id = j.job_id AND r.network_address IS NOT NULL ORDER BY 1),
           ARRAY(SELECT e.type FROM event_logs e WHERE e.job_id = j.job_id ORDER BY e.event_id)
    FROM (SELECT DISTINCT ON (array_index) * FROM jobs WHERE array_id = %s ORDER BY array_index, job_id DESC) AS j
    WHERE j.state = 'Error' OR (j.state = 'Terminated' AND j.exit_status <> 0)
    ORDER BY j.array_index
"""


def failed_members(connection: Connection, array_id: int) -> list[FailedMember]:
    """Return the members of the array that failed, in order of their place in it."""
    return [FailedMember(*row) for row in connection.execute(_FAILED, [array_id])]


# The possible values of a word of a command line, from live jobs and the cluster, the newest jobs first.
_WORDS: dict[str, LiteralString] = {
    "jobs": """
        SELECT job_id::text FROM jobs WHERE is_live(state) AND user_name = %(user)s ORDER BY job_id DESC LIMIT 500
    """,
    "arrays": """
        SELECT array_id::text FROM jobs WHERE is_live(state) AND user_name = %(user)s
        GROUP BY array_id HAVING max(array_index) > 1 ORDER BY array_id DESC LIMIT 500
    """,
    "users": "SELECT DISTINCT user_name FROM jobs WHERE is_live(state) ORDER BY 1 LIMIT 500",
    "projects": "SELECT DISTINCT project FROM jobs WHERE is_live(state) AND user_name = %(user)s ORDER BY 1 LIMIT 500",
    "queues": "SELECT queue_name FROM queues ORDER BY 1",
    "nodes": "SELECT DISTINCT network_address FROM resources WHERE network_address IS NOT NULL ORDER BY 1 LIMIT 2000",
    "properties": "SELECT name FROM resource_properties ORDER BY 1",
    "levels": """
        SELECT name || '=' FROM (SELECT name FROM resource_properties UNION VALUES ('nodes'), ('walltime')) AS words
        ORDER BY 1
    """,
}
WORD_KINDS: tuple[str, ...] = tuple(_WORDS)
"""Kinds of words that can be asked for."""


def words(connection: Connection, kind: str, user: str) -> list[str]:
    """Return the words of one of :data:`WORD_KINDS`; of words about jobs, only ``user``'s own."""
    return [word for (word,) in connection.execute(_WORDS[kind], {"user": user})]
