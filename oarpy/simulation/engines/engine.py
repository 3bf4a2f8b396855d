"""The virtual clock: replays a workload event by event through one scheduler.

Within one instant completions come first, in the order in which the jobs were started. Arrivals follow, by submission
order. There is one scheduling pass after every single event, and nothing else happens between events. So a run depends
on the workload and the scheduler alone, and two runs give the same starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Protocol

from oarpy.simulation.event_loop import Happening, events
from oarpy.simulation.traces.trace import TraceJob


class VirtualScheduler(Protocol):
    """A scheduler in a replay. Jobs are named by their index in the replayed sequence."""

    def arrive(self, job: int, now: float) -> None:
        """Job ``job`` joins the queue at ``now``."""

    def complete(self, job: int, now: float) -> None:
        """Job ``job`` ends at ``now`` (at its estimate or before) and gives its processors back."""

    def schedule(self, now: float) -> Sequence[int]:
        """Return the jobs that start at ``now``; from then on they run."""


Watcher = Callable[[int], None]


def ignore_progress(_done: int) -> None:
    """Watch nothing."""


END, ARRIVAL = 0, 1
"""The order of events within one instant."""


class Replay:
    """A workload on its way through a scheduler."""

    def __init__(self, jobs: Sequence[TraceJob], scheduler: VirtualScheduler, watch: Watcher) -> None:
        self.agenda: list[Happening] = []
        self.starts: list[float | None] = [None] * len(jobs)
        self._jobs, self._scheduler, self._watch = jobs, scheduler, watch
        self._launched = self._ended = 0

    def over(self) -> bool:
        """Go on while a job runs."""
        return False

    def handle(self, happening: Happening) -> bool:
        """Let a job arrive, or end; then let the scheduler start jobs."""
        now, kind, what = happening
        if kind == ARRIVAL:
            self._scheduler.arrive(what, now)
        else:
            self._ended += 1
            self._scheduler.complete(what[1], now)
            self._watch(self._ended)
        for job in self._scheduler.schedule(now):
            self.launch(job, now)
        return True

    def launch(self, job: int, now: float) -> None:
        """Let a job run."""
        self.starts[job] = now
        self._launched += 1
        heappush(self.agenda, (now + self._jobs[job].run, END, (self._launched, job)))


def replay(jobs: Sequence[TraceJob], scheduler: VirtualScheduler, watch: Watcher = ignore_progress) -> list[float]:
    """Return the start time of each job of ``jobs`` (sorted by submission) under ``scheduler``.

    ``watch`` is called with the number of jobs that have ended so far, after each completion.
    """
    world = Replay(jobs, scheduler, watch)
    for _ in events(world, ((job.submit, ARRIVAL, place) for place, job in enumerate(jobs))):
        pass
    return _all_started(world.starts, jobs)


def _all_started(starts: Sequence[float | None], jobs: Sequence[TraceJob]) -> list[float]:
    """Return the starts. Raises RuntimeError when the scheduler left a job out: that is a fault in it."""
    done = [start for start in starts if start is not None]
    if len(done) < len(jobs):
        stuck = jobs[starts.index(None)]
        raise RuntimeError(f"the scheduler never started job {stuck.number} ({stuck.procs} processors)")
    return done
