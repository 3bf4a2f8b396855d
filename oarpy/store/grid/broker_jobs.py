"""Grid jobs with their components: how they come in, how they change, and how they are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from oarpy.model.states import GridJobState
from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class NewGridComponent:
    """The request of a component: ``resources`` as after ``-l`` without a walltime, ``procs`` processors in all."""

    resources: str
    procs: int
    cluster: str | None = None
    properties: str = ""
    types: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class NewGridJob:
    """A grid job as it is submitted. ``deadline`` in epoch seconds; ``walltime`` and ``wait`` in seconds."""

    user: str
    kind: str
    program: str
    walltime: float
    components: tuple[NewGridComponent, ...]
    directory: str | None = None
    job_name: str = ""
    queue: str = ""
    project: str = ""
    deadline: float | None = None
    lp: float | None = None
    tries: int | None = None
    wait: float | None = None
    notify: str = ""


@dataclass(frozen=True, slots=True)
class GridJobRow:
    """A grid job; times in epoch seconds, durations in seconds. ``count`` is the number of its components."""

    id: int
    user: str
    kind: str
    state: GridJobState
    submitted: float
    program: str
    directory: str | None
    job_name: str
    queue: str
    project: str
    walltime: float
    deadline: float | None
    count: int
    lp: float | None
    tries: int | None
    wait: float | None
    array_id: int | None
    array_index: int
    message: str
    delete_asked: float | None
    delete_by: str
    started: float | None
    ended: float | None
    exit_status: int | None
    notify: str


@dataclass(frozen=True, slots=True)
class GridComponentRow:
    """A component of a grid job; ``cluster`` is the cluster that its user named."""

    job: int
    number: int
    cluster: str | None
    resources: str
    procs: int
    properties: str
    types: tuple[str, ...]
    name: str


_JOB = """
    SELECT j.id, j.user_name, j.kind, j.state, extract(epoch FROM j.submitted_at)::float8, j.program, j.directory,
           j.job_name, j.queue_name, j.project, extract(epoch FROM j.walltime)::float8,
           extract(epoch FROM j.deadline)::float8, j.components, j.lp, j.tries, extract(epoch FROM j.wait)::float8,
           j.array_id, j.array_index, j.message, extract(epoch FROM j.delete_asked)::float8, j.delete_by,
           extract(epoch FROM j.started_at)::float8, extract(epoch FROM j.ended_at)::float8, j.exit_status, j.notify
    FROM grid_jobs j
"""
_BY_ID = f"{_JOB} WHERE j.id = ANY(%s) ORDER BY j.id"
_OF_USER = f"{_JOB} WHERE j.user_name = %s AND (%s OR j.state NOT IN ('Terminated', 'Error', 'Missed')) ORDER BY j.id"
_OF_ALL = f"{_JOB} WHERE (%s OR j.state NOT IN ('Terminated', 'Error', 'Missed')) ORDER BY j.id"
_OF_ARRAY = f"{_JOB} WHERE j.array_id = %s ORDER BY j.id"
_IN_STATES = f"""{_JOB}
    WHERE j.state = ANY(%s) AND j.kind = ANY(%s) AND j.id > %s
      AND j.id NOT IN (SELECT unnest(%s::bigint[]))
    ORDER BY j.id LIMIT %s
"""
_TO_DELETE = f"""{_JOB}
    WHERE j.delete_asked IS NOT NULL AND j.state NOT IN ('Terminated', 'Error', 'Missed') AND j.kind = ANY(%s)
    ORDER BY j.id
"""
_COMPONENTS = """
    SELECT job, number, cluster, resources, procs, properties, types, component_name
    FROM grid_components c WHERE job = ANY(%s) AND number < (SELECT j.components FROM grid_jobs j WHERE j.id = c.job)
    ORDER BY job, number
"""
# The numbers of an array follow each other unless others submit at the same instant; array_id is the first one.
_INSERT = """
    INSERT INTO grid_jobs (user_name, kind, program, directory, job_name, queue_name, project, walltime, deadline,
                           components, lp, tries, wait, notify, array_index)
    SELECT %(user)s, %(kind)s, %(program)s, %(directory)s, %(job_name)s, %(queue)s, %(project)s, %(walltime)s,
           to_timestamp(%(deadline)s), %(count)s, %(lp)s, %(tries)s, %(wait)s, %(notify)s, place
    FROM generate_series(1, %(copies)s) AS place ORDER BY place
    RETURNING id
