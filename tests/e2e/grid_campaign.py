"""Jobs of a broker's users run on several clusters while everything fails; then the books are checked.

``python -m tests.e2e.grid_campaign --seed 1`` runs 500 mapped and 100 co-allocated jobs on three clusters during 300
faults. Every kind of process is killed with SIGKILL, databases and their sessions are ended, ways between the broker
and clusters are cut. Every third fault strikes the broker or a cluster at a chosen step of a transaction. Only root can
run it: it makes users. A smaller round is a test.

``--metajobs`` strikes at each step of programs over clusters alone: they are placed, modified, and begin. Local jobs
end early all the time, so there is room to move to.

``--bags`` strikes at each step of bags of tasks over clusters, and at the ways: calls and answers are lost, late, and
made twice. Clusters are silent until they are lost, so some tasks go elsewhere, and those that may run once are told
lost.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import psycopg

from oarpy.grid.local.local_grid import LocalGrid, add_clusters, local_grid
from oarpy.model.errors import OarpyError
from oarpy.store.grid import reallocation_passes
from tests.e2e.grid_bag_books import BagBooks, books_of_bags
from tests.e2e.grid_faults import Fault, GridFaults, planned, planned_for_bags, planned_for_metajobs
from tests.e2e.grid_promises import GridOutcome, PromiseWatch, outcome, unfinished
from tests.harness import bare_environment
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder

CORES = {"north": 8, "south": 8, "west": 6}
END_TIME = 300.0
"""Seconds for the next job to be over, once nothing fails any more, and for the next one that can be struck."""
_MOST_OPEN = 120
"""So many jobs may wait before faults wait for them."""
_FEW_OPEN = 10
"""With fewer that wait, there are more of those at whose steps faults strike than were planned."""
_EARLY, _MOST_EARLY = "sleep 6", 3
"""What local jobs do that end early, and how many a cluster may have before more come: two of them run."""
_EARLY_ONES = "SELECT job_id FROM jobs JOIN submissions USING (submission_id) WHERE command = %s AND is_live(state)"
_STAYS = "the job stays"
"""What is said of a bag whose promise takes longer than its user waits."""
_MARK = 'echo "$OAR_GRID_JOB_ID $OAR_GRID_COMPONENT $(date +%s.%N)" >> marks; sleep'
_SETTINGS = {"algorithm": 1, "period": 5.0, "threshold": 0.0, "kill_grace": 1.0}
_BAG_SETTINGS = {"provider_lost": 5.0, "watch_period": 0.3}
_SITE: Mapping[str, Mapping[str, float]] = {"nodes": {"lost_timeout": 60.0}, "grid": {"hint_interval": 2.0}}


@dataclass(slots=True)
class GridCampaign:
    """A round on a grid, all choices from ``seed``. ``pause`` is the longest time between two faults, in seconds."""

    grid: LocalGrid
    seed: int
    faults: int = 300
    mapped: int = 500
    coallocated: int = 100
    metajobs: int = 0
    """Programs over clusters; if there are any, faults strike at their steps alone."""
    bags: int = 0
    """Bags of tasks over clusters; if there are any, faults strike at their steps and at the ways alone."""
    tasks: int = 100
    """Tasks of a bag."""
    databases: bool = True
    lead: float = 25.0
    """Seconds until the deadlines of co-allocated jobs, at least."""
    pause: float = 1.0
    refused: Counter[str] = field(default_factory=Counter)
    """Submissions that failed, by exit status and reason: each was made again."""
    seconds: float = 0.0
    done: float = 0.0
    """Share of the faults that have struck."""
    over: GridOutcome = field(default_factory=GridOutcome)
    books: BagBooks = field(default_factory=BagBooks)
    striker: GridFaults = field(init=False)
    watch: PromiseWatch = field(init=False)
    failure: str = ""

    def run(self) -> list[str]:
        """Run the round; return what is wrong."""
        began, chance = time.monotonic(), random.Random(self.seed)
        add_clusters(self.grid)
        self.striker = GridFaults(self.grid, random.Random(chance.random()))
        self.watch = PromiseWatch(self.grid, lambda: tuple(self.striker.cut_off))
        self.watch.start()
        submitter = threading.Thread(target=self._submit_all, args=(random.Random(chance.random()),), daemon=True)
        submitter.start()
        early = threading.Thread(target=self._end_early, daemon=True)
        if self._one_kind:
            early.start()
        self._strike_all(chance, self._planned(chance, self.faults, databases=self.databases))
        self.striker.settle()
        self.done = 1.0
        submitter.join()
        left = self._wait_for_rest()
        self.watch.end()
        self.over, self.books = outcome(self.grid), books_of_bags(self.grid)
        self.seconds = time.monotonic() - began
        return [
            *self.watch.wrong,
            *([self.failure] if self.failure else []),
            *left,
            *self.over.wrong,
            *self.books.wrong,
        ]

    # Jobs

    def _submit_all(self, chance: random.Random) -> None:
        """Submit jobs as fast as faults strike: bunches of mapped ones, single ones with several components.

        Where faults strike at the steps of one kind of job alone, more of these come until the last fault.
        """
        mapped, coallocated, metajobs, bags = self.mapped, self.coallocated, self.metajobs, self.bags
        try:
            while (left := mapped + coallocated + metajobs + bags) or (self._one_kind and self.done < 1):
                if not self._more_wanted(left):
                    time.sleep(0.05)
                elif self.bags:
                    self._submit(*self._bag(chance))
                    bags = max(bags - 1, 0)
                elif self.metajobs:
                    self._submit(*_metajob(chance))
                    metajobs = max(metajobs - 1, 0)
                elif chance.random() * (mapped / 5 + coallocated) < coallocated:
                    self._submit(*self._coallocated(chance))
                    coallocated -= 1
                else:
                    count = min(mapped, chance.randint(1, min(9, 1 + self.mapped // 8)))
                    self._submit(*_mapped(chance), "--array", str(count), f"{_MARK} {chance.uniform(0, 2):.1f}")
                    mapped -= count
        except OarpyError as error:
            self.failure = str(error)

    @property
    def _one_kind(self) -> bool:
        """Faults strike at the steps of programs over clusters, or of bags, alone."""
        return bool(self.metajobs or self.bags)

    def _more_wanted(self, left: int) -> bool:
        """Tell whether it is time to submit: a fault waits for a transaction, or jobs are behind faults."""
        if self.striker.wants_work.is_set():
            self.striker.wants_work.clear()
            return left > 0 or self._open() < _FEW_OPEN
        ahead = 0.2 if self.metajobs else 0.05  # programs over clusters wait for their dates
        planned = self.mapped + self.coallocated + self.metajobs + self.bags
        return left > 0 and 1 - left / planned <= self.done + ahead

    def _end_early(self) -> None:
        """Let local jobs hold half of a cluster for some seconds of the minutes that they ask for, until the end.

        They are not to come faster than a busy machine runs them: programs over clusters would never have their turn.
        """
        while self.done < 1:
            for name, cores in CORES.items():
                words = ("oarsub", "-d", str(self.grid.home), "-l", f"/core={cores // 2},walltime=0:4:0", _EARLY)
                with suppress(OSError, psycopg.Error, OarpyError):
                    if self._early_ones(name) <= _MOST_EARLY:
                        self.grid.run(*words, on=name, check=False)
            time.sleep(4)

    def _early_ones(self, name: str) -> int:
        with psycopg.connect(self.grid.clusters[name].dsn(), autocommit=True) as connection:
            return len(connection.execute(_EARLY_ONES, [_EARLY]).fetchall())

    def _bag(self, chance: random.Random) -> Sequence[str]:
        size = ("--bag", str(self.tasks), "-l", "core=1,walltime=0:1:0", "--policy", chance.choice(("plb", "nolb")))
        types = chance.choice(((), ("-t", "idempotent")))
        return *size, *types, f'echo "$OAR_GRID_JOB_ID $OAR_GRID_TASK" >> tasks; sleep {chance.uniform(0, 1):.1f}'

    def _coallocated(self, chance: random.Random) -> Sequence[str]:
        seconds = int(chance.uniform(self.lead, self.lead * 1.6))
        tries = ("--lp", "0.3", "--tries", "6", "--deadline", f"+{seconds}s")
        size = f"/core={chance.choice((1, 1, 2, 3))},walltime=0:2:0"
        # one in four would run beyond the bound of a part that began alone
        program = f"{_MARK} {chance.choice((2, 2, 2, 40 if self.lead > 20 else 3))}"
        return "-l", size, "--components", "2", *tries, program

    def _submit(self, *words: str) -> None:
        """Submit, again while the broker is away."""
        until = time.monotonic() + 120
        while True:
            done = self.grid.run("oargridsub", "-d", str(self.grid.home), *words, check=False)
            if done.returncode == 0 or _STAYS in done.stderr:
                return
            self.refused[f"{done.returncode} ({(done.stderr.splitlines() or [''])[-1]})"] += 1
            if time.monotonic() > until:
                raise OarpyError(f"oargridsub {words} ended with {done.returncode}: {done.stderr[-300:]}")
            time.sleep(0.3)

    # Faults

    def _planned(self, chance: random.Random, count: int, *, databases: bool) -> list[Fault]:
        if self.bags:
            return planned_for_bags(chance, count)
        return planned_for_metajobs(chance, count) if self.metajobs else planned(chance, count, databases=databases)

    def _strike_all(self, chance: random.Random, plan: Sequence[Fault]) -> None:
        kinds = self._planned(chance, 60, databases=False)
        for number, fault in enumerate(plan):
            self._wait_for_room()
            until = time.monotonic() + END_TIME  # programs over clusters wait for their dates
            while not self.striker.strike(fault):
                fault = chance.choice(kinds)
                if time.monotonic() > until:
                    there = self.failure or "; ".join(unfinished(self.grid)) or "all jobs are over"
                    raise OarpyError(f"for {END_TIME:.0f} s nothing was there to be struck: {there}")
                time.sleep(0.05)
            self.striker.revive()
            self.done = (number + 1) / len(plan)
            if chance.random() < 0.1:
                self._ask_for_pass()
            time.sleep(chance.uniform(0.1, self.pause))

    def _wait_for_room(self) -> None:
        """Let jobs go on, if many are under way: faults are to strike while jobs move, and not to stop them all."""
        until = time.monotonic() + 60
        while time.monotonic() < until and self._open() > _MOST_OPEN:
            time.sleep(0.2)

    def _open(self) -> float:
        """Return how many jobs wait; infinity while the broker's database is away."""
        with suppress(psycopg.Error, OarpyError):
            count = self.grid.sql("SELECT count(*) FROM grid_jobs WHERE state IN ('Submitted', 'Mapped')")[0][0]
            return int(count)
        return inf

    def _ask_for_pass(self) -> None:
        with suppress(psycopg.Error, OarpyError), psycopg.connect(self.grid.broker.dsn()) as connection:
            reallocation_passes.ask(connection, "root")

    def _wait_for_rest(self) -> list[str]:
        """Wait until all is over, as long as jobs come to their ends; say what is not."""
        over, until = -1, time.monotonic() + END_TIME
        while (left := unfinished(self.grid)) and time.monotonic() < until:
            with suppress(psycopg.Error, OarpyError):
                ended = self.grid.sql("SELECT count(*) FROM grid_jobs WHERE ended_at IS NOT NULL")[0][0]
                if ended != over:
                    over, until = ended, time.monotonic() + END_TIME
            time.sleep(0.2)
        return left

    # What came of it

    def told(self) -> str:
        """Say in a few lines what was done, and what came of it."""
        striker, over = self.striker, self.over
        steps = ", ".join(f"{step} {side} {count}" for (step, side), count in sorted(striker.steps.items()))
        moved = self.grid.sql("SELECT outcome, count(*) FROM grid_moves GROUP BY 1 ORDER BY 1")
        longest = f"at most {max(over.spreads, default=0):.2f} s apart"
        return "\n  ".join(
            (
                f"{striker.struck.total() + striker.steps.total()} faults: {_counts(striker.struck)}",
                f"of which at a step of a transaction {striker.steps.total()}: {steps}; launchers hung {striker.hung}",
                f"jobs: {_counts(over.ended)}; moves: {_counts(dict(moved))}; {over.replayed}",
                f"{len(over.spreads)} jobs began all their components, {longest};"
                f" {over.alone} began in part, alone for {self.watch.longest_alone:.1f} s at most",
                f"bags: {_counts(self.books.bags) or 'none'}; tasks: {_counts(self.books.tasks) or 'none'};"
                f" {self.books.elsewhere} tasks went elsewhere",
                f"programs over clusters were moved: {_counts(over.shifts) or 'none was'}",
                f"why jobs were missed: {_counts(over.missed) or 'none was'}",
                f"{self.watch.samples} samples of all clusters;"
                f" holds were there {self.watch.latest_hold:.1f} s after their ttl at most",
                f"submissions made again, by exit status and reason: {_counts(self.refused) or 'none'}",
            )
        )


