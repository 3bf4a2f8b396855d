"""Rates of programs: as they are measured, listed and forgotten; and the jobs whose processes are mapped by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from oarpy.store.database import Connection
from oarpy.store.jobs import kill_requests
from oarpy.store.jobs.kill_requests import OPEN_REQUEST
from oarpy.store.passes.snapshot_rows import matching
from oarpy.store.rows import read


@dataclass(frozen=True, slots=True)
class ProgramKey:
    """Whose program it is, and which: a path, its size in bytes and date (epoch seconds), and its arguments."""

    user: str
    program: str
    size: int
    date: int
    arguments: str


@dataclass(frozen=True, slots=True)
class StoredRate:
    """A rate, and when it was measured (epoch seconds)."""

    user: str
    program: str
    program_date: int
    arguments: str
    size: str
    node_type: str
    rate: float
    measured: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """A job that measures, or has measured; ``live`` as long as it is not over."""

    job: int
    node_type: str
    sizes: tuple[str, ...]
    live: bool
    failure: str
    message: str


SAME_PROGRAM = """{0}.program = {1}.program AND {0}.program_size = {1}.program_size
                  AND {0}.program_date = {1}.program_date AND {0}.arguments = {1}.arguments"""
"""The condition that two rows are of one program."""

_OF_PROGRAM = """user_name = %(user)s AND program = %(program)s AND program_size = %(size)s
    AND program_date = %(date)s AND arguments = %(arguments)s"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy rates', 0))"
_NEEDED = f"""EXISTS (SELECT FROM mapped_jobs m JOIN jobs j USING (job_id)
                 WHERE m.live AND j.user_name = r.user_name AND {SAME_PROGRAM.format("m", "r")})"""
