"""A planned queue, and the place of one more job behind it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from oarpy.scheduler.decide import keep_promises
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.gantt.search import Found
from oarpy.scheduler.job_roles import needs_others, roles_of
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.order.ranking import BrokenOrder, Ranking, by_priority
from oarpy.scheduler.passes.planner import Decision, Planner
from oarpy.scheduler.passes.turns import Stage, Turn
from oarpy.scheduler.plan import plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, Queue, Snapshot, WaitingJob


class JobTimes(NamedTuple):
    """The start and the end of a job, on the snapshot's axis; infinity if it never runs."""

    start: float
    end: float


_NEVER = JobTimes(inf, inf)


@dataclass(frozen=True, slots=True)
class _EarliestPlace:
    """The place of a job without quotas, amounts and other jobs that it needs.

    More jobs only take resources away: while the place is free, it stays the earliest.
    """

    job: WaitingJob
    found: Found


class QueueInPlan:
    """The plan of all jobs of a snapshot and of the ``joined`` jobs, under a policy that foresees every start.

    ``before`` is a plan of the same snapshot with other jobs left out, or with other jobs joined.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        joined: Sequence[WaitingJob],
        orders: Mapping[str, Order],
        matchers: Matchers,
        before: QueueInPlan | None = None,
    ) -> None:
        self._orders, self._matchers = orders, matchers
        self._joined = list(joined)
        self._snapshot = replace(keep_promises(snapshot).snapshot, waiting=(*snapshot.waiting, *joined))
        self._planner = Planner(self._snapshot, orders, matchers)
        self._plain = not any(map(needs_others, self._snapshot.asking))
        self._looked_at: list[WaitingJob] = []
        """The planned jobs in the order of their turns."""
        self._look_at_all(before)
        self._lasting = snapshot.policy == "conservative" and not any(
            map(Precedence.of(snapshot).depth, snapshot.holding)
        )
        self._places: dict[int, _EarliestPlace] = {}

    def _look_at_all(self, before: QueueInPlan | None) -> None:
        """Plan every job. While the turns are those of an older plan, jobs keep the places of that plan."""
        same = before._decided() if before is not None and self._plain else []
        for place, turn in enumerate(self._planner.turns()):
            if place < len(same) and turn.job is same[place][0]:
                self._planner.repeat(turn.job, same[place][1])
            else:
                same = []
                self._planner.look_at(turn)
            self._looked_at.append(turn.job)

    def _decided(self) -> list[tuple[WaitingJob, Decision]]:
        """Return the jobs in the order of their turns, with their decisions, if no decision depends on jobs behind."""
        if self._snapshot.policy != "conservative" or not self._plain:
            return []
        return [(job, self._planner.decisions[job.id]) for job in self._looked_at]

    def follow(self, joined: Sequence[WaitingJob]) -> bool:
        """Let the missing jobs of ``joined`` join; return False if others have joined or they do not come last."""
        known = len(self._joined)
        if list(joined[:known]) != self._joined:
            return False
        return all(self.join(job) for job in joined[known:])

    def join(self, job: WaitingJob) -> bool:
        """Let a job join behind all others; return False if it does not come last."""
        if not self._come_last([job]):
            return False
        if not self._planner.begun:
            self._planner.begin(self._stage_of(job))
        self._planner.look_at(self._turn(job))
        decided = self._planner.decisions.get(job.id)
        if decided is not None and decided.found is not None:
            self._take(decided.found.claim)
        self._planner.begun[-1].jobs.append(job)
        self._looked_at.append(job)
        self._plain = self._plain and not needs_others(job)
        self._joined.append(job)
        self._snapshot = replace(self._snapshot, waiting=(*self._snapshot.waiting, job))
        return True

    def move_on(self, snapshot: Snapshot, started: Sequence[HoldingJob] = ()) -> None:
        """Go on at a later ``snapshot``, in which ``started`` jobs hold as planned; other places stand."""
        gone = {job.id for job in started}
        self._snapshot = snapshot
        self._joined = [job for job in self._joined if job.id not in gone]
        self._planner.forget(gone)
        self._planner.move_on(snapshot)
        self._planner.explainer.baseline.now = snapshot.now
        self._planner.explainer.baseline.hold(started)
        self._places = {
            job: earliest for job, earliest in self._places.items() if earliest.found.claim.start >= snapshot.now
        }

    def claim(self, number: int) -> Claim | None:
        """Return the future claim of a job of the queue, None if it has no place."""
        place = self._planner.decisions[number].found
        return None if place is None else place.claim

    def times(self, numbers: Iterable[int]) -> dict[int, JobTimes]:
        """Return when jobs of the queue run."""
        decisions = self._planner.decisions
        return {number: _times(decisions[number].found) for number in numbers}

    def times_behind(self, jobs: Sequence[WaitingJob]) -> dict[int, JobTimes]:
        """Return when jobs would run if each of them joined alone."""
        if self._come_last(jobs):
            return {job.id: _times(self._found(job)) for job in jobs}
        return {
            job.id: _times(self._found(job)) if self._come_last([job]) else self._times_among_all(job) for job in jobs
        }

    def _found(self, job: WaitingJob) -> Found | None:
        """Return the place of a job behind all others."""
        known = self._places.get(job.id)
        if known is not None and known.job is job:
            return known.found
        inquiry = self._planner.foresee(self._turn(job))
        if inquiry is None or inquiry.answer.found is None:
            return None
        place = inquiry.answer.found
        alone = (
            inquiry.demand.limits is None
            and not place.claim.consumes
            and not place.claim.levels
            and not needs_others(job)
        )
        if self._lasting and alone:
            self._places[job.id] = _EarliestPlace(job, place)
        return place

    def _take(self, claim: Claim) -> None:
        """Forget the places that are not free any more."""
        begin, end = claim.start, claim.end + self._snapshot.security_time
        self._places = {
            number: earliest
            for number, earliest in self._places.items()
            if not (
                earliest.found.claim.bits & claim.bits
                and earliest.found.claim.start < end
                and begin < earliest.found.claim.end + self._snapshot.security_time
            )
        }

    def _times_among_all(self, job: WaitingJob) -> JobTimes:
        """Return the start and the end of a job that is planned together with all others."""
        snapshot = replace(self._snapshot, waiting=(*self._snapshot.waiting, job))
        placed = plan(snapshot, self._orders, self._matchers).by_job()[job.id]
        return _NEVER if placed.start is None or placed.end is None else JobTimes(placed.start, placed.end)

    def _turn(self, job: WaitingJob) -> Turn:
        return next(iter(self._planner.turns_in_order([job])))

    def _come_last(self, jobs: Sequence[WaitingJob]) -> bool:
        """Tell whether each of these jobs would be the last one of the pass."""
        if not jobs:
            return True
        if self._planner.broken or not all(map(self._is_ordinary, jobs)):
            return False
        names = {queue.name for queue in self._stage_of(jobs[0]).queues}
        if any(job.queue not in names for job in jobs):
            return False
        before = self._planner.begun[-1] if self._planner.begun else None
        if before is None:
            return True
        if before.depth or jobs[0].queue not in {queue.name for queue in before.queues}:
            return False
        return self._stand_behind(before, jobs)

    def _is_ordinary(self, job: WaitingJob) -> bool:
        """Tell whether a job does not affect the jobs before it, and is placed by the policy."""
        roles = roles_of(job)
        plain = job.reservation is None and job.part is None and not self._depth(job) and not roles.containers
        return plain and self._planner.gantt.knows(roles.profile)

    def _depth(self, job: WaitingJob) -> int:
        return Precedence.of(self._snapshot).depth(job)

    def _stage_of(self, job: WaitingJob) -> Stage:
        """Return the queues that are planned together with that of a job."""
        groups: list[tuple[Queue, ...]] = by_priority(self._snapshot.queues)
        queues = next((group for group in groups if any(queue.name == job.queue for queue in group)), ())
        return Stage(queues, depth=0)

    def _stand_behind(self, stage: Stage, jobs: Sequence[WaitingJob]) -> bool:
        """Tell whether the order of a stage puts all its jobs before each of these."""
        ranking = Ranking(self._orders, self._planner.options.size, self._snapshot.now, self._snapshot.priorities)
        try:
            return ranking.behind(stage.jobs, jobs, stage.queues[0]) is not None
        except BrokenOrder:
            return False


def _times(place: Found | None) -> JobTimes:
    return _NEVER if place is None else JobTimes(place.claim.start, place.claim.end)