"""
_JOIN_ARRAY = "UPDATE grid_jobs SET array_id = %s WHERE id = ANY(%s)"
_INSERT_COMPONENTS = """
    INSERT INTO grid_components (job, number, cluster, resources, procs, properties, types, component_name)
    SELECT job, %(number)s, %(cluster)s, %(resources)s, %(procs)s, %(properties)s, %(types)s, %(name)s
    FROM unnest(%(jobs)s::bigint[]) AS job
"""
_MOVE = """
    UPDATE grid_jobs SET state = %(state)s, message = coalesce(%(message)s, message),
        started_at = coalesce(started_at, to_timestamp(%(started)s)),
        ended_at = CASE WHEN %(final)s THEN coalesce(to_timestamp(%(ended)s), clock_timestamp()) END,
        exit_status = coalesce(%(status)s, exit_status)
    WHERE id = ANY(%(jobs)s) AND state <> %(state)s AND state NOT IN ('Terminated', 'Error', 'Missed')
    RETURNING id
"""
_CORRECT = """
    UPDATE grid_jobs SET state = 'Terminated', message = %(message)s, started_at = to_timestamp(%(started)s),
        ended_at = to_timestamp(%(ended)s), exit_status = %(status)s
    WHERE id = %(job)s AND state = 'Missed'
"""
_MESSAGE = "UPDATE grid_jobs SET message = %s WHERE id = ANY(%s) AND message <> %s"
_SET_ASIDE = f"{_MESSAGE} AND state NOT IN ('Terminated', 'Error', 'Missed')"
_SET_DEADLINE = "UPDATE grid_jobs SET deadline = to_timestamp(%s) WHERE id = %s"
_ASK_DELETION = """
    UPDATE grid_jobs SET delete_asked = clock_timestamp(), delete_by = %s
    WHERE id = ANY(%s) AND delete_asked IS NULL AND state NOT IN ('Terminated', 'Error', 'Missed')
    RETURNING id
"""
# Numbers are given in the order of submissions, and jobs stay.
_FIRST = "SELECT extract(epoch FROM submitted_at)::float8 FROM grid_jobs ORDER BY id LIMIT 1"
# A submission for a user waits until another submission for the same user is stored. An index has the same states.
_TAKE_TURN = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy grid jobs of ' || %s, 0))"
_COUNT_WAITING = """
    SELECT count(*) FROM grid_jobs
    WHERE user_name = %s AND state IN ('Submitted', 'Mapped', 'Claiming', 'Claimed')
      AND state NOT IN ('Terminated', 'Error', 'Missed')
