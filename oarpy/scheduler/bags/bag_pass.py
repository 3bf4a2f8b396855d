"""The step of a pass for bags: promised tasks keep their places or move forward, and new bags get a promise.

A promised task is an accepted reservation. Its bag has a *promise*, the instant by which all its tasks are over.

1. When resources became free or were lost unexpectedly, the tasks of each promised bag are placed anew, beside all that
   others hold. The bag that is done first comes first, where it is done over all its clusters. The tasks of a bag are
   equal, so the k-th of them must start no later than the k-th did before. Otherwise all tasks stay in their places,
   unless one of them cannot start there. A pass that is not thorough only starts tasks now on the resources planned for
   them later, and only if no other task could start now as well.
2. New bags, in the order of submission, are placed beside all promised and planned jobs. If that misses a deadline, the
   bag is placed beside the promised jobs alone, and waiting jobs without a promise give way. If that misses it, too,
   reservations move inside their windows (:mod:`~oarpy.scheduler.bags.making_room`). A failed task that is run
   again is placed like a bag of its own, with the promise as its deadline. The promise breaks if there is no room in
   time. If there is no place at all at the moment, the task waits for one.
3. A bag that misses its deadline even so is refused if the deadline is strict. Otherwise it gets the nearest end.

Tasks are placed one after the other, each at the earliest place that is left. All tasks together, with the running
ones, hold at most a share of the resources, but a single task may be larger.

Tasks of a bag that wait for other jobs, which take its profile, are planned as any job until these are over. Promises
are made from walltimes. A profile tells when the bag is expected to be done (:mod:`~oarpy.scheduler.bags.profiles`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from math import floor, inf

from msgspec import structs

from oarpy.model.job_types import BAG
from oarpy.model.reasons import ACCEPTED, Reason, Why
from oarpy.scheduler.bags.making_room import RoomMade, RoomMakers
from oarpy.scheduler.bags.profiles import Profile
from oarpy.scheduler.gantt.demands import CompiledAlternative, CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Claim, Gantt, bits_held
from oarpy.scheduler.gantt.search import Found, Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.dependencies import Dependencies
from oarpy.scheduler.rules.reservations import is_broken, promised, with_reservations
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.scheduler.windows.window_pass import WindowMove

_LEVEL = "bags"
"""The level of the quota that limits the share of promised tasks; no rule of the site has this level."""
_AT_ONCE = frozenset({Verdict.STARTS, Verdict.RESERVED})


@dataclass(frozen=True, slots=True)
class Bag:
    """A bag that is not over; instants on the axis of the snapshot.

    ``tasks`` are its jobs that are not over, ``ended`` is the latest end of the others. Without a ``promise`` it waits
    for its answer. The promised instant includes the security time after the end, for launching and ending tasks. Jobs
    that run failed tasks of a promised bag again are ``repeated`` until they have places. ``completion`` is when a bag
    over several clusters is done over all, as its broker told. ``profile`` tells how long its tasks take.
    """

    id: int
    tasks: frozenset[int]
    deadline: float | None = None
    strict: bool = False
    promise: float | None = None
    ended: float = -inf
    repeated: frozenset[int] = frozenset()
    completion: float = -inf
    profile: Profile | None = None

    @property
    def done(self) -> float:
        """When it is done over all clusters: tasks that end before gain nothing by coming forward."""
        return max(self.latest, self.completion)

    @property
    def asking(self) -> frozenset[int]:
        """The jobs that have no place yet."""
        return self.tasks if self.promise is None else self.repeated

    @property
    def latest(self) -> float:
        """The latest allowed end of the bag's tasks, in seconds; infinite without a promise and a deadline."""
        if self.promise is not None:
            return self.promise
        return inf if self.deadline is None else self.deadline


