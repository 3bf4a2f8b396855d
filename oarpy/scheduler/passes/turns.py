"""The turns of jobs: the jobs of queues planned together, one after the other.

A job that needs another job with a later turn, an anterior or its container, is parked. It has its turn again right
after that job was settled::

    order of the queue                 1  2  3  4  5
    turns, when 2 depends on 4         1 (2) 3  4  2  5
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from oarpy.model.reasons import Reason, Why
from oarpy.scheduler.explain.reasons import Explanation
from oarpy.scheduler.order.ranking import Ranking
from oarpy.scheduler.passes.backfilling import PlanningPolicy
from oarpy.scheduler.snapshot import PassShare, Queue, WaitingJob
from oarpy.scheduler.verdicts import Verdict


@dataclass(slots=True)
class Stage:
    """Queues planned together: their jobs on the level ``depth``.

    ``waiting`` are the jobs in their original order. ``jobs`` are those that are no reservations, sorted once their
    order is known.
    """

    queues: tuple[Queue, ...]
    depth: int
    waiting: Sequence[WaitingJob] = ()
    jobs: list[WaitingJob] = field(default_factory=list)


class Turn(NamedTuple):
    """A job to look at, with its planning policy; among due turns, the lowest rank goes first.

    ``refusal`` says why the job is not placed at all. ``again`` is true if it was parked before. A pass creates one for
    every job.
    """

    rank: int
    job: WaitingJob
    policy: PlanningPolicy
    refusal: Explanation | None = None
    again: bool = False


_Refusable = tuple[WaitingJob, Explanation | None]
"""A job, and the reason not to place it at all, if any."""


class PassLimits:
    """The jobs that a pass looks at.

    These are the jobs whose turn it is, then the best-ranked jobs of each user, a fair share of the rest. A user with
    fewer jobs than a fair share leaves the rest of it to the others.
    """

    def __init__(self, ration: PassShare, waiting: Iterable[WaitingJob]) -> None:
        self._ration = ration
        self._turn = frozenset(ration.turn)
        self._looked_at: Counter[str] = Counter()
        self._by_rank: Counter[str] = Counter()
        self._share, self._spare = inf, 0
        if ration != PassShare():
            jobs = [job for job in waiting if job.reservation is None and not job.held]
            self._looked_at.update(job.user for job in jobs if job.id in self._turn)
            if ration.jobs:
                self._share, self._spare = self._shared(Counter(job.user for job in jobs))

    def _shared(self, waiting: Mapping[str, int]) -> tuple[float, int]:
        """Return the fair share of each user besides the jobs whose turn it is, and the number of jobs left over."""
        most_of_a_user = self._ration.jobs_per_user or inf
        wanted = sorted(min(jobs, most_of_a_user) - self._looked_at[user] for user, jobs in waiting.items())
        left = max(0, self._ration.jobs - self._looked_at.total())
        for place, jobs in enumerate(wanted):
            share, spare = divmod(left, len(wanted) - place)
            if jobs > share:
                return share, spare
            left -= int(jobs)
        return inf, 0

    def refusal(self, job: WaitingJob) -> Explanation | None:
        """Count ``job``, or return why this pass does not look at it."""
        if job.id in self._turn:
            return None
        most, most_of_a_user = self._ration.jobs, self._ration.jobs_per_user
        if 0 < most_of_a_user <= self._looked_at[job.user]:
            return Verdict.BEHIND_HIGHER_PRIORITY, Reason(Why.LIMIT_OF_USER, count=most_of_a_user)
        if self._by_rank[job.user] >= self._share:
            if not self._spare:
                return Verdict.BEHIND_HIGHER_PRIORITY, Reason(Why.LIMIT_OF_PASS, count=most)
            self._spare -= 1
        self._looked_at[job.user] += 1
        self._by_rank[job.user] += 1
        return None


class Turns:
    """The turns of one pass. Whoever takes them settles or parks each job before asking for the next turn."""

    def __init__(self, ranking: Ranking, ration: PassShare, waiting: Iterable[WaitingJob]) -> None:
        self._ranking = ranking
        self._limits = PassLimits(ration, waiting)
        self._count = 0
        self._parked: dict[int | str, list[Turn]] = {}
        self._due: list[Turn] = []
        self.broken: dict[str, str] = {}
        """The queues whose order failed, with the error."""
        self.any_parked = False
        """True if a job was looked at only after a later job that it needs."""

    def of(self, stage: Stage, policy: PlanningPolicy) -> Iterator[Turn]:
        """Yield the turns of a stage: new reservations first, then the rest in the order of the first queue."""
        reservations = [job for job in stage.waiting if job.reservation is not None]
        reservations.sort(key=lambda job: (job.submitted, job.id))
        yield from self._each(((job, None) for job in reservations), policy)
        others = [job for job in stage.waiting if job.reservation is None]
        ranked = self._ranking.of_queues(others, stage.queues)
        stage.jobs = ranked.jobs
        self.broken.update(ranked.broken)
        yield from self._each(_set_aside(others, ranked.broken), policy)
        yield from self.in_order(stage.jobs, policy)

    def in_order(self, jobs: Iterable[WaitingJob], policy: PlanningPolicy) -> Iterator[Turn]:
        """Yield the turns of jobs that are in order already; jobs beyond the limits of the pass are refused."""
        return self._each(((job, None if job.held else self._limits.refusal(job)) for job in jobs), policy)

    def _each(self, jobs: Iterable[_Refusable], policy: PlanningPolicy) -> Iterator[Turn]:
        """Yield the turn of each job, and right after it the turns of the jobs that waited for it."""
        for job, refusal in jobs:
            self._count += 1
            yield Turn(self._count, job, policy, refusal)
            while self._due:
                yield heappop(self._due)

    def park(self, needed: int | str, turn: Turn) -> None:
        """Let a job have its turn again once ``needed``, a job or a container, was settled."""
        self.any_parked = True
        self._parked.setdefault(needed, []).append(turn._replace(again=True))

    def wake(self, needed: int | str) -> None:
        """Make the turns due that were parked for ``needed``."""
        for turn in self._parked.pop(needed, ()):
            heappush(self._due, turn)

    def parked(self) -> Iterator[tuple[int | str, WaitingJob]]:
        """Yield the parked jobs, each after the id or container that it needs."""
        for needed, turns in self._parked.items():
            for turn in turns:
                yield needed, turn.job


def _set_aside(jobs: Sequence[WaitingJob], broken: Mapping[str, str]) -> Iterator[_Refusable]:
    """Yield the jobs of queues whose order failed, by queue, each with the error."""
    for queue, failure in broken.items():
        yield from ((job, (Verdict.NEVER, Reason(Why.QUEUE_ORDER, failure))) for job in jobs if job.queue == queue)
