"""The cost of ``oarstat --why`` as a whole process, beside a full queue: ``oarpy bench why``.

160 nodes of 64 cores run jobs, and others wait. The last of these is asked about, through a gateway as users do and
without one. ``no places`` is a question asked when the places of the last pass are gone, so that all is planned anew.
The jobs ask for 1 to 256 cores, or 1 to 16 nodes with 1 to 64 cores each. They ask for 5 minutes to 24 hours
(log-uniform, seeded). Besides the wall-clock, the processor time of all that an answer takes is counted: of command,
gateway and database. ``ANDs`` is the processor time of 2,000,000 intersections of neighbours in a list of 20,001 sets
of 10,240. That is about 200 ms on a quiet machine of 2026.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psycopg

from oarpy.configuration import load
from oarpy.frontend.conversation import connect
from oarpy.local_cluster.sandbox import command
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.modules.registry import PROGRAMS, module_command
from oarpy.postgres import embedded_server
from oarpy.store.database import Connection
from oarpy.store.schema import migrations

from .processor_time import of_questions
from .results import save

_START_TIMEOUT = 30.0

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


@dataclass(frozen=True, slots=True)
class Taken:
    """Milliseconds of each question, ascending: of wall-clock, and of processor time in all processes."""

    wall: list[float]
    processor: list[float]


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


def measure(
    connection: Connection, times: int, environment: Mapping[str, str], gateway_pid: int | None, anew: bool = False
) -> Taken:
    """Ask about the last job, through the gateway of process ``gateway_pid``; ``anew``: without the stored places."""
    last = number(connection, "SELECT max(job_id) FROM jobs WHERE state = 'Waiting'")
    wall, processor = [], []
    for _ in range(times):
        # as it is beside a meta-scheduler: the last pass was a moment ago
        run_pass(connection)
        if anew:
            connection.execute("DELETE FROM gantt_predictions")
        spent, began = _spent(connection, gateway_pid), time.perf_counter()
        subprocess.run(
            [command("oarstat"), "--why", str(last)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        wall.append((time.perf_counter() - began) * 1000)
        processor.append((_spent(connection, gateway_pid) - spent) * 1000)
    return Taken(sorted(wall), sorted(processor))


def _spent(connection: Connection, gateway_pid: int | None) -> float:
    commands = resource.getrusage(resource.RUSAGE_CHILDREN)
    return commands.ru_utime + commands.ru_stime + of_questions(gateway_pid, connection.info.backend_pid)


@contextmanager
def gateway(folder: Path) -> Iterator[int]:
    """Run a gateway inside the block; give its process id."""
    process = subprocess.Popen(module_command(PROGRAMS["gateway"]), cwd="/", stdin=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _START_TIMEOUT
        while (there := connect(str(folder / "gateway" / "socket"))) is None:
            if time.monotonic() > until:
                raise SystemExit("the gateway does not listen")
            time.sleep(0.05)
        there.close()
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def measure_all(connection: Connection, folder: Path, times: int) -> dict[str, Taken]:
    """Return what each way of asking takes."""
    direct = {**os.environ, "OARPY_GATEWAY_SOCKET": ""}
    with gateway(folder) as process:
        measure(connection, 4, os.environ, process)  # every worker has read the platform once
        return {
            "through the gateway": measure(connection, times, os.environ, process),
            "through the gateway, no places": measure(connection, times, os.environ, process, anew=True),
            "without a gateway": measure(connection, times, direct, None),
        }


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
    with tempfile.TemporaryDirectory(prefix="oarpy-bench-") as name:
        folder = Path(name)
        os.environ["OARPY_CONFIG"] = str(folder / "config.toml")
        dsn = embedded_server.start(folder / "postgresql")
        try:
            (folder / "config.toml").write_text(
                f'[database]\nurl = "{dsn}"\n[gateway]\nsocket = "{folder}/gateway/socket"\nworkers = 2\n',
                encoding="utf-8",
            )
            migrations.upgrade(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(_RESOURCES)
                add_jobs(connection, options.jobs)
                run_pass(connection)
                connection.execute("VACUUM ANALYZE")
                waiting = number(connection, "SELECT count(*) FROM jobs WHERE state = 'Waiting'")
                taken = measure_all(connection, folder, options.times)
        finally:
            embedded_server.remove(folder / "postgresql")
    unit = intersections()
    sys.stdout.write(f"oarstat --why of the last of {waiting} jobs, milliseconds; ANDs {unit:.0f} ms\n")
    for way, spent in taken.items():
        for what, times in (("wall-clock", spent.wall), ("processor time", spent.processor)):
            sys.stdout.write(f"{way:<31}{what:<15} median {times[len(times) // 2]:>5.0f}  least {times[0]:>5.0f}\n")
    wall = {way: taken_by_way.wall for way, taken_by_way in taken.items()}
    processor = {way: taken_by_way.processor for way, taken_by_way in taken.items()}
    save("why", {"waiting": waiting, "wall_ms": wall, "processor_ms": processor, "ands_ms": unit})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
