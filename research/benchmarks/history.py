"""The cost of a long history: ``oarpy bench history [--jobs N]``.

A cluster is measured twice, in turn with one that has no history: with ``--jobs`` finished jobs in the live tables, and
with all of them in the tables of the past. Commands are whole processes; a pass has 500 jobs that wait. A month is
archived in both forms, dropped and restored. Finished jobs come in without going through their lives, 30 seconds apart,
in submissions of 100. With ``--filed`` they are written to the tables of the past at once, month by month, for the
longest histories; only commands, passes and the report of a month are measured then.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from oarpy.client.past import past_months
from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox
from oarpy.store.database import connect
from oarpy.store.past import months
from oarpy.store.past.tables import filed_tables

from .filed_history import file_jobs, report_seconds
from .results import save

WAITING = 500
TIMES = 20
_DELETE = """
    DELETE FROM {} WHERE submission_id IN (
        SELECT submission_id FROM submissions WHERE initial_request = 'history' ORDER BY 1 LIMIT 50)
"""
_FORMS = (".sql.gz", ".parquet")

_STATEMENTS = (
    "ALTER TABLE jobs DISABLE TRIGGER USER",
    """
    WITH made AS (
        INSERT INTO submissions (initial_request) SELECT 'history' FROM generate_series(1, %(jobs)s / 100)
        RETURNING submission_id)
    INSERT INTO moldable_descriptions (submission_id, position, walltime)
    SELECT submission_id, 0, interval '1 hour' FROM made
    """,
    """
    INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name, state, moldable_id, walltime,
                      exit_status, submitted_at, started_at, ended_at, accounted, command, attempt)
    SELECT m.submission_id, q.last_value + (m.rank - 1) * 100 + 1, i, 'user' || (m.moldable_id %% 200), 'default',
           CASE WHEN i %% 20 = 0 THEN 'Error' ELSE 'Terminated' END, m.moldable_id, interval '1 hour', 0,
           t.at, t.at + interval '5 seconds', t.at + interval '25 seconds', true, 'history', 1
    FROM (SELECT row_number() OVER (ORDER BY moldable_id) AS rank, * FROM moldable_descriptions m
          JOIN submissions s USING (submission_id) WHERE s.initial_request = 'history') m
        CROSS JOIN generate_series(1, 100) AS i CROSS JOIN jobs_job_id_seq q,
        LATERAL (SELECT now() - interval '1 day'
                        - interval '30 seconds' * (%(jobs)s - (m.rank - 1) * 100 - i + 2) AS at) t
    ORDER BY m.rank, i
    """,
    "ALTER TABLE jobs ENABLE TRIGGER USER",
    """
    INSERT INTO job_state_logs (job_id, state, during)
    SELECT job_id, s.state, s.during FROM jobs j, LATERAL (VALUES
        ('Waiting', tstzrange(j.submitted_at, j.started_at)), ('Running', tstzrange(j.started_at, j.ended_at)),
        (j.state, tstzrange(j.ended_at, NULL))) AS s(state, during)
    WHERE j.command = 'history'
    """,
    """
    INSERT INTO assigned_resources (job_id, resource_id, during)
    SELECT j.job_id, r.resource_id, tstzmultirange(tstzrange(j.started_at, j.ended_at))
    FROM jobs j JOIN (SELECT resource_id, row_number() OVER (ORDER BY resource_id) - 1 AS place,
                             count(*) OVER () AS total FROM resources) r ON r.place = j.job_id %% r.total
    WHERE j.command = 'history'
    """,
    """
    INSERT INTO event_logs (at, type, job_id, description)
    SELECT ended_at, 'KILLED', job_id, 'history' FROM jobs WHERE command = 'history' AND state = 'Error'
    """,
)


def add_finished_jobs(dsn: str, jobs: int) -> None:
    """Add ``jobs`` (a multiple of 100) jobs that ended long ago, with their logs and resources."""
    with psycopg.connect(dsn) as connection:
        for statement in _STATEMENTS:
            connection.execute(statement, {"jobs": jobs})
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


@dataclass(frozen=True, slots=True)
class BusyCluster:
    """A cluster with a job on all its cores, :data:`WAITING` jobs that wait, and ``ended``, a job that is over."""

    sandbox: Sandbox
    waiting: list[int]
    ended: int

    @classmethod
    @contextmanager
    def on(cls, sandbox: Sandbox, ended: int) -> Iterator[BusyCluster]:
        """Make a cluster busy, for a time."""
        blocking = sandbox.job_ids("-l", "/resource_id=ALL,walltime=10:0:0", "sleep 36000")
        sandbox.wait_for(blocking, ("Running",), 60)
        try:
            yield cls(sandbox, sandbox.job_ids("--array", str(WAITING), "-l", "/core=1,walltime=1:0:0", "date"), ended)
        finally:
            sandbox.run("oardel", "--sql", "state <> 'Terminated'")
            _settle(sandbox)

    def timed(self, *words: str) -> float:
        """Return the seconds of a command."""
        began = time.perf_counter()
        self.sandbox.run(*words)
        return time.perf_counter() - began

    def timed_pass(self) -> float:
        """Have a pass plan everything anew, and return the seconds that it took."""
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            number, _ = _last_pass(connection)
            connection.execute("UPDATE queues SET message = message || '.'")
            while (last := _last_pass(connection))[0] == number:
                time.sleep(0.02)
        return last[1]


_ACTIONS: Mapping[str, Callable[[BusyCluster], float]] = {
    "oarsub": lambda cluster: cluster.timed("oarsub", "--hold", "-l", "/core=1", "date"),
    "oarstat": lambda cluster: cluster.timed("oarstat"),
    "oarstat -j of a live job": lambda cluster: cluster.timed("oarstat", "-f", "-j", str(cluster.waiting[0])),
    "oarstat -j of an ended job": lambda cluster: cluster.timed("oarstat", "-f", "-j", str(cluster.ended)),
    "oarstat --why": lambda cluster: cluster.timed("oarstat", "--why", str(cluster.waiting[0])),
    "oarnodes": lambda cluster: cluster.timed("oarnodes"),
    "oarnodes --events": lambda cluster: cluster.timed("oarnodes", "--events"),
    "oardel": lambda cluster: cluster.timed("oardel", str(cluster.waiting.pop())),
    "a pass": BusyCluster.timed_pass,
}


def compared(empty: tuple[Sandbox, int], full: tuple[Sandbox, int], times: int) -> dict[str, tuple[float, float]]:
    """Return the seconds of each action without and with a history, as (empty, full). Each cluster has an ended job.

    Both are measured in turn, so that whatever else the machine does slows both. They are the shortest of ``times``,
    as other programs only add to them.
    """
    with BusyCluster.on(*empty) as without, BusyCluster.on(*full) as having:
        seconds = {}
        for name, action in _ACTIONS.items():
            pairs = [(action(without), action(having)) for _ in range(times)]
            seconds[name] = (min(of_empty for of_empty, _ in pairs), min(other for _, other in pairs))
    return seconds


def _last_pass(connection: psycopg.Connection[tuple[int, float]]) -> tuple[int, float]:
    row = connection.execute("SELECT pass, seconds FROM scheduling_passes").fetchone()
    assert row is not None
    return row


def _settle(sandbox: Sandbox) -> None:
    """Wait until nothing is live, and all is accounted."""
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        while connection.execute("SELECT FROM jobs WHERE is_live(state) LIMIT 1").fetchall():
            time.sleep(0.1)


def ended_job(sandbox: Sandbox) -> int:
    """Run a job and return it."""
    job = sandbox.job_ids("-l", "/core=1,walltime=0:1:0", "date")
    sandbox.wait_for(job, ("Terminated",), 60)
    return job[0]


def bytes_by_table(dsn: str, schema: str, jobs: int) -> dict[str, float]:
    """Return the bytes a job of each table of a schema that has rows of jobs, with indexes."""
    query = """
        SELECT (pg_total_relation_size(t.name) + coalesce((
            SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(t.name) WHERE isleaf), 0))::float8
        FROM (SELECT %(name)s::regclass AS name) t
    """
    with connect(dsn, "bench") as connection:
        sizes = {}
        for table in filed_tables(connection):
            row = connection.execute(query, {"name": f'{schema}."{table.name}"'}).fetchone()
            if row is not None and row[0] > jobs:
                sizes[table.name] = round(row[0] / jobs, 1)
    return sizes


def deletion(dsn: str) -> float:
    """Return the seconds that it takes to delete 50 finished submissions and all their rows; none of it stays."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET LOCAL oarpy.rewrite_history = on")
        began = time.perf_counter()
        for table in ("jobs", "submissions"):
            connection.execute(psycopg.sql.SQL(_DELETE).format(psycopg.sql.Identifier(table)))
        spent = time.perf_counter() - began
        connection.rollback()
    return spent


