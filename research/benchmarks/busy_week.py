"""A cluster in the middle of a busy week, made in the database without living through it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray

Connection = psycopg.Connection[tuple[Any, ...]]

WEEK = 7 * 86400
_USERS = ("ann", "bert", "carla", "dmitri", "eve", "farid", "grace", "hugo", "ines", "jun", "kofi", "lena")
_PROJECTS = ("climate", "genomics", "fusion", "materials", "default")
_NAMES = ("relax", "md-run", "blast", "train", "sweep", "mesh", "assembly", "forecast", "")

_PLATFORM = """
    INSERT INTO resources (network_address, host, cpu, core, cpuset)
    SELECT 'n' || n, 'n' || n, n * 2 + k / (%(cores)s / 2), n * %(cores)s + k, k
    FROM generate_series(1, %(nodes)s) AS n, generate_series(0, %(cores)s - 1) AS k ORDER BY n, k
"""
_SUBMISSIONS = """
    WITH made AS (
        INSERT INTO submissions (initial_request) SELECT 'oarsub -l /core=1 ./run.sh' FROM generate_series(1, %s)
        RETURNING submission_id)
    INSERT INTO moldable_descriptions (submission_id, position, walltime)
    SELECT submission_id, 0, interval '1 hour' FROM made RETURNING submission_id, moldable_id
"""
_GROUPS = """
    WITH made AS (
        INSERT INTO resource_groups (moldable_id, position, filter)
        SELECT moldable, 0, 'type = ''default''' FROM unnest(%(moldables)s::bigint[]) AS moldable
        RETURNING group_id, moldable_id)
    INSERT INTO resource_descriptions (group_id, position, level, count)
    SELECT group_id, 0, 'core', c.count FROM made
    JOIN unnest(%(moldables)s::bigint[], %(counts)s::int[]) AS c (moldable_id, count) USING (moldable_id)
"""
_WALLTIMES = """
    UPDATE moldable_descriptions m SET walltime = w.walltime * interval '1 second'
    FROM unnest(%s::bigint[], %s::float8[]) AS w (moldable_id, walltime) WHERE m.moldable_id = w.moldable_id
"""
_LOGS = """
    INSERT INTO job_state_logs (job_id, previous_state, state, during)
    SELECT j.job_id, s.before, s.state, s.during FROM jobs j, LATERAL (VALUES
        (NULL, 'Waiting', tstzrange(j.submitted_at, j.started_at - interval '2 seconds')),
        ('Waiting', 'toLaunch', tstzrange(j.started_at - interval '2 seconds', j.started_at - interval '1 second')),
        ('toLaunch', 'Launching', tstzrange(j.started_at - interval '1 second', j.started_at)),
        ('Launching', 'Running', tstzrange(j.started_at, j.ended_at)),
        ('Running', 'Finishing', tstzrange(j.ended_at - interval '1 second', j.ended_at)),
        ('Finishing', j.state, tstzrange(j.ended_at, NULL))) AS s(before, state, during)
    WHERE (s.state = 'Waiting' OR j.started_at IS NOT NULL)
        AND (s.before IS NULL OR s.before NOT IN ('Running', 'Finishing') OR j.ended_at IS NOT NULL)
"""
_ACCOUNTED = """
    INSERT INTO accounting (window_start, window_stop, user_name, project, queue_name, consumption_type, consumption)
    SELECT date_trunc('day', j.ended_at, 'UTC'), date_trunc('day', j.ended_at, 'UTC') + interval '1 day', user_name,
           project, queue_name, use.kind,
           sum(a.cells * extract(epoch FROM
               CASE use.kind WHEN 'USED' THEN j.ended_at - j.started_at ELSE j.walltime END))
    FROM jobs j JOIN (SELECT job_id, count(*) AS cells FROM assigned_resources GROUP BY job_id) a USING (job_id),
        unnest(ARRAY['USED', 'ASKED']) AS use(kind)
    WHERE j.ended_at IS NOT NULL GROUP BY 1, 2, 3, 4, 5, 6
