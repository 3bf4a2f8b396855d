"""How long the tasks of a bag take on resources of each type, as jobs measured it: the expected end follows.

A task is placed as if it took as long as on the slowest type, and holds its resources for as long as it takes there::

    fast  |1111|3333|5555|
    slow  |22222222|4444444|
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from msgspec import structs

from oarpy.scheduler.gantt.demands import Demand
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.predictors.predicted_pass import grown
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob


@dataclass(frozen=True, slots=True)
class Profile:
    """The seconds of a task on the resources of each type that has a profile; elsewhere it takes its walltime."""

    types: Sequence[tuple[int, float]]

    def seconds(self, bits: int, walltime: float) -> float:
        """Return how long a task with these resources takes: as long as on the slowest of them."""
        longest, left = 0.0, bits
        for resources, seconds in self.types:
            if resources & bits:
                longest = max(longest, min(max(ceil(seconds), 1), walltime))
                left &= ~resources
        return walltime if left else longest

    def running(self, job: HoldingJob, bits: int, now: float) -> float:
        """Return how long a running task takes in all; one that outlives its profile takes longer."""
        return grown(self.seconds(bits, job.walltime), now - job.start, job.walltime)

    def ends(self, gantt: Gantt, demand: Demand, tasks: Sequence[WaitingJob], now: float) -> Iterator[float]:
        """Yield when each of equal tasks ends; they are placed one after the other from ``now`` on."""
        (option,) = demand.options
        longest = self.seconds(option.matcher.usable, option.walltime)
        demand = structs.replace(demand, options=(replace(option, walltime=longest),))
        search, ready = Search(0), now
        for task in tasks:
            place = search.earliest(gantt, demand, ready).found
            if place is None:
                return
            claim = structs.replace(place.claim, walltime=self.seconds(place.claim.bits, option.walltime))
            gantt.enter(task, claim, everywhere=True)
            ready = max(ready, claim.start)
            yield claim.end
