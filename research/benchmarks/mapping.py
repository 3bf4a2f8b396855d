"""Processes mapped over unlike nodes: ``oarpy bench mapping [--times N]``.

Maps of 480 processes on 40 cores and of 100,000 on 2,000, of four sizes and six types of nodes; and passes of the
meta-scheduler in which nothing has changed, with 100 jobs that wait behind a full cluster, mapped and not. Passes of
both kinds take turns. Times of maps are processor time, those of passes wall-clock and processor time without that of
the database.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

import psycopg

from oarpy.configuration import load
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.postgres import embedded_server
from oarpy.processes.mapping import MAPPERS, Program
from oarpy.store.database import Connection
from oarpy.store.jobs import submissions
from oarpy.store.schema import migrations
from research.benchmarks.results import save
from research.mapping.published_sets import RATES, SIZES

JOBS = 100
_TWIN = "paraquad"
"""Of one speed with another type: here each type has a speed of its own."""
THROUGHPUT = {kind: dict(zip(SIZES, rates, strict=True)) for kind, rates in RATES.items() if kind != _TWIN}

_RESOURCES = """
    INSERT INTO resources (network_address, host, cpu, core, kind)
    SELECT 'n' || n, 'n' || n, n, n * 64 + k, CASE WHEN n % 2 = 0 THEN 'fast' ELSE 'slow' END
    FROM generate_series(1, 32) AS n, generate_series(0, 31) AS k
"""
_MAPPED = """
    INSERT INTO mapped_jobs (job_id, program, program_size, program_date, arguments, processes, iterations, sizes,
        model, cores, own_walltime)
    SELECT job_id, '/p', 1, 1, job_id % 10, 480, 200, '{a,b,c,d}', 'sync', 40, false FROM jobs WHERE state = 'Waiting'
"""
_KNOWN = """
    INSERT INTO application_rates (user_name, program, program_size, program_date, arguments, size_name, node_type,
        rate)
    SELECT 'ann', '/p', 1, 1, program, size, kind, CASE kind WHEN 'fast' THEN 2 ELSE 1 END * ascii(size) / 97.0
    FROM generate_series(0, 9) AS program, unnest('{a,b,c,d}'::text[]) AS size, unnest('{fast,slow}'::text[]) AS kind
"""


@dataclass(slots=True)
class Passes:
    """The milliseconds of passes: by the clock, and of processor time in this process."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def measure(self, act: Callable[[], object]) -> None:
        """Measure one."""
        began, spent = time.perf_counter(), time.process_time()
        act()
        self.wall.append((time.perf_counter() - began) * 1000)
        self.processor.append((time.process_time() - spent) * 1000)


def maps(times: int) -> dict[str, float]:
    """Return the processor seconds of maps, the least of some."""
    least_seconds = {}
    for processes, cores in ((480, 40), (100_000, 2_000)):
        each, more = divmod(cores, len(THROUGHPUT))
        resources = {kind: each + (place < more) for place, kind in enumerate(THROUGHPUT)}
        for model, mapper in MAPPERS.items():
            least = float("inf")
            for _ in range(times):
                began = time.process_time()
                mapper(resources, THROUGHPUT, Program(processes, 200, 0.8))
                least = min(least, time.process_time() - began)
            least_seconds[f"{processes} processes on {cores} cores, {model}"] = least
    return least_seconds


def submit(connection: Connection, request: str, count: int) -> None:
    """Submit jobs."""
    ways = (parse_request(request),)
    for _ in range(count):
        with connection.transaction():
            submissions.insert(
                connection, Submission("ann", queue="default", command="x", directory="/tmp", alternatives=ways)
            )


def passes(connection: Connection, times: int) -> dict[str, Passes]:
    """Return what passes take in which nothing has changed, with maps and without."""
    connection.execute("ALTER TABLE resources ADD kind text")
    connection.execute("INSERT INTO resource_properties VALUES ('kind', 'text', false)")
    connection.execute(_RESOURCES)
    module = Metascheduler(load())

    def run_pass() -> None:
        module.run_once(connection, datetime.now().astimezone())

    submit(connection, "core=1024,walltime=100:0:0", 1)
    run_pass()
    submit(connection, "core=40,walltime=2:0:0", JOBS)
    connection.execute(_KNOWN)
    connection.execute(_MAPPED)
    connection.execute("VACUUM ANALYZE")
    measured = {"without maps": Passes(), "with maps": Passes()}
    for _ in range(times):
        for kind, live in (("without maps", False), ("with maps", True)):
            connection.execute("UPDATE mapped_jobs SET live = %s", [live])
            for _ in range(3):
                run_pass()
            for _ in range(10):
                measured[kind].measure(run_pass)
    return measured


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="turns of ten passes of each kind")
    options = parser.parse_args(arguments)
    mapped = maps(3)
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as name:
        folder = Path(name)
        os.environ["OARPY_CONFIG"] = str(folder / "config.toml")
        dsn = embedded_server.start(folder / "postgresql")
        try:
            text = f'[database]\nurl = "{dsn}"\n[scheduler]\nnode_type = "kind"\nverdict_history = 0\n'
            (folder / "config.toml").write_text(text, encoding="utf-8")
            migrations.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                taken = passes(connection, options.times)
        finally:
            embedded_server.remove(folder / "postgresql")
    for what, seconds in mapped.items():
        sys.stdout.write(f"{what:<44}{seconds * 1000:>9.1f} ms\n")
    report: dict[str, object] = {"map_seconds": mapped}
    for kind, spent in taken.items():
        wall, processor = median(spent.wall), median(spent.processor)
        sys.stdout.write(f"pass, {JOBS} jobs wait, {kind:<23}{wall:>9.2f} ms, processor {processor:.2f} ms\n")
        report[kind] = {"wall_ms": wall, "processor_ms": processor, "passes": len(spent.wall)}
    save("mapping", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