"""
_TROUBLE = """
    UPDATE resources SET state = 'Suspected', state_by = 'monitor' WHERE network_address = 'n7'
        AND NOT EXISTS (SELECT FROM assigned_resources a
                        WHERE a.resource_id = resources.resource_id AND upper_inf(during));
    UPDATE resources SET drain = true WHERE network_address IN ('n11', 'n12');
    UPDATE nodes SET away_reason = 'fan replaced on Tuesday', away_by = 'root', away_since = now()
        WHERE network_address IN ('n11', 'n12')
"""


@dataclass(frozen=True, slots=True)
class WeekJob:
    """A job of the week: its cells, begin and end as seconds from now, and its walltime in seconds."""

    user: str
    project: str
    name: str
    queue: str
    cells: NDArray[np.int64]
    begin: float
    end: float
    walltime: float
    failed: bool


def week(jobs: int, nodes: int, cores: int, seed: int = 1) -> list[WeekJob]:
    """Return ``jobs`` jobs that keep all cores busy from six days ago to a day from now, no two on one core."""
    chance = random.Random(seed)
    sizes = [min(nodes * cores // 2, _size(chance, cores)) for _ in range(jobs)]
    lengths = [chance.lognormvariate(0, 0.8) for _ in range(jobs)]
    scale = 0.9 * nodes * cores * WEEK / sum(size * length for size, length in zip(sizes, lengths, strict=True))
    free = np.full(nodes * cores, -6.0 * 86400)
    jobs_of_week = []
    for size, length in zip(sizes, lengths, strict=True):
        seconds = max(60.0, length * scale)
        cells = _place(free, size, cores)
        begin = float(free[cells].max()) + chance.uniform(1, 30)
        free[cells] = begin + seconds + 1
        user = chance.choices(_USERS, range(len(_USERS), 0, -1))[0]
        queue = chance.choices(("default", "besteffort", "admin"), (8, 2, 1))[0]
        project = _PROJECTS[sum(map(ord, user)) % len(_PROJECTS)]
        walltime = seconds * chance.uniform(1.05, 3)
        jobs_of_week.append(
            WeekJob(
                user,
                project,
                chance.choice(_NAMES),
                queue,
                cells,
                begin,
                begin + seconds,
                walltime,
                chance.random() < 0.04,
            )
        )
    return sorted(jobs_of_week, key=lambda job: job.begin)


def _size(chance: random.Random, cores: int) -> int:
    return chance.choice((1, 2, 4, 8, 16, cores // 2, cores, cores, 2 * cores, 4 * cores))


def _place(free: NDArray[np.float64], size: int, cores: int) -> NDArray[np.int64]:
    """Return the cells that are free first: whole nodes for whole nodes, else neighbours on one node."""
    by_node = free.reshape(-1, cores)
    if size >= cores:
        chosen = np.argsort(by_node.max(axis=1), kind="stable")[: size // cores]
        cells = chosen[:, None] * cores + np.arange(cores)
        return np.sort(cells.reshape(-1))
    ends = np.sort(by_node, axis=1)[:, size - 1]
    node = int(ends.argmin())
    return np.sort(node * cores + np.argsort(by_node[node], kind="stable")[:size])


def fill(dsn: str, jobs: int, nodes: int, cores: int) -> None:
    """Give the database of ``dsn``, which has no resources, a platform and a week of jobs."""
    with psycopg.connect(dsn) as connection:
        connection.execute(_PLATFORM, {"nodes": nodes, "cores": cores})
        jobs_of_week = week(jobs, nodes, cores)
        rows = connection.execute(_SUBMISSIONS, [len(jobs_of_week)]).fetchall()
        moldables = [row[1] for row in rows]
        connection.execute(_GROUPS, {"moldables": moldables, "counts": [len(job.cells) for job in jobs_of_week]})
        connection.execute(_WALLTIMES, [moldables, [job.walltime for job in jobs_of_week]])
        for table in ("jobs", "assigned_resources", "accounting"):
            connection.execute(
                psycopg.sql.SQL("ALTER TABLE {} DISABLE TRIGGER USER").format(psycopg.sql.Identifier(table))
            )
        _copy_jobs(connection, jobs_of_week, rows)
        connection.execute(_LOGS)
        connection.execute(_ACCOUNTED)
        for table in ("jobs", "assigned_resources", "accounting"):
            connection.execute(
                psycopg.sql.SQL("ALTER TABLE {} ENABLE TRIGGER USER").format(psycopg.sql.Identifier(table))
            )
        for statement in _TROUBLE.split(";"):
            connection.execute(statement)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _copy_jobs(connection: Connection, jobs: list[WeekJob], rows: list[tuple[Any, ...]]) -> None:
    now = datetime.now(UTC).timestamp()
    first = int(connection.execute("SELECT min(resource_id) FROM resources").fetchall()[0][0])

    def instant(seconds: float | None) -> datetime | None:
        return None if seconds is None else datetime.fromtimestamp(now + seconds, UTC)

    states = [_state(job) for job in jobs]
    columns = "job_id, submission_id, array_id, job_name, user_name, project, queue_name, command, state, moldable_id,"
    columns += " walltime, exit_status, submitted_at, started_at, ended_at, accounted, attempt, message"
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY jobs ({columns}) FROM STDIN") as copy:
            for number, (job, state, (submission, moldable)) in enumerate(zip(jobs, states, rows, strict=True), 1):
                started, over = job.begin <= 0, job.end <= 0
                wait = job.begin if started else 0.0
                copy.write_row(
                    (
                        number,
                        submission,
                        number,
                        job.name,
                        job.user,
                        job.project,
                        job.queue,
                        f"./run.sh {number}",
                        state,
                        moldable,
                        f"{job.walltime:.0f} seconds",
                        (256 if job.failed else 0) if over else None,
                        instant(wait - 1800 - number % 7000),
                        instant(job.begin if started else None),
                        instant(job.end if over else None),
                        over,
                        1 if started else 0,
                        "",
                    )
                )
        with cursor.copy("COPY assigned_resources (job_id, resource_id, during) FROM STDIN") as copy:
            for pair in _held(jobs, first, instant):
                copy.write_row(pair)
        with cursor.copy(
            "COPY gantt_predictions (job_id, verdict, reason, moldable_id, start_time, end_time, resources) FROM STDIN"
        ) as copy:
            for number, (job, (_, moldable)) in enumerate(zip(jobs, rows, strict=True), 1):
                if job.begin > 0:
                    copy.write_row(
                        (
                            number,
                            "resources_busy",
                            "all resources that it could use are busy",
                            moldable,
                            instant(job.begin),
                            instant(job.begin + job.walltime),
                            _ranges(job.cells + first),
                        )
                    )
        cursor.execute("SELECT setval(pg_get_serial_sequence('jobs', 'job_id'), %s)", [len(jobs)])


def _state(job: WeekJob) -> str:
    if job.end <= 0:
        return "Terminated"
    return "Running" if job.begin <= 0 else "Waiting"


def _held(jobs: list[WeekJob], first: int, instant: Any) -> Iterator[tuple[int, int, str]]:
    for number, job in enumerate(jobs, 1):
        if job.begin <= 0:
            end = instant(job.end) if job.end <= 0 else None
            during = f"{{[{instant(job.begin)},{end or ''})}}"
            for cell in job.cells.tolist():
                yield number, cell + first, during


def _ranges(cells: NDArray[np.int64]) -> str:
    breaks = np.flatnonzero(np.diff(cells) != 1)
    begins, ends = np.r_[cells[:1], cells[breaks + 1]], np.r_[cells[breaks], cells[-1:]] + 1
    return "{" + ",".join(f"[{begin},{end})" for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)) + "}"
