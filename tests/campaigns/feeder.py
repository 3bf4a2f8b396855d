"""Jobs for a campaign: arrays that leave marks, submitted by ``oarsub`` while everything around it breaks."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import OarpyError

_JOB = 'echo "begin $OAR_JOB_ID" >> marks; sleep "$0"; echo "end $OAR_JOB_ID" >> marks'
_ARRAY = 20
_PAUSE = 0.3
_UNREACHABLE = 6


@dataclass(slots=True)
class Feeder:
    """Submits jobs of up to ``longest`` seconds; every second array is of idempotent ones."""

    sandbox: Sandbox
    chance: random.Random
    longest: float
    told: list[int] = field(default_factory=list)
    """What ``oarsub`` said to have submitted."""
    refused: int = 0
    """How often it said that nothing could be reached."""
    wrong: list[str] = field(default_factory=list)
    """What else it said."""
    live: int | None = None
    """How many jobs were live when the database could last be asked; none while it cannot be reached."""
    _arrays: int = 0

    def submit(self, most: int = _ARRAY) -> int:
        """Submit an array of ``most`` jobs at most; return how many were, none while nothing can be reached."""
        self._arrays += 1
        durations = [f"{self.chance.uniform(0.2, self.longest):.2f}" for _ in range(min(_ARRAY, most))]
        file = self.sandbox.directory / "work" / f"durations-{self._arrays}"
        file.write_text("\n".join(durations) + "\n")
        size = self.chance.choice(["/core=1", "/core=1", "/core=2", "/nodes=2/core=1"])
        kind = ["-t", "idempotent"] if self._arrays % 2 else []
        words = ["-l", f"{size},walltime=0:10:0", "--array-param-file", str(file), *kind, f"sh -c '{_JOB}'"]
        done = self.sandbox.run("oarsub", *words, check=False)
        ids = _ids(done.stdout)
        self.told += ids
        if done.returncode == _UNREACHABLE and done.stderr.count("\n") <= 2:  # no gateway, no database
            self.refused += 1
        elif done.returncode:
            self.wrong.append(f"oarsub ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return len(ids)

    def submit_batch(self, count: int, host: str) -> None:
        """Submit ``count`` jobs at once, each for a core of ``host``."""
        file = self.sandbox.directory / "work" / "durations-of-batch"
        file.write_text("0.5\n" * count)
        words = ["-l", "/core=1,walltime=0:10:0", "-p", f"host = '{host}'", "--array-param-file", str(file)]
        done = self.sandbox.run("oarsub", *words, f"sh -c '{_JOB}'")
        self.told += [
            int(line.partition("=")[2]) for line in done.stdout.splitlines() if line.startswith("OAR_JOB_ID=")
        ]

    @contextmanager
    def keeping(self, count: int) -> Iterator[None]:
        """Submit in a thread of its own whenever fewer than ``count`` jobs are live."""
        over = threading.Event()

        def feed() -> None:
            while not over.is_set():
                self.live = self._count()
                # when nobody can say how many there are, a submission is tried all the same
                if (self.live or 0) + _ARRAY > count or not self.submit():
                    over.wait(_PAUSE)

        with ThreadPoolExecutor(1) as pool:
            feeding = pool.submit(feed)
            try:
                yield
            finally:
                over.set()
            feeding.result()

    def _count(self) -> int | None:
        with suppress(psycopg.OperationalError, OarpyError), psycopg.connect(self.sandbox.dsn()) as connection:
            row = connection.execute("SELECT count(*) FROM jobs WHERE state NOT IN ('Terminated', 'Error')").fetchone()
            return int(row[0]) if row else None
        return None


def _ids(output: str) -> list[int]:
    return [int(line.partition("=")[2]) for line in output.splitlines() if line.startswith("OAR_JOB_ID=")]