def move(dsn: str) -> tuple[int, float]:
    """Move all finished jobs of the benchmark to the past; return how many, and the seconds."""
    later = datetime.now(UTC) + timedelta(days=62)
    began = time.perf_counter()
    with connect(dsn, "bench") as connection:
        moved = past_months.move(connection, later, 0)
    spent = time.perf_counter() - began
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return moved, spent


def month_costs(dsn: str, folder: Path) -> dict[str, object]:
    """Archive the largest month in both forms, drop it and restore it; return what each took."""
    report: dict[str, object] = {}
    with connect(dsn, "bench") as connection:
        month = max(months.months(connection), key=lambda month_row: month_row.jobs)
        report |= {"month": f"{month.month:%Y-%m}", "jobs": month.jobs, "bytes": month.bytes}
        for form in _FORMS:
            file = folder / f"month{form}"
            steps: Mapping[str, Callable[[], object]] = {
                "archive": partial(past_months.archive, connection, month.month, file),
                "drop": partial(past_months.drop, connection, month.month, unarchived=False),
                "restore": partial(past_months.restore, connection, file),
            }
            spent = {}
            for name, step in steps.items():
                began = time.perf_counter()
                step()
                spent[f"{name}_seconds"] = time.perf_counter() - began
            parts = [file] if file.is_file() else list(file.iterdir())
            report[form.removeprefix(".")] = {**spent, "file_bytes": sum(part.stat().st_size for part in parts)}
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="oarpy bench history", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="finished jobs (a multiple of 100)")
    parser.add_argument("--times", type=int, default=TIMES, help="how often each command is measured")
    parser.add_argument("--filed", action="store_true", help="write them to the past at once: for 10 million")
    options = parser.parse_args(arguments)
    settings: dict[str, dict[str, str | int]] = {"log": {"level": "warning"}, "history": {"keep_live": 0}}
    nodes = local_nodes("/host=n[1-4]/cpu={1}/core={2}")
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        empty, full = (
            stack.enter_context(running_sandbox(folder / which, settings, nodes)) for which in ("empty", "full")
        )
        if options.filed:
            filed = _filed(empty, full, options.jobs, options.times)
            _print_filed(filed)
            save("filed_history", filed)
            return 0
        report = _measured(empty, full, options.jobs, options.times, folder)
    _print(report)
    save("history", report)
    return 0


