"""Many jobs through one server: ``oarpy bench soak [--jobs N]``; does it grow, does it get slower?

It runs arrays of ``true``, one after another. At marks on the way it notes the memory, descriptors and threads of every
kind of process. It also notes the seconds since the last mark for each 1,000 jobs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import LiteralString

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, command, local_nodes
from oarpy.model.errors import OarpyError
from research.benchmarks.server_processes import ProcessUsage, holdings, server_processes

from .results import save

JOBS = 20_000
ARRAY = 1000
NODES, CORES = 4, 4
_MARKS = (1000, 3000, 10_000, 20_000)
_DEADLINE = 600.0
_POLL = 0.02
_LIVE: LiteralString = "SELECT count(*) FROM jobs WHERE state NOT IN ('Terminated', 'Error')"
_BAD: LiteralString = "SELECT count(*) FROM jobs WHERE state = 'Error' OR exit_status <> 0"


@dataclass(frozen=True, slots=True)
class Mark:
    """The state after ``jobs`` jobs; ``seconds`` is the time for each 1,000 jobs since the mark before."""

    jobs: int
    seconds: float
    held: dict[str, ProcessUsage]


class Soak:
    """A cluster of a few local nodes, through which jobs go."""

    def __init__(self, directory: Path) -> None:
        self.sandbox = Sandbox(directory, {"log": {"level": "warning"}})
        self._done = 0

    def start(self) -> None:
        """Start everything."""
        self.sandbox.create()
        self.sandbox.start()
        self.sandbox.run(*local_nodes(f"/host=n[1-{NODES}]/cpu={{1}}/core={{{CORES}}}"))

    def stop(self) -> None:
        """Stop everything and remove the database."""
        self.sandbox.discard()

    def run(self, jobs: int) -> float:
        """Send ``jobs`` jobs through, in arrays of at most :data:`ARRAY`; return the seconds."""
        began = time.perf_counter()
        for first in range(0, jobs, ARRAY):
            size = min(ARRAY, jobs - first)
            self.sandbox.job_ids("--array", str(size), "-l", "/core=1,walltime=0:10:0", "true")
            self._settle()
            self._done += size
        return time.perf_counter() - began

    def held(self) -> dict[str, ProcessUsage]:
        """Return what every kind of process holds now."""
        server = self.sandbox.server
        return holdings(server_processes(server.pid)) if server else {}

    def marks(self, jobs: int, note: Callable[[Mark], None]) -> list[Mark]:
        """Run ``jobs`` jobs, noting at each mark and at the end."""
        marks_seen = []
        for until in [*(mark for mark in _MARKS if mark < jobs), jobs]:
            count = until - self._done
            seconds = self.run(count)
            mark = Mark(until, seconds * 1000 / count, self.held())
            note(mark)
            marks_seen.append(mark)
        return marks_seen

    def _settle(self) -> None:
        """Wait until every job is over and accounted for, and has ended well."""
        until = time.monotonic() + _DEADLINE
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            while _count(connection, _LIVE):
                if time.monotonic() > until:
                    raise OarpyError(f"jobs of an array are still live after {_DEADLINE:g} s")
                time.sleep(_POLL)
            bad = _count(connection, _BAD)
        if bad:
            raise OarpyError(f"{bad} jobs did not end well")


def _count(connection: psycopg.Connection[tuple[int]], statement: LiteralString) -> int:
    row = connection.execute(statement).fetchone()
    return row[0] if row else 0


def _print(mark: Mark) -> None:
    lines = [f"after {mark.jobs} jobs: {mark.seconds:.1f} s for each 1,000"]
    for kind, held in mark.held.items():
        lines.append(
            f"  {kind:16}{held.processes:>3} processes {held.resident / 1024:>8.1f} MiB resident"
            f" {held.descriptors:>5} descriptors {held.threads:>5} threads"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--folder", type=Path, default=None, help="keep the cluster's data and logs there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="oarpy-soak-") as folder:
        soak = Soak(options.folder or Path(folder))
        try:
            soak.start()
            marks = soak.marks(options.jobs, _print)
        finally:
            soak.stop()
    save("soak", {"jobs": options.jobs, "marks": [asdict(mark) for mark in marks]})
    return 0


if __name__ == "__main__":
    if not Path(command("oarsub")).exists():
        raise SystemExit("install oarpy first: make test, or pip install -e '.[embedded]'")
    raise SystemExit(main())