@dataclass(frozen=True, slots=True)
class BagAnswers:
    """The decisions of a pass about bags.

    ``expected`` is the end of each promised bag as planned now. ``promises`` are the promises made in this pass, by
    bag, for which the reservations of ``room_made`` move inside their windows. ``hasty`` is true if tasks that do not
    begin now might move forward, too. Bags ``without_place`` have tasks that cannot start anywhere, or failed tasks
    without a new place. Failed tasks of ``repeating`` bags got new places. ``predicted`` is the end by the
    profiles of bags, as far as it was looked for.
    """

    moves: tuple[Reservation, ...] = ()
    room_made: tuple[WindowMove, ...] = ()
    expected: Mapping[int, float] = field(default_factory=dict)
    promises: Mapping[int, float] = field(default_factory=dict)
    accepted: tuple[Placement, ...] = ()
    refused: Mapping[int, tuple[Reason, float | None]] = field(default_factory=dict)
    hasty: bool = False
    without_place: frozenset[int] = frozenset()
    repeating: frozenset[int] = frozenset()
    predicted: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BagStep:
    """The bags of a snapshot, and the rules of the site.

    ``share`` is the largest part of the resources that tasks may hold, in percent. ``replan`` is true if resources
    became free or were lost unexpectedly since the tasks were placed. ``thorough`` then asks to place all tasks anew.
    """

    bags: Sequence[Bag]
    share: float = 100
    replan: bool = True
    thorough: bool = True

    @property
    def own(self) -> frozenset[int]:
        """The tasks of promised bags, which get other resources here."""
        return frozenset(job for bag in self.bags if bag.promise is not None for job in bag.tasks)

    def kept(self, snapshot: Snapshot, matchers: Matchers | None) -> KeptBags:
        """Move promised tasks forward, and take the tasks of new bags out of the waiting jobs."""
        new = frozenset(job for bag in self.bags for job in bag.asking) - _waiting_for_others(snapshot, self.bags)
        repeated = frozenset(job for bag in self.bags for job in bag.repeated)
        stopped = {job.id for job in snapshot.waiting if job.id in repeated and _is_stopped(job)}
        new -= stopped
        asking = tuple(job for job in snapshot.waiting if job.id in new)
        if asking:
            snapshot = replace(snapshot, waiting=tuple(job for job in snapshot.waiting if job.id not in new))
        room = _Room(snapshot, matchers or Matchers(snapshot.platform), self.share, asking)
        moves: list[Reservation] = []
        hasty, without_place = False, set[int]()
        by_job = {reservation.job.id: reservation for reservation in snapshot.reservations}
        kept = sorted((bag for bag in self.bags if bag.promise is not None), key=lambda bag: (bag.done, bag.id))
        for bag in kept:
            tasks = [
                reservation
                for job in sorted(bag.tasks)
                if (reservation := by_job.get(job)) is not None and not reservation.job.held
            ]
            late = any(room.cannot_start(task) for task in tasks)
            if tasks and (self.replan or late):
                begun = () if self.thorough or late else room.begin_in_place(tasks)
                hasty = hasty or bool(begun)
                moved = begun or room.come_forward(tasks)
                moves += moved
                if late and (not moved or any(map(room.cannot_start, moved))):
                    without_place.add(bag.id)
        changed = _on_time(with_reservations(snapshot, moves), self.own)
        answers = BagAnswers(tuple(moves), hasty=hasty, without_place=frozenset(without_place))
        return KeptBags(self.bags, changed, asking, answers, room, thorough=self.thorough)


