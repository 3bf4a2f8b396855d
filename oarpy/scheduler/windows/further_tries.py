"""New reservations that found no place on their dates, because the planner serves jobs of other queues first.

Each is tried once more beside these jobs: it may get another start inside its window, and is offered others if not.
These jobs may then take the room that others leave by moving for it. So it is tried a last time, and nobody moves for
it. Reservations of one priority are tried together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.snapshot import Snapshot, WaitingJob


class Dated(Protocol):
    """What was decided about windows, as far as the planner has to agree: dates of reservations."""

    @property
    def dated(self) -> Mapping[int, int]:
        """New reservations with a date, each with its alternative."""

    def unplaced(self, plan: Plan) -> frozenset[int]:
        """Return the jobs with a date that the planner has no place for."""


class FurtherTries:
    """The reservations that are refused so far, and the places in a plan that others are tried ``beside``.

    No other reservation moves for those that are ``alone``: this is their last try.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._waiting = snapshot.waiting
        self._depth = Precedence.of(snapshot).depth
        self._priorities = {queue.name: queue.priority for queue in snapshot.queues}
        self.refused = frozenset[int]()
        self.beside: dict[int, Sequence[Placement]] = {}
        self.alone = frozenset[int]()
        self._hopeless = frozenset[int]()
        """Refused reservations that no job is served before: the planner would say the same again."""

    def needed(self, dated: Dated, plan: Plan) -> bool:
        """Tell whether the windows must be looked at again after a plan, and note with what."""
        if unplaced := dated.unplaced(plan):
            self.refused |= unplaced
            return True
        untried = [self._jobs[number] for number in sorted(self.refused - self.alone - self._hopeless)]
        first = min(map(self._turn, untried), default=None)
        together = [job for job in untried if self._turn(job) == first]
        again = {job.id: places for job in together if (places := self._before(job, dated, plan))}
        self._hopeless |= {job.id for job in together} - again.keys()
        self.alone |= again.keys() & self.beside.keys()
        self.beside = {number: places for number, places in self.beside.items() if number not in again} | again
        self.refused -= again.keys()
        return first is not None and (bool(again) or self.needed(dated, plan))

    @cached_property
    def _jobs(self) -> dict[int, WaitingJob]:
        """The jobs that wait, by number; passes that refuse no reservation do without."""
        return {job.id: job for job in self._waiting}

    def _before(self, job: WaitingJob, dated: Dated, plan: Plan) -> list[Placement]:
        """Return the places of jobs that the planner serves before a reservation, or that it dated itself."""
        turn = self._turn(job)
        return [
            place
            for place in plan.placements
            if place.start is not None
            and (other := self._jobs.get(place.job)) is not None
            and (self._turn(other) < turn or (other.reservation is not None and other.id not in dated.dated))
        ]

    def _turn(self, job: WaitingJob) -> tuple[int, float]:
        """Return when the planner serves a job: the least first."""
        return self._depth(job), -self._priorities.get(job.queue, 0)
