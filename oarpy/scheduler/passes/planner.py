"""One pass over the queues: the decision about each job when its turn comes.

::

    for turn in planner.turns():     # whose turn it is
        planner.look_at(turn)        # settled, or parked until the job that it needs was settled

The other kinds of passes are loops of their own around these two (see :mod:`oarpy.scheduler.passes`). A job goes
through these steps; any of the first three may settle or park it::

    at_once -> readiness -> search -> decide -> enter -> settle
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace

from msgspec import Struct, structs

from oarpy.model.reasons import ACCEPTED, HELD, NO_REASON, Reason, Why
from oarpy.scheduler.explain.reasons import Explainer
from oarpy.scheduler.gantt.demands import CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Claim, Gantt, Kept
from oarpy.scheduler.gantt.search import Answer, Found, Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.order.ranking import Ranking, by_priority
from oarpy.scheduler.passes.backfilling import POLICIES, PlanningPolicy, Schedule
from oarpy.scheduler.passes.growth import UntilEnd
from oarpy.scheduler.passes.turns import Stage, Turn, Turns
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.dates import lapse_of, lapse_reason
from oarpy.scheduler.rules.dependencies import Dependencies, Readiness
from oarpy.scheduler.rules.giving_way import Yielding, may_go
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Lapse, Verdict

_STARTS, _NO_ALTERNATIVE = Reason(Why.STARTS), Reason(Why.NO_ALTERNATIVE)


class Decision(Struct, frozen=True):
    """The decision about a job in this pass; with a ``lapse`` the job will never get more.

    ``offer`` is the first date that a refused reservation could have. ``victims`` are the best-effort jobs that are
    cancelled for this job.
    """

    verdict: Verdict
    reason: Reason
    found: Found | None = None
    lapse: Lapse | None = None
    offer: float | None = None
    victims: tuple[int, ...] = ()


class Inquiry(Struct):
    """A search for a job: its demand, its ready time, and the answer; a pass creates one for every job.

    ``at_once`` is the earliest instant at which it can begin: now, or when best-effort jobs have written their
    checkpoints.
    """

    demand: Demand
    ready: float
    answer: Answer
    at_once: float


class Planner:
    """State of one pass. Jobs have their turns in the order of their queues, and are settled once each."""

    def __init__(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None) -> None:
        if matchers is None or matchers.platform is not snapshot.platform:
            matchers = Matchers(snapshot.platform)
        self.now = snapshot.now
        self.options = CompiledRequests(snapshot, matchers)
        self.search = Search(snapshot.security_time)
        self._snapshot, self._matchers = snapshot, matchers
        ranking = Ranking(orders, self.options.size, snapshot.now, snapshot.priorities)
        self._turns = Turns(ranking, snapshot.ration, snapshot.asking)
        self._dependencies = Dependencies(snapshot)
        self._schedule = Schedule(Gantt(snapshot))
        self._precedence = Precedence.of(snapshot)
        # jobs that give way and run for less than the guaranteed time exist for the others until then
        self.gantt.protect(snapshot.holding, snapshot.besteffort_minimum_life)
        self.gantt.hold(job for job in snapshot.holding if not self._precedence.depth(job))
        self.explainer = self._explaining(self.gantt.copy())
        self._policy = self._new_policy()
        self._opening = _openings(snapshot.asking)
        self._yielding = Yielding(
            snapshot, self.gantt.stocks.capacities, self.gantt.blocks, may_go(snapshot, snapshot.holding)
        )
        self._gone_at = self._yielding.gone_at()
        """The end of each job that takes its time to leave, such as to write a checkpoint, were it told now."""
        self.begun: list[Stage] = []
        """The stages that had jobs, as far as the pass has come."""
        self.decisions: dict[int, Decision] = {}
        self.kill: set[int] = set()

    @property
    def gantt(self) -> Gantt:
        """The claims so far."""
        return self._schedule.gantt

    @property
    def slots(self) -> int:
        """Number of periods of the timeline."""
        return self.gantt.slots

    @property
    def broken(self) -> dict[str, str]:
        """The queues whose order failed, with the error."""
        return self._turns.broken

    @property
    def any_parked(self) -> bool:
        """True if a job was looked at only after a later job that it needs."""
        return self._turns.any_parked

    def turns(self) -> Iterator[Turn]:
        """Yield the turns of all jobs. The caller looks at each job before it asks for the next turn."""
        for stage in self.stages():
            yield from self.turns_of(stage)
        self.set_aside_the_parked()

    def stages(self) -> Iterator[Stage]:
        """Yield the queues by decreasing priority, those of equal priority together, level by level.

        Jobs do not see the resources of jobs on lower levels, unless these are protected or promised. Best-effort jobs
        come last.
        """
        known = {queue.name for queue in self._snapshot.queues}
        waiting: dict[int, list[WaitingJob]] = {}
        for job in self._snapshot.asking:
            if job.queue in known:
                waiting.setdefault(self._precedence.depth(job), []).append(job)
            else:
                self.settle(job, Decision(Verdict.NEVER, Reason(Why.QUEUE_MISSING, job.queue)))
        for depth in sorted(waiting):
            for queues in by_priority(self._snapshot.queues):
                names = {queue.name for queue in queues}
                if jobs := [job for job in waiting[depth] if job.queue in names]:
                    stage = Stage(queues, depth, jobs)
                    self.begin(stage)
                    yield stage
                    for number, place in self._policy.revised.items():
                        self.decisions[number] = structs.replace(self.decisions[number], found=place)

    def begin(self, stage: Stage) -> None:
        """Let the jobs of ``stage`` come next."""
        above = self.begun[-1].depth if self.begun else 0
        if stage.depth > above:
            depth = self._precedence.depth
            holding = [job for job in self._snapshot.holding if above < depth(job) <= stage.depth]
            self.gantt.hold(holding)
            baseline = self.explainer.baseline.copy()
            baseline.hold(holding)
            self.explainer = self._explaining(baseline)
        self.begun.append(stage)
        self._policy = self._new_policy()

    def turns_of(self, stage: Stage) -> Iterator[Turn]:
        """Yield the turns of the stage that was begun last."""
        return self._turns.of(stage, self._policy)

    def turns_in_order(self, jobs: Iterable[WaitingJob]) -> Iterator[Turn]:
        """Yield the turns of more jobs of the stage that was begun last, which are in order."""
        return self._turns.in_order(jobs, self._policy)

    def _new_policy(self) -> PlanningPolicy:
        return POLICIES[self._snapshot.policy](self._schedule, self.search, self.now)

    def _explaining(self, baseline: Gantt) -> Explainer:
        """Return the explainer against ``baseline``: the resources held already, without the jobs of this pass."""
        return Explainer(baseline, self.search, self.options, self._snapshot)

    def forget(self, jobs: Set[int]) -> None:
        """Drop the decisions about jobs that wait no more."""
        for number in jobs:
            self.decisions.pop(number, None)
        if jobs:
            for stage in self.begun:
                stage.jobs = [job for job in stage.jobs if job.id not in jobs]

    def move_on(self, snapshot: Snapshot) -> None:
        """Go on at a later ``snapshot``, in which all placements made so far still stand."""
        self.now, self._snapshot = snapshot.now, snapshot
        # conditions of new jobs are known to the new options alone
        self.options = CompiledRequests(snapshot, self._matchers)
        self._dependencies = self._dependencies.later(snapshot)
        self.explainer = self._explaining(self.explainer.baseline)
        self.gantt.now = snapshot.now
        self._policy.move_on(snapshot.now)

    def look_at(self, turn: Turn, *, enter: bool = True) -> Inquiry | None:
        """Settle or park the job of a turn; return its inquiry, None if there was no search.

        The job holds the place found, unless ``enter`` is False.
        """
        try:
            return self._consider(turn, enter)
        except Exception as error:  # nothing about one job may stop the pass
            reason = Reason(Why.NOT_PLANNED, f"{type(error).__name__}: {' '.join(str(error).split())}")
            self.settle(turn.job, Decision(Verdict.NEVER, reason))
            return None

    def repeat(self, job: WaitingJob, decision: Decision) -> None:
        """Settle a job by the decision of another pass that went the same way so far: it holds the same claim.

        This is for conservative backfilling only: other policies remember more of a job than its claim.
        """
        self.kill.update(decision.victims)
        if decision.found is not None:
            self.gantt.enter(job, decision.found.claim)
        self.settle(job, decision)

    def foresee(self, turn: Turn) -> Inquiry | None:
        """Return the inquiry of the job of a turn, and change nothing; None if there would be no search."""
        if turn.refusal or self.at_once(turn.job) is not None:
            return None
        readiness = self.readiness(turn.job)
        return None if readiness.refusal or readiness.waits_for else self._inquire(turn, readiness)

    def _consider(self, turn: Turn, enter: bool) -> Inquiry | None:
        """Take a job through its turn: ready time, search, decision and entry of its claim.

        A job whose container is still to be placed is parked until then.
        """
        job = turn.job
        readiness = self._unless_set_aside(turn)
        if readiness is None:
            return None
        inquiry = self._inquire(turn, readiness)
        inside = inquiry.demand.roles.inside
        if inquiry.answer.found is None and inside is not None and self._opening.get(inside, 0):
            self._turns.park(inside, turn)
            return inquiry
        # the reason why a job waits is searched before it holds anything, as it is not in its own way
        decision = self.decide(inquiry)
        if enter:
            self._enter(turn, inquiry)
        self.settle(job, decision)
        return inquiry

    def _unless_set_aside(self, turn: Turn) -> Readiness | None:
        """Return the ready time of the job; settle or park a job that is not to be placed now."""
        decision = Decision(*turn.refusal) if turn.refusal else self.at_once(turn.job)
        if decision is not None:
            self.settle(turn.job, decision)
            return None
        readiness = self.readiness(turn.job)
        if readiness.refusal is not None:
            self.settle(turn.job, Decision(Verdict.DEPENDENCY, readiness.refusal, lapse=readiness.lapse))
            return None
        if readiness.waits_for:
            self._turns.park(min(readiness.waits_for), turn)
            return None
        return readiness

    def at_once(self, job: WaitingJob) -> Decision | None:
        """Decide about a job that need not be placed."""
        if job.fault:
            return Decision(Verdict.NEVER, Reason(Why.FAULT, job.fault))
        if not job.alternatives:
            return Decision(Verdict.NEVER, _NO_ALTERNATIVE)
        lapse = lapse_of(job, self.now)
        if lapse is not None:
            return Decision(Verdict.DATE, lapse_reason(job, lapse), lapse=lapse)
        if job.held:
            return Decision(Verdict.HELD, _why_held(job))
        return None

    def readiness(self, job: WaitingJob) -> Readiness:
        """Return when the job may start, its own dates included."""
        readiness = self._dependencies.readiness(job)
        if job.dates.not_before <= readiness.ready:
            return readiness
        return replace(readiness, ready=job.dates.not_before)

    def _inquire(self, turn: Turn, readiness: Readiness) -> Inquiry:
        """Search for the place of a job by its policy, or at its date if it is a reservation."""
        job, ready = turn.job, readiness.ready
        if job.reservation is not None:
            demand = self.reservation(job, job.reservation)
            return Inquiry(demand, ready, self._find_reserved(demand, job.reservation, ready), self.now)
        roles = roles_of(job)
        demand = Demand(
            job,
            roles,
            self.options.alive(job),
            self.gantt.limits(job, roles),
            min(job.dates.start_by, readiness.latest),
            job.dates.end_by,
        )
        return Inquiry(demand, ready, *self.place(self._policy_of(turn), demand, ready))

    def _policy_of(self, turn: Turn) -> PlanningPolicy:
        """Return the policy that places a job; extensions of running jobs have their own."""
        return turn.policy if turn.job.part is None else UntilEnd(self._schedule, self.search)

    def place(self, policy: PlanningPolicy, demand: Demand, ready: float) -> tuple[Answer, float]:
        """Find the place of a job by its policy; also return when it can begin at once.

        That is when the best-effort jobs in its way have written their checkpoints.
        """
        answer, at_once = policy.find(demand, ready), self.now
        if self._may_spare(demand, answer) or (policy.blocked_by_head and self._asks_for_room(demand)):
            answer = self._beside(demand, policy.beside) or answer
        while self._gone_at and (place := answer.found) and place.claim.start == at_once:
            gone = max((self._gone_at.get(job, at_once) for job in self._victims(demand, place)), default=at_once)
            if gone <= at_once:
                break
            answer, at_once = policy.put_off(demand, place, gone), gone
        return answer, at_once

    def _may_spare(self, demand: Demand, answer: Answer) -> bool:
        """Tell whether a job that would begin now may get another place so that best-effort jobs keep their resources.

        A request that takes the first serving blocks would get the same again if no best-effort job is in its way.
        """
        place = answer.found
        if place is None or place.claim.start != self.now or not self._asks_for_room(demand):
            return False
        matcher = place.option.matcher
        return len(matcher.groups) > 1 or not matcher.fixed or bool(self._victims(demand, place))

    def _asks_for_room(self, demand: Demand) -> bool:
        """Tell whether jobs may have to go for a job."""
        return self._yielding.anybody_for(demand.job)

    def _beside(self, demand: Demand, look: Callable[[Demand, Kept], Answer | None]) -> Answer | None:
        """Return the answer that ``look`` finds beside as many of the jobs that may have to go as it can."""
        choices = self._yielding.kept_from(demand.job, self._snapshot.security_time)
        return next((answer for kept in choices if (answer := look(demand, kept)) is not None), None)

    def reservation(self, job: WaitingJob, date: float) -> Demand:
        """Return the demand of a reservation: its first alternative alone.

        A future reservation may use resources that are Absent or Suspected now.
        """
        roles = roles_of(job)
        options = self.options.reservable(job) if date > self.now else self.options.alive(job)
        return Demand(job, roles, options[:1], self.gantt.limits(job, roles))

    def _find_reserved(self, demand: Demand, date: float, ready: float) -> Answer:
        """Find a place at the date of a reservation, or now if that is past."""
        start = max(date, self.now)
        if ready > start or date + demand.options[0].walltime <= self.now:
            return Answer(None, None)
        answer = self.search.at(self.gantt, demand, start)
        if not self._may_spare(demand, answer):
            return answer

        def look(demand: Demand, kept: Kept) -> Answer | None:
            beside = self.search.at(self.gantt.beside(kept), demand, start)
            return beside if beside.found else None

        return self._beside(demand, look) or answer

    def _enter(self, turn: Turn, inquiry: Inquiry) -> None:
        """Let the job hold the place found for it."""
        if turn.job.reservation is None:
            self._policy_of(turn).enter(inquiry.demand, inquiry.ready, inquiry.answer)
        elif inquiry.answer.found:
            self._schedule.enter(inquiry.demand, inquiry.answer.found)

    def decide(self, inquiry: Inquiry) -> Decision:
        """Decide about a job that holds nothing yet: it starts now, or there is a reason why it does not."""
        demand, place = inquiry.demand, inquiry.answer.found
        if place and place.claim.start == inquiry.at_once:
            victims = self._victims(demand, place)
            if victims and demand.job.reservation is not None:
                return self._await(place, victims)
            if victims or place.claim.start == self.now:
                return self._start(place, victims)
        if inquiry.at_once > self.now:
            until = place.claim.start if place else None
            last = {job for job, gone in self._gone_at.items() if gone == inquiry.at_once}
            reason = Reason(Why.CHECKPOINTS, self._snapshot.subject_of(last), until=until, at=inquiry.at_once)
            return Decision(Verdict.RESOURCES_BUSY, reason, place)
        if demand.job.reservation is None:
            if not self._snapshot.explained:
                return Decision(Verdict.RESOURCES_BUSY, NO_REASON, place)
            verdict, reason = self.explainer.waiting(demand, inquiry.ready, inquiry.answer, self.gantt)
            return Decision(verdict, reason, place)
        if place:
            return Decision(Verdict.RESERVED, ACCEPTED, place)
        verdict, reason, offer = self.explainer.refused(demand, inquiry.ready, inquiry.answer, self.gantt)
        return Decision(verdict, reason, offer=offer)

    def _victims(self, demand: Demand, place: Found) -> set[int]:
        """Return the jobs that must go before the job begins."""
        victims = set(self._yielding.on(place.claim.bits, demand.job, place.claim.levels))
        if place.claim.consumes and self._yielding.anybody_for(demand.job):
            victims.update(self._yielding.for_amounts(demand.job, self._excess(place.claim), victims | self.kill))
        return victims

    def _start(self, place: Found, victims: set[int]) -> Decision:
        """Start the job, unless best-effort jobs must go first."""
        if not victims:
            return Decision(Verdict.STARTS, _STARTS, place)
        self.kill |= victims
        order = tuple(sorted(victims))
        kind = Why.MAKING_ROOM if order[-1] > 0 else Why.TAKING_BACK
        until = place.claim.start if place.claim.start > self.now else None
        subject = self._snapshot.subject_of(victims)
        reason = Reason(kind, subject, jobs=tuple(self._snapshot.whose(order)), until=until)
        return Decision(Verdict.RESOURCES_BUSY, reason, place, victims=order)

    def _await(self, place: Found, victims: set[int]) -> Decision:
        """Accept a reservation whose date has come; it begins when best-effort jobs are gone.

        It is refused if their checkpoints take longer than reservations wait, as it would begin on fewer resources.
        """
        gone = max(self._gone_at.get(job, self.now) for job in victims)
        if gone > self.now + self._snapshot.rules.reservation_wait:
            subject = self._snapshot.subject_of(victims)
            reason = Reason(Why.REFUSED, because=Reason(Why.CHECKPOINTS_LAST, subject, until=gone))
            return Decision(Verdict.RESERVATION, reason, offer=gone)
        return structs.replace(self._start(place, victims), verdict=Verdict.RESERVED)

    def _excess(self, claim: Claim) -> dict[tuple[str, str], int]:
        """Return the amount beyond the capacity of each block of ``claim`` now, with the amounts of ``claim``."""
        stocks = self.gantt.stocks
        excess = stocks.excess(self.now, claim.bits, claim.consumes)
        for part, amount in stocks.parts(claim.bits, claim.consumes).items():
            excess[part] += amount
        return excess

    def settle(self, job: WaitingJob, decision: Decision) -> None:
        """Note the decision about a job, and give the jobs parked for it their turn."""
        self.decisions[job.id] = decision
        claim = decision.found.claim if decision.found else None
        self._dependencies.settle(job.id, (claim.start, claim.end) if claim else None)
        self._turns.wake(job.id)
        for name in roles_of(job).containers if job.types else ():
            self._opening[name] -= 1
            self._turns.wake(name)

    def set_aside_the_parked(self) -> None:
        """Settle the jobs that are still parked: they wait for themselves, directly or through others."""
        for needed, job in self._turns.parked():
            reason = Reason(Why.CIRCLE, needed) if isinstance(needed, str) else Reason(Why.CIRCLE, jobs=(needed,))
            self.decisions[job.id] = Decision(Verdict.DEPENDENCY, reason)


def _why_held(job: WaitingJob) -> Reason:
    """Return why a job is not planned at all."""
    if job.stopped:
        return Reason(Why.QUEUE_STOPPED, job.queue)
    return Reason(Why.NO_LAUNCHER) if job.unasked else HELD


def _openings(jobs: Iterable[WaitingJob]) -> dict[str, int]:
    """Count, for each container name, the waiting jobs that open a piece of it."""
    openings: dict[str, int] = {}
    for job in jobs:
        for name in roles_of(job).containers if job.types else ():
            openings[name] = openings.get(name, 0) + 1
    return openings
