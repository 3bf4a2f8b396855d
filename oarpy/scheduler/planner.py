"""One pass over the queues: who is looked at when, and what becomes of each job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

from oarpy.scheduler.dates import lapse_of, lapse_text
from oarpy.scheduler.demands import Demand, Options
from oarpy.scheduler.dependencies import Dependencies, Readiness
from oarpy.scheduler.explain import Explainer
from oarpy.scheduler.gantt import Claim, Gantt
from oarpy.scheduler.lines import LINES, Board, Line
from oarpy.scheduler.matching import Matchers
from oarpy.scheduler.orders import Order
from oarpy.scheduler.ranking import BrokenPolicy, Ranking, by_priority
from oarpy.scheduler.rations import Rations
from oarpy.scheduler.roles import roles_of
from oarpy.scheduler.rules.giving_way import Yielding, may_go
from oarpy.scheduler.search import Answer, Found, Search
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Lapse, Verdict


@dataclass(frozen=True, slots=True)
class Decision:
    """What a job got in this pass; ``lapse`` says that it will never get more.

    ``offer`` is the first date at which a refused reservation could be had, ``victims`` are the best-effort jobs that
    are cancelled for this one.
    """

    verdict: Verdict
    reason: str
    found: Found | None = None
    lapse: Lapse | None = None
    offer: float | None = None
    victims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Turn:
    """A job to look at; of those that can be looked at, the one whose turn came first goes first."""

    rank: int
    job: WaitingJob = field(compare=False)
    line: Line = field(compare=False)


class Planner:
    """State of one pass. Jobs are looked at in the order of their queues and settled once each.

    A job whose turn comes before that of a job it needs (an anterior, or the container it lies in) is parked and looked
    at again right after that one was settled.
    """

    def __init__(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> None:
        self._snapshot = snapshot
        self._now = snapshot.now
        self._options = Options(snapshot, matchers)
        self._search = Search(snapshot.security_time)
        self._ranking = Ranking(orders, self._options.size, snapshot.now, snapshot.priorities)
        self._dependencies = Dependencies(snapshot)
        self._rations = Rations(snapshot.ration)
        self._board = Board(Gantt(snapshot))
        self._explainer = self._explaining(self._board.gantt)
        self._turns = 0
        self._parked: dict[int | str, list[Turn]] = {}
        self._awake: list[Turn] = []
        self._opening = _openings(snapshot.waiting)
        self._yielding = Yielding(
            snapshot.platform,
            self._board.gantt.stocks.capacities,
            [job for job in snapshot.holding if may_go(job, snapshot.now, snapshot.besteffort_minimum_life)],
        )
        self.decisions: dict[int, Decision] = {}
        self.kill: set[int] = set()
        self.broken: dict[str, str] = {}
        """Queues whose policy failed, and how."""

    @property
    def slots(self) -> int:
        """Number of periods of the final timeline."""
        return self._board.gantt.slots

    def run(self) -> None:
        """Look at every job: first all but best-effort, to which best-effort jobs exist only while they are young."""
        known = {queue.name for queue in self._snapshot.queues}
        waiting: dict[bool, list[WaitingJob]] = {False: [], True: []}
        for job in self._snapshot.waiting:
            if job.queue in known:
                waiting[job.besteffort].append(job)
            else:
                self._settle(job, Decision(Verdict.NEVER, f"queue '{job.queue}' does not exist"))
        for besteffort in (False, True):
            self._board.lifted = None
            if not besteffort:
                # those that run for less than the guaranteed time exist for the others until then
                self._board.gantt.protect(self._snapshot.holding, self._snapshot.besteffort_minimum_life)
            self._board.gantt.hold(job for job in self._snapshot.holding if job.besteffort == besteffort)
            self._explainer = (
                self._besteffort_explaining() if besteffort else self._explaining(self._board.gantt.copy())
            )
            for queues in by_priority(self._snapshot.queues):
                names = {queue.name for queue in queues}
                jobs = [job for job in waiting[besteffort] if job.queue in names]
                if jobs:
                    self._run_queues(queues, jobs)
        self._set_aside_the_parked()

    def _besteffort_explaining(self) -> Explainer:
        """Return what explains best-effort jobs, from what explains the others, who are ahead of them."""
        baseline = self._explainer.baseline.copy()
        baseline.hold(job for job in self._snapshot.holding if job.besteffort)
        return self._explaining(baseline)

    def _explaining(self, baseline: Gantt) -> Explainer:
        return Explainer(baseline, self._search, self._options, self._snapshot)

    def _run_queues(self, queues: Sequence[Queue], jobs: Sequence[WaitingJob]) -> None:
        """Plan queues of equal priority: new reservations first, then the rest by the policy of the first queue."""
        line = self._line()
        reservations = [job for job in jobs if job.reservation is not None]
        for job in sorted(reservations, key=lambda job: (job.submitted, job.id)):
            self._look_at(job, line)
        for job in self._ordered([job for job in jobs if job.reservation is None], list(queues)):
            if self._is_over():
                break
            self._look_at_rationed(job, line)
        for number, found in line.revised.items():
            self.decisions[number] = replace(self.decisions[number], found=found)

    def _is_over(self) -> bool:
        """Tell whether nobody else is to be looked at."""
        return False

    def _ordered(self, jobs: list[WaitingJob], queues: list[Queue]) -> list[WaitingJob]:
        """Order merged queues; one whose policy fails has its jobs set aside, the others go on."""
        while queues:
            try:
                return self._ranking.ordered(jobs, queues[0])
            except BrokenPolicy as broken:
                self.broken[broken.queue.name] = str(broken)
                for job in jobs:
                    if job.queue == broken.queue.name:
                        self._settle(job, Decision(Verdict.NEVER, str(broken)))
                jobs = [job for job in jobs if job.queue != broken.queue.name]
                queues = queues[1:]
        return []

    def _line(self) -> Line:
        """Return a new line for the jobs of some queues."""
        return LINES[self._snapshot.policy](self._board, self._search, self._now)

    def _look_at_rationed(self, job: WaitingJob, line: Line) -> None:
        """Look at ``job`` unless this pass has looked at enough jobs."""
        if not job.held and (refusal := self._rations.refusal(job)):
            self._settle(job, Decision(Verdict.BEHIND_HIGHER_PRIORITY, refusal))
        else:
            self._look_at(job, line)

    def _look_at(self, job: WaitingJob, line: Line) -> None:
        """Settle or park ``job``, and then those that had waited for it."""
        self._turns += 1
        heappush(self._awake, Turn(self._turns, job, line))
        while self._awake:
            turn = heappop(self._awake)
            try:
                self._consider(turn)
            except Exception as error:  # nothing about one job may stop the pass
                reason = f"it could not be planned: {type(error).__name__}: {' '.join(str(error).split())}"
                self._settle(turn.job, Decision(Verdict.NEVER, reason))

    def _consider(self, turn: Turn) -> None:
        job = turn.job
        if decision := self._at_once(job):
            return self._settle(job, decision)
        readiness = self._readiness(job)
        if readiness.refusal:
            return self._settle(job, Decision(Verdict.DEPENDENCY, readiness.refusal, lapse=readiness.lapse))
        if readiness.waits_for:
            return self._park(min(readiness.waits_for), turn)
        if job.reservation is None:
            demand = self._demand(job, readiness.latest)
            answer = turn.line.find(demand, readiness.ready)
        else:
            demand = self._reservation(job, job.reservation)
            answer = self._reserve(demand, readiness.ready)
        inside = demand.roles.inside
        if answer.found is None and inside is not None and self._opening.get(inside, 0):
            return self._park(inside, turn)
        if job.reservation is None:
            return self._settle(job, self._place(demand, readiness.ready, answer, turn.line))
        return self._settle(job, self._decide_reservation(demand, readiness.ready, answer))

    def _place(self, demand: Demand, ready: float, answer: Answer, line: Line) -> Decision:
        """Let a job hold what was found for it. Why it waits is looked for before, as it is not in its own way."""
        if answer.found and answer.found.claim.start == self._now:
            line.enter(demand, ready, answer)
            return self._decide(demand, ready, answer)
        decision = self._decide(demand, ready, answer)
        line.enter(demand, ready, answer)
        return decision

    def _at_once(self, job: WaitingJob) -> Decision | None:
        """Decide about a job that need not be placed."""
        if job.fault:
            return Decision(Verdict.NEVER, job.fault)
        lapse = lapse_of(job, self._now)
        if lapse is not None:
            return Decision(Verdict.DATE, lapse_text(job, lapse, self._snapshot.show_instant), lapse=lapse)
        if job.held:
            return Decision(Verdict.HELD, f"queue '{job.queue}' is not active" if job.stopped else "held")
        return None

    def _readiness(self, job: WaitingJob) -> Readiness:
        """Return when the job may start, its own dates included."""
        readiness = self._dependencies.readiness(job)
        if job.dates.not_before <= readiness.ready:
            return readiness
        return replace(readiness, ready=job.dates.not_before)

    def _demand(self, job: WaitingJob, latest: float) -> Demand:
        roles = roles_of(job)
        return Demand(
            job,
            roles,
            self._options.alive(job),
            self._board.gantt.limits(job, roles),
            min(job.dates.start_by, latest),
            job.dates.end_by,
        )

    def _reservation(self, job: WaitingJob, date: float) -> Demand:
        """A reservation asks for its first alternative alone; in the future, resources may be back by then."""
        roles = roles_of(job)
        options = self._options.reservable(job) if date > self._now else self._options.alive(job)
        return Demand(job, roles, options[:1], self._board.gantt.limits(job, roles))

    def _reserve(self, demand: Demand, ready: float) -> Answer:
        date = demand.job.reservation or 0
        start = max(date, self._now)
        if ready > start or date + demand.options[0].walltime <= self._now:
            return Answer(None, None)
        answer = self._search.at(self._board.gantt, demand, start)
        if answer.found:
            self._board.enter(demand, answer.found)
        return answer

    def _decide(self, demand: Demand, ready: float, answer: Answer) -> Decision:
        if answer.found and answer.found.claim.start == self._now:
            return self._start(demand, answer.found)
        verdict, reason = self._explainer.waiting(demand, ready, answer, self._board.gantt)
        return Decision(verdict, reason, answer.found)

    def _decide_reservation(self, demand: Demand, ready: float, answer: Answer) -> Decision:
        if answer.found is None:
            verdict, reason, offer = self._explainer.refused(demand, ready, answer, self._board.gantt)
            return Decision(verdict, reason, offer=offer)
        if answer.found.claim.start == self._now:
            return self._start(demand, answer.found)
        return Decision(Verdict.RESERVED, "accepted", answer.found)

    def _start(self, demand: Demand, found: Found) -> Decision:
        """Start the job, unless best-effort jobs must go first."""
        victims = set(self._yielding.on(found.claim.bits, demand.job))
        if found.claim.consumes and not demand.job.besteffort:
            excess = self._excess(demand.job, found.claim)
            victims.update(self._yielding.for_amounts(excess, victims | self.kill))
        if not victims:
            return Decision(Verdict.STARTS, "starts now", found)
        self.kill |= victims
        order = tuple(sorted(victims))
        named = ", ".join(map(str, order))
        reason = f"best-effort jobs are cancelled to make room: {named}"
        return Decision(Verdict.RESOURCES_BUSY, reason, found, victims=order)

    def _excess(self, job: WaitingJob, claim: Claim) -> dict[tuple[str, str], int]:
        """Return by how much each block of ``claim``, which was entered for ``job``, has too much taken from it now."""
        return self._board.gantt.stocks.excess(self._now, claim.bits, claim.consumes)

    def _settle(self, job: WaitingJob, decision: Decision) -> None:
        self.decisions[job.id] = decision
        claim = decision.found.claim if decision.found else None
        self._dependencies.settle(job.id, (claim.start, claim.end) if claim else None)
        self._wake(job.id)
        for name in roles_of(job).containers:
            self._opening[name] -= 1
            self._wake(name)

    def _wake(self, needed: int | str) -> None:
        for turn in self._parked.pop(needed, ()):
            heappush(self._awake, turn)

    def _park(self, needed: int | str, turn: Turn) -> None:
        self._parked.setdefault(needed, []).append(turn)

    def _set_aside_the_parked(self) -> None:
        """What is still parked waits, through others or at once, for itself."""
        for needed, turns in self._parked.items():
            what = f"container '{needed}'" if isinstance(needed, str) else f"job {needed}"
            for turn in turns:
                reason = f"it waits for {what}, which cannot come first: jobs wait for each other in a circle"
                self.decisions[turn.job.id] = Decision(Verdict.DEPENDENCY, reason)


def _openings(jobs: Iterable[WaitingJob]) -> dict[str, int]:
    """Count, for each container name, the waiting jobs that open a piece of it."""
    found: dict[str, int] = {}
    for job in jobs:
        for name in roles_of(job).containers if job.types else ():
            found[name] = found.get(name, 0) + 1
    return found
