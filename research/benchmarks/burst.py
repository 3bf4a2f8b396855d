"""The parts of a burst's time: ``oarpy bench burst [--jobs N] [--nodes N] [--cores N] [--request R] [--waiting N]``.

An array of ``date`` runs on a cluster of local nodes. The benchmark tells the processor time a job by whose it is, the
statements a job, and the slowest of these. It also tells the way of a job from the end of the one before it on its
core. Its stages last until that end is recorded, the pass gives the core away, the launcher claims the job, its node
starts it, it ends.

With ``--waiting N`` the array has N jobs more, all of one user; they wait while the others run, and are deleted then.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox

from .main_job import array_rate, settle
from .processor_time import account
from .results import save

_COUNTING = {
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "all",
    "pg_stat_statements.max": "10000",
}
_ENDED = """
    SELECT extract(epoch FROM max(ended_at) - min(started_at))::float8, count(*) /* of the benchmark */
    FROM (SELECT started_at, ended_at FROM jobs WHERE array_id = %s AND ended_at IS NOT NULL
          ORDER BY ended_at LIMIT %s) AS first
"""
_OWN = "/* of the benchmark */"
_WARM_UP = 200
_LOOK = 0.2
"""Seconds between two looks at how many jobs have ended."""

_TOP = """
    SELECT toplevel, calls, total_exec_time, regexp_replace(left(query, 90), '\\s+', ' ', 'g')
    FROM pg_stat_statements WHERE position(%s IN query) = 0
    ORDER BY total_exec_time DESC LIMIT %s
"""
_CALLS = "SELECT sum(calls)::float8 FROM pg_stat_statements WHERE toplevel AND position(%s IN query) = 0"

# One row a job that came after another one on its core; instants of the node and of the database are of one machine.
_STAGES = """
    WITH moments AS (
        SELECT j.job_id, j.started_at, j.ended_at,
               min(lower(l.during)) FILTER (WHERE l.state = 'toLaunch') AS planned,
               min(lower(l.during)) FILTER (WHERE l.state = 'Launching') AS claimed,
               min(lower(l.during)) FILTER (WHERE l.state = 'Terminated') AS recorded
        FROM jobs j JOIN job_state_logs l USING (job_id)
        WHERE j.array_id = %(array)s
        GROUP BY j.job_id
    ), follow AS (
        SELECT m.*, lag(m.ended_at) OVER w AS freed, lag(m.recorded) OVER w AS known
        FROM moments m JOIN assigned_resources a USING (job_id)
        WINDOW w AS (PARTITION BY a.resource_id ORDER BY lower(a.during))
    )
    SELECT avg(extract(epoch FROM known - freed))::float8, avg(extract(epoch FROM planned - known))::float8,
           avg(extract(epoch FROM claimed - planned))::float8, avg(extract(epoch FROM started_at - claimed))::float8,
           avg(extract(epoch FROM ended_at - started_at))::float8
    FROM follow WHERE freed IS NOT NULL