"""The condition that jobs are placed by the rate ``r``: they wait, or run."""
_FORGET_AGED = f"""
    DELETE FROM application_rates r
    WHERE measured_at < now() - %(age)s * interval '1 second' AND NOT {_NEEDED}
"""  # noqa: S608 - a condition of this file
_KNOWN = f"""
    SELECT node_type, size_name, rate FROM application_rates
    WHERE {_OF_PROGRAM} AND measured_at >= now() - %(age)s * interval '1 second'
"""  # noqa: S608
# A job that is being ended tells no rate: who needs it has it measured anew.
_MEASURED = f"""
    SELECT w.job_id AS job, w.node_type, w.sizes, is_live(j.state) AND NOT EXISTS {OPEN_REQUEST} AS live, w.failure,
           j.message
    FROM rate_measurements w JOIN jobs j USING (job_id)
    WHERE {_OF_PROGRAM} ORDER BY w.job_id
"""  # noqa: S608
_MEASURE = """
    INSERT INTO rate_measurements (job_id, program, program_size, program_date, arguments, sizes, node_type)
    VALUES (%(job)s, %(program)s, %(size)s, %(date)s, %(arguments)s, %(sizes)s, %(node_type)s)
"""
_AWAIT = """
    UPDATE rate_measurements SET awaited_by = awaited_by || %(waiter)s
    WHERE job_id = ANY(%(jobs)s) AND %(waiter)s <> ALL(awaited_by)
"""
_AWAIT_NO_MORE = """
    UPDATE rate_measurements w SET awaited_by = array_remove(awaited_by, %(waiter)s) FROM jobs j
    WHERE j.job_id = w.job_id AND is_live(j.state) AND %(waiter)s = ANY(awaited_by) RETURNING w.job_id
"""
_MEASURES = "SELECT FROM rate_measurements WHERE job_id = ANY(%s) LIMIT 1"
_NEEDLESS = """
    SELECT job_id FROM rate_measurements w JOIN jobs j USING (job_id)
    WHERE job_id = ANY(%s) AND is_live(j.state) AND awaited_by = '{}' AND NOT EXISTS (
        SELECT FROM job_dependencies d JOIN jobs waiting ON waiting.job_id = d.job_id
        WHERE d.required_job_id = w.job_id AND is_live(waiting.state))
    ORDER BY job_id
"""
_MEASURED_FOR = "SELECT DISTINCT required_job_id FROM job_dependencies WHERE job_id = ANY(%s)"
_MAP = """
    INSERT INTO mapped_jobs (job_id, program, program_size, program_date, arguments, processes, iterations, sizes,
        model, cores, own_walltime)
    VALUES (%(job)s, %(program)s, %(size)s, %(date)s, %(arguments)s, %(processes)s, %(iterations)s, %(sizes)s,
        %(model)s, %(cores)s, %(own_walltime)s)
"""
# What was mapped is mapped anew, by the rates that there are then.
_MAP_AGAIN = """
    INSERT INTO mapped_jobs (job_id, program, program_size, program_date, arguments, processes, iterations, sizes,
        model, cores, own_walltime)
    SELECT copy.job_id, program, program_size, program_date, arguments, processes, iterations, sizes, model, cores,
        own_walltime
    FROM mapped_jobs m JOIN unnest(%s::bigint[], %s::bigint[]) AS copy (old, job_id) ON copy.old = m.job_id
"""
# The map of a part is that of its broker: no pass makes another one.
_KEEP_MAP = """
    INSERT INTO mapped_jobs (job_id, program, program_size, program_date, arguments, processes, iterations, sizes,
        model, cores, own_walltime, live, seconds, walltime, node_property, node_types, assigned)
    VALUES (%(job)s, %(program)s, %(size)s, %(date)s, %(arguments)s, %(processes)s, %(iterations)s, %(sizes)s,
        %(model)s, %(cores)s, true, false, %(seconds)s, %(walltime)s, %(property)s, %(node_types)s, %(assigned)s)
"""
_MEASURER = """
    SELECT w.job_id AS job, w.node_type, w.sizes, is_live(j.state) AS live, w.failure, j.message
    FROM rate_measurements w JOIN jobs j USING (job_id) WHERE w.job_id = %s AND j.user_name = %s
"""
_TELL = """
    INSERT INTO application_rates (user_name, program, program_size, program_date, arguments, size_name, node_type,
        rate)
    SELECT j.user_name, w.program, w.program_size, w.program_date, w.arguments, t.size, w.node_type, t.rate
    FROM rate_measurements w JOIN jobs j USING (job_id),
        unnest(%(sizes)s::text[], %(rates)s::float8[]) AS t(size, rate)
    WHERE w.job_id = %(job)s
    ON CONFLICT (user_name, program, program_size, program_date, arguments, size_name, node_type)
        DO UPDATE SET rate = excluded.rate, measured_at = excluded.measured_at
"""
_FAIL = "UPDATE rate_measurements SET failure = %s WHERE job_id = %s"
_LIST = """
    SELECT user_name AS user, program, program_date, arguments, size_name AS size, node_type, rate,
           extract(epoch FROM measured_at)::float8 AS measured
    FROM application_rates WHERE %(user)s::text IS NULL OR user_name = %(user)s
    ORDER BY user_name, program, program_date, arguments, node_type, size_name
"""
_FORGET = f"""
    DELETE FROM application_rates r
    WHERE (%(user)s::text IS NULL OR user_name = %(user)s) AND (%(program)s::text IS NULL OR program = %(program)s)
      AND NOT {_NEEDED}
"""  # noqa: S608 - a condition of this file
_TYPES = SQL("""
    SELECT DISTINCT {0}::text FROM resources
    WHERE state <> 'Dead' AND type = 'default' AND {0} IS NOT NULL
        AND (%(ids)s::int[] IS NULL OR resource_id = ANY(%(ids)s))
    ORDER BY 1
""")
_OF_JOB = f"""
    SELECT m.job_id AS job, m.processes, m.iterations, m.sizes, m.model, m.seconds, m.walltime, m.node_types, m.live,
           j.user_name AS user, m.program, m.program_size, m.program_date, m.arguments,
           coalesce((SELECT array_agg(DISTINCT r.node_type || ' ' || r.size_name) FROM application_rates r
                     WHERE r.user_name = j.user_name AND {SAME_PROGRAM.format("r", "m")}), '{{}}') AS rated
    FROM mapped_jobs m JOIN jobs j USING (job_id) WHERE m.job_id = ANY(%s)
"""  # noqa: S608


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job whose processes are mapped: its request, and the walltime that follows from its place, if it has one.

    ``rated`` has a text ``TYPE SIZE`` for each rate of its program.
    """

    job: int
    processes: int
    iterations: int
    sizes: tuple[str, ...]
    model: str
    seconds: float | None
    walltime: int | None
    node_types: Mapping[str, int] | None
    live: bool
    user: str
    program: str
    program_size: int
    program_date: int
    arguments: str
    rated: tuple[str, ...]

    @property
    def key(self) -> ProgramKey:
        """The program."""
        return ProgramKey(self.user, self.program, self.program_size, self.program_date, self.arguments)


def _values(key: ProgramKey) -> dict[str, object]:
    return {
        "user": key.user,
        "program": key.program,
        "size": key.size,
        "date": key.date,
        "arguments": key.arguments,
    }


def lock(connection: Connection) -> None:
    """Until the transaction ends, nobody else counts on jobs that measure, or ends them as needless."""
    connection.execute(_LOCK)


def forget_aged(connection: Connection, age: int) -> None:
    """Forget rates that were measured more than ``age`` seconds ago, but for programs of jobs that still wait."""
    connection.execute(_FORGET_AGED, {"age": age})


def known(connection: Connection, key: ProgramKey, age: int) -> dict[str, dict[str, float]]:
    """Return the rates that are at most ``age`` seconds old, by type of nodes and size."""
    rates: dict[str, dict[str, float]] = {}
    for kind, size, rate in connection.execute(_KNOWN, {**_values(key), "age": age}):
        rates.setdefault(kind, {})[size] = rate
    return rates


def measurements(connection: Connection, key: ProgramKey) -> list[Measurement]:
    """Return the jobs that measure, or have measured, a program."""
    return read(connection, _MEASURED, Measurement, _values(key))


def measurer(connection: Connection, job: int, user: str) -> Measurement | None:
    """Return a job of a user that measures, None if it is no such job."""
    measurements = read(connection, _MEASURER, Measurement, [job, user])
    return measurements[0] if measurements else None


def measure(connection: Connection, job: int, key: ProgramKey, sizes: Sequence[str], node_type: str) -> None:
    """Note the program and the size that a job measures."""
    connection.execute(_MEASURE, {**_values(key), "job": job, "sizes": list(sizes), "node_type": node_type})


def await_rates(connection: Connection, jobs: Sequence[int], waiter: str) -> None:
    """Note that somebody who is no job here waits for the rates that jobs measure."""
    connection.execute(_AWAIT, {"jobs": list(jobs), "waiter": waiter})


def await_no_more(connection: Connection, waiter: str) -> list[int]:
    """Note that ``waiter`` waits no more; return the live jobs that measure for it."""
    lock(connection)
    return [job for (job,) in connection.execute(_AWAIT_NO_MORE, {"waiter": waiter})]


def measured_for(connection: Connection, jobs: Sequence[int]) -> list[int]:
    """Return the jobs on which some jobs depend: jobs that measure for them are among these."""
    return [job for (job,) in connection.execute(_MEASURED_FOR, [list(jobs)])] if jobs else []


def end_needless(connection: Connection, jobs: Sequence[int], by: str) -> None:
    """Ask for the end of those of some jobs that measure rates for which nobody waits."""
    if jobs and connection.execute(_MEASURES, [list(jobs)]).rowcount:
        lock(connection)
        needless = connection.execute(_NEEDLESS, [list(jobs)]).fetchall()
        kill_requests.ask_once(connection, [(job, "nobody waits for its rates") for (job,) in needless], by)


def map_job(
    connection: Connection, job: int, key: ProgramKey, request: Mapping[str, object], cores: int, *, own_walltime: bool
) -> None:
    """Note that the processes of a job are to be mapped; ``request`` has processes, iterations, sizes and model."""
    values = {**_values(key), **request, "job": job, "cores": cores, "own_walltime": own_walltime}
    connection.execute(_MAP, values)


def map_again(connection: Connection, copies: Collection[tuple[int, int]]) -> None:
    """Note the same of jobs that repeat others: (old job, new job)."""
    if copies:
        connection.execute(_MAP_AGAIN, [[old for old, _ in copies], [new for _, new in copies]])


def keep_map(connection: Connection, job: int, key: ProgramKey, placed: Mapping[str, object]) -> None:
    """Keep the map that a broker made for a job; ``placed`` has the other columns."""
    in_json = {name: Jsonb(placed[name]) for name in ("node_types", "assigned")}
    connection.execute(_KEEP_MAP, {**_values(key), **placed, **in_json, "job": job})


def tell(connection: Connection, job: int, rates: Mapping[str, float]) -> None:
    """Keep the rates that a job has measured, by size."""
    connection.execute(_TELL, {"job": job, "sizes": list(rates), "rates": list(rates.values())})


def fail(connection: Connection, job: int, reason: str) -> None:
    """Note why a job has measured nothing."""
    connection.execute(_FAIL, [reason, job])


def rates(connection: Connection, user: str | None) -> list[StoredRate]:
    """Return the rates of a user, or of all."""
    return read(connection, _LIST, StoredRate, {"user": user})


def forget(connection: Connection, user: str | None, program: str | None) -> int:
    """Forget rates of a user, or of all, of a program, or of all; return how many these were.

    Rates that jobs are placed by stay until these jobs are over.
    """
    return connection.execute(_FORGET, {"user": user, "program": program}).rowcount


def node_types(
    connection: Connection, node_property: str, conditions: Sequence[tuple[str, tuple[object, ...]]] = ()
) -> list[str]:
    """Return the values of a property of resources that are not Dead, and meet one of the conditions if there are any.

    A condition is SQL with the values of its ``%s``.
    """
    ids = [number for condition in conditions for number in matching(connection, *condition)] if conditions else None
    rows = connection.execute(_TYPES.format(Identifier(node_property)), {"ids": ids}, prepare=False)
    return [kind for (kind,) in rows]


def mapped_jobs(connection: Connection, jobs: Collection[int]) -> dict[int, MappedJob]:
    """Return those of some jobs whose processes are mapped."""
    return {row.job: row for row in read(connection, _OF_JOB, MappedJob, [list(jobs)])}