def _filed(empty: Sandbox, full: Sandbox, jobs: int, times: int) -> dict[str, Any]:
    control = (empty, ended_job(empty))
    ended_job(full)
    began = time.perf_counter()
    first = file_jobs(full.dsn(), jobs)
    filled = time.perf_counter() - began
    compared(control, (full, first), 2)
    past = compared(control, (full, first), times)
    month, spent = report_seconds(full.dsn(), times)
    return {
        "jobs": jobs,
        "fill_seconds": filled,
        "seconds": past,
        "month": f"{month:%Y-%m}",
        "report_seconds": spent,
    }


def _print_filed(report: Mapping[str, Any]) -> None:
    lines = [f"{report['jobs']} jobs of the past, written in {report['fill_seconds']:.0f} s\n"]
    lines.append(f"{'seconds':<30}{'empty':>9}{'past':>9}{'ratio':>7}")
    for name, (of_empty, other) in report["seconds"].items():
        lines.append(f"{name:<30}{of_empty:>9.4f}{other:>9.4f}{other / of_empty:>7.2f}")
    lines.append(f"\nreport of {report['month']}: {report['report_seconds']:.3f} s")
    sys.stdout.write("\n".join(lines) + "\n")


def _measured(empty: Sandbox, full: Sandbox, jobs: int, times: int, folder: Path) -> dict[str, Any]:
    dsn, control = full.dsn(), (empty, ended_job(empty))
    ended_job(full)
    began = time.perf_counter()
    add_finished_jobs(dsn, jobs)
    filled = time.perf_counter() - began
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT min(job_id) FROM jobs WHERE command = 'history'").fetchone()
    assert row is not None
    compared(control, (full, row[0]), 2)
    live = compared(control, (full, row[0]), times)
    report: dict[str, Any] = {
        "jobs": jobs,
        "fill_seconds": filled,
        "live_bytes_a_job": bytes_by_table(dsn, "public", jobs),
        "deletion_of_50_submissions_seconds": deletion(dsn),
    }
    moved, spent = move(dsn)
    report |= {"moved_jobs": moved, "move_seconds": spent, "past_bytes_a_job": bytes_by_table(dsn, "oar_past", moved)}
    past = compared(control, (full, row[0]), times)
    report |= {"seconds": {"live": live, "past": past}}
    return report | {"month": month_costs(dsn, folder)}


def _print(report: Mapping[str, Any]) -> None:
    seconds = report["seconds"]
    lines = [f"{'seconds':<30}{'empty':>9}{'live':>9}{'ratio':>7}{'empty':>9}{'past':>9}{'ratio':>7}"]
    for name in seconds["live"]:
        pairs = (seconds["live"][name], seconds["past"][name])
        lines.append(
            f"{name:<30}"
            + "".join(f"{of_empty:>9.4f}{other:>9.4f}{other / of_empty:>7.2f}" for of_empty, other in pairs)
        )
    lines.append(f"\n{'bytes a job':<30}{'live':>9}{'past':>9}")
    live, past = report["live_bytes_a_job"], report["past_bytes_a_job"]
    lines += [f"{name:<30}{live[name]:>9.0f}{past.get(name, 0):>9.0f}" for name in live]
    lines.append(f"{'all':<30}{sum(live.values()):>9.0f}{sum(past.values()):>9.0f}")
    month = report["month"]
    lines.append(f"\n{report['moved_jobs']} jobs moved to the past in {report['move_seconds']:.0f} s")
    lines.append(f"50 submissions deleted in {report['deletion_of_50_submissions_seconds']:.2f} s")
    lines.append(f"{month['month']}: {month['jobs']} jobs, {past_months.size_text(month['bytes'])}")
    for form in (form.removeprefix(".") for form in _FORMS):
        costs = month[form]
        lines.append(
            f"  {form:<8} archived in {costs['archive_seconds']:.1f} s ({past_months.size_text(costs['file_bytes'])}),"
            f" dropped in {costs['drop_seconds']:.2f} s, restored in {costs['restore_seconds']:.1f} s"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
