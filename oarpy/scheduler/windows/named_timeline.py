"""The planner's Gantt as a timeline: it places the requests of reservations on resources with names.

Places are given back in the reverse order in which they were taken, as the algorithms do. The next query rebuilds the
Gantt without them, from a base that mostly stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from oarpy.scheduler.gantt.demands import CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Claim, Gantt
from oarpy.scheduler.gantt.search import Found, Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.snapshot import WaitingJob

Held = tuple["Asked", Claim]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The request of a reservation with one alternative. ``slot`` is its place, if it was accepted.

    In the future it may get resources that are Absent or Suspected now, as other reservations may. An accepted
    reservation does so only if Alive resources can never serve it.
    """

    job: WaitingJob
    slot: Claim | None = None


class NamedTimeline:
    """A :class:`~oarpy.profiles.timeline.Timeline` whose requests are reservations."""

    def __init__(self, gantt: Gantt, search: Search, options: CompiledRequests) -> None:
        self._empty = self._base = gantt
        self._gantt = gantt.copy()
        self._in_base = 0
        """The number of holds that the base includes."""
        self._search, self._options = search, options
        self._held: list[Held] = []
        self._found: tuple[Asked, Claim] | None = None
        self._stale = False

    @property
    def claims(self) -> dict[int, Claim]:
        """The claims held, by job."""
        return {request.job.id: claim for request, claim in self._held}

    def fits(self, request: Asked, start: float, duration: float) -> bool:
        """Tell whether the request fits from ``start`` on; its job has the ``duration``."""
        return self._at(request, start) is not None

    def earliest(self, request: Asked, duration: float, lo: float, hi: float = inf) -> float:
        """Return the earliest start in [lo, hi] at which the request fits; infinite if there is none."""
        claim = self._at(request, lo) if lo <= hi else None
        if claim is None and lo < hi:
            claim = self._after(request, lo, hi)
        if claim is None:
            return inf
        self._found = request, claim
        return claim.start

    def hold(self, request: Asked, start: float, end: float) -> Held:
        """Let the job hold its slot, the last place found for it, or the resources free then."""
        known = self._found
        claim = known[1] if known and known[0] is request and known[1].start == start else self._at(request, start)
        if claim is None:
            if request.slot is None or request.slot.start != start:
                raise ValueError(f"job {request.job.id} has no place at {start}")
            claim = request.slot
        held = request, claim
        self._fresh().enter(request.job, claim)
        self._held.append(held)
        return held

    def give_back(self, hold: Held) -> None:
        """Give back the last hold."""
        if self._held.pop() is not hold:
            raise ValueError("not what was held last")
        if len(self._held) < self._in_base:
            self._in_base, self._base = 0, self._empty
        self._stale, self._found = True, None

    def ends(self, after: float) -> Iterable[float]:
        """Return the instants later than ``after`` at which the free resources may change."""
        return [instant for instant in self._fresh().whole.exclusive.begins if instant > after]

    def _fresh(self) -> Gantt:
        """Return the Gantt with the current holds, and nothing else."""
        if self._stale:
            if self._base is self._empty:
                self._base = self._empty.copy()
            for request, claim in self._held[self._in_base :]:
                self._base.enter(request.job, claim)
            self._in_base = len(self._held)
            self._gantt = self._base.copy()
            self._stale = False
        return self._gantt

    def _demand(self, gantt: Gantt, request: Asked, *, later: bool, hi: float = inf) -> Demand:
        job, roles = request.job, roles_of(request.job)
        options = self._options.alive(job)[:1]
        if later and (request.slot is None or not options[0].matcher.match(options[0].matcher.usable)):
            options = self._options.reservable(job)[:1]
        return Demand(job, roles, options, gantt.limits(job, roles), hi)

    def _at(self, request: Asked, start: float) -> Claim | None:
        """Return the job's own slot if it is free at ``start``, else the resources free then."""
        gantt = self._fresh()
        if slot := self._own_slot(gantt, request, start):
            return slot
        return _claim(self._search.at(gantt, self._demand(gantt, request, later=start > gantt.now), start).found)

    def _after(self, request: Asked, lo: float, hi: float) -> Claim | None:
        """Return the first place after ``lo``; the job's own slot rather than others at the same start."""
        gantt = self._fresh()
        demand = self._demand(gantt, request, later=True, hi=hi)
        claim = _claim(self._search.earliest(gantt, demand, lo).found)
        if claim is not None and claim.start <= lo:  # on resources that are not there yet
            following = next((instant for instant in self.ends(lo) if instant <= hi), hi)
            claim = None if following == inf else _claim(self._search.earliest(gantt, demand, following).found)
        return None if claim is None else self._own_slot(gantt, request, claim.start) or claim

    def _own_slot(self, gantt: Gantt, request: Asked, start: float) -> Claim | None:
        """Return the job's slot if it begins then and is free, for quotas too."""
        slot = request.slot
        if slot is None or slot.start != start:
            return None
        demand = self._demand(gantt, request, later=True)
        return slot if self._search.put_off(gantt, demand, Found(demand.options[0], slot), start) else None


def _claim(place: Found | None) -> Claim | None:
    return None if place is None else place.claim
