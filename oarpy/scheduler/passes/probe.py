"""A pass that stops at one job, so that other requests of that job can be tried at its turn.

The jobs before a job decide its place, and the jobs after it do not matter. The probe keeps the timeline at that point.
A trial on it gives the answer of ``plan`` if the job had asked for something else at the same rank::

    turns     1   2   3   4   5   6
              entered     |   never looked at
                          trials: 4 with fewer cores, 4 with less time, ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from msgspec import structs

from oarpy.model.reasons import NO_REASON
from oarpy.scheduler.gantt.demands import CompiledAlternative
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.gantt.search import Found
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.order.quotas import Limit
from oarpy.scheduler.passes.backfilling import PlanningPolicy
from oarpy.scheduler.passes.planner import Decision, Inquiry, Planner
from oarpy.scheduler.passes.turns import Turn
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict


class Stale(Exception):
    """A foreseen place is past or not free any more."""


DRIFT = 2
"""Seconds by which a foreseen start may have moved since it was written down."""

_FORESEEN = CompiledAlternative(0, 0, RequestMatcher([], "foreseen, not searched for"))


@dataclass(frozen=True, slots=True)
class _Moment:
    """The queue at the turn of the job, and the inquiry for it."""

    policy: PlanningPolicy
    inquiry: Inquiry


class Probe:
    """Looks at the jobs up to ``job``, which is settled but not entered; a held job counts as resumed.

    ``foreseen`` are the places that a pass which just ended gave to jobs. Under conservative backfilling they stand as
    long as nothing happens, so they are entered without a search. Raises :class:`Stale` if one of them is past or not
    free. A later pass might find a better place for some of them; this is not checked. Amounts of consumables are not
    foreseen: if a job asks for a consumable, all jobs are searched for.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        job: WaitingJob,
        orders: Mapping[str, Order] = ORDERS,
        matchers: Matchers | None = None,
        foreseen: Mapping[int, Claim] | None = None,
    ) -> None:
        if job.held:
            job = structs.replace(job, held=False)
            snapshot = replace(
                snapshot, waiting=tuple(job if other.id == job.id else other for other in snapshot.waiting)
            )
        self.job = job
        self.snapshot = snapshot
        self._planner = Planner(snapshot, orders, matchers)
        self._moments: list[_Moment] = []
        usable = snapshot.policy == "conservative" and not _any_consumes(snapshot)
        self._foreseen = foreseen if foreseen and usable else {}
        for turn in self._planner.turns():
            self._take(turn)
            if job.id in self._planner.decisions:
                break

    @property
    def decision(self) -> Decision:
        """The decision of the pass about the job."""
        return self._planner.decisions[self.job.id]

    @property
    def lined_up(self) -> tuple[WaitingJob, ...]:
        """The jobs of the merged queues in their order; empty for a reservation."""
        for stage in self._planner.begun:
            if any(job.id == self.job.id for job in stage.jobs):
                return tuple(stage.jobs)
        return ()

    @property
    def limit(self) -> Limit | None:
        """The quota that keeps the job waiting, None if no quota does."""
        return self._planner.explainer.bound.get(self.job.id)

    def trial(self, job: WaitingJob) -> Found | None:
        """Return the place of ``job``, which differs from the probed job only in its request."""
        for moment in self._moments:
            demand = structs.replace(moment.inquiry.demand, job=job, options=self._planner.options.alive(job))
            if place := self._planner.place(moment.policy, demand, moment.inquiry.ready)[0].found:
                return place
        return None

    def next_date(self, job: WaitingJob, date: float) -> float | None:
        """Return the first date, ``date`` or later, at which the reservation ``job`` could be had."""
        planner = self._planner
        ready = max(date, planner.now, planner.readiness(job).ready)
        place = planner.search.earliest(planner.gantt, planner.reservation(job, ready), ready).found
        return place.claim.start if place else None

    def claims(self) -> dict[int, Claim]:
        """Return the future claims of the waiting jobs looked at before."""
        decisions = self._planner.decisions
        return {number: decision.found.claim for number, decision in decisions.items() if decision.found is not None}

    def servable(self, job: WaitingJob, *, alive_only: bool = False) -> bool:
        """Tell whether an empty platform serves ``job``, with Alive resources or with those that may come back."""
        options = self._planner.options
        ways = options.alive(job) if alive_only else options.existing(job)
        return any(way.matcher.match(way.matcher.usable) for way in ways)

    def admitted(self, condition: str) -> int | None:
        """Count the resources that are not Dead and meet ``condition`` when they are back.

        None when it could not be evaluated.
        """
        platform, returning = self.snapshot.platform, self.snapshot.returning.get(condition, 0)
        bits = self.snapshot.filters.get(condition) if condition else platform.default_type
        return None if bits is None else ((bits | returning) & platform.not_dead).bit_count()

    def _take(self, turn: Turn) -> None:
        """Settle or park the job of a turn."""
        if turn.job.id == self.job.id:
            return self._stand(turn)
        claim = self._foreseen.get(turn.job.id)
        try:
            if claim is not None and self._assign(turn, claim):
                return None
        except Exception as error:  # a pass without the foreseen places then says what is wrong with the job
            raise Stale from error
        self._planner.look_at(turn)
        return None

    def _stand(self, turn: Turn) -> None:
        """Settle the job without entering it, or park it, and remember the policy and the inquiry."""
        inquiry = self._planner.look_at(turn, enter=False)
        if inquiry is not None and turn.job.reservation is None:
            settled = turn.job.id in self._planner.decisions
            self._moments.append(_Moment(turn.policy if settled else turn.policy.twin(), inquiry))

    def _assign(self, turn: Turn, claim: Claim) -> bool:
        """Give a job its foreseen place; return False if it must be looked at for that."""
        planner, job = self._planner, turn.job
        if turn.refusal or job.reservation is not None or planner.at_once(job):
            return False
        readiness, views = planner.readiness(job), planner.gantt.views(roles_of(job), claim.consumes, claim.levels)
        if readiness.refusal or readiness.waits_for or not views:
            return False
        for delay in range(DRIFT + 1):
            moved = structs.replace(claim, start=claim.start + delay) if delay else claim
            end = moved.end + self.snapshot.security_time
            if readiness.ready <= moved.start <= readiness.latest and all(
                moved.bits & ~view.common(moved.start, end) == 0 for view in views
            ):
                planner.gantt.enter(job, moved)
                planner.settle(job, Decision(Verdict.BEHIND_HIGHER_PRIORITY, NO_REASON, Found(_FORESEEN, moved)))
                return True
        raise Stale


def _any_consumes(snapshot: Snapshot) -> bool:
    """Tell whether a waiting job asks for a consumable."""
    return bool(snapshot.consumables) and any(way.consumes for job in snapshot.asking for way in job.alternatives)
