"""A pass that stops at one job, so that other requests of that job can be tried where it stands.

Whatever is looked at before a job decides where it goes, whatever comes after has no part in it. The timeline at that
point is kept, and a trial on it answers what ``plan`` would, had the job asked for something else at the same rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from oarpy.scheduler.demands import Option
from oarpy.scheduler.dependencies import Readiness
from oarpy.scheduler.gantt import Claim
from oarpy.scheduler.lines import Line
from oarpy.scheduler.matching import Matchers, RequestMatcher
from oarpy.scheduler.orders import ORDERS, Order
from oarpy.scheduler.planner import Decision, Planner, Turn
from oarpy.scheduler.quotas import Limit
from oarpy.scheduler.roles import roles_of
from oarpy.scheduler.search import Found
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict


class Stale(Exception):
    """What was foreseen cannot be any more."""


class _Reached(BaseException):
    """The job is settled. Not an Exception: the planner goes on after those, setting the job aside."""


DRIFT = 2
"""Seconds by which what is foreseen may have moved since it was written down."""

_FORESEEN = Option(0, 0, RequestMatcher([], "foreseen, not searched for"))


@dataclass(frozen=True, slots=True)
class Occasion:
    """A moment at which the job was looked at: the queue as it was, and when the job may start at the earliest."""

    line: Line
    ready: float
    latest: float


class Probe(Planner):
    """Looks at the jobs up to ``job``, which is settled but not entered; a held one as if it had been resumed.

    ``foreseen`` are the places that a pass which just ended gave to jobs: under conservative backfilling they stand as
    long as nothing happens, so they are entered without being searched for. Raises :class:`Stale` when one of them is
    past or not free; which of them a later pass would merely better is not looked at. What jobs consume is not
    foreseen: when one asks for a consumable, all are searched for.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        job: WaitingJob,
        orders: Mapping[str, Order] = ORDERS,
        matchers: Matchers | None = None,
        foreseen: Mapping[int, Claim] | None = None,
    ) -> None:
        if matchers is None or matchers.platform is not snapshot.platform:
            matchers = Matchers(snapshot.platform)
        if job.held:
            job = replace(job, held=False)
            snapshot = replace(snapshot, waiting=tuple(job if one.id == job.id else one for one in snapshot.waiting))
        super().__init__(snapshot, orders, matchers)
        self.job = job
        self.snapshot = snapshot
        self.lined_up: tuple[WaitingJob, ...] = ()
        """The jobs of the merged queues in their order; empty for a reservation."""
        self._occasions: list[Occasion] = []
        usable = snapshot.policy == "conservative" and not _any_consumes(snapshot)
        self._foreseen = foreseen if foreseen and usable else {}
        self._stale = False
        with suppress(_Reached):
            self.run()
        if self._stale:
            raise Stale

    @property
    def decision(self) -> Decision:
        """What the pass decided about the job."""
        return self.decisions[self.job.id]

    @property
    def limit(self) -> Limit | None:
        """The quota that keeps the job waiting, if it is one that does."""
        return self._explainer.bound.get(self.job.id)

    def trial(self, job: WaitingJob) -> Found | None:
        """Return where ``job``, which differs from the probed one in its request alone, would go."""
        for occasion in self._occasions:
            demand = self._demand(job, occasion.latest)
            if found := occasion.line.find(demand, occasion.ready).found:
                return found
        return None

    def next_date(self, job: WaitingJob, date: float) -> float | None:
        """Return the first date, ``date`` or later, at which the reservation ``job`` could be had."""
        ready = max(date, self._now, self._readiness(job).ready)
        found = self._search.earliest(self._board.gantt, self._reservation(job, ready), ready).found
        return found.claim.start if found else None

    def claims(self) -> dict[int, Claim]:
        """Return what the waiting jobs looked at before will hold."""
        return {number: one.found.claim for number, one in self.decisions.items() if one.found is not None}

    def servable(self, job: WaitingJob, *, alive_only: bool = False) -> bool:
        """Tell whether an empty platform serves ``job``, with what is Alive, or also with what may be back."""
        options = self._options.alive(job) if alive_only else self._options.reservable(job)
        return any(option.matcher.match(option.matcher.usable) for option in options)

    def admitted(self, condition: str) -> int | None:
        """Count the resources that are not Dead and meet ``condition``, None when it could not be evaluated."""
        platform = self.snapshot.platform
        bits = self.snapshot.filters.get(condition) if condition else platform.default_type
        return None if bits is None else (bits & platform.not_dead).bit_count()

    def _ordered(self, jobs: list[WaitingJob], queues: list[Queue]) -> list[WaitingJob]:
        ordered = super()._ordered(jobs, queues)
        if any(job.id == self.job.id for job in ordered):
            self.lined_up = tuple(ordered)
        return ordered

    def _consider(self, turn: Turn) -> None:
        if turn.job.id != self.job.id and turn.job.id in self._foreseen:
            return self._enter(turn, self._foreseen[turn.job.id])
        if turn.job.id != self.job.id or turn.job.reservation is not None:
            return super()._consider(turn)
        readiness = self._readiness(turn.job)
        if readiness.refusal or readiness.waits_for or self._at_once(turn.job):
            return super()._consider(turn)
        return self._stand(turn, readiness)

    def _enter(self, turn: Turn, claim: Claim) -> None:
        """Give a job the place that is foreseen for it."""
        job = turn.job
        if job.reservation is not None or self._at_once(job):
            return super()._consider(turn)
        readiness = self._readiness(job)
        if readiness.refusal or readiness.waits_for:
            return super()._consider(turn)
        views = self._board.gantt.views(roles_of(job), claim.consumes)
        if not views:
            return super()._consider(turn)
        for delay in range(DRIFT + 1):
            moved = replace(claim, start=claim.start + delay) if delay else claim
            end = moved.end + self.snapshot.security_time
            if readiness.ready <= moved.start <= readiness.latest and all(
                moved.bits & ~view.common(moved.start, end) == 0 for view in views
            ):
                self._board.gantt.enter(job, moved)
                return self._settle(job, Decision(Verdict.BEHIND_HIGHER_PRIORITY, "", Found(_FORESEEN, moved)))
        self._stale = True
        raise _Reached

    def _stand(self, turn: Turn, readiness: Readiness) -> None:
        """Settle the job without entering it, or park it as a full pass would, remembering this occasion."""
        demand = self._demand(turn.job, readiness.latest)
        answer = turn.line.find(demand, readiness.ready)
        inside = demand.roles.inside
        if answer.found is None and inside is not None and self._opening.get(inside, 0):
            self._occasions.append(Occasion(turn.line.twin(), readiness.ready, readiness.latest))
            return self._park(inside, turn)
        self._occasions.append(Occasion(turn.line, readiness.ready, readiness.latest))
        return self._settle(turn.job, self._decide(demand, readiness.ready, answer))

    def _excess(self, job: WaitingJob, claim: Claim) -> dict[tuple[str, str], int]:
        excess = super()._excess(job, claim)
        if job.id == self.job.id and job.reservation is None:  # it is not entered
            for part, amount in self._board.gantt.stocks.parts(claim.bits, claim.consumes).items():
                excess[part] += amount
        return excess

    def _settle(self, job: WaitingJob, decision: Decision) -> None:
        if job.id == self.job.id:
            self.decisions[job.id] = decision
            raise _Reached
        super()._settle(job, decision)


def _any_consumes(snapshot: Snapshot) -> bool:
    return bool(snapshot.consumables) and any(way.consumes for job in snapshot.waiting for way in job.alternatives)
