"""The planning policies: how a queue is planned once its order is known.

On four processors, job 4 takes one for longer than job 2, the head, can wait::

    conservative           EASY             fcfs                   first fit
    1 1 1 2 2 2 4 4 4 4    1 1 1 2 2 2 .    1 1 1 2 2 2 3 3 . .    1 1 1 . .
    1 1 1 2 2 2 . . . .    1 1 1 2 2 2 .    1 1 1 2 2 2 4 4 4 4    1 1 1 . .
    3 3 . 2 2 2 . . . .    3 3 . 2 2 2 .    . . . 2 2 2 . . . .    3 3 . . .
    . . . 2 2 2 . . . .    . . . 2 2 2 .    . . . 2 2 2 . . . .    4 4 4 4 .

A policy is a class here, which :data:`POLICIES` names, and its name in :data:`oarpy.model.setting_values.PolicyName`. A
policy that foresees every start is also named in :data:`~oarpy.model.setting_values.FORESEEING`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec import structs

from oarpy.scheduler.gantt.demands import Demand
from oarpy.scheduler.gantt.gantt import Gantt, Kept
from oarpy.scheduler.gantt.search import Answer, Found, Search


@dataclass(slots=True)
class Schedule:
    """The Gantt being filled; ``without_head`` is the same without the head of EASY, which may still move."""

    gantt: Gantt
    without_head: Gantt | None = None

    def copy(self) -> Schedule:
        """Return an independent schedule of equal content."""
        return Schedule(self.gantt.copy(), None if self.without_head is None else self.without_head.copy())

    def enter(self, demand: Demand, place: Found) -> None:
        """Let the job hold the place found."""
        self.gantt.enter(demand.job, place.claim)
        if self.without_head is not None:
            self.without_head.enter(demand.job, place.claim)


class PlanningPolicy(Protocol):
    """The planning of one queue, or of several of equal priority: jobs are placed one after the other.

    ``revised`` are placements of earlier jobs that changed since. ``blocked_by_head`` is True if the last searched job
    has no place only because of the head; :meth:`beside` may then find another place.
    """

    revised: dict[int, Found]
    blocked_by_head: bool

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find a place at ``ready`` or later, and leave it free."""

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now that leaves ``kept``, in place of the result of the last :meth:`find`.

        Return None if there is none; the result of :meth:`find` then stays valid.
        """

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Put off the place found last until ``start``; the job may get another place then."""

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold the place found last, by :meth:`find` with the same arguments or another method."""

    def move_on(self, now: float) -> None:
        """Go on at a later instant, up to which all happened as was planned."""

    def twin(self) -> PlanningPolicy:
        """Return an independent policy in the same state."""


class Conservative:
    """Every job gets the earliest place that does not move a job ahead of it."""

    def __init__(self, schedule: Schedule, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self.blocked_by_head = False
        self._schedule, self._search, self._now = schedule, search, now

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place."""
        return self._search.earliest(self._schedule.gantt, demand, ready)

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now, which leaves ``kept``."""
        answer = self._search.at(self._schedule.gantt.beside(kept), demand, self._now)
        return answer if answer.found else None

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Find the same resources for then, or the earliest place from then on."""
        return self._search.put_off(self._schedule.gantt, demand, place, start) or self.find(demand, start)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold its place."""
        if answer.found:
            self._schedule.enter(demand, answer.found)

    def move_on(self, now: float) -> None:
        """Go on at a later instant, up to which all happened as was planned."""
        self._now = now

    def twin(self) -> Conservative:
        """Return an independent policy in the same state."""
        return Conservative(self._schedule.copy(), self._search, self._now)


class FirstComeFirstServed:
    """No job starts before a job ahead of it; jobs that still wait for another job delay no job."""

    def __init__(self, schedule: Schedule, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self.blocked_by_head = False
        self._schedule, self._search, self._floor = schedule, search, now

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place that does not overtake."""
        return self._search.earliest(self._schedule.gantt, demand, max(ready, self._floor))

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now, which leaves ``kept``."""
        answer = self._search.at(self._schedule.gantt.beside(kept), demand, self._floor)
        return answer if answer.found else None

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Find the same resources for then, or the earliest place from then on."""
        return self._search.put_off(self._schedule.gantt, demand, place, start) or self.find(demand, start)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold its place; no job behind it starts before that."""
        if answer.found:
            self._schedule.enter(demand, answer.found)
            if ready <= self._floor:
                self._floor = answer.found.claim.start

    def move_on(self, now: float) -> None:
        """Go on at a later instant; no job starts before it any more."""
        self._floor = max(self._floor, now)

    def twin(self) -> FirstComeFirstServed:
        """Return an independent policy in the same state."""
        return FirstComeFirstServed(self._schedule.copy(), self._search, self._floor)


class Easy:
    """The first job that cannot start now, the head, is promised its earliest start; others start now or not at all.

    A job starts when the head can still start at its promised date. The head's resources may change for that, its date
    does not (Lifka, The ANL/IBM SP scheduling system, 1995). Job 3 wants one core for five units::

        2 is promised    3 starts, 2 keeps its date
        1 1 1 . .        1 1 1 2 2
        1 1 1 2 2        1 1 1 2 2
        . . . 2 2        . . . 2 2
        . . . 2 2        3 3 3 3 3
    """

    def __init__(self, schedule: Schedule, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self.blocked_by_head = False
        self._schedule, self._search, self._now = schedule, search, now
        self._schedule.without_head = None
        self._head: tuple[Demand, Found] | None = None
        self._moved: tuple[Gantt, Found] | None = None
        """The Gantt without the head after the last job was entered there, and the place of the head then."""

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find a start now, or a date if the job becomes the head; else it has no prediction."""
        self._moved, self.blocked_by_head = None, False
        if ready > self._now:
            return Answer(None, None)
        if self._head is None:
            return self._search.earliest(self._schedule.gantt, demand, self._now)
        answer = self._search.at(self._schedule.gantt, demand, self._now)
        return answer if answer.found else self._squeeze(demand, self._head)

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now, which leaves ``kept``; the head may move for it as for any other."""
        moved, self._moved = self._moved, None
        answer = self._search.at(self._schedule.gantt.beside(kept), demand, self._now)
        if answer.found is None and self._head is not None:
            answer = self._squeeze(demand, self._head, kept)
        if answer.found is None:
            self._moved = moved
            return None
        return answer

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Find the same resources at ``start``; resources of the head are not taken later than now."""
        squeezed, self._moved = self._moved is not None, None
        later = None if squeezed else self._search.put_off(self._schedule.gantt, demand, place, start)
        return later or Answer(None, None)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Start the job now, or make it the head."""
        place = answer.found
        if place is None:
            return
        if self._moved is not None and self._head is not None:
            self._move_head(self._head[0], *self._moved)
        elif place.claim.start > self._now and self._head is None:
            self._head = demand, place
            self._schedule.without_head = self._schedule.gantt.copy()
            self._schedule.gantt.enter(demand.job, place.claim)
        else:
            self._schedule.enter(demand, place)

    def move_on(self, now: float) -> None:
        """Go on at a later instant, up to which all happened as was planned."""
        self._now = now

    def twin(self) -> Easy:
        """Return an independent policy in the same state."""
        twin = Easy(Schedule(self._schedule.gantt), self._search, self._now)
        twin._schedule = self._schedule.copy()
        twin._head = self._head
        return twin

    def _squeeze(self, demand: Demand, head: tuple[Demand, Found], kept: Kept | None = None) -> Answer:
        """Find a start now on the resources of the head, if the head finds other resources for its date."""
        owner, promised = head
        if self._schedule.without_head is None:
            return Answer(None, None)
        room = self._schedule.without_head if kept is None else self._schedule.without_head.beside(kept)
        answer = self._search.at(room, demand, self._now)
        if answer.found is None:
            return answer
        without_head = self._schedule.without_head.copy()
        without_head.enter(demand.job, answer.found.claim)
        again = self._search.at(without_head, structs.replace(owner, options=(promised.option,)), promised.claim.start)
        self.blocked_by_head = again.found is None
        if again.found is None:
            return Answer(None, None)
        self._moved = without_head, again.found
        return answer

    def _move_head(self, owner: Demand, without_head: Gantt, place: Found) -> None:
        """Start from the Gantt without the head, which holds the job that starts, and give the head its new place."""
        self._head = owner, place
        self.revised[owner.job.id] = place
        self._schedule.without_head = without_head
        self._schedule.gantt = without_head.copy()
        self._schedule.gantt.enter(owner.job, place.claim)


class FirstFit:
    """A job that can start now starts; any other job holds nothing and has no prediction (Graham's list scheduling).

    So no job waits while its resources are free, but a steady stream of small jobs may keep a large job waiting for
    ever.
    """

    def __init__(self, schedule: Schedule, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self.blocked_by_head = False
        self._schedule, self._search, self._now = schedule, search, now

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find a start now."""
        return Answer(None, None) if ready > self._now else self._search.at(self._schedule.gantt, demand, self._now)

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now, which leaves ``kept``."""
        answer = self._search.at(self._schedule.gantt.beside(kept), demand, self._now)
        return answer if answer.found else None

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Find the same resources for then."""
        return self._search.put_off(self._schedule.gantt, demand, place, start) or Answer(None, None)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Start the job now."""
        if answer.found:
            self._schedule.enter(demand, answer.found)

    def move_on(self, now: float) -> None:
        """Go on at a later instant, up to which all happened as was planned."""
        self._now = now

    def twin(self) -> FirstFit:
        """Return an independent policy in the same state."""
        return FirstFit(self._schedule.copy(), self._search, self._now)


POLICIES: Mapping[str, Callable[[Schedule, Search, float], PlanningPolicy]] = {
    "conservative": Conservative,
    "fcfs": FirstComeFirstServed,
    "easy": Easy,
    "first_fit": FirstFit,
}
