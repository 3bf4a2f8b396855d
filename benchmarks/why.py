"""What ``oarstat --why`` takes as a whole process, beside a full queue: ``oarpy bench why``.

160 nodes of 64 cores run jobs, and the last of the jobs that wait is asked about. The jobs ask for 1 to 256 cores, or 1
to 16 nodes with 1 to 64 cores each, for 5 minutes to 24 hours (log-uniform, seeded). ``ANDs`` is the processor time of
2,000,000 intersections of neighbours in a list of 20,001 sets of 10,240: about 200 ms on a quiet machine of 2026.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import psycopg

from oarpy.client.sandbox import command
from oarpy.configuration import load
from oarpy.modules.metascheduler import Metascheduler
from oarpy.store import embedded, migrations
from oarpy.store.database import Connection

from .results import save

_RESOURCES = """
    INSERT INTO resources (network_address, host, cpu, core)
    SELECT 'n' || n, 'n' || n, n * 2 + k / 32, n * 64 + k FROM generate_series(1, 160) AS n, generate_series(0, 63) AS k
"""
_MOLDABLE = """
    INSERT INTO moldable_descriptions (submission_id, position, walltime)
    VALUES (%s, 0, %s * interval '1 second') RETURNING moldable_id
"""
_GROUP = """
    INSERT INTO resource_groups (moldable_id, position, filter) VALUES (%s, 0, 'type = ''default''') RETURNING group_id
"""
_JOB = """
    INSERT INTO jobs (submission_id, array_id, user_name, queue_name) VALUES (%s, %s, %s, 'default') RETURNING job_id
"""


def number(connection: Connection, statement: str, values: Sequence[object] = ()) -> int:
    """Run a statement that returns one number."""
    row = connection.execute(statement, values).fetchone()
    assert row is not None
    return int(row[0])


def add_jobs(connection: Connection, jobs: int) -> None:
    """Add jobs that wait."""
    chance = random.Random(1)

    def draw(least: int, most: int) -> int:
        return int(math.exp(chance.uniform(math.log(least), math.log(most + 0.99))))

    with connection.transaction():
        for rank in range(jobs):
            submission = number(connection, "INSERT INTO submissions DEFAULT VALUES RETURNING submission_id")
            moldable = number(connection, _MOLDABLE, [submission, draw(300, 86400)])
            group = number(connection, _GROUP, [moldable])
            flat = [("core", draw(1, 256))]
            levels = flat if rank % 2 else [("network_address", draw(1, 16)), ("core", draw(1, 64))]
            for place, (level, count) in enumerate(levels):
                connection.execute(
                    "INSERT INTO resource_descriptions VALUES (%s, %s, %s, %s)", [group, place, level, count]
                )
            number(connection, _JOB, [submission, rank + 1, f"user{rank % 9}"])


def run_pass(connection: Connection) -> None:
    """Let the meta-scheduler plan, and what it starts run."""
    Metascheduler(load()).run_once(connection, datetime.now().astimezone())
    for state in ("Launching", "Running"):
        connection.execute(
            "UPDATE jobs SET state = %s, started_at = now() WHERE state IN ('toLaunch', 'Launching')", [state]
        )


def measure(connection: Connection, times: int) -> tuple[list[float], list[float]]:
    """Return wall-clock and processor milliseconds of asking about the last job, ascending."""
    last = number(connection, "SELECT max(job_id) FROM jobs WHERE state = 'Waiting'")
    wall, processor = [], []
    for _ in range(times):
        # as it is beside a meta-scheduler: the last pass was a moment ago
        run_pass(connection)
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [command("oarstat"), "--why", str(last)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
        )
        wall.append((time.perf_counter() - began) * 1000)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append((after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000)
    return sorted(wall), sorted(processor)


def intersections() -> float:
    """Return the processor milliseconds of 2,000,000 ANDs of sets."""
    chance = random.Random(1)
    sets = [chance.getrandbits(10240) for _ in range(20001)]
    began = time.process_time()
    for _ in range(100):
        for place in range(20000):
            sets[place] & sets[place + 1]
    return (time.process_time() - began) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1200, help="jobs, of which the first start")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder:
        os.environ["OARPY_CONFIG"] = str(Path(folder) / "config.toml")
        dsn = embedded.start(Path(folder) / "postgresql")
        try:
            Path(os.environ["OARPY_CONFIG"]).write_text(f'[database]\nurl = "{dsn}"\n', encoding="utf-8")
            migrations.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(_RESOURCES)
                add_jobs(connection, options.jobs)
                run_pass(connection)
                connection.execute("VACUUM ANALYZE")
                waiting = number(connection, "SELECT count(*) FROM jobs WHERE state = 'Waiting'")
                wall, processor = measure(connection, options.times)
        finally:
            embedded.remove(Path(folder) / "postgresql")
    unit = intersections()
    middle = options.times // 2
    sys.stdout.write(
        f"oarstat --why of the last of {waiting} jobs: median {wall[middle]:.0f} ms, least {wall[0]:.0f} ms; "
        f"processor {processor[middle]:.0f} ms, least {processor[0]:.0f} ms; ANDs {unit:.0f} ms\n"
    )
    report = {"waiting": waiting, "wall_ms": wall, "processor_ms": processor, "ands_ms": unit}
    save("why", report)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