class KeptBags:
    """Promised bags in their places, and the tasks of new bags."""

    def __init__(
        self,
        bags: Sequence[Bag],
        snapshot: Snapshot,
        asking: Sequence[WaitingJob],
        answers: BagAnswers,
        room: _Room,
        *,
        thorough: bool,
    ) -> None:
        self.snapshot = snapshot
        self._bags, self._answers, self._room, self._thorough = bags, answers, room, thorough
        self._asking = {job.id: job for job in asking}

    def answered(self, plan: Plan) -> BagAnswers:
        """Answer the new bags beside a plan, and place tasks that are run again."""
        expected, security = self._expected(), self.snapshot.security_time
        promises: dict[int, float] = {}
        accepted: list[Placement] = []
        refused: dict[int, tuple[Reason, float | None]] = {}
        room_made: dict[int, WindowMove] = {}
        repeating, without_place = set[int](), set(self._answers.without_place)
        for bag in sorted(self._bags, key=lambda bag: bag.id):
            tasks = [self._asking[job] for job in sorted(bag.asking) if job in self._asking]
            is_new = bag.promise is None
            if is_new and not tasks and expected[bag.id] > -inf:  # another job took the bag's promise away
                promises[bag.id] = expected[bag.id]
            if not tasks or any(map(_is_stopped, tasks)) or (plan.unseen and bag.latest == inf):
                continue  # without a deadline it waits for a plan of all jobs
            placed = self._places(tasks, plan, bag.latest - security)
            claims = placed.claims
            end = claims[-1].end + security if claims else None
            if end is None and not is_new:
                without_place.add(bag.id)
                continue
            if end is None or (is_new and bag.strict and end > bag.latest):
                refused |= {task.id: (_why_refused(bag, len(tasks), end), end) for task in tasks}
                continue
            self._room.enter(tasks, claims, placed.moves)
            for move in placed.moves:
                number = move.reservation.job.id
                room_made[number] = replace(move, before=room_made.get(number, move).before)
            accepted += map(self._accepted, tasks, claims)
            expected[bag.id] = max(expected[bag.id], end)
            if is_new:
                promises[bag.id] = expected[bag.id] if bag.deadline is None else max(expected[bag.id], bag.deadline)
            else:
                repeating.add(bag.id)
        return replace(
            self._answers,
            room_made=tuple(room_made.values()),
            expected=expected,
            promises=promises,
            accepted=tuple(accepted),
            refused=refused,
            without_place=frozenset(without_place),
            repeating=frozenset(repeating),
            predicted=self._predicted(expected, promises),
        )

    def _predicted(self, expected: Mapping[int, float], promises: Collection[int]) -> dict[int, float]:
        """Return when promised bags are done if their tasks take as long as their profiles tell."""
        return {
            bag.id: max(bag.ended, min(self._room.predicted_end(bag), expected[bag.id]))
            for bag in self._bags
            if bag.profile is not None
            and expected[bag.id] > -inf
            and (bag.id in promises or (self._thorough and bag.promise is not None))
        }

    def _places(self, tasks: Sequence[WaitingJob], plan: Plan, latest: float) -> RoomMade:
        """Return places for all tasks beside all planned jobs; an empty list if one task has no place.

        If the tasks end after ``latest`` there, waiting jobs without a promise give way, then reservations inside
        their windows.
        """
        claims = [] if plan.unseen else self._room.places(tasks, plan)
        if claims and claims[-1].end <= latest:
            return RoomMade(claims)
        starting = replace(
            plan, placements=tuple(placement for placement in plan.placements if placement.verdict in _AT_ONCE)
        )
        claims = self._room.places(tasks, starting)
        if latest == inf or (claims and claims[-1].end <= latest):
            return RoomMade(claims)
        return self._room.by_deadline(tasks, starting, latest, claims[-1].end if claims else inf) or RoomMade(claims)

    def _accepted(self, task: WaitingJob, claim: Claim) -> Placement:
        platform = self.snapshot.platform
        return Placement(task.id, Verdict.RESERVED, ACCEPTED, platform, 0, claim.start, claim.end, claim.bits)

    def _expected(self) -> dict[int, float]:
        """Return the end of each bag, by its running and its planned tasks.

        A task that began a little later than planned still ends within the security time.
        """
        ends = {job.id: job.end for job in self.snapshot.holding}
        ends |= {reservation.job.id: reservation.end for reservation in self.snapshot.reservations}
        expected = {}
        for bag in self._bags:
            end = max((ends[job] for job in bag.tasks if job in ends), default=-inf)
            promise = inf if bag.promise is None or bag.promise < end else bag.promise
            expected[bag.id] = max(bag.ended, min(end + self.snapshot.security_time, promise))
        return expected


def ends_of_tasks(
    snapshot: Snapshot,
    matchers: Matchers,
    share: float,
    tasks: Sequence[WaitingJob],
    plan: Plan,
    ready: float,
    deadline: float,
) -> list[float]:
    """Return by when the first task of a new bag could be promised to be done, the first two tasks, and so on.

    Tasks start at ``ready`` at the earliest: until then a pass would promise no less, if no other job comes. Tasks that
    can be done by ``deadline`` count as done by then. The list is empty if there is no place for the tasks.
    """
    room, security = _Room(snapshot, matchers, share, tasks), snapshot.security_time
    beside = [claim.end + security for claim in room.places(tasks, plan, ready)]
    if not beside or deadline == inf:
        return beside
    if beside[-1] <= deadline:
        return [deadline] * len(beside)
    starting = replace(
        plan, placements=tuple(placement for placement in plan.placements if placement.verdict in _AT_ONCE)
    )
    alone = [claim.end + security for claim in room.places(tasks, starting, ready)]
    return [max(deadline, min(ends)) for ends in zip(beside, alone, strict=True)]


