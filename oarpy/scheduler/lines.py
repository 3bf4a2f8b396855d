"""How a queue is planned once its order is known: conservative backfilling, EASY, first come first served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from oarpy.scheduler.demands import Demand
from oarpy.scheduler.gantt import Gantt
from oarpy.scheduler.search import Answer, Found, Search


@dataclass(slots=True)
class Board:
    """The Gantt being filled; ``lifted`` is the same without the reservation of the head that EASY may still move."""

    gantt: Gantt
    lifted: Gantt | None = None

    def copy(self) -> Board:
        """Return an independent board of equal content."""
        return Board(self.gantt.copy(), None if self.lifted is None else self.lifted.copy())

    def enter(self, demand: Demand, found: Found) -> None:
        """Let the job hold what was found."""
        self.gantt.enter(demand.job, found.claim)
        if self.lifted is not None:
            self.lifted.enter(demand.job, found.claim)


class Line(Protocol):
    """One queue (or several of equal priority) being planned: jobs are placed one after the other.

    ``revised`` are placements of jobs placed before that still changed.
    """

    revised: dict[int, Found]

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find a place at ``ready`` or later, and leave it free."""

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold what the last :meth:`find`, of the same arguments, has found."""

    def twin(self) -> Line:
        """Return an independent line in the same state."""


class Conservative:
    """Every job gets the earliest place that moves nobody ahead of it."""

    def __init__(self, board: Board, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self._board, self._search, self._now = board, search, now

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place."""
        return self._search.earliest(self._board.gantt, demand, ready)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold its place."""
        if answer.found:
            self._board.enter(demand, answer.found)

    def twin(self) -> Conservative:
        """Return an independent line in the same state."""
        return Conservative(self._board.copy(), self._search, self._now)


class FirstComeFirstServed:
    """No job starts before one ahead of it; jobs that still wait for another job hold nobody up."""

    def __init__(self, board: Board, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self._board, self._search, self._floor = board, search, now

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place that does not overtake."""
        return self._search.earliest(self._board.gantt, demand, max(ready, self._floor))

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold its place, before which nobody behind it starts."""
        if answer.found:
            self._board.enter(demand, answer.found)
            if ready <= self._floor:
                self._floor = answer.found.claim.start

    def twin(self) -> FirstComeFirstServed:
        """Return an independent line in the same state."""
        return FirstComeFirstServed(self._board.copy(), self._search, self._floor)


class Easy:
    """The first job that cannot start now, the head, is promised its earliest start; others start now or not at all.

    A job starts when the head can still start at its promised date. The head's resources may change for that, its date
    does not (Lifka, The ANL/IBM SP scheduling system, 1995).
    """

    def __init__(self, board: Board, search: Search, now: float) -> None:
        self.revised: dict[int, Found] = {}
        self._board, self._search, self._now = board, search, now
        self._board.lifted = None
        self._head: tuple[Demand, Found] | None = None
        self._moved: tuple[Gantt, Found] | None = None
        """What the job that was looked at last makes of the Gantt without the head, and where the head then goes."""

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find a start now, or a date if the job becomes the head; else it has no prediction."""
        self._moved = None
        if ready > self._now:
            return Answer(None, None)
        if self._head is None:
            return self._search.earliest(self._board.gantt, demand, self._now)
        answer = self._search.at(self._board.gantt, demand, self._now)
        return answer if answer.found else self._squeeze(demand, self._head)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Start the job now, or make it the head."""
        found = answer.found
        if found is None:
            return
        if self._moved is not None and self._head is not None:
            self._move_head(self._head[0], *self._moved)
        elif found.claim.start > self._now and self._head is None:
            self._head = demand, found
            self._board.lifted = self._board.gantt.copy()
            self._board.gantt.enter(demand.job, found.claim)
        else:
            self._board.enter(demand, found)

    def twin(self) -> Easy:
        """Return an independent line in the same state."""
        twin = Easy(Board(self._board.gantt), self._search, self._now)
        twin._board = self._board.copy()
        twin._head = self._head
        return twin

    def _squeeze(self, demand: Demand, head: tuple[Demand, Found]) -> Answer:
        """Find a start now on what the head would take, if the head finds other resources for its date."""
        owner, promised = head
        if self._board.lifted is None:
            return Answer(None, None)
        answer = self._search.at(self._board.lifted, demand, self._now)
        if answer.found is None:
            return answer
        without_head = self._board.lifted.copy()
        without_head.enter(demand.job, answer.found.claim)
        again = self._search.at(without_head, replace(owner, options=(promised.option,)), promised.claim.start)
        if again.found is None:
            return Answer(None, None)
        self._moved = without_head, again.found
        return answer

    def _move_head(self, owner: Demand, without_head: Gantt, found: Found) -> None:
        self._head = owner, found
        self.revised[owner.job.id] = found
        self._board.lifted = without_head
        self._board.gantt = without_head.copy()
        self._board.gantt.enter(owner.job, found.claim)


LINES: Mapping[str, type[Conservative] | type[FirstComeFirstServed] | type[Easy]] = {
    "conservative": Conservative,
    "fcfs": FirstComeFirstServed,
    "easy": Easy,
}
