"""Reservations that may move, in passes of a busy cluster: ``oarpy bench windows [--quick] [--traces FOLDER]``.

1,024 cores on nodes of 16, a quarter of them busy; 200 accepted reservations with windows over four days, and 1,000
batch jobs. New reservations come one at a time, with a window and without: what the step of the pass takes that decides
about them, by whether they are admitted or refused after all attempts, and what the pass takes without it. Passes for
one more batch job are measured right before one that refuses, and right after it (medians). All come from a fixed seed.

``oarpy grid simulate`` runs 15 days of the log SDSC-SP2 in ``--traces`` with the system ``windows``, the busiest ones.
Seconds are processor time, which is wall-clock time on a quiet machine.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median

from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.scheduler.windows.window_pass import within_windows
from research.benchmarks.results import save
from research.benchmarks.virtual_time import TRACES, SimulatedRun, simulated
from research.reservations.flexible import LOG, WINDOWS, scenario
from research.reservations.flexible_figures import point

NODES, CORES = 64, 16
HOUR = 3600
_NEW = 9_999
_FIRST_OF_BATCH = 10_000
_MOST_TRIED = 2_000
_REFUSALS = 7


@dataclass(slots=True)
class Cluster:
    """A cluster on which reservations are accepted."""

    snapshot: Snapshot
    matchers: Matchers
    windows: dict[int, ReservationWindow] = field(default_factory=dict)

    def accept(self, number: int, rng: random.Random) -> None:
        """Reserve something with a window; nothing happens if it cannot be had."""
        job, window = new_reservation(number, rng, flexible=True)
        windows = {**self.windows, number: window}
        decided = decide(self._with((job,), windows), None, matchers=self.matchers)
        placement = decided.plan.by_job()[number]
        if number not in {accepted_job.job for accepted_job in decided.accepted} or placement.start is None:
            return
        kept, walltime = decided.kept.snapshot, job.alternatives[0].walltime
        reservation = Reservation(job, placement.start, walltime, tuple(placement.resources))
        holding = promised(reservation, 0)
        assert holding is not None
        self.windows = windows
        self.snapshot = replace(
            kept, waiting=(), holding=(*kept.holding, holding), reservations=(*kept.reservations, reservation)
        )

    def pass_with(self, waiting: tuple[WaitingJob, ...], window: ReservationWindow | None) -> Snapshot:
        """Return what a pass sees when these jobs wait, and a new reservation has a window, or none."""
        return self._with(waiting, self.windows if window is None else {**self.windows, _NEW: window})

    def _with(self, waiting: tuple[WaitingJob, ...], windows: dict[int, ReservationWindow]) -> Snapshot:
        return replace(self.snapshot, waiting=waiting, windows=Windows(windows, notice=0))


def cluster() -> Cluster:
    """Return the cluster with what runs."""
    rows = [
        Resource(number + 1, properties={"network_address": f"n{number // CORES:03}", "core": number})
        for number in range(NODES * CORES)
    ]
    platform = Platform.build(rows, hierarchy=["network_address", "core"])
    rng = random.Random(1)
    running = tuple(
        HoldingJob(100_000 + node, "eve", -100, 100 + rng.randint(1, 8) * HOUR, tuple(ids_of_node(node)))
        for node in range(NODES // 4)
    )
    return Cluster(Snapshot(0, platform, holding=running), Matchers(platform))


def ids_of_node(node: int) -> range:
    """Return the resources of a node."""
    return range(node * CORES + 1, (node + 1) * CORES + 1)


def new_reservation(number: int, rng: random.Random, *, flexible: bool) -> tuple[WaitingJob, ReservationWindow]:
    """Return a new reservation and its window; one that is not ``flexible`` has just its date."""
    walltime, date = rng.randint(1, 6) * HOUR, rng.randint(1, 100) * HOUR + 600
    ways = (Alternative(parse_request(f"/network_address={rng.choice([1, 2, 4, 8, 16, 32])}").groups, walltime),)
    room = rng.randint(0, 48) * HOUR
    job = WaitingJob(number, "ann", alternatives=ways, reservation=date, submitted=number - 1_000_000)
    return job, ReservationWindow(date + walltime + (room if flexible else 0), date)


def seconds(action: Callable[[], object]) -> float:
    """Return the processor time that an action takes."""
    began = time.process_time()
    action()
    return time.process_time() - began


def measure(busy: Cluster, batch: tuple[WaitingJob, ...], questions: int) -> dict[str, list[float]]:
    """Return what the step of a pass takes for new reservations, by what they are and what becomes of them."""
    seconds_by_kind: dict[str, list[float]] = {}
    for flexible in (False, True):
        for question in range(questions):
            job, window = new_reservation(_NEW, random.Random(question), flexible=flexible)
            snapshot = busy.pass_with((*batch, job), window if flexible else None)
            began = time.process_time()
            _, answers = within_windows(snapshot, busy.matchers)
            took = time.process_time() - began
            kind = f"{'with a window' if flexible else 'strict'}, {'admitted' if answers.dated else 'refused'}"
            seconds_by_kind.setdefault(kind, []).append(took)
    return seconds_by_kind


def refused_question(busy: Cluster) -> int:
    """Return the number of the first new reservation that is refused."""
    for question in itertools.count():
        job, window = new_reservation(_NEW, random.Random(question), flexible=True)
        if not within_windows(busy.pass_with((job,), window), busy.matchers)[1].dated:
            return question
    raise AssertionError


def around_refusals(busy: Cluster, batch: tuple[WaitingJob, ...]) -> tuple[float, float]:
    """Return what passes for one more batch job take before a new reservation is refused, and after that (medians)."""
    memory, known = Memory(time.process_time), batch[: -2 * _REFUSALS]
    new, window = new_reservation(_NEW, random.Random(refused_question(busy)), flexible=True)
    before, after = [], []

    def passed(waiting: tuple[WaitingJob, ...], of: ReservationWindow | None = None) -> float:
        return seconds(lambda: decide(busy.pass_with(waiting, of), memory, matchers=busy.matchers))

    passed(known)
    for count in range(len(known) + 1, len(batch), 2):
        before.append(passed(batch[:count]))
        passed((*batch[:count], new), window)
        after.append(passed(batch[: count + 1]))
    return median(before), median(after)


def batch_jobs(count: int, rng: random.Random) -> tuple[WaitingJob, ...]:
    """Return jobs of some nodes each."""

    def way() -> Alternative:
        return Alternative(
            parse_request(f"/network_address={rng.choice([1, 2, 4, 8])}").groups, rng.randint(1, 10) * HOUR
        )

    return tuple(
        WaitingJob(_FIRST_OF_BATCH + number, "bob", alternatives=(way(),), submitted=number) for number in range(count)
    )


def days_of_a_log(traces: Path) -> SimulatedRun | None:
    """Simulate the 15 days of the log that have most jobs, with windows, where it is there."""
    log = next(iter(sorted(traces.rglob(f"{LOG}.swf*"))), None)
    if log is None:
        sys.stdout.write(f"no {LOG} below {traces}: --traces FOLDER\n")
        return None
    runs = [{**point(1.5, order="edf", interval=50), "window": window, "seed": 1} for window in WINDOWS]
    return simulated(max((scenario(run, log) for run in runs), key=lambda document: len(document["jobs"])))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="40 reservations, 100 batch jobs, 10 questions")
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the SWF files")
    chosen = parser.parse_args(arguments)
    reservations, jobs, questions = (40, 100, 10) if chosen.quick else (200, 1_000, 60)
    busy, rng = cluster(), random.Random(2)
    for number in range(1, _MOST_TRIED):
        if len(busy.windows) == reservations:
            break
        busy.accept(number, rng)
    batch = batch_jobs(jobs, rng)
    calm = replace(busy.pass_with(batch, None), windows=None)
    without = seconds(lambda: decide(calm, None, matchers=busy.matchers))
    report: dict[str, object] = {}

    def note(what: str, took: float, of: float = without, more: str = "") -> None:
        report[what] = took
        sys.stdout.write(f"{what:48} {took:8.3f} s {took / of:8.2f} x{more}\n")

    sys.stdout.write(f"{len(busy.windows)} movable reservations, {jobs} batch jobs, {NODES * CORES} cores\n")
    note("pass without the step", without)
    again = replace(busy.pass_with(batch, None), windows=Windows(busy.windows, notice=0, replan=True))
    note("replanning all that may move", seconds(lambda: within_windows(again, busy.matchers)))
    for kind, took in measure(busy, batch, questions).items():
        late = sorted(took)[int(len(took) * 0.95)]
        note(f"{kind}, p95", late, more=f"  (of {len(took)})")
    before, after = around_refusals(busy, batch)
    note("a pass of one more job, before a refusal", before)
    note("a pass of one more job, after a refusal", after, before)
    if (run := days_of_a_log(chosen.traces)) is not None:
        report["15 days of a log, simulated"] = asdict(run)
        sys.stdout.write(
            f"{run.jobs} jobs of 15 days, simulated: {run.seconds:.2f} s (aim 15), {run.mebibytes:.0f} MiB\n"
        )
    if not chosen.quick:
        save("windows", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
