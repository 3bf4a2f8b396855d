"""The order of the jobs of a queue. An order is a sort key; plug-ins add their own to the mapping.

``NAME/SECONDS`` serves windows of submission time one after the other, and NAME orders the jobs of a window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from oarpy.scheduler.order.priorities import karma, multifactor_priority
from oarpy.scheduler.order.usage_shares import NO_HISTORY, Priorities
from oarpy.scheduler.snapshot import WaitingJob

_WINDOW = re.compile(r"[0-9]{1,12}")


class Candidate(NamedTuple):
    """A job to rank; one is made for every job of a queue in every pass."""

    job: WaitingJob
    now: float
    measure: Callable[[WaitingJob], int]
    priorities: Priorities = NO_HISTORY

    @property
    def size(self) -> int:
        """Number of resources that the job's first alternative takes on an empty platform."""
        return self.measure(self.job)

    @property
    def walltime(self) -> float:
        """Seconds that the job's first alternative asks for."""
        return self.job.alternatives[0].walltime


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


def shortest(candidate: Candidate) -> tuple[float, ...]:
    """The shortest walltime (first alternative) first, then as :func:`fifo`."""
    return candidate.walltime, *fifo(candidate)


def longest(candidate: Candidate) -> tuple[float, ...]:
    """The longest walltime (first alternative) first, then as :func:`fifo`."""
    return -candidate.walltime, *fifo(candidate)


def widest(candidate: Candidate) -> tuple[float, ...]:
    """Most resources first, among equals the longest walltime, then as :func:`fifo`."""
    return -candidate.size, -candidate.walltime, *fifo(candidate)


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
    "shortest": shortest,
    "longest": longest,
    "widest": widest,
    "fairshare": fairshare,
    "multifactor": multifactor,
}


def windowed(name: str, orders: Mapping[str, Order]) -> Order:
    """Return the order that ``NAME/SECONDS`` names; raise :class:`KeyError` when it names none.

    Who is ahead of a job is settled when its window of submission time ends, so nobody starves under any NAME.
    """
    inner, _, seconds = name.partition("/")
    if not _WINDOW.fullmatch(seconds) or int(seconds) == 0:
        raise KeyError(name)
    order, window = orders[inner], int(seconds)
    return lambda candidate: (candidate.job.submitted // window, *order(candidate))


_OF_THE_PAST = frozenset({"fairshare", "multifactor"})


def looks_back(name: str) -> bool:
    """Tell whether the order of that name may look at what was used before: plug-ins may, too.

    >>> looks_back("shortest/3600"), looks_back("fairshare/3600"), looks_back("of_the_site")
    (False, True, True)
    """
    inner = name.partition("/")[0]
    return inner in _OF_THE_PAST or inner not in ORDERS


OF_THE_JOB_ALONE = frozenset({fifo, smallest, largest, shortest, longest, widest})
"""Orders in which two jobs never change places, whatever happens to others or how late it gets."""
