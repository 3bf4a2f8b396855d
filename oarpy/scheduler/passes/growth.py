"""Extensions of running jobs: a job keeps its extension until its end.

So an extension is the shorter the later it begins.

::

    the job      1 1 1 1 1 1 1 1 1 1
    in its way   2 2 2 . . 3 3 . . .
    extension    . . . . . . . 1 1 1     the earliest instant from which all is free until the end
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from oarpy.scheduler.gantt.demands import Demand
from oarpy.scheduler.gantt.gantt import Kept
from oarpy.scheduler.gantt.search import Answer, Found, Search
from oarpy.scheduler.passes.backfilling import Schedule


class UntilEnd:
    """Places extensions under every policy: jobs ahead of them do not move, and the extensions hold their places."""

    def __init__(self, schedule: Schedule, search: Search) -> None:
        self.revised: dict[int, Found] = {}
        self.blocked_by_head = False
        self._schedule, self._search = schedule, search

    def find(self, demand: Demand, ready: float) -> Answer:
        """Find the earliest place that lasts until the job ends.

        An extension that fits from one instant on fits from every later one, so the search halves the remaining
        instants.
        """
        part = demand.job.part
        assert part is not None
        views = self._schedule.gantt.views(demand.roles, levels=demand.options[0].levels)
        changes = {instant for view in views for instant in view.begins if ready < instant < part.until}
        instants = [ready, *sorted(changes)] if ready < part.until else []
        best, first, last = Answer(None, None), 0, len(instants)
        while first < last:
            middle = (first + last) // 2 if first else 0  # most can begin at once
            answer = self._at(demand, instants[middle], part.until)
            if answer.found:
                best, last = answer, middle
            else:
                best = answer if best.found is None and best.fitted is None else best
                first = middle + 1
        return best

    def _at(self, demand: Demand, start: float, until: float, kept: Kept | None = None) -> Answer:
        """Find the place from one instant on."""
        options = tuple(replace(option, walltime=until - start) for option in demand.options)
        gantt = self._schedule.gantt if kept is None else self._schedule.gantt.beside(kept)
        return self._search.at(gantt, structs.replace(demand, options=options), start)

    def beside(self, demand: Demand, kept: Kept) -> Answer | None:
        """Find another start now, which leaves ``kept``."""
        part, now = demand.job.part, self._schedule.gantt.now
        assert part is not None
        answer = self._at(demand, now, part.until, kept)
        return answer if answer.found else None

    def put_off(self, demand: Demand, place: Found, start: float) -> Answer:
        """Find the same resources if they begin at ``start`` already, else the earliest place from then on."""
        same = self._search.put_off(self._schedule.gantt, demand, place, start) if start == place.claim.start else None
        return same or self.find(demand, start)

    def enter(self, demand: Demand, ready: float, answer: Answer) -> None:
        """Let the job hold its place."""
        if answer.found:
            self._schedule.enter(demand, answer.found)

    def move_on(self, now: float) -> None:
        """Go on at a later instant; each job comes with its own ready time."""

    def twin(self) -> UntilEnd:
        """Return an independent policy in the same state."""
        return UntilEnd(self._schedule.copy(), self._search)