def _mapped(chance: random.Random) -> Sequence[str]:
    return "-l", f"/core={chance.choice((1, 1, 2, 4))},walltime=0:{chance.randint(1, 9)}:0"


def _metajob(chance: random.Random) -> Sequence[str]:
    size = f"core={chance.choice((4, 9, 12, 15))},walltime=0:2:0"
    operation = chance.choice(("shift", "shift", "remap"))
    return (
        "--parts",
        "any",
        "-l",
        size,
        "--overhead",
        "20%",
        "--operation",
        operation,
        f"{_MARK} {chance.choice((1, 5))}",
    )


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{what} {times}" for what, times in sorted(counted.items(), key=str) if times)


def run_round(
    seed: int,
    sizes: Mapping[str, float],
    cores: Mapping[str, int] = CORES,
    database: Callable[[], dict[str, str]] | None = None,
    logs: Path | None = None,
) -> tuple[GridCampaign, list[str], str]:
    """Run one round; return the campaign, what is wrong, and what is told of it. ``sizes`` are fields of it.

    Logs of the servers are copied to the folder ``logs``.
    """
    with ExitStack() as stack:
        account, user = stack.enter_context(ordinary_users("broker", "ann"))
        folder = stack.enter_context(passable_folder("oarpy-grid-"))
        settings: dict[str, Any] = {**_SETTINGS, **(_BAG_SETTINGS if sizes.get("bags") else {})}
        grid = stack.enter_context(local_grid(folder, cores, account, user, database=database, site=_SITE, **settings))
        for name in ("marks", "tasks"):
            (grid.home / name).touch()
            (grid.home / name).chmod(0o666)
        campaign = GridCampaign(grid, seed, databases=database is None, **sizes)  # type: ignore[arg-type]
        try:
            wrong = campaign.run()
        finally:
            if logs is not None:
                _copy_logs(grid, logs)
        return campaign, wrong, campaign.told()


