"""The cost to submit many jobs: one after another, from several shells, and in one call.

Each way submits the same number of ``date`` on a cluster of 17 local nodes of two cores, and all are waited for.
The commands are those of an installed wheel. Seconds are by the clock, from the first command to the last that ended,
and to the last end that is recorded. Processor time is that of all of it: commands, gateway, database, modules, jobs.
``forks`` beside it is how many processes the machine starts one after another in a second, in the same run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox

from .clients import install, of_commands, wait_for_gateway
from .main_job import forks_per_second, settle
from .processor_time import account
from .results import save

_REQUEST = "-l /core=1,walltime=0:10:0"


@dataclass(frozen=True, slots=True)
class SubmissionCost:
    """Seconds until all were submitted and until all had ended; milliseconds of the processor a job."""

    submitted: float
    ended: float
    processor: float

    def line(self, name: str, jobs: int) -> str:
        """Return a line of the table."""
        rate = f"{jobs / self.submitted:>10.0f}{self.submitted:>10.2f}"
        return f"{name:<28}{rate}{self.ended:>10.2f}{self.processor:>14.1f}"


def loops(sandbox: Sandbox, oarsub: Path, jobs: int, shells: int) -> None:
    """Run so many shells at once, each of which submits its share one after another."""
    words = f"for i in $(seq {jobs // shells}); do '{oarsub}' {_REQUEST} date || exit; done"
    running = [
        subprocess.Popen(["sh", "-c", words], env=sandbox.environment(), cwd=_work(sandbox), stdout=subprocess.DEVNULL)
        for _ in range(shells)
    ]
    statuses = [shell.wait() for shell in running]
    if any(statuses):
        raise SystemExit("a submission failed")


def batch(sandbox: Sandbox, oarsub: Path, jobs: int) -> None:
    """Submit all in one call, each with a name and a command of its own."""
    lines = "".join(f"-n job{number} {_REQUEST} 'date; : {number}'\n" for number in range(jobs))
    command = [str(oarsub), "--batch", "-"]
    done = subprocess.run(
        command, env=sandbox.environment(), cwd=_work(sandbox), input=lines, capture_output=True, text=True, check=False
    )
    if done.returncode or done.stdout.count("OAR_JOB_ID=") != jobs:
        raise SystemExit(f"a batch failed: {done.stderr[-500:]}")


def _work(sandbox: Sandbox) -> Path:
    return sandbox.directory / "work"


def measure(sandbox: Sandbox, jobs: int, shells: int) -> dict[str, SubmissionCost]:
    """Return what each way takes."""
    oarsub = install(sandbox.directory / "installed") / "oarsub"
    ways: Mapping[str, Callable[[], None]] = {
        "one loop": lambda: loops(sandbox, oarsub, jobs, 1),
        f"{shells} loops at once": lambda: loops(sandbox, oarsub, jobs, shells),
        "--batch": lambda: batch(sandbox, oarsub, jobs),
        "--array": lambda: _array(sandbox, oarsub, jobs),
    }
    batch(sandbox, oarsub, shells)
    settle(sandbox)
    return {name: _spent(sandbox, jobs, way) for name, way in ways.items()}


def _array(sandbox: Sandbox, oarsub: Path, jobs: int) -> None:
    words = [str(oarsub), "--array", str(jobs), *_REQUEST.split(), "date"]
    subprocess.run(words, env=sandbox.environment(), cwd=_work(sandbox), stdout=subprocess.DEVNULL, check=True)


def _spent(sandbox: Sandbox, jobs: int, submit: Callable[[], None]) -> SubmissionCost:
    before, own = sum(account(sandbox).values()), of_commands()
    with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
        last = connection.execute("SELECT coalesce(max(job_id), 0), clock_timestamp() FROM jobs").fetchone()
        assert last is not None
        began = time.perf_counter()
        submit()
        submitted = time.perf_counter() - began
        settle(sandbox)
        query = """
            SELECT extract(epoch FROM max(ended_at) - %s)::float8, count(*) FILTER (WHERE exit_status = 0)
            FROM jobs WHERE job_id > %s
        """
        row = connection.execute(query, (last[1], last[0])).fetchone()
    assert row is not None
    if row[1] != jobs:
        raise SystemExit(f"{row[1]} of {jobs} jobs ended well")
    spent = (sum(account(sandbox).values()) - before) * 1000 + of_commands() - own
    return SubmissionCost(submitted, row[0], spent / jobs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="a multiple of the shells")
    parser.add_argument("--shells", type=int, default=8)
    options = parser.parse_args(arguments)
    if options.jobs % options.shells:
        parser.error("--jobs is no multiple of --shells")
    forks, nodes = forks_per_second(500), local_nodes("/host=n[1-17]/core={2}")
    with (
        tempfile.TemporaryDirectory(prefix="oarpy-bench-") as folder,
        running_sandbox(Path(folder), {"log": {"level": "warning"}}, nodes) as sandbox,
    ):
        wait_for_gateway(sandbox)
        results = measure(sandbox, options.jobs, options.shells)
    title = f"{f'{options.jobs} jobs':<28}{'jobs/s':>10}{'s':>10}{'ended, s':>10}{'processor ms':>14}"
    lines = [title, *(result.line(name, options.jobs) for name, result in results.items())]
    load = os.getloadavg()[0]
    sys.stdout.write("\n".join(lines) + f"\nload average {load:.1f}, {forks:.0f} forks a second\n")
    ways = {name: asdict(result) for name, result in results.items()}
    save("submit", {"jobs": options.jobs, "shells": options.shells, "forks_per_second": forks, "ways": ways})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
