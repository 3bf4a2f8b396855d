"""The main job, measured on a real cluster on this machine: ``oarpy bench main_job``.

It measures the throughput of an array, with the SQL statements and the processor time that the array takes. Then come a
thousand ``oarsub`` in a shell loop, the latency of one job on an idle system, and ``oarstat`` with a thousand jobs. The
same follows with 200,000 finished jobs in the tables, as a ratio.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, command, local_nodes, running_sandbox

from .history import add_finished_jobs
from .processor_time import account
from .results import save

CORES = 34
HISTORY = 200_000
_OWN = "/* of the benchmark */"
"""Marks a statement that is not counted."""
_LIVE_JOBS = "SELECT EXISTS (SELECT /* of the benchmark */ FROM jobs WHERE state NOT IN ('Terminated', 'Error'))"
_LOOK = 0.05
"""Seconds between two looks at whether all is over: looking more often would itself cost what is measured."""
_COUNTING = {"shared_preload_libraries": "pg_stat_statements"}
"""Settings of the database that count statements; they cost it some of its speed."""


def _any_live(connection: psycopg.Connection[tuple[bool]]) -> bool:
    row = connection.execute(_LIVE_JOBS).fetchone()
    return row is None or row[0]


def settle(sandbox: Sandbox) -> None:
    """Wait until nothing is live."""
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        while _any_live(connection):
            time.sleep(_LOOK)


def array_rate(sandbox: Sandbox, jobs: int, request: str = "/core=1,walltime=0:10:0") -> float:
    """Return the jobs a second of an array of ``date``, from the start of ``oarsub`` to the last recorded end."""
    began = time.time()
    first = sandbox.job_ids("--array", str(jobs), "-l", request, "date")[0]
    settle(sandbox)
    with psycopg.connect(sandbox.dsn()) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM max(ended_at))::float8, count(*) FILTER (WHERE exit_status = 0)"
            " FROM jobs WHERE array_id = %s",
            [first],
        ).fetchone()
    assert row is not None
    if row[1] != jobs:
        raise SystemExit(f"{row[1]} of {jobs} jobs ended well")
    return float(jobs / (row[0] - began))


def array_costs(sandbox: Sandbox, jobs: int) -> tuple[float, float]:
    """Return what a job of an array costs: SQL statements, and processor milliseconds.

    BEGIN and COMMIT count as statements, those of triggers do not.
    """
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        connection.execute("SELECT pg_stat_statements_reset()")
        before = sum(account(sandbox).values())
        array_rate(sandbox, jobs)
        spent = sum(account(sandbox).values()) - before
        row = connection.execute(
            "SELECT sum(calls)::float8 FROM pg_stat_statements WHERE toplevel AND position(%s IN query) = 0", [_OWN]
        ).fetchone()
    assert row is not None
    return row[0] / jobs, spent * 1000 / jobs


def shell_loop(sandbox: Sandbox, jobs: int) -> tuple[float, float]:
    """Run one ``oarsub date`` after another.

    Return the submissions a second, and the mean seconds from submission to recorded end.
    """
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        last = connection.execute("SELECT coalesce(max(job_id), 0) FROM jobs").fetchone()
        assert last is not None
        words = f"for i in $(seq {jobs}); do '{command('oarsub')}' -l /core=1,walltime=0:10:0 date || exit; done"
        began = time.perf_counter()
        subprocess.run(
            ["sh", "-c", words],
            env=sandbox.environment(),
            cwd=sandbox.directory / "work",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        spent = time.perf_counter() - began
        settle(sandbox)
        row = connection.execute(
            "SELECT avg(extract(epoch FROM ended_at - submitted_at))::float8, count(*) FILTER (WHERE exit_status = 0)"
            " FROM jobs WHERE job_id > %s",
            last,
        ).fetchone()
    assert row is not None
    if row[1] != jobs:
        raise SystemExit(f"{row[1]} of {jobs} jobs ended well")
    return jobs / spent, row[0]


def idle_latency(sandbox: Sandbox, times: int) -> tuple[float, float]:
    """Return the median seconds of one job on an idle system, until its end.

    One figure counts from the start of ``oarsub``, the other from its commit.
    """
    whole, inside = [], []
    for _ in range(times):
        settle(sandbox)
        began = time.time()
        job = sandbox.job_ids("-l", "/core=1,walltime=0:10:0", "true")[0]
        settle(sandbox)
        with psycopg.connect(sandbox.dsn()) as connection:
            row = connection.execute(
                "SELECT extract(epoch FROM ended_at)::float8, extract(epoch FROM ended_at - submitted_at)::float8"
                " FROM jobs WHERE job_id = %s",
                [job],
            ).fetchone()
        assert row is not None
        whole.append(row[0] - began)
        inside.append(row[1])
    return statistics.median(whole), statistics.median(inside)


def oarstat_time(sandbox: Sandbox, times: int, jobs: int) -> float:
    """Return the median seconds of ``oarstat`` with ``jobs`` waiting jobs, as a whole process."""
    ids = sandbox.job_ids("--array", str(jobs), "--hold", "-l", "/core=1,walltime=0:10:0", "date")
    try:
        return _median(times, lambda: sandbox.run("oarstat"))
    finally:
        sandbox.run("oardel", "--array", str(ids[0]))
        settle(sandbox)


def client_start(sandbox: Sandbox, times: int) -> float:
    """Return the median seconds of a command that does nothing: ``oarsub --version``."""
    return _median(times, lambda: sandbox.run("oarsub", "--version"))


def _median(times: int, action: Callable[[], object]) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def forks_per_second(jobs: int) -> float:
    """Return the machine's own limit, jobs a second: ``sh -c date`` with its two files, nothing around it."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        for number in range(jobs):
            with open(f"{folder}/{number}.out", "ab") as out, open(f"{folder}/{number}.err", "ab") as err:
                subprocess.run(["sh", "-c", "date"], stdout=out, stderr=err, check=True)
        return jobs / (time.perf_counter() - began)


