"""The step of a pass that lets accepted reservations move inside their windows.

1. When resources became free or were lost unexpectedly, all movable reservations get their earliest places. If one has
   none, all stay.
2. Each new reservation is admitted if it has a window, or if others may move. An admitted reservation may make room for
   the next. This step decides its date. The planner finds its resources then, among the jobs of its queue as for any
   other reservation.
3. If the planner has no place for it, no other reservation moves for it. It is tried once more, after the others,
   beside the jobs that the planner served first; and a last time with all others in their places. Then it is refused.
4. Accepted reservations whose users ask for another window are admitted into it like new ones, with their own places
   free. A reservation that must stay in its place gets the window if it contains the place.

A reservation may move if it was accepted with a window, has not begun and is not fixed. Containers, best-effort jobs
and reservations that others depend on stay in their places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import NamedTuple, get_args

from msgspec import structs

from oarpy.model.plugins import PluginFailed
from oarpy.profiles.planned import JobId
from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.gantt.gantt import Claim, Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.rules.dependencies import Dependencies
from oarpy.scheduler.rules.reservations import is_broken, with_reservations
from oarpy.scheduler.snapshot import HoldingJob, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.scheduler.windows.admission import Admission, Offer, Terms, admit, replanned
from oarpy.scheduler.windows.named_timeline import Asked, NamedTimeline
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.scheduler.windows.window_jobs import OWN_ORDER, Criterion, WindowJob, in_order

_NONE_DATED: Mapping[int, tuple[WaitingJob, Claim]] = {}
_NONE_BESIDE: Mapping[int, Sequence[Placement]] = {}
_WHATEVER_SIZE = frozenset(get_args(Criterion)) - {"bjf"}
"""Orders that do not use sizes, which take long to count."""
_ADMITTED = frozenset({Verdict.RESERVED, Verdict.STARTS, Verdict.HELD})


@dataclass(frozen=True, slots=True)
class WindowMove:
    """An accepted reservation at another start, or on other resources for another one.

    ``before`` is its old start.
    """

    reservation: Reservation
    before: float
    reason: str


@dataclass(frozen=True, slots=True)
class WindowAnswers:
    """The decisions of a pass about windows.

    ``dated`` are new reservations with a date, each with the index of the alternative that they take. ``strict`` are
    the windows, [ready, deadline], of reservations that took a start outside the requested window, or a shorter
    alternative. ``offers`` are the starts offered to others. ``fixed`` are accepted reservations that no longer move
    from now on. ``changed`` tells whether accepted reservations got the other window that they asked for. ``fault`` is
    why the order of the site could not be used.
    """

    moves: tuple[WindowMove, ...] = ()
    dated: Mapping[int, int] = field(default_factory=dict)
    strict: Mapping[int, tuple[float | None, float]] = field(default_factory=dict)
    offers: Mapping[int, Sequence[Offer]] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    changed: Mapping[int, bool] = field(default_factory=dict)
    fault: str = ""

    def and_moved(self, moves: Iterable[WindowMove]) -> WindowAnswers:
        """Return these answers with reservations that go elsewhere afterwards."""
        by_job = {move.reservation.job.id: move for move in self.moves}
        for move in moves:
            number = move.reservation.job.id
            by_job[number] = replace(move, before=by_job[number].before) if number in by_job else move
        return replace(self, moves=tuple(by_job.values()))

    def unplaced(self, plan: Plan) -> frozenset[int]:
        """Return the jobs with a date that the planner has no place for."""
        if not self.dated:
            return frozenset()
        return frozenset(
            placement.job
            for placement in plan.placements
            if placement.job in self.dated and placement.verdict not in _ADMITTED
        )

    def named(self, plan: Plan) -> Plan:
        """Return a plan in which alternatives have the indexes of the jobs' own requests."""
        if not self.dated:
            return plan
        placements = (
            replace(placement, alternative=self.dated[placement.job])
            if placement.job in self.dated and placement.alternative is not None
            else placement
            for placement in plan.placements
        )
        return replace(plan, placements=tuple(placements))


NO_ANSWERS = WindowAnswers()