"""
_LOCK = "SELECT id FROM grid_jobs WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"


def insert(connection: Connection, job: NewGridJob, copies: int = 1) -> list[int]:
    """Store a job, or an array of ``copies`` equal jobs; return their ids."""
    values: dict[str, Any] = {
        "user": job.user,
        "kind": job.kind,
        "program": job.program,
        "directory": job.directory,
        "job_name": job.job_name,
        "queue": job.queue,
        "project": job.project,
        "walltime": timedelta(seconds=job.walltime),
        "deadline": job.deadline,
        "count": len(job.components),
        "lp": job.lp,
        "tries": job.tries,
        "wait": None if job.wait is None else timedelta(seconds=job.wait),
        "notify": job.notify,
        "copies": copies,
    }
    # a reader that sees a job sees its components
    with connection.transaction():
        ids = [row[0] for row in connection.execute(_INSERT, values)]
        if copies > 1:
            connection.execute(_JOIN_ARRAY, [ids[0], ids])
        for number, component in enumerate(job.components):
            _insert_component(connection, ids, number, component)
    return ids


def _insert_component(connection: Connection, jobs: Sequence[int], number: int, component: NewGridComponent) -> None:
    values: dict[str, Any] = {
        "jobs": list(jobs),
        "number": number,
        "cluster": component.cluster,
        "resources": component.resources,
        "procs": component.procs,
        "properties": component.properties,
        "types": list(component.types),
        "name": component.name,
    }
    connection.execute(_INSERT_COMPONENTS, values)


def read(connection: Connection, jobs: Sequence[int]) -> list[GridJobRow]:
    """Return these jobs, by id; unknown ids are missing."""
    return _rows(connection, _BY_ID, [list(jobs)])


def of_user(connection: Connection, user: str, *, ended: bool = False) -> list[GridJobRow]:
    """Return the jobs of a user, by id; with ``ended`` also the jobs that are over."""
    return _rows(connection, _OF_USER, [user, ended])


def of_everybody(connection: Connection, *, ended: bool = False) -> list[GridJobRow]:
    """Return the jobs of all users, by id; with ``ended`` also the jobs that are over."""
    return _rows(connection, _OF_ALL, [ended])


def of_array(connection: Connection, array: int) -> list[GridJobRow]:
    """Return the jobs of an array, by id."""
    return _rows(connection, _OF_ARRAY, [array])


def in_states(
    connection: Connection,
    states: Sequence[GridJobState],
    kinds: Sequence[str],
    limit: int = 100_000,
    *,
    after: int = 0,
    other_than: Collection[int] = (),
) -> list[GridJobRow]:
    """Return at most ``limit`` jobs of these kinds and states, by id: ``after`` a number, without ``other_than``."""
    return _rows(
        connection, _IN_STATES, [[state.value for state in states], list(kinds), after, list(other_than), limit]
    )


def count_waiting(connection: Connection, user: str) -> int:
    """Return how many jobs of a user have not started and are not over; it stays true until the transaction ends."""
    connection.execute(_TAKE_TURN, [user])
    row = connection.execute(_COUNT_WAITING, [user]).fetchone()
    return row[0] if row else 0


def to_delete(connection: Connection, kinds: Sequence[str]) -> list[GridJobRow]:
    """Return the jobs of these kinds whose deletion was requested and that are not over."""
    return _rows(connection, _TO_DELETE, [list(kinds)])


def components(connection: Connection, jobs: Sequence[int]) -> Mapping[int, list[GridComponentRow]]:
    """Return the components of these jobs, by job and in their order."""
    by_job: dict[int, list[GridComponentRow]] = {job: [] for job in jobs}
    for row in connection.execute(_COMPONENTS, [list(jobs)]).fetchall():
        fields = list(row)
        fields[6] = tuple(row[6])
        by_job[row[0]].append(GridComponentRow(*fields))
    return by_job


def move(
    connection: Connection,
    jobs: Sequence[int],
    state: GridJobState,
    message: str | None = None,
    *,
    started: float | None = None,
    ended: float | None = None,
    status: int | None = None,
) -> list[int]:
    """Bring jobs that are not over to a state; return the jobs that changed. A forbidden move is an error.

    ``started`` and ``ended`` in epoch seconds; ``message`` None leaves the message as it is.
    """
    values = {
        "jobs": list(jobs),
        "state": state.value,
        "message": message,
        "started": started,
        "ended": ended,
        "status": status,
        "final": state in (GridJobState.TERMINATED, GridJobState.ERROR, GridJobState.MISSED),
    }
    return [row[0] for row in connection.execute(_MOVE, values)]


def correct(connection: Connection, job: int, *, started: float, ended: float, status: int, message: str) -> None:
    """Record the real end of a job that was given up but has run; times in epoch seconds."""
    values = {"job": job, "started": started, "ended": ended, "status": status, "message": message}
    connection.execute(_CORRECT, values)


def note(connection: Connection, jobs: Sequence[int], message: str) -> None:
    """Say why jobs are as they are."""
    connection.execute(_MESSAGE, [message, list(jobs), message])


def note_set_aside(connection: Connection, jobs: Sequence[int], message: str) -> None:
    """Say why nothing is done for jobs at present, as far as they are not over."""
    connection.execute(_SET_ASIDE, [message, list(jobs), message])


def set_deadline(connection: Connection, job: int, deadline: float) -> None:
    """Change when the parts of a job start (epoch seconds)."""
    connection.execute(_SET_DEADLINE, [deadline, job])


def ask_deletion(connection: Connection, jobs: Sequence[int], who: str) -> list[int]:
    """Ask for the end of jobs; return the jobs for which the request is new."""
    return [row[0] for row in connection.execute(_ASK_DELETION, [who, list(jobs)])]


def lock(connection: Connection, jobs: Sequence[int]) -> list[int]:
    """Keep others from changing these jobs until the transaction ends; return the jobs that exist."""
    return [row[0] for row in connection.execute(_LOCK, [list(jobs)])]


def first_submission(connection: Connection) -> float | None:
    """Return when the first job of all was submitted (epoch seconds)."""
    row = connection.execute(_FIRST).fetchone()
    return row[0] if row else None


def _rows(connection: Connection, query: str, values: Sequence[Any]) -> list[GridJobRow]:
    jobs = []
    for row in connection.execute(query, values).fetchall():
        fields = list(row)
        fields[3] = GridJobState(row[3])
        jobs.append(GridJobRow(*fields))
    return jobs