def measure(sandbox: Sandbox, jobs: int, times: int) -> dict[str, float]:
    """Run every measurement once."""
    array_rate(sandbox, 100)
    idle, inside = idle_latency(sandbox, times)
    rate = array_rate(sandbox, jobs)
    statements, processor = array_costs(sandbox, jobs)
    submissions, response = shell_loop(sandbox, jobs)
    return {
        "array_jobs_per_second": rate,
        "array_statements_per_job": statements,
        "array_processor_milliseconds_per_job": processor,
        "loop_submissions_per_second": submissions,
        "loop_mean_response_seconds": response,
        "oarsub_to_end_seconds": idle,
        "commit_to_end_seconds": inside,
        "client_start_seconds": client_start(sandbox, times),
        "oarstat_seconds": oarstat_time(sandbox, times, jobs),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--history", type=int, default=HISTORY, help="finished jobs (a multiple of 100)")
    parser.add_argument("--folder", type=Path, default=None, help="keep the cluster's data and logs there")
    options = parser.parse_args(arguments)
    nodes = local_nodes(f"/host=n[1-{CORES // 2}]/cpu={{1}}/core={{2}}")
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        directory = options.folder or Path(folder)
        with running_sandbox(directory, {"log": {"level": "warning"}}, nodes, database=_COUNTING) as sandbox:
            empty = measure(sandbox, options.jobs, options.times)
            add_finished_jobs(sandbox.dsn(), options.history)
            full = measure(sandbox, options.jobs, options.times)
    forks = forks_per_second(options.jobs)
    _print(options.jobs, options.history, forks, empty, full)
    report = {"jobs": options.jobs, "history": options.history, "forks_per_second": forks, "empty": empty, "full": full}
    save("main_job", report)
    return 0


_MEANINGS = {
    "array_jobs_per_second": "oarsub --array {jobs} -l /core=1 date: jobs/s to the last end",
    "array_statements_per_job": "the same again: SQL statements a job",
    "array_processor_milliseconds_per_job": "the same: processor time a job, of everything, ms",
    "loop_submissions_per_second": "{jobs} oarsub date in a shell loop: submissions/s",
    "loop_mean_response_seconds": "the same: mean from submission to recorded end, s",
    "oarsub_to_end_seconds": "oarsub -l /core=1 true: start of oarsub to the end of the job, s",
    "commit_to_end_seconds": "the same from commit to recorded end, s",
    "client_start_seconds": "oarsub --version: the client's own start, s",
    "oarstat_seconds": "oarstat with {jobs} jobs, s",
}


def _print(jobs: int, history: int, forks: float, empty: dict[str, float], full: dict[str, float]) -> None:
    lines = [f"{'on ' + str(CORES) + ' cores':<70}{'empty':>10}{f'+{history}':>10}{'ratio':>8}"]
    for key, meaning in _MEANINGS.items():
        text = meaning.format(jobs=jobs)
        lines.append(f"{text:<70}{empty[key]:>10.3f}{full[key]:>10.3f}{full[key] / empty[key]:>8.2f}")
    lines.append(f"{'sh -c date with two files, nothing around it, one by one: jobs/s':<70}{forks:>10.1f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if not Path(command("oarsub")).exists():
        raise SystemExit("install oarpy first: make test, or pip install -e '.[embedded]'")
    raise SystemExit(main())
