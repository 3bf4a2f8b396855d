"""The questions of a run to a cluster: its queue planned from nothing, and the processors that are held on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

import numpy as np

from oarpy.grid.core.broker_state import Seconds, without


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as one cluster sees it: a number, processors, and the walltime on this cluster (seconds)."""

    number: int
    procs: int
    walltime: float


class HeldProcessors(NamedTuple):
    """How many processors are held up to a predicted end, and which, where they have names."""

    procs: int
    end: float
    bits: int | None = None


class JobsOutside:
    """Jobs that wait in no queue, in an order, as one cluster sees them.

    None stands for a job that is too large for it. There, a job too large asks for one processor more than there are.
    ``sizes`` has the numbers of processors that occur, the least first, and ``size`` has for each job the place of its
    number among them.
    """

    def __init__(self, jobs: Sequence[QueuedJob | None], procs: int) -> None:
        self.jobs = list(jobs)
        wanted_procs = [procs + 1 if job is None else job.procs for job in jobs]
        self.sizes = sorted(set(wanted_procs))
        places = {size: place for place, size in enumerate(self.sizes)}
        self.size = np.array([places[size] for size in wanted_procs])
        self.walltimes: Seconds = np.array([0.0 if job is None else job.walltime for job in jobs])

    def remove(self, place: int) -> None:
        """Take one out."""
        del self.jobs[place]
        self.size, self.walltimes = without(self.size, place), without(self.walltimes, place)


class ClusterQueue(Protocol):
    """A cluster in virtual time. Jobs are named by numbers; ``now`` never goes back.

    Before ``due`` no job can start, unless something happens to the queue.
    """

    due: float

    @property
    def idle(self) -> int:
        """The number of processors that no running job holds and nobody claims."""

    def holders(self) -> Set[int]:
        """Return the jobs that hold processors."""

    def held(self, number: int) -> HeldProcessors:
        """Return the processors that a job holds."""

    def planned_bits(self, number: int) -> int | None:
        """Return the processors that are planned for a job of the queue; None where they have no names yet."""

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold idle processors for a job that joined no queue, up to its predicted ``end``."""

    def free(self, number: int, now: float) -> None:
        """Free the processors of a job."""

    def plan(self, now: float) -> Sequence[int]:
        """Plan the queue; return the jobs that start now, in the order of the queue. They run from then on."""

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when each of these jobs, in the queue or not, would end if each took its walltime (its ECT)."""

    def completions_outside(self, jobs: JobsOutside, now: float) -> Sequence[float] | Seconds:
        """Return the ECTs of jobs outside the queue; infinite for jobs that are too large."""


def completions_or_never(
    ask: Callable[[Sequence[QueuedJob], float], list[float]], jobs: Sequence[QueuedJob | None], now: float
) -> list[float]:
    """Return the ECTs of jobs; infinite for jobs that are too large (None), which ``ask`` does not get."""
    ends = iter(ask([job for job in jobs if job is not None], now))
    return [inf if job is None else next(ends) for job in jobs]