def within_windows(
    snapshot: Snapshot,
    matchers: Matchers | None = None,
    refused: Collection[int] = (),
    beside: Mapping[int, Sequence[Placement]] = _NONE_BESIDE,
    alone: Collection[int] = (),
) -> tuple[Snapshot, WindowAnswers]:
    """Replan, and find dates for new reservations except the ``refused`` ones.

    Those in ``beside`` come last, and only get what these places of other jobs leave. Nobody moves for those that are
    ``alone``. Return the changed snapshot, and the decisions.
    """
    if snapshot.windows is None:
        return snapshot, NO_ANSWERS
    matchers = matchers or Matchers(snapshot.platform)
    return _WindowPass(snapshot, snapshot.windows, matchers, beside, alone).answers(refused)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A new reservation when it is requested, with its first alternative.

    ``movable`` are the reservations that may make room for it, each with its place. ``others`` keep their resources.
    """

    new: WindowJob[Asked]
    movable: Sequence[tuple[WindowJob[Asked], Claim]]
    others: Sequence[HoldingJob]
    terms: Terms


def arrival(snapshot: Snapshot, job: WaitingJob, matchers: Matchers | None = None) -> Arrival | str:
    """Return the situation of a new reservation, or why no start in its window can be tried."""
    windows = snapshot.windows or Windows({})
    return _WindowPass(snapshot, windows, matchers or Matchers(snapshot.platform)).arrival(job)


class MovableReservation(NamedTuple):
    """An accepted reservation that may move, as the algorithms know it, with its slot."""

    reservation: Reservation
    job: WindowJob[Asked]


def movable(snapshot: Snapshot, matchers: Matchers) -> list[MovableReservation]:
    """Return the accepted reservations that may move, but those whose users ask for another window in this pass."""
    if snapshot.windows is None:
        return []
    return _WindowPass(snapshot, snapshot.windows, matchers).movable()


def moved_to(old: Reservation, slot: Claim, platform: Platform, reason: str) -> WindowMove | None:
    """Return the move of a reservation to a place, None if it is there."""
    resources = tuple(platform.ids_of(slot.bits))
    if slot.start == old.start and set(resources) == set(old.resources):
        return None
    job = structs.replace(old.job, reservation=slot.start)
    return WindowMove(replace(old, start=slot.start, resources=resources, job=job), old.start, reason)


@dataclass(slots=True)
class _Movable:
    """An accepted reservation that may move, and its present place."""

    reservation: Reservation
    window: ReservationWindow
    asked: Asked
    reason: str = ""

    @property
    def slot(self) -> Claim:
        """Its place."""
        assert self.asked.slot is not None
        return self.asked.slot


class _WindowPass:
    def __init__(
        self,
        snapshot: Snapshot,
        windows: Windows,
        matchers: Matchers,
        beside: Mapping[int, Sequence[Placement]] = _NONE_BESIDE,
        alone: Collection[int] = (),
    ) -> None:
        self._snapshot, self._windows, self._now = snapshot, windows, snapshot.now
        self._precedence = Precedence.of(snapshot)
        self._options, self._search = CompiledRequests(snapshot, matchers), Search(snapshot.security_time)
        self._dependencies = Dependencies(snapshot)
        self._anteriors = {
            dependency.job
            for job in (*snapshot.waiting, *(reservation.job for reservation in snapshot.reservations))
            if job.reservation is not None
            for dependency in job.depends_on
        }
        self._movable = {
            reservation.job.id: self._as_movable(reservation)
            for reservation in snapshot.reservations
            if self._may_move(reservation)
        }
        self._dated: dict[int, int] = {}
        self._strict: dict[int, tuple[float | None, float]] = {}
        self._own: dict[int, ReservationWindow] = {}
        """The windows of new reservations that depend on the alternative that they take."""
        self._offers: dict[int, Sequence[Offer]] = {}
        self._changed: dict[int, bool] = {}
        self._new: dict[int, WaitingJob] = {}
        """New reservations that may move, with the alternative that they take."""
        self._failed = ""
        self._leaving: set[int] = set()
        """Reservations whose own places are free while another window is tried."""
        self._fresh = tuple(job for job in snapshot.waiting if job.reservation is not None and self._is_asked(job))
        self._last = list(beside)
        self._beside = {job: self._claims(places) for job, places in beside.items() if places}
        """The places of other jobs that some new reservations must leave alone."""
        self._alone = frozenset(alone)
        self._bases: dict[int, Gantt] = {}
        """The Gantt without the movable reservations, with the dates found, by the level that it serves."""

    def answers(self, refused: Collection[int]) -> tuple[Snapshot, WindowAnswers]:
        """Replan, admit, and return the result."""
        if self._windows.replan and self._movable:
            self._replan()
        dates: dict[int, tuple[WaitingJob, Claim]] = {}
        over = {}
        for job in sorted(self._fresh, key=self._turn):
            if fault := self._fault(job):
                over[job.id] = structs.replace(job, fault=fault)
            elif (admitted := self._admit(job, dates, take=job.id not in refused)) is not None:
                self._keep(*admitted, dates)
        for reservation in self._snapshot.reservations:
            if (window := self._windows.of.get(reservation.job.id)) is not None and window.asked is not None:
                self._change(reservation, replace(window, ready=window.asked[0], deadline=window.asked[1]), dates)
        for number, dated in self._new.items():
            slot = self._movable[number].slot
            dates[number] = structs.replace(dated, reservation=slot.start), slot
        moves = tuple(
            move
            for job, moving in self._movable.items()
            if job not in self._new
            and (move := moved_to(moving.reservation, moving.slot, self._snapshot.platform, moving.reason)) is not None
        )
        changed = with_reservations(self._snapshot, (move.reservation for move in moves))
        again = {job: dated[0] for job, dated in dates.items()} | over
        waiting = tuple(again.get(job.id, job) for job in changed.waiting)
        fixed = self._newly_fixed(dates)
        narrower = {job: (window.ready, window.deadline) for job, window in self._own.items()} | self._strict
        answers = WindowAnswers(moves, self._dated, narrower, self._offers, fixed, self._changed, self._failed)
        return replace(changed, waiting=waiting), answers

    def movable(self) -> list[MovableReservation]:
        """Return the accepted reservations that may move, with their places."""
        return [
            MovableReservation(moving.reservation, self._window_job(moving.asked, moving.window))
            for moving in self._movable.values()
            if moving.window.asked is None
        ]

    def arrival(self, job: WaitingJob) -> Arrival | str:
        """Return the situation of a new reservation, or why no start in its window can be tried."""
        if fault := self._fault(job):
            return fault
        first = job.alternatives[0].walltime
        window = self._window(job, first) or _strict(job, self._now)
        new = self._window_job(Asked(structs.replace(job, alternatives=job.alternatives[:1])), window)
        lo, last = new.window(self._now)
        if last < lo:
            return f"its window ends at {self._snapshot.show_instant(window.deadline)}, too early for its walltime"
        movable = [(self._window_job(moving.asked, moving.window), moving.slot) for moving in self._movable.values()]
        return Arrival(new, movable, self._seen_by(job), self._terms(window))

    def _turn(self, job: WaitingJob) -> tuple[int, float, int]:
        """Return when a new reservation is decided about: the least first."""
        return self._last.index(job.id) + 1 if job.id in self._last else 0, job.submitted, job.id

    def _claims(self, places: Iterable[Placement]) -> list[tuple[WaitingJob, Claim]]:
        """Return the claims of waiting jobs on the platform; what is inside a container is its own affair."""
        jobs = {job.id: job for job in self._snapshot.waiting}
        claims = []
        for place in places:
            if place.start is None or place.end is None or roles_of(jobs[place.job]).inside is not None:
                continue
            ways = {option.index: option for option in self._options.alive(jobs[place.job])}
            if (way := ways.get(place.alternative or 0)) is not None:
                span = place.start, place.end - place.start
                claims.append((jobs[place.job], Claim(*span, place.bits, way.consumes, way.levels)))
        return claims

    def _keep(self, dated: WaitingJob, claim: Claim, dates: dict[int, tuple[WaitingJob, Claim]]) -> None:
        """Let a new reservation hold its place; if it may move, only until others need the place."""
        soon = claim.start - self._now <= self._windows.notice
        if dated.id in self._strict or soon or not self._is_loose(dated, claim.start):
            dates[dated.id] = dated, claim
            for base in self._bases.values():
                base.enter(dated, claim)
            return
        resources = tuple(self._snapshot.platform.ids_of(claim.bits))
        reservation = Reservation(dated, claim.start, dated.alternatives[0].walltime, resources)
        self._movable[dated.id] = _Movable(
            reservation, self._own.get(dated.id, self._windows.of[dated.id]), Asked(dated, claim)
        )
        self._new[dated.id] = dated

    def _may_move(self, reservation: Reservation) -> bool:
        if not self._is_loose(reservation.job, reservation.start):
            return False
        return reservation.start - self._now > self._windows.notice or (
            self._windows.replan and is_broken(reservation, self._snapshot)
        )

    def _is_loose(self, job: WaitingJob, start: float) -> bool:
        """Tell whether an accepted reservation may move if there is enough time to notify its user."""
        window = self._windows.of.get(job.id)
        if window is None or start <= self._now or job.held or job.besteffort or job.id in self._anteriors:
            return False
        if roles_of(job).containers or self._dependencies.readiness(job).waits_for:
            return False
        return not window.is_fixed(job.submitted, start, self._now)

    def _as_movable(self, reservation: Reservation) -> _Movable:
        way = replace(reservation.job.alternatives[0], walltime=int(reservation.walltime))
        job = structs.replace(reservation.job, alternatives=(way,))
        bits = self._snapshot.platform.bits_of(reservation.resources)
        option = self._options.alive(job)[0]
        slot = Claim(reservation.start, way.walltime, bits, option.consumes, option.levels)
        return _Movable(reservation, self._windows.of[job.id], Asked(job, slot))

    def _newly_fixed(self, dates: Mapping[int, tuple[WaitingJob, Claim]]) -> tuple[int, ...]:
        """Return the accepted reservations, new ones too, that by their windows no longer move."""
        known = self._windows.of
        places = [(reservation.job, reservation.start) for reservation in self._snapshot.reservations]
        places += [(job, claim.start) for job, claim in dates.values()]
        return tuple(
            job.id
            for job, start in places
            if (window := known.get(job.id)) is not None
            and not window.fixed
            and window.is_fixed(job.submitted, start, self._now)
        )

    def _is_asked(self, job: WaitingJob) -> bool:
        """Tell whether a new reservation is decided about here.

        Otherwise the planner refuses it, or places it after the jobs that it depends on.
        """
        if job.held or job.fault or not job.alternatives:
            return False
        readiness = self._dependencies.readiness(job)
        return not readiness.refusal and (not readiness.waits_for or job.id in self._windows.of)

    def _fault(self, job: WaitingJob) -> str:
        """Return why no start in the window of a new reservation can be tried, "" if some can."""
        window, show = self._windows.of.get(job.id), self._snapshot.show_instant
        if window is None:
            return ""
        if waits_for := self._dependencies.readiness(job).waits_for:
            return f"job {min(waits_for)}, which it depends on, waits itself: a window takes one that has a start"
        begin = max(self._now, window.ready or self._now)
        own = [(way.walltime, self._window(job, way.walltime) or window) for way in job.alternatives]
        if window.take is None and all(begin + walltime > one.deadline for walltime, one in own):
            return f"its window ends at {show(window.deadline)}, too early for its walltime"
        return ""

    def _window(self, job: WaitingJob, walltime: float) -> ReservationWindow | None:
        """Return the window of a new reservation's alternative; None if the reservation is strict."""
        window = self._windows.of.get(job.id)
        if window is None:
            return None
        return window.of_alternative(walltime, max(way.walltime for way in job.alternatives))

    def _timeline(
        self, asking: WaitingJob | None, dates: Mapping[int, tuple[WaitingJob, Claim]] = _NONE_DATED
    ) -> NamedTimeline:
        """Return a timeline without the movable reservations, as ``asking`` sees it (None: as they see it)."""
        depth = 0 if asking is None else self._precedence.depth(asking)
        beside = [] if asking is None else self._unmoved(asking)
        base = None if self._leaving or beside else self._bases.get(depth)
        if base is None:
            base = self._base([*dates.values(), *beside], depth)
        if not (self._leaving or beside):
            self._bases[depth] = base
        return NamedTimeline(base, self._search, self._options)

    def _unmoved(self, asking: WaitingJob) -> list[tuple[WaitingJob, Claim]]:
        """Return the places that a reservation must leave alone, beside those of all that never move."""
        others = [(other.asked.job, other.slot) for other in self._movable.values()] if asking.id in self._alone else []
        return [*self._beside.get(asking.id, ()), *others]

    def _base(self, dates: Sequence[tuple[WaitingJob, Claim]], depth: int) -> Gantt:
        jobs = [
            reservation.job for reservation in self._snapshot.reservations if reservation.job.id in self._windows.of
        ]
        waiting = {job.id: job for job in (*(job for job, _ in dates), *jobs, *self._fresh)}
        gantt, others = Gantt(replace(self._snapshot, waiting=tuple(waiting.values()))), self._others()
        level = self._precedence.depth
        gantt.protect((other for other in others if level(other) > depth), self._snapshot.besteffort_minimum_life)
        gantt.hold(other for other in others if level(other) <= depth)
        for job, claim in dates:
            gantt.enter(job, claim)
        return gantt

    def _others(self) -> list[HoldingJob]:
        gone = self._movable.keys() | self._leaving
        return [job for job in self._snapshot.holding if job.id not in gone]

    def _seen_by(self, job: WaitingJob) -> list[HoldingJob]:
        return [other for other in self._others() if not self._precedence.yields(other, job)]

    def _queue(self, *new: WindowJob[Asked]) -> list[WindowJob[Asked]]:
        jobs = [self._window_job(moving.asked, moving.window) for moving in self._movable.values()]
        queue, draw = [*jobs, *new], Random(int(self._now)).random
        try:
            return in_order(queue, self._windows.order, self._now, draw)
        except PluginFailed as failed:
            self._failed = str(failed)
            return in_order(queue, OWN_ORDER, self._now, draw)

    def _window_job(self, request: Asked, window: ReservationWindow) -> WindowJob[Asked]:
        job = request.job
        ready = max(self._now, self._dependencies.readiness(job).ready, job.dates.not_before)
        if window.ready is not None:
            ready = max(ready, window.ready)
        procs = self._options.size(job) if self._windows.order not in _WHATEVER_SIZE else 1
        time = job.alternatives[0].walltime
        return WindowJob(job.id, request, procs, time, window.deadline, ready, job.submitted)

    def _replan(self) -> None:
        timeline = self._timeline(None)
        if replanned(timeline, self._queue(), self._now) is None:
            return
        for job, claim in timeline.claims.items():
            self._put(job, claim, "resources are free, or gone, other than was expected")

    def _put(self, job: int, claim: Claim, reason: str) -> None:
        moving = self._movable[job]
        if claim != moving.slot:
            moving.reason = reason
            moving.asked = Asked(moving.asked.job, claim)

    def _admit(
        self, job: WaitingJob, dates: Mapping[int, tuple[WaitingJob, Claim]], *, take: bool
    ) -> tuple[WaitingJob, Claim] | None:
        """Find a date for a new reservation, by the alternative that ends first; else note its offers."""
        ways = range(len(job.alternatives)) if job.id in self._windows.of else (0,)
        best: tuple[float, int, Admission] | None = None
        offers: Sequence[Offer] = ()
        for place in ways:
            request = Asked(structs.replace(job, alternatives=job.alternatives[place : place + 1]))
            window = self._window(job, job.alternatives[place].walltime) or _strict(job, self._now)
            admission = self._answer(request, window, dates)
            if admission is None:
                continue
            if admission.start is None:
                offers = offers or admission.offers
            elif best is None or admission.start + job.alternatives[place].walltime < best[0]:
                best = admission.start + job.alternatives[place].walltime, place, admission
        if best is None or not take:
            self._offers[job.id] = offers
            return None
        return self._settle(job, best[1], best[2], dates)

    def _answer(
        self, request: Asked, window: ReservationWindow, dates: Mapping[int, tuple[WaitingJob, Claim]]
    ) -> Admission | None:
        """Return whether the job is admitted with one alternative; None if its window is over."""
        new = self._window_job(request, window)
        lo, last = new.window(self._now)
        if last < lo and window.take is None:
            return None
        settled = [(claim.start, claim.end) for _, claim in (*dates.values(), *self._unmoved(request.job))]
        running = [(job.start, job.end) for job in self._seen_by(request.job)]
        alone = new.id in self._alone
        slots: dict[JobId, float] = {number: moving.slot.start for number, moving in self._movable.items() if not alone}
        queue = [new] if alone else self._queue(new)
        timeline = self._timeline(request.job, dates)
        gap = self._snapshot.security_time
        return admit(timeline, [*running, *settled], queue, slots, self._now, self._terms(window), gap)

    def _terms(self, window: ReservationWindow) -> Terms:
        return Terms(
            accept=-1.0 if window.farthest is None else window.farthest,
            take=window.take,
            farther=True,
            tries=self._windows.tries,
            offers=self._windows.offers,
        )

    def _change(
        self, reservation: Reservation, window: ReservationWindow, dates: Mapping[int, tuple[WaitingJob, Claim]]
    ) -> None:
        """Let an accepted reservation have another window, if all others stay in theirs; else all stay."""
        number = reservation.job.id
        if reservation.start <= self._now or reservation.job.held:
            self._changed[number] = False
            return
        if (
            roles_of(reservation.job).containers or number in self._anteriors
        ):  # others were promised something by its place
            self._changed[number] = (window.ready or 0) <= reservation.start and reservation.end <= window.deadline
            return
        before = self._movable.pop(number, None)
        changing = before or self._as_movable(reservation)
        window = replace(window, farthest=None)  # ``farthest`` belongs to its present window
        self._leaving.add(number)
        admission = self._answer(changing.asked, window, dates)
        self._changed[number] = admission is not None and admission.start is not None
        if admission is not None and admission.start is not None:
            timeline = self._hold_again(changing.asked, admission, dates)
            for job, claim in timeline.claims.items():
                if job in self._movable:
                    self._put(job, claim, f"it makes room for reservation {number}")
            # its present window; a fixed reservation does not move for others
            claim = timeline.claims[number]
            if admission.taken is not None:
                self._strict[number] = claim.start, claim.end
            moves = before is not None and admission.taken is None
            changing.window = window if moves else replace(window, ready=claim.start, deadline=claim.end)
            self._movable[number] = changing
            self._put(number, timeline.claims[number], "another window was asked for")
        else:
            self._offers[number] = admission.offers if admission is not None else ()
            if before is not None:
                self._movable[number] = before
        self._leaving.discard(number)

    def _hold_again(
        self, new: Asked, admission: Admission, dates: Mapping[int, tuple[WaitingJob, Claim]]
    ) -> NamedTimeline:
        """Return a timeline on which all reservations have the starts that were found."""
        timeline = self._timeline(new.job, dates)
        for number, start in admission.starts.items():
            request = new if number == new.job.id else self._movable[int(number)].asked
            timeline.hold(request, start, start + request.job.alternatives[0].walltime)
        return timeline

    def _settle(
        self, job: WaitingJob, place: int, admission: Admission, dates: Mapping[int, tuple[WaitingJob, Claim]]
    ) -> tuple[WaitingJob, Claim] | None:
        """Let the job have its date, and the others their starts."""
        assert admission.start is not None
        dated = structs.replace(job, alternatives=job.alternatives[place : place + 1], reservation=admission.start)
        timeline = self._hold_again(Asked(dated), admission, dates)
        walltime = job.alternatives[place].walltime
        for number, claim in timeline.claims.items():
            if number in self._movable:
                self._put(number, claim, f"it makes room for reservation {job.id}")
        if admission.taken is not None:
            self._strict[job.id] = admission.start, admission.start + walltime
        elif (own := self._window(job, walltime)) is not None and own is not self._windows.of[job.id]:
            self._own[job.id] = own
        self._dated[job.id] = place
        # the planner looks at the date of a strict reservation as at any other date
        return dated if job.id in self._windows.of else job, timeline.claims[job.id]


def _strict(job: WaitingJob, now: float) -> ReservationWindow:
    """Return the window of a reservation without one: exactly its date, or now if that is past."""
    assert job.reservation is not None
    start, walltime = max(job.reservation, now), job.alternatives[0].walltime
    return ReservationWindow(start + walltime if job.reservation + walltime > now else now, start)
