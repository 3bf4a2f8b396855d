"""How much of a walltime change can be granted to a running job, by the Gantt of a pass.

A job may run longer for as long as its resources are free after it. Running jobs, accepted reservations and the places
of waiting jobs bound it: no job starts later because of it (best-effort jobs give way, as always). With
``delay_next_jobs`` predicted places do not count. Reservations and the starts of this pass always count. A job may
always run shorter. Job 1 asks for three units more, and gets two::

    1 1 1 + + 2 2        2 waits, and keeps its place
    . . . . . 2 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf

from msgspec import structs

from oarpy.model.errors import OarpyError
from oarpy.model.job_types import read_types
from oarpy.model.setting_values import limit_of
from oarpy.scheduler.gantt.gantt import Claim, Gantt, bits_held
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.snapshot import HoldingJob, Rules, Snapshot, WaitingJob, WalltimeRequest
from oarpy.scheduler.verdicts import Verdict

_MOST_PLANS = 8
"""The most plans made to find out how long a job may run when quotas or its dependants also limit it."""

_BOUND = frozenset({Verdict.STARTS, Verdict.RESERVED})
"""Places of waiting jobs that are promised, not only predicted."""

Replan = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class WalltimeChange:
    """The change requested for running job ``job``: ``seconds`` more (less, below 0), all or nothing if ``whole``."""

    job: int
    seconds: int
    whole: bool = False
    delay_next_jobs: bool = False


@dataclass(frozen=True, slots=True)
class WalltimeAnswers:
    """The answers to walltime requests: seconds ``granted``, and why others are ``dropped``, by job, ascending.

    ``next_change`` is when time alone changes the answers. ``faults`` are settings that could not be read.
    """

    granted: tuple[tuple[int, int], ...] = ()
    dropped: tuple[tuple[int, str], ...] = ()
    next_change: float | None = None
    faults: tuple[str, ...] = ()


def answered(snapshot: Snapshot, plan: Plan, replan: Replan) -> WalltimeAnswers:
    """Grant the requests that can be granted now.

    ``plan`` is the plan of ``snapshot``; ``replan`` makes a plan of a changed snapshot.
    """
    now, running, dropped = snapshot.now, [], []
    for request in snapshot.walltime_requests:
        if request.over:
            dropped.append((request.job, "the job has ended"))
        elif request.give_up_at is not None and request.give_up_at <= now:
            dropped.append((request.job, "it could not be granted in time"))
        elif request.running:
            running.append(request)
    instants = [request.give_up_at for request in running if request.give_up_at is not None]
    changes, faults = [], []
    for pending in running:
        try:
            seconds, due = _applicable(pending, snapshot.rules, now)
        except OarpyError as error:
            faults.append(str(error))
            continue
        if due > now:
            instants.append(due)
        elif seconds:
            changes.append(WalltimeChange(pending.job, seconds, pending.whole, pending.delay_next_jobs))
    granted = grants(snapshot, plan, changes, replan) if changes else {}
    return WalltimeAnswers(
        tuple(sorted(granted.items())), tuple(sorted(dropped)), min(instants, default=None), tuple(faults)
    )


def _applicable(request: WalltimeRequest, rules: Rules, now: float) -> tuple[int, float]:
    """Return the seconds that may be granted at one time, and from when on."""
    if request.walltime is None or request.end is None:
        return 0, now
    if request.seconds < 0:
        return request.seconds, now
    if request.end <= now:
        return 0, now  # its node is ending it
    if request.forced:
        return request.seconds, now
    first = request.walltime - request.granted
    apply_time = limit_of(rules.walltime_apply_time, request.queue, first)
    increment = limit_of(rules.walltime_increment, request.queue, first)
    seconds = min(request.seconds, increment) if increment > 0 and not request.whole else request.seconds
    return seconds, request.end - apply_time if apply_time > 0 else now


def grants(snapshot: Snapshot, plan: Plan, changes: Iterable[WalltimeChange], replan: Replan) -> dict[int, int]:
    """Return the seconds to add to the walltimes of jobs, by job, without jobs that get nothing now.

    ``plan`` is the plan of ``snapshot``; ``replan`` makes a plan of a changed snapshot.
    """
    granted: dict[int, int] = {}
    todo = sorted(changes, key=lambda change: (change.seconds > 0, change.delay_next_jobs, change.job))
    for rank, change in enumerate(todo, 1):
        job = next((holder for holder in snapshot.holding if holder.id == change.job), None)
        if job is None or job.id in plan.kill:
            continue
        seconds = (
            _less(snapshot, job, change) if change.seconds < 0 else _More(snapshot, plan, job, change).most(replan)
        )
        if seconds:
            granted[job.id] = seconds
            snapshot = _changed(snapshot, job, seconds)
            if seconds > 0 and rank < len(todo):
                plan = replan(snapshot)  # the job's own dependants and best-effort jobs may be elsewhere now
    return granted


def _less(snapshot: Snapshot, job: HoldingJob, change: WalltimeChange) -> int:
    """Return the change (seconds, 0 or below) that is possible: a walltime cannot end in the past."""
    return min(0, max(change.seconds, int(snapshot.now - job.end), 1 - int(job.walltime)))


def _changed(snapshot: Snapshot, job: HoldingJob, seconds: float) -> Snapshot:
    """Return the snapshot in which ``job`` runs ``seconds`` longer."""
    longer = structs.replace(job, walltime=job.walltime + seconds)
    return replace(snapshot, holding=tuple(longer if holder.id == job.id else holder for holder in snapshot.holding))


class _More:
    """The change of one job that asks to run longer."""

    def __init__(self, snapshot: Snapshot, plan: Plan, job: HoldingJob, change: WalltimeChange) -> None:
        self._snapshot, self._made, self._job, self._change = snapshot, plan, job, change
        self._asking = job.asking()
        self._precedence = Precedence.of(snapshot)
        self._roles = roles_of(job)
        self._bits = bits_held(snapshot.platform, job)
        known = {consumable.name for consumable in snapshot.consumables}
        self._consumes = tuple(consumption for consumption in job.amounts if consumption.name in known)
        self._dependants = self._own_dependants()
        self._gantt = self._without_the_job()

    def most(self, replan: Replan) -> int:
        """Return the most seconds that can be granted, 0 for none."""
        change = self._change
        wanted = min(change.seconds, self._until_deadline(), self._until_dependants())
        if wanted < (change.seconds if change.whole else 1):
            return 0
        seconds = _largest(int(wanted), self._fits)
        if (
            seconds
            and not change.delay_next_jobs
            and (self._snapshot.quotas or self._snapshot.projects is not None or self._dependants)
        ):
            seconds = self._verified(seconds, replan)
        return 0 if change.whole and seconds < change.seconds else seconds

    def _without_the_job(self) -> Gantt:
        """Return the Gantt of all that bounds the job."""
        others = (holder for holder in self._snapshot.holding if holder.id != self._job.id and self._bounds(holder))
        gantt = Gantt.around(self._snapshot, self._asking, others)
        waiting = {other.id: other for other in self._snapshot.asking}
        for place in self._made.placements:
            job = waiting[place.job]
            if place.start is None or place.end is None or place.alternative is None or not self._bounds(job):
                continue
            if job.id in self._dependants or (self._change.delay_next_jobs and place.verdict not in _BOUND):
                continue
            way = job.alternatives[place.alternative]
            levels = gantt.blocks.asked(way.groups, way.consumes)
            claim = Claim(place.start, place.end - place.start, place.bits, way.consumes, levels)
            gantt.enter(job, claim, everywhere=True)
        return gantt

    def _bounds(self, other: WaitingJob | HoldingJob) -> bool:
        """Tell whether ``other`` bounds the job: jobs below it give way, inner jobs take nothing from it."""
        if self._precedence.yields(other, self._job):
            return False
        return roles_of(other).inside not in self._roles.containers

    def _until_deadline(self) -> float:
        """Return the seconds from the job's end to its own deadline."""
        try:
            return read_types(self._job.types).dates().end_by - self._job.end
        except OarpyError:
            return inf

    def _until_dependants(self) -> float:
        """Return the seconds until the first start of another user's job that waits for the end of this job."""
        if self._change.delay_next_jobs:
            return inf
        places = {place.job: place.start for place in self._made.placements if place.start is not None}
        return min(
            (
                places[job.id] - (dependency.earliest.seconds if dependency.earliest else 0) - self._job.end
                for job in self._snapshot.asking
                if job.id in places and job.user != self._job.user
                for dependency in job.depends_on
                if dependency.job == self._job.id and (not dependency.earliest or dependency.earliest.edge == "end")
            ),
            default=inf,
        )

    def _own_dependants(self) -> set[int]:
        """Return the waiting jobs of the same user that wait for this one, and the jobs that wait for them."""
        own = [job for job in self._snapshot.asking if job.user == self._job.user]
        dependants = {job.id for job in own if any(dependency.job == self._job.id for dependency in job.depends_on)}
        grown = bool(dependants)
        while grown:
            more = {
                job.id
                for job in self._snapshot.asking
                if job.id not in dependants and any(dependency.job in dependants for dependency in job.depends_on)
            }
            dependants |= more
            grown = bool(more)
        return dependants

    def _fits(self, seconds: int) -> bool:
        """Tell whether the job's resources, amounts and quotas let it run ``seconds`` longer."""
        gantt, now = self._gantt, self._snapshot.now
        levels = gantt.blocks.known(self._job.levels, self._consumes)
        claim = Claim(self._job.start, self._job.walltime + seconds, self._bits, self._consumes, levels)
        end = claim.end + self._snapshot.security_time
        views = gantt.views(self._roles, self._consumes, levels)
        if not views or any(view.common(now, end) & self._bits != self._bits for view in views):
            return False
        limits = gantt.limits(self._asking, self._roles)
        amount = gantt.amount(self._asking, self._roles, claim)
        return limits is None or not amount.resources or gantt.ledger.excess(limits, now, end, amount) is None

    def _verified(self, most: int, replan: Replan) -> int:
        """Return the longest time found that delays no job except dependants of this job; quotas reach far."""
        spared = self._dependants | {job.id for job in self._snapshot.asking if not self._bounds(job)}
        before = {place.job: place.start for place in self._made.placements if place.job not in spared}

        def delays_nobody(seconds: int) -> bool:
            after = replan(_changed(self._snapshot, self._job, seconds))
            return not any(place.job in before and _later(place.start, before[place.job]) for place in after.placements)

        return _largest(most, delays_nobody, _MOST_PLANS)


def _later(start: float | None, before: float | None) -> bool:
    return before is not None and (start is None or start > before)


def _largest(most: int, holds: Callable[[int], bool], tries: int = 64) -> int:
    """Return the largest number up to ``most`` for which ``holds`` is found to hold, 0 when for none."""
    if holds(most):
        return most
    good, bad = 0, most
    for _ in range(tries - 1):
        if bad - good <= 1:
            break
        middle = (good + bad) // 2
        good, bad = (middle, bad) if holds(middle) else (good, middle)
    return good
