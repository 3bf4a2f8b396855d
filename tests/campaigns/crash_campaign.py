"""Jobs run while everything of the server side is killed with SIGKILL, again and again; then the books are checked.

``python -m tests.campaigns.crash_campaign --rounds 3`` runs it by hand and prints what was killed and what came of it.
A smaller round is a test. A round takes as long as its kills: after each one the next waits until what it is to kill is
there again, and what died often is started again ever more slowly.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from oarpy.local_cluster.sandbox import Sandbox
from oarpy.model.errors import OarpyError
from oarpy.postgres import embedded_server
from research.benchmarks.server_processes import all_pids, arguments_of, children_of, environment_of
from tests.campaigns.books import wrong_books
from tests.harness import bare_environment
from tests.harness.server_processes import SERVER_KINDS, server_pids

TARGETS = (*SERVER_KINDS, "agent", "database")
NODES, CORES = 6, 2
DEADLINE = 240.0
LEAST_AMID = 0.25
"""Share of the kills that must strike while jobs run, or the campaign proves too little."""

# What a job does: says on which resources it begins, works, leaves its mark once, says that it ends.
JOB = (
    'echo "$OAR_JOB_ID" >> effects; '
    'echo "begin $OAR_JOB_ID $(date +%s.%N) $(sort -u $OAR_NODEFILE | tr "\\n" ",")" >> occupancy; '
    'sleep "$0"; '
    'echo "end $OAR_JOB_ID $(date +%s.%N)" >> occupancy'
)


@dataclass(slots=True)
class Campaign:
    """One round: ``jobs`` jobs, every target killed at least ``kills`` times, all choices from ``seed``."""

    sandbox: Sandbox
    seed: int
    jobs: int = 200
    kills: int = 5
    killed: Counter[str] = field(default_factory=Counter)
    amid: int = 0
    """How many kills struck while processes of jobs ran."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each phase took."""

    def run(self) -> list[str]:
        """Run the round; return what is wrong with the books at the end (nothing, if all is well)."""
        began = time.monotonic()
        chance = random.Random(self.seed)
        self.sandbox.create()
        self.sandbox.start()
        pattern = f"/host=n[1-{NODES}]/cpu={{1}}/core={{{CORES}}}"
        self.sandbox.run("oaradmin", "resources", "add", pattern, "--transport", "local")
        mark = f"OARPY_JOB={self._instance()}/".encode()
        began = self._note("set-up", began)
        plan = [target for target in TARGETS for _ in range(self.kills)]
        chance.shuffle(plan)
        # Some wait from the beginning; the others arrive between the kills, so that each finds jobs in all states.
        left = self.jobs - self._submit(chance, self.jobs // 4)
        for number, target in enumerate(plan):
            left -= self._submit(chance, -(-left // (len(plan) - number)))
            self._strike(target, chance, mark)
            time.sleep(chance.uniform(0.1, 0.9))
        began = self._note("kills", began)
        self._revive()
        self._wait_for_ends()
        wrong = [*self._books(), *self._marks(), *self._processes(mark, "a job")]
        began = self._note("last jobs", began)
        self.sandbox.stop()
        home = str(self.sandbox.directory).encode()
        until = time.monotonic() + 30
        while (survivors := self._processes(home, "the cluster")) and time.monotonic() < until:
            time.sleep(0.1)
        self._note("stop", began)
        if self.amid < sum(self.killed.values()) * LEAST_AMID:
            survivors.append(f"only {self.amid} of {sum(self.killed.values())} kills struck while jobs ran")
        return wrong + survivors

    def _note(self, phase: str, began: float) -> float:
        now = time.monotonic()
        self.seconds[phase] = now - began
        return now

    def _instance(self) -> str:
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            row = connection.execute("SELECT instance FROM site").fetchone()
        assert row is not None
        return str(row[0])

    def _submit(self, chance: random.Random, count: int) -> int:
        """Submit arrays of ten at most: each with a size of its own, each member with a duration of its own."""
        for number in range(0, count, 10):
            durations = [f"{chance.uniform(0.1, 2):.2f}" for _ in range(min(10, count - number))]
            file = self.sandbox.directory / "work" / f"durations-{time.monotonic_ns()}"
            file.write_text("\n".join(durations) + "\n")
            size = chance.choice(["/core=1", "/core=2", "/nodes=1", "/nodes=2", "/core=3"])
            self._until_done(
                "oarsub", "-l", f"{size},walltime=0:5:0", "--array-param-file", str(file), f"sh -c '{JOB}'"
            )
        return count

    def _until_done(self, *arguments: str) -> None:
        """Run a command, again while the database is away (exit status 6)."""
        until = time.monotonic() + 60
        while (done := self.sandbox.run(*arguments, check=False)).returncode != 0:
            if done.returncode != 6 or time.monotonic() > until:
                raise OarpyError(f"{arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
            time.sleep(0.2)

    def _strike(self, target: str, chance: random.Random, mark: bytes) -> None:
        """Kill one process of the kind; wait, within reason, until there is one."""
        until = time.monotonic() + 30
        while not (pids := self._pids(target)):
            self._revive()
            if time.monotonic() > until:
                raise OarpyError(f"no {target} came up again within 30 s")
            time.sleep(0.02)
        self.amid += bool(self._processes(mark, "a job"))
        with suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)
        self.killed[target] += 1
        if target == "supervisor" and self.sandbox.server is not None:
            self.sandbox.server.wait()
            self.sandbox.start()

    def _revive(self) -> None:
        """What systemd would do: a server that is gone is started again."""
        if self.sandbox.server is None or self.sandbox.server.poll() is not None:
            self.sandbox.start()

    def _pids(self, target: str) -> list[int]:
        server, database = self.sandbox.server, self.sandbox.directory / "postgresql"
        if server is None or server.poll() is not None:
            return []
        if target == "agent":
            return children_of(*server_pids("launcher", server.pid, database))
        return server_pids(target, server.pid, database)

    def _wait_for_ends(self) -> None:
        until = time.monotonic() + DEADLINE
        while True:
            try:
                with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
                    row = connection.execute(
                        "SELECT count(*) FILTER (WHERE state NOT IN ('Terminated', 'Error')),"
                        " count(*) FILTER (WHERE ended_at IS NOT NULL AND NOT accounted) FROM jobs"
                    ).fetchone()
                if row == (0, 0):
                    return
            except (psycopg.OperationalError, OarpyError):
                row = None
            if time.monotonic() > until:
                raise OarpyError(f"after {DEADLINE:g} s (live jobs, unaccounted jobs) are still {row}")
            time.sleep(0.1)

    def _books(self) -> list[str]:
        """What the database says."""
        wrong = []
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            wrong += wrong_books(connection)
            count = connection.execute("SELECT count(*) FROM jobs").fetchone()
            if count is None or count[0] < self.jobs:
                wrong.append(f"only {count} jobs of {self.jobs} are in the database")
        return wrong

    def _marks(self) -> list[str]:
        """What the jobs themselves wrote."""
        work = self.sandbox.directory / "work"
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            jobs = {str(row[0]) for row in connection.execute("SELECT job_id FROM jobs")}
        effects = Counter((work / "effects").read_text().split())
        wrong = [f"job {job} left {effects[job]} marks" for job in sorted(jobs) if effects[job] != 1]
        wrong += [f"mark of an unknown job {job}" for job in effects.keys() - jobs]
        return wrong + _crowding((work / "occupancy").read_text())

    @staticmethod
    def _processes(mark: bytes, whose: str) -> list[str]:
        """Processes, named for a complaint, with ``mark`` in their environment."""
        return [
            f"process {pid} of {whose} is left: {arguments_of(pid)}"
            for pid in all_pids()
            if mark in environment_of(pid)
        ]


def _crowding(occupancy: str) -> list[str]:
    """Jobs that were really on a node together, counted in cores, beyond what the node has."""
    begins: dict[str, tuple[float, list[str]]] = {}
    ends: dict[str, float] = {}
    for line in occupancy.splitlines():
        word, job, at, *nodes = line.split()
        if word == "begin":
            begins[job] = (float(at), [node for node in nodes[0].split(",") if node])
        else:
            ends[job] = float(at)
    changes = []
    for job, (begin, nodes) in begins.items():
        for node in nodes:
            changes.append((begin, 1, node, job))
            changes.append((ends.get(job, float("inf")), -1, node, job))
    present: Counter[str] = Counter()
    wrong = []
    for _, change, node, job in sorted(changes):
        present[node] += change
        if present[node] > CORES:
            wrong.append(f"{present[node]} jobs at once on node {node} of {CORES} cores (job {job})")
    return wrong


def run_round(directory: Path, seed: int, jobs: int, kills: int) -> tuple[Campaign, list[str]]:
    """Run one round in ``directory``; return the campaign with its counts, and what is wrong."""
    campaign = Campaign(Sandbox(directory, {"nodes": {"lost_timeout": 60.0}}), seed, jobs, kills)
    try:
        return campaign, campaign.run()
    finally:
        campaign.sandbox.stop()
        embedded_server.remove(directory / "postgresql")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--kills", type=int, default=5, help="of each target and round")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    failures = 0
    for number in range(options.rounds):
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="oarpy-crash-") as folder:
            campaign, wrong = run_round(Path(folder), options.seed + number, options.jobs, options.kills)
        strikes = ", ".join(f"{target} {campaign.killed[target]}" for target in TARGETS)
        print(f"round {number + 1} (seed {options.seed + number}, {time.monotonic() - began:.0f} s): killed {strikes}")
        print(f"  {campaign.amid} of these kills struck while jobs ran")
        print("  seconds: " + ", ".join(f"{phase} {seconds:.0f}" for phase, seconds in campaign.seconds.items()))
        print(
            "\n".join(f"  WRONG: {line}" for line in wrong)
            or f"  {options.jobs} jobs ended exactly once, books in order"
        )
        failures += bool(wrong)
    return 1 if failures else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