def expected_ends(
    snapshot: Snapshot,
    matchers: Matchers,
    share: float,
    tasks: Sequence[WaitingJob],
    plan: Plan,
    ready: float,
    profile: Profile,
) -> list[float]:
    """Return when the first task of a new bag is expected to be done, the first two tasks, and so on, by a profile.

    A task begins where the one before it ends, without the security time.
    """
    room = _Room(replace(snapshot, security_time=0), matchers, share, tasks)
    return list(accumulate(room.predicted(tasks, plan, ready, profile), max))


class _Room:
    """The resources left for tasks beside those that other jobs hold."""

    def __init__(self, snapshot: Snapshot, matchers: Matchers, share: float, asking: Sequence[WaitingJob]) -> None:
        self._jobs = (*snapshot.waiting, *asking, *(reservation.job for reservation in snapshot.reservations))
        self._options = CompiledRequests(snapshot, matchers)
        most = int(snapshot.platform.default_type.bit_count() * share / 100)
        largest = max((self._options.size(task) for task in asking if task.alternatives), default=1)
        quota = QuotaRule(type=BAG, resources=max(most, largest), level=_LEVEL)
        self._snapshot = replace(snapshot, quotas=(*snapshot.quotas, quota))
        self._search = Search(snapshot.security_time)
        self._matchers = matchers
        self._precedence = Precedence.of(snapshot)
        self._promised = {reservation.job.id for reservation in snapshot.reservations}
        self._holding = {job.id: job for job in snapshot.holding}
        self._planned: dict[tuple[int, int], tuple[Plan, Gantt]] = {}
        """By plan and level of a bag, what is left for its tasks beside the plan."""
        self._entered: list[tuple[WaitingJob, Claim]] = []

    @cached_property
    def _makers(self) -> RoomMakers:
        """The reservations that may make room for a bag."""
        return RoomMakers(self._snapshot, self._matchers)

    def cannot_start(self, task: Reservation) -> bool:
        """Tell whether a promised task cannot start in its place: its date is past, or its resources are lost.

        The job before it may have begun a little late; the task's start then uses up part of the security time.
        """
        return task.start + self._snapshot.security_time < self._snapshot.now or is_broken(task, self._snapshot)

    def begin_in_place(self, tasks: Sequence[Reservation]) -> list[Reservation]:
        """Return the tasks of a bag that can begin now on the resources planned for them later.

        Return none if another task could begin now as well. Among tasks planned on the same resources only the next one
        begins, so that the others keep their places. This usually costs as much as starting these tasks, and not as
        much as placing all tasks.
        """
        now, option, roles = self._snapshot.now, self._option(tasks[0].job), roles_of(tasks[0].job)
        first: dict[int, tuple[Reservation, Claim]] = {}
        taken = 0
        for task, slot in self._slots(tasks, option):
            if not slot.bits & taken and task.start > now:
                first[task.job.id] = task, slot
            taken |= slot.bits
        gantt = self._gantt(self._others(tasks[0].job, first))
        demand = Demand(tasks[0].job, roles, (option,), gantt.limits(tasks[0].job, roles))
        moves = []
        for task, slot in first.values():
            begun = self._search.put_off(gantt, demand, Found(option, slot), now)
            if begun is None and self._search.put_off(gantt, demand, Found(option, slot), slot.start) is None:
                return []
            claim = slot if begun is None or begun.found is None else begun.found.claim
            gantt.enter(task.job, claim, everywhere=True)
            if claim is not slot:
                moves.append(_moved(task, claim, self._snapshot))
        if self._search.at(gantt, demand, now).found is not None:
            return []
        self._hold(moves)
        return moves

    def come_forward(self, tasks: Sequence[Reservation]) -> list[Reservation]:
        """Return the tasks of a bag that get other places, and hold these places from now on."""
        option = self._option(tasks[0].job)
        pairs = self._slots(tasks, option)
        tasks, slots = [task for task, _ in pairs], [slot for _, slot in pairs]
        gone = {task.job.id for task in tasks}
        gantt = self._gantt(self._others(tasks[0].job, gone))
        whole = [slot for task, slot in pairs if not is_broken(task, self._snapshot)]
        claims = self._place(gantt, [task.job for task in tasks], option, whole)
        later = any(claim.start > slot.start for claim, slot in zip(claims, slots, strict=False))
        if not claims or (later and not any(map(self.cannot_start, tasks))):
            return []
        moves = [_moved(task, claim, self._snapshot) for task, claim in _changed(tasks, slots, claims)]
        self._hold(moves)
        return moves

    def _slots(self, tasks: Iterable[Reservation], option: CompiledAlternative) -> list[tuple[Reservation, Claim]]:
        """Return the tasks by their starts, each with its present place."""
        bits_of = self._snapshot.platform.bits_of
        return [
            (task, Claim(task.start, option.walltime, bits_of(task.resources), option.consumes, option.levels))
            for task in sorted(tasks, key=lambda task: (task.start, task.job.id))
        ]

    def _hold(self, moves: Iterable[Reservation]) -> None:
        """Let tasks hold their new places."""
        for task in moves:
            if (held := promised(task, self._snapshot.now)) is not None:
                self._holding[task.job.id] = held

    def places(self, tasks: Sequence[WaitingJob], plan: Plan, ready: float = -inf) -> list[Claim]:
        """Return places from ``ready`` on for the tasks of a new bag beside held and planned resources.

        There are none if a task has none.
        """
        return self._place(self._beside(plan, tasks[0]).copy(), tasks, self._option(tasks[0]), (), ready)

    def by_deadline(self, tasks: Sequence[WaitingJob], plan: Plan, deadline: float, beside: float) -> RoomMade | None:
        """Return places that end by a deadline, or the earliest later one that bisection finds before ``beside``.

        Reservations make room for that. None if there is nothing better than what ends at ``beside``.
        """
        if not self._makers.ids:
            return None
        by_place: dict[int, RoomMade] = {}

        def feasible(by: float) -> RoomMade | None:
            before = self._makers.place(by)
            if before not in by_place:
                gantt = self._beside(plan, tasks[0], self._makers.ids)
                by_place[before] = self._makers.around(
                    gantt, before, lambda gantt: self._place(gantt, tasks, option, ())
                )
            claims = by_place[before].claims
            return by_place[before] if claims and claims[-1].end <= by else None

        option = self._option(tasks[0])
        best = feasible(deadline)
        lo, hi = (deadline, deadline) if best else (deadline, beside)
        while inf > hi > lo + 1 and (mid := floor((lo + hi) / 2)) > lo:
            earlier = feasible(mid)
            best, lo, hi = (earlier, lo, mid) if earlier else (best, mid, hi)
        return best

    def predicted_end(self, bag: Bag) -> float:
        """Return when the last task of a bag ends if each takes as long as the bag's profile tells.

        A task begins where the one before it ends, without the security time, beside all that others hold.
        """
        profile = bag.profile
        assert profile is not None
        now, planned = self._snapshot.now, self._tasks_to_come(bag)
        gone = {task.id for task in planned}
        others = replace(self._snapshot, waiting=self._jobs, security_time=0)
        gantt, ends = Gantt(others), [-inf]
        held = list(self._others(planned[0], gone) if planned else self._holding.values())
        for place, job in enumerate(held):
            if job.id in bag.tasks:
                bits = bits_held(others.platform, job)
                held[place] = structs.replace(job, walltime=profile.running(job, bits, now))
                ends.append(held[place].end)
        gantt.hold(held)
        for task, claim in self._entered:
            if task.id not in gone:
                gantt.enter(task, claim, everywhere=True)
        if planned:
            ends += profile.ends(gantt, self._demand(gantt, planned[0]), planned, now)
        return max(ends)

    def predicted(self, tasks: Sequence[WaitingJob], plan: Plan, ready: float, profile: Profile) -> Iterator[float]:
        """Yield when each task of a new bag ends beside held and planned resources, by its profile."""
        gantt = self._beside(plan, tasks[0]).copy()
        return profile.ends(gantt, self._demand(gantt, tasks[0]), tasks, max(ready, self._snapshot.now))

    def _tasks_to_come(self, bag: Bag) -> list[WaitingJob]:
        """Return the tasks of a bag that have places and have not begun."""
        reserved = (reservation.job for reservation in self._snapshot.reservations)
        entered = (task for task, _ in self._entered)
        return [job for job in (*reserved, *entered) if job.id in bag.tasks or job.id in bag.repeated]

    def _demand(self, gantt: Gantt, task: WaitingJob) -> Demand:
        """Return the demand of a task, which all tasks of its bag have."""
        roles = roles_of(task)
        return Demand(task, roles, (self._option(task),), gantt.limits(task, roles))

    def enter(self, tasks: Sequence[WaitingJob], claims: Sequence[Claim], moves: Sequence[WindowMove] = ()) -> None:
        """Let the tasks of a new bag hold their places, and reservations that made room theirs."""
        self._entered += zip(tasks, claims, strict=True)
        if moves:
            self._hold(move.reservation for move in moves)
            self._makers.note(moves)
            self._planned.clear()
        for _, gantt in self._planned.values():
            for task, claim in zip(tasks, claims, strict=True):
                gantt.enter(task, claim, everywhere=True)

    def _beside(self, plan: Plan, task: WaitingJob, gone: Collection[int] = ()) -> Gantt:
        """Return a Gantt with the resources held now but by ``gone`` jobs, a plan's jobs, and the new bags so far.

        Planned jobs that give way to ``task`` are left out.
        """
        key = id(plan), self._precedence.depth(task)
        if gone or key not in self._planned:
            gantt = self._gantt(self._others(task, gone))
            jobs = {job.id: job for job in self._snapshot.asking if not self._precedence.yields(job, task)}
            for placement in plan.placements:
                if (
                    placement.start is not None
                    and placement.end is not None
                    and placement.alternative is not None
                    and placement.job in jobs
                ):
                    way = jobs[placement.job].alternatives[placement.alternative]
                    levels = gantt.blocks.asked(way.groups, way.consumes)
                    claim = Claim(
                        placement.start, placement.end - placement.start, placement.bits, way.consumes, levels
                    )
                    gantt.enter(jobs[placement.job], claim)
            for entered, claim in self._entered:
                gantt.enter(entered, claim, everywhere=True)
            if gone:
                return gantt
            self._planned[key] = plan, gantt
        return self._planned[key][1]

    def _gantt(self, others: Iterable[HoldingJob]) -> Gantt:
        gantt = Gantt(replace(self._snapshot, waiting=self._jobs))
        gantt.hold(others)
        return gantt

    def _place(
        self,
        gantt: Gantt,
        tasks: Sequence[WaitingJob],
        option: CompiledAlternative,
        slots: Sequence[Claim],
        ready: float = -inf,
    ) -> list[Claim]:
        """Enter equal tasks into ``gantt``, one after the other, and return their places; none if one has none.

        A task gets one of the bag's present ``slots``, sorted by their starts, if it begins as early as any place.
        """
        limits, roles, left = gantt.limits(tasks[0], roles_of(tasks[0])), roles_of(tasks[0]), deque(slots)
        ready, claims = max(ready, self._snapshot.now), list[Claim]()
        for task in tasks:
            demand = Demand(task, roles, (option,), limits)
            place = self._search.earliest(gantt, demand, ready).found
            if place is None:
                return []
            claim = place.claim
            while left and left[0].start <= claim.start:
                slot = left.popleft()
                if self._is_kept(gantt, demand, slot, claim.start, claims):
                    claim = slot
                    break
            gantt.enter(task, claim, everywhere=True)
            claims.append(claim)
            ready = max(ready, claim.start)
        return claims

    def _is_kept(self, gantt: Gantt, demand: Demand, slot: Claim, start: float, claims: Iterable[Claim]) -> bool:
        """Tell whether a task keeps its place, if it cannot begin earlier than at ``start``.

        If the job before it began a little late, the security time behind that job is given up. It is not given up
        behind the tasks that were placed at ``claims``.
        """
        if slot.start == start:
            return self._search.put_off(gantt, demand, Found(demand.options[0], slot), start) is not None
        security = self._snapshot.security_time
        begin, end = slot.start + security, slot.end + security
        if self._snapshot.now > begin or slot.walltime <= security:
            return False
        views = gantt.views(demand.roles, slot.consumes, slot.levels)
        if any(slot.bits & ~view.common(begin, end) for view in views):
            return False
        return not any(claim.bits & slot.bits and claim.end + security > slot.start for claim in claims)

    def _option(self, task: WaitingJob) -> CompiledAlternative:
        """Return the compiled request of a task.

        It counts only Alive resources if they can ever serve the task, else all reservable resources.
        """
        alive = self._options.alive(task)[0]
        return alive if alive.matcher.match(alive.matcher.usable) else self._options.reservable(task)[0]

    def _others(self, task: WaitingJob, gone: Collection[int]) -> Iterator[HoldingJob]:
        """Yield the jobs but ``gone`` ones as obstacles for ``task``."""
        return (self._leaving(job, task) for job in self._holding.values() if job.id not in gone)

    def _leaving(self, job: HoldingJob, task: WaitingJob) -> HoldingJob:
        """Return a job as an obstacle for ``task``: one that gives way ends in time, as it does for reservations.

        What is promised does not give way before it has begun.
        """
        if job.start > self._snapshot.now or job.id in self._promised or not self._precedence.yields(job, task):
            return job
        snapshot = self._snapshot
        lead = max(snapshot.rules.besteffort_kill_before_reservation, snapshot.security_time) + job.checkpoint
        gone = max(snapshot.now + lead, job.start + snapshot.besteffort_minimum_life)
        return structs.replace(job, walltime=min(job.walltime, gone - job.start))