def _copy_logs(grid: LocalGrid, logs: Path) -> None:
    logs.mkdir(parents=True, exist_ok=True)
    for name, there in {"broker": grid.broker, **grid.clusters}.items():
        shutil.copy(there.directory / "server.log", logs / f"{name}.log")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--mapped", type=int, default=500, help="jobs on one cluster")
    parser.add_argument("--coallocated", type=int, default=100, help="jobs of two components")
    parser.add_argument(
        "--metajobs", action="store_true", help="at least 60 programs over clusters, and 100 faults at their steps"
    )
    parser.add_argument("--bags", action="store_true", help="bags of 100 tasks, and 100 faults at their steps")
    parser.add_argument("--tasks", type=int, default=5000, help="tasks of all bags")
    parser.add_argument("--logs", type=Path, help="folder for the logs of the servers")
    options = parser.parse_args(arguments)
    sizes = {"faults": options.faults, "mapped": options.mapped, "coallocated": options.coallocated}
    if options.metajobs:
        sizes = {"faults": min(options.faults, 100), "mapped": 0, "coallocated": 0, "metajobs": 60}
    if options.bags:
        bags = max(1, options.tasks // 100)
        sizes = {"faults": min(options.faults, 100), "mapped": 0, "coallocated": 0, "bags": bags}
    campaign, wrong, told = run_round(options.seed, sizes, logs=options.logs)
    print(f"seed {options.seed}, {campaign.seconds:.0f} s: {told}")
    print(
        "\n".join(f"  WRONG: {line}" for line in wrong) or "  all ran once or were told why not; nothing was left held"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    bare_environment.enter()
    sys.exit(main())
