"""The order of the jobs of a queue. A policy is a sort key; plug-ins add their own to the mapping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oarpy.scheduler.priorities import karma, multifactor_priority
from oarpy.scheduler.shares import NO_HISTORY, Priorities
from oarpy.scheduler.snapshot import WaitingJob


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job to rank."""

    job: WaitingJob
    now: float
    measure: Callable[[WaitingJob], int]
    priorities: Priorities = NO_HISTORY

    @property
    def size(self) -> int:
        """Number of resources that the job's first alternative takes on an empty platform."""
        return self.measure(self.job)


Order = Callable[[Candidate], tuple[float, ...]]


def fifo(candidate: Candidate) -> tuple[float, ...]:
    """By date of submission, then id."""
    return candidate.job.submitted, candidate.job.id


def smallest(candidate: Candidate) -> tuple[float, ...]:
    """Fewest resources first, then as :func:`fifo`."""
    return candidate.size, *fifo(candidate)


def largest(candidate: Candidate) -> tuple[float, ...]:
    """Most resources first, then as :func:`fifo`."""
    return -candidate.size, *fifo(candidate)


def fairshare(candidate: Candidate) -> tuple[float, ...]:
    """Those whose user and project had least beyond their targets first, then as :func:`fifo`."""
    return karma(candidate.job, candidate.priorities), *fifo(candidate)


def multifactor(candidate: Candidate) -> tuple[float, ...]:
    """The highest weighted sum of factors first, then as :func:`fifo`."""
    priority = multifactor_priority(candidate.job, candidate.size, candidate.now, candidate.priorities)
    return -priority, *fifo(candidate)


ORDERS: Mapping[str, Order] = {
    "fifo": fifo,
    "smallest": smallest,
    "largest": largest,
    "fairshare": fairshare,
    "multifactor": multifactor,
}