def _waiting_for_others(snapshot: Snapshot, bags: Iterable[Bag]) -> frozenset[int]:
    """Return the tasks of new bags of which one waits for a job that is not over."""
    asking = {job: bag for bag in bags if bag.promise is None for job in bag.tasks}
    dependent = [job for job in snapshot.waiting if job.depends_on and job.id in asking]
    if not dependent:
        return frozenset()
    dependencies = Dependencies(snapshot)
    waiting = {asking[job.id].id for job in dependent if dependencies.waits(job)}
    return frozenset(job for job, bag in asking.items() if bag.id in waiting)


def _is_stopped(task: WaitingJob) -> bool:
    """Tell whether a task cannot be placed now."""
    return task.held or bool(task.fault)


def _why_refused(bag: Bag, tasks: int, end: float | None) -> Reason:
    """Return why the tasks of a bag get no places; the bag would be done at ``end``."""
    if end is None:
        return Reason(Why.BAG_WITHOUT_PLACE, count=tasks)
    return Reason(Why.BAG_TOO_LATE, at=end, end_by=bag.deadline)


def _changed(
    tasks: Sequence[Reservation], slots: Sequence[Claim], claims: Sequence[Claim]
) -> list[tuple[Reservation, Claim]]:
    """Return the tasks that get other places, with these: as few as possible, since all tasks are equal."""
    places = Counter((claim.start, claim.bits) for claim in claims)
    going = []
    for task, slot in zip(tasks, slots, strict=True):
        if places[slot.start, slot.bits]:
            places[slot.start, slot.bits] -= 1
        else:
            going.append(task)
    free = []
    for claim in claims:
        if places[claim.start, claim.bits]:
            places[claim.start, claim.bits] -= 1
            free.append(claim)
    return list(zip(going, free, strict=True))


def _moved(task: Reservation, claim: Claim, snapshot: Snapshot) -> Reservation:
    """Return a promised task at another place."""
    resources = tuple(snapshot.platform.ids_of(claim.bits))
    return replace(task, start=claim.start, resources=resources, job=structs.replace(task.job, reservation=claim.start))


def _on_time(snapshot: Snapshot, tasks: Collection[int]) -> Snapshot:
    """Return a snapshot in which tasks whose date has just passed begin now, with their whole walltime."""
    now = snapshot.now
    if not any(reservation.start < now and reservation.job.id in tasks for reservation in snapshot.reservations):
        return snapshot
    reservations = (
        replace(reservation, start=now) if reservation.start < now and reservation.job.id in tasks else reservation
        for reservation in snapshot.reservations
    )
    return replace(snapshot, reservations=tuple(reservations))
