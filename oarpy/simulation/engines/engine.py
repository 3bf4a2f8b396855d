"""The virtual clock: replays a workload event by event through one scheduler.

Within one instant completions come first, in the order in which the jobs were started. Arrivals follow, by submission
order. There is one scheduling pass after every single event, and nothing else happens between events. So a run depends
on the workload and the scheduler alone, and two runs give the same starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

from oarpy.simulation.traces.trace import TraceJob


class VirtualScheduler(Protocol):
    """What decides in a replay. Jobs are named by their index in the replayed sequence."""

    def arrive(self, job: int, now: float) -> None:
        """Job ``job`` joins the queue at ``now``."""

    def complete(self, job: int, now: float) -> None:
        """Job ``job`` ends at ``now`` (at its estimate or before) and gives its processors back."""

    def schedule(self, now: float) -> Sequence[int]:
        """Return the jobs that start at ``now``; from then on they run."""


Watcher = Callable[[int], None]


def ignore_progress(_done: int) -> None:
    """Watch nothing."""


def replay(jobs: Sequence[TraceJob], scheduler: VirtualScheduler, watch: Watcher = ignore_progress) -> list[float]:
    """Return the start time of each job of ``jobs`` (sorted by submission) under ``scheduler``.

    ``watch`` is called with the number of jobs that have ended so far, after each completion.
    """
    starts: list[float | None] = [None] * len(jobs)
    running: list[tuple[float, int, int]] = []
    launched = ended = arrived = 0
    while running or arrived < len(jobs):
        if running and (arrived == len(jobs) or running[0][0] <= jobs[arrived].submit):
            now, _, job = heapq.heappop(running)
            ended += 1
            scheduler.complete(job, now)
            watch(ended)
        else:
            now = jobs[arrived].submit
            scheduler.arrive(arrived, now)
            arrived += 1
        for job in scheduler.schedule(now):
            starts[job] = now
            launched += 1
            heapq.heappush(running, (now + jobs[job].run, launched, job))
    return _all_started(starts, jobs)


def _all_started(starts: Sequence[float | None], jobs: Sequence[TraceJob]) -> list[float]:
    """Return the starts. Raises RuntimeError when the scheduler left a job out: that is a fault in it."""
    done = [start for start in starts if start is not None]
    if len(done) < len(jobs):
        stuck = jobs[starts.index(None)]
        raise RuntimeError(f"the scheduler never started job {stuck.number} ({stuck.procs} processors)")
    return done