"""
_STAGE_NAMES = ("end to record", "record to plan", "plan to claim", "claim to start", "start to end")


@dataclass(frozen=True, slots=True)
class Burst:
    """One run: jobs a second, processor milliseconds a job by role, statements a job, milliseconds by stage."""

    rate: float
    processor: Mapping[str, float]
    statements: float
    stages: Mapping[str, float]
    slowest: Sequence[tuple[bool, int, float, str]]


def rate_of_first(
    connection: psycopg.Connection[Any], sandbox: Sandbox, jobs: int, waiting: int, request: str
) -> float:
    """Return the jobs a second of the first jobs of an array of ``date``, from their first start to their last end.

    ``waiting`` further jobs of the array wait meanwhile.
    """
    array = sandbox.job_ids("--array", str(jobs + waiting), "-l", request, "date")[0]
    while True:
        row = connection.execute(_ENDED, [array, jobs]).fetchone()
        if row is not None and row[1] == jobs:
            return float(jobs / row[0])
        time.sleep(_LOOK)


def _rest(sandbox: Sandbox) -> None:
    """Wait until all that ended is accounted, which is not to be part of the next run."""
    settle(sandbox)
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        while connection.execute("SELECT EXISTS (SELECT FROM jobs WHERE NOT accounted)").fetchone() != (False,):
            time.sleep(_LOOK)


def measure(sandbox: Sandbox, jobs: int, waiting: int, request: str, queries: int) -> Burst:
    """Run an array once on a cluster that is warm."""
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute("SELECT pg_stat_statements_reset()")
        before = account(sandbox)
        if waiting:
            rate = rate_of_first(connection, sandbox, jobs, waiting, request)
        else:
            rate = array_rate(sandbox, jobs, request)
        after = account(sandbox)
        calls = connection.execute(_CALLS, [_OWN]).fetchone()
        array = connection.execute("SELECT max(array_id) /* of the benchmark */ FROM jobs").fetchone()
        assert calls is not None
        assert array is not None
        stages = connection.execute(_STAGES, {"array": array[0]}).fetchone()
        assert stages is not None
        slowest = connection.execute(_TOP, [_OWN, queries]).fetchall()
    if waiting:
        sandbox.run("oardel", "--array", str(array[0]))
        _rest(sandbox)
    spent = {name: (seconds - before.get(name, 0.0)) * 1000 / jobs for name, seconds in after.items()}
    return Burst(
        rate,
        {name: value for name, value in sorted(spent.items(), key=lambda item: -item[1]) if value >= 0.005},
        calls[0] / jobs,
        {name: (value or 0.0) * 1000 for name, value in zip(_STAGE_NAMES, stages, strict=True)},
        slowest,
    )


def _print(burst: Burst, jobs: int) -> None:
    lines = [f"{jobs} jobs, {burst.rate:.0f} jobs/s, {burst.statements:.2f} statements a job"]
    lines.append(f"processor time a job: {sum(burst.processor.values()):.2f} ms")
    lines += [f"  {value:7.3f}  {name}" for name, value in burst.processor.items()]
    lines.append("mean milliseconds of a job that follows another one on its core")
    lines += [f"  {value:7.1f}  {name}" for name, value in burst.stages.items()]
    lines.append("statements: calls, ms a job, t: of a trigger")
    lines += [
        f"  {calls:6} {spent / jobs:8.3f} {' ' if top else 't'} {query}" for top, calls, spent, query in burst.slowest
    ]
    lines.append(f"load average {os.getloadavg()[0]:.1f}")
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and save what the run with the least processor time was like."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=0, help="how many jobs more of the array wait meanwhile")
    parser.add_argument("--nodes", type=int, default=17)
    parser.add_argument("--cores", type=int, default=2, help="of each node")
    parser.add_argument("--request", default="/core=1,walltime=0:10:0", help="what each job asks for (-l)")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--queries", type=int, default=25, help="how many statements to show")
    options = parser.parse_args(arguments)
    nodes = local_nodes(f"/host=n[1-{options.nodes}]/cpu={{1}}/core={{{options.cores}}}")
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        running_sandbox(Path(folder), {"log": {"level": "warning"}}, nodes, database=_COUNTING) as sandbox,
    ):
        array_rate(sandbox, _WARM_UP, options.request)
        bursts = []
        for _ in range(options.repeat):
            bursts.append(measure(sandbox, options.jobs, options.waiting, options.request, options.queries))
            _print(bursts[-1], options.jobs)
    best = min(bursts, key=lambda burst: sum(burst.processor.values()))
    save(
        "burst",
        {
            "jobs": options.jobs,
            "waiting": options.waiting,
            "nodes": options.nodes,
            "cores": options.cores,
            "request": options.request,
            "jobs_per_second": best.rate,
            "statements_per_job": best.statements,
            "processor_milliseconds_per_job": best.processor,
            "stage_milliseconds": best.stages,
        },
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
