"""What a long history costs: ``python -m benchmarks.history [--jobs N]``.

A cluster is measured three times: with an empty history, with ``--jobs`` finished jobs in the live tables, and with all
of them in the tables of the past. Commands are whole processes; a pass has 500 jobs that wait. A month is archived in
both forms, dropped and restored. Finished jobs come in without going through their lives, 30 seconds apart, in
submissions of 100.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
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


def commands(sandbox: Sandbox, times: int, ended: int) -> dict[str, float]:
    """Return the seconds of each command, with :data:`WAITING` jobs that wait, and of a pass over them.

    They are the shortest of ``times``, as other programs of the machine only add to them. ``ended`` is a job that is
    over.
    """
    blocking = sandbox.job_ids("-l", "/resource_id=ALL,walltime=10:0:0", "sleep 36000")
    sandbox.wait_for(blocking, ("Running",), 60)
    waiting = sandbox.job_ids("--array", str(WAITING), "-l", "/core=1,walltime=1:0:0", "date")
    try:
        found = {
            "oarsub": _shortest(times, lambda: sandbox.run("oarsub", "--hold", "-l", "/core=1", "date")),
            "oarstat": _shortest(times, lambda: sandbox.run("oarstat")),
            "oarstat -j of a live job": _shortest(times, lambda: sandbox.run("oarstat", "-f", "-j", str(waiting[0]))),
            "oarstat -j of an ended job": _shortest(times, lambda: sandbox.run("oarstat", "-f", "-j", str(ended))),
            "oarstat --why": _shortest(times, lambda: sandbox.run("oarstat", "--why", str(waiting[0]))),
            "oarnodes": _shortest(times, lambda: sandbox.run("oarnodes")),
            "oarnodes --events": _shortest(times, lambda: sandbox.run("oarnodes", "--events")),
            "oardel": _shortest(times, iter_of(waiting, lambda job: sandbox.run("oardel", str(job)))),
            "a pass": min(_passes(sandbox, times)),
        }
    finally:
        sandbox.run("oardel", "--sql", "state <> 'Terminated'")
        _settle(sandbox)
    return found


def iter_of(jobs: Sequence[int], action: Callable[[int], object]) -> Callable[[], object]:
    """Return an action on the next of ``jobs`` each time that it is called, the last one first."""
    left = list(jobs)
    return lambda: action(left.pop())


def _shortest(times: int, action: Callable[[], object]) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        spent.append(time.perf_counter() - began)
    return min(spent)


def _passes(sandbox: Sandbox, times: int) -> list[float]:
    """Have passes plan everything anew, and return the seconds that each took."""
    found = []
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        for _ in range(times):
            number, _ = _last_pass(connection)
            connection.execute("UPDATE queues SET message = message || '.'")
            while (made := _last_pass(connection))[0] == number:
                time.sleep(0.02)
            found.append(made[1])
    return found


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
        found = {}
        for table in filed_tables(connection):
            row = connection.execute(query, {"name": f'{schema}."{table.name}"'}).fetchone()
            if row is not None and row[0] > jobs:
                found[table.name] = round(row[0] / jobs, 1)
    return found


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
        month = max(months.months(connection), key=lambda one: one.jobs)
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
    options = parser.parse_args(arguments)
    settings: dict[str, dict[str, str | int]] = {"log": {"level": "warning"}, "history": {"keep_live": 0}}
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        nodes = local_nodes("/host=n[1-4]/cpu={1}/core={2}")
        with running_sandbox(Path(folder), settings, nodes) as sandbox:
            report = _measured(sandbox, options.jobs, options.times, Path(folder))
    _print(report)
    save("history", report)
    return 0


def _measured(sandbox: Sandbox, jobs: int, times: int, folder: Path) -> dict[str, Any]:
    dsn = sandbox.dsn()
    first = ended_job(sandbox)
    commands(sandbox, 2, first)
    empty = commands(sandbox, times, first)
    began = time.perf_counter()
    add_finished_jobs(dsn, jobs)
    filled = time.perf_counter() - began
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT min(job_id) FROM jobs WHERE command = 'history'").fetchone()
    assert row is not None
    live = commands(sandbox, times, row[0])
    report: dict[str, Any] = {
        "jobs": jobs,
        "fill_seconds": filled,
        "live_bytes_a_job": bytes_by_table(dsn, "public", jobs),
        "deletion_of_50_submissions_seconds": deletion(dsn),
    }
    moved, spent = move(dsn)
    report |= {"moved_jobs": moved, "move_seconds": spent, "past_bytes_a_job": bytes_by_table(dsn, "oar_past", moved)}
    past = commands(sandbox, times, row[0])
    report |= {"seconds": {"empty": empty, "live": live, "past": past}}
    return report | {"month": month_costs(dsn, folder)}


def _print(report: Mapping[str, Any]) -> None:
    seconds = report["seconds"]
    lines = [f"{'seconds':<30}{'empty':>9}{'live':>9}{'ratio':>7}{'past':>9}{'ratio':>7}"]
    for name, empty in seconds["empty"].items():
        live, past = seconds["live"][name], seconds["past"][name]
        lines.append(f"{name:<30}{empty:>9.4f}{live:>9.4f}{live / empty:>7.2f}{past:>9.4f}{past / empty:>7.2f}")
    lines.append(f"\n{'bytes a job':<30}{'live':>9}{'past':>9}")
    live, past = report["live_bytes_a_job"], report["past_bytes_a_job"]
    lines += [f"{name:<30}{live[name]:>9.0f}{past.get(name, 0):>9.0f}" for name in live]
    lines.append(f"{'all':<30}{sum(live.values()):>9.0f}{sum(past.values()):>9.0f}")
    month = report["month"]
    lines.append(f"\n{report['moved_jobs']} jobs moved to the past in {report['move_seconds']:.0f} s")
    lines.append(f"50 submissions deleted in {report['deletion_of_50_submissions_seconds']:.2f} s")
    lines.append(f"{month['month']}: {month['jobs']} jobs, {past_months.size_text(month['bytes'])}")
    for form in (form.removeprefix(".") for form in _FORMS):
        found = month[form]
        lines.append(
            f"  {form:<8} archived in {found['archive_seconds']:.1f} s ({past_months.size_text(found['file_bytes'])}),"
            f" dropped in {found['drop_seconds']:.2f} s, restored in {found['restore_seconds']:.1f} s"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
