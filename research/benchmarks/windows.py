"""Reservations that may move, in passes of a busy cluster: ``oarpy bench windows [--quick]``.

1,024 cores on nodes of 16, a quarter of them busy; 200 accepted reservations with windows over four days, and 1,000
batch jobs. New reservations come one at a time, with a window and without: what the step of the pass takes that decides
about them, by whether they are admitted or refused after all attempts, and what the pass takes without it. All come
from a fixed seed. Seconds are processor time, which is wall-clock time on a quiet machine.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.scheduler.windows.window_pass import within_windows
from research.benchmarks.results import save

NODES, CORES = 64, 16
HOUR = 3600
_NEW = 9_999
_FIRST_OF_BATCH = 10_000
_MOST_TRIED = 2_000


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="40 reservations, 100 batch jobs, 10 questions")
    chosen = parser.parse_args(arguments)
    reservations, jobs, questions = (40, 100, 10) if chosen.quick else (200, 1_000, 60)
    busy, rng = cluster(), random.Random(2)
    for number in range(1, _MOST_TRIED):
        if len(busy.windows) == reservations:
            break
        busy.accept(number, rng)
    batch = tuple(
        WaitingJob(
            _FIRST_OF_BATCH + number,
            "bob",
            alternatives=(
                Alternative(
                    parse_request(f"/network_address={rng.choice([1, 2, 4, 8])}").groups, rng.randint(1, 10) * HOUR
                ),
            ),
            submitted=number,
        )
        for number in range(jobs)
    )
    calm = replace(busy.pass_with(batch, None), windows=None)
    without = seconds(lambda: decide(calm, None, matchers=busy.matchers))
    again = replace(busy.pass_with(batch, None), windows=Windows(busy.windows, notice=0, replan=True))
    replanning = seconds(lambda: within_windows(again, busy.matchers))
    measured = measure(busy, batch, questions)
    sys.stdout.write(f"{len(busy.windows)} movable reservations, {jobs} batch jobs, {NODES * CORES} cores\n")
    sys.stdout.write(f"{'pass without the step':32} {without:8.3f} s\n")
    sys.stdout.write(f"{'replanning all that may move':32} {replanning:8.3f} s {replanning / without:8.2f} x\n")
    report: dict[str, object] = {"pass_seconds": without, "replanning_seconds": replanning}
    for kind, took in measured.items():
        late = sorted(took)[int(len(took) * 0.95)]
        sys.stdout.write(f"{kind:32} {late:8.3f} s {late / without:8.2f} x  (p95 of {len(took)})\n")
        report[kind] = {"p95": late, "questions": len(took)}
    save("windows", report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
