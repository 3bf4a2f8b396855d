"""The order of the jobs of a queue: each is described once, in :data:`QUEUE_ORDERS`. Plug-ins add their own keys.

``NAME/SECONDS`` serves windows of submission time one after the other, and NAME orders the jobs of a window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import float_info
from typing import NamedTuple

from oarpy.scheduler.order.priorities import karma, multifactor_priority
from oarpy.scheduler.order.usage_shares import NO_HISTORY, NOTHING_DUE, Priorities
from oarpy.scheduler.snapshot import WaitingJob

_WINDOW = re.compile(r"[0-9]{1,12}")

_SHORTEST = 10.0
"""Seconds that a shorter walltime counts as in a slowdown, so that jobs of no length do not go before all others."""


class Candidate(NamedTuple):
    """A job to rank; a pass creates one for every job of a queue."""

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
    """Sort by karma, the least first, then as :func:`fifo`."""
    return _karma(candidate), *fifo(candidate)


def projects(candidate: Candidate) -> tuple[float, ...]:
    """Those whose project used least over its share first, from the top of the tree down.

    Of one project, those whose user used least; then as :func:`fifo`.
    """
    usage, job = candidate.priorities.usage, candidate.job
    ratios = usage.ratios.get(job.project, (NOTHING_DUE,))
    return *ratios, usage.used_by_user.get(job.user, 0), *fifo(candidate)


def multifactor(candidate: Candidate) -> tuple[float, ...]:
    """The highest weighted sum of factors first, then as :func:`fifo`."""
    return -_priority(candidate), *fifo(candidate)


def slowdown(candidate: Candidate) -> tuple[float, ...]:
    """The largest expected bounded slowdown first, then as :func:`fifo`; short jobs overtake others as they wait."""
    return -_expected_slowdown(candidate), *fifo(candidate)


def _top_ratio(candidate: Candidate) -> float:
    return candidate.priorities.usage.ratios.get(candidate.job.project, (NOTHING_DUE,))[0]


def _karma(candidate: Candidate) -> float:
    return karma(candidate.job, candidate.priorities)


def _priority(candidate: Candidate) -> float:
    return multifactor_priority(candidate.job, candidate.size, candidate.now, candidate.priorities)


def _expected_slowdown(candidate: Candidate) -> float:
    """Return the bounded slowdown of the job if it started now and used its whole walltime."""
    waited = max(candidate.now - candidate.job.submitted, 0)
    return (waited + candidate.walltime) / max(candidate.walltime, _SHORTEST)


@dataclass(frozen=True, slots=True)
class QueueOrder:
    """One built-in order: ``key`` sorts jobs, the smallest goes first.

    ``rule`` is a text for users about the order. It may contain ``{size}``, ``{walltime}`` and ``{value}`` of a job,
    and ``{nearest}``, the same of the job right before. ``value`` computes the number shown for a job; None if size and
    walltime say all. If ``of_the_job_alone``, two jobs never change places, whatever happens to others or however late
    it gets. An order ``of_the_past`` depends on past usage.
    """

    key: Order
    rule: str = ""
    value: Callable[[Candidate], float] | None = None
    of_the_job_alone: bool = True
    of_the_past: bool = False


QUEUE_ORDERS: Mapping[str, QueueOrder] = {
    "fifo": QueueOrder(fifo, "Jobs go by date of submission."),
    "smallest": QueueOrder(smallest, "Jobs with the fewest resources go first; this one asks for {size}."),
    "largest": QueueOrder(largest, "Jobs with the most resources go first; this one asks for {size}."),
    "shortest": QueueOrder(shortest, "Jobs with the shortest walltime go first; this one asks for {walltime}."),
    "longest": QueueOrder(longest, "Jobs with the longest walltime go first; this one asks for {walltime}."),
    "widest": QueueOrder(
        widest,
        "Jobs with the most resources, and among equals the longest walltime, go first; "
        "this one asks for {size} for {walltime}.",
    ),
    "fairshare": QueueOrder(fairshare, value=_karma, of_the_job_alone=False, of_the_past=True),
    "projects": QueueOrder(
        projects,
        "Jobs go by what projects used over what is their share, from the top of the tree down; "
        "at the top this one has {value:.4f}{nearest}.",
        value=_top_ratio,
        of_the_job_alone=False,
        of_the_past=True,
    ),
    "multifactor": QueueOrder(multifactor, value=_priority, of_the_job_alone=False, of_the_past=True),
    "slowdown": QueueOrder(
        slowdown,
        "Jobs with the largest expected slowdown, (waited + walltime) / walltime, go first; "
        "this one has {value:.4f}{nearest}.",
        value=_expected_slowdown,
        of_the_job_alone=False,
    ),
}
"""Every order of the scheduler's own by its name."""

ORDERS: Mapping[str, Order] = {name: order.key for name, order in QUEUE_ORDERS.items()}
"""The keys of the orders, which planning needs."""

OF_THE_JOB_ALONE = frozenset(order.key for order in QUEUE_ORDERS.values() if order.of_the_job_alone)
"""Keys under which two jobs never change places."""


def numbers(key: object) -> tuple[float, ...]:
    """Return a key as numbers, or nothing: a plug-in may order by other values, or return an invalid key."""
    if not isinstance(key, tuple | list):
        return ()
    fit = all(isinstance(part, float) or (isinstance(part, int) and abs(part) <= float_info.max) for part in key)
    return tuple(key) if fit else ()


def windowed(name: str, orders: Mapping[str, Order]) -> Order:
    """Return the order that ``NAME/SECONDS`` names; raise :class:`KeyError` when it names none.

    The jobs ahead of a job are fixed when its window of submission time ends, so no job starves under any NAME.
    """
    inner, _, seconds = name.partition("/")
    if not _WINDOW.fullmatch(seconds) or int(seconds) == 0:
        raise KeyError(name)
    order, window = orders[inner], int(seconds)
    return lambda candidate: (candidate.job.submitted // window, *order(candidate))


def looks_back(name: str) -> bool:
    """Tell whether the order of that name may depend on past usage: plug-ins may, too.

    >>> looks_back("shortest/3600"), looks_back("fairshare/3600"), looks_back("of_the_site")
    (False, True, True)
    """
    inner = name.partition("/")[0]
    return inner not in QUEUE_ORDERS or QUEUE_ORDERS[inner].of_the_past
