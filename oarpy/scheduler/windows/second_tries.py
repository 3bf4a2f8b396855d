"""New reservations that found no place on their dates, because the planner serves jobs of other queues first.

Each is tried once more beside these jobs: it may get another start inside its window, and is offered others if not.
Reservations of one priority are tried together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.snapshot import Snapshot, WaitingJob


class Dated(Protocol):
    """What was decided about windows, as far as the planner has to agree."""

    def unplaced(self, plan: Plan) -> frozenset[int]:
        """Return the jobs with a date that the planner has no place for."""


class SecondTries:
    """The reservations that are refused so far, and the places in a plan that others are tried ``beside``."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._waiting = snapshot.waiting
        self._depth = Precedence.of(snapshot.queues).depth
        self._priorities = {queue.name: queue.priority for queue in snapshot.queues}
        self.refused = frozenset[int]()
        self.beside: dict[int, Sequence[Placement]] = {}

    def needed(self, dated: Dated, plan: Plan) -> bool:
        """Tell whether the windows must be looked at again after a plan, and note with what."""
        if unplaced := dated.unplaced(plan):
            self.refused |= unplaced
            return True
        untried = [self._jobs[number] for number in sorted(self.refused - self.beside.keys())]
        first = min(map(self._turn, untried), default=None)
        again = {job.id: self._before(job, plan) for job in untried if self._turn(job) == first}
        self.beside |= again
        blocked = {number for number, places in again.items() if places}
        self.refused -= blocked
        return bool(again) and (bool(blocked) or self.needed(dated, plan))

    @cached_property
    def _jobs(self) -> dict[int, WaitingJob]:
        """The jobs that wait, by number; passes that refuse no reservation do without."""
        return {job.id: job for job in self._waiting}

    def _before(self, job: WaitingJob, plan: Plan) -> list[Placement]:
        """Return the places of jobs that the planner serves before a reservation."""
        turn = self._turn(job)
        return [
            place
            for place in plan.placements
            if place.start is not None and (other := self._jobs.get(place.job)) is not None and self._turn(other) < turn
        ]

    def _turn(self, job: WaitingJob) -> tuple[int, float]:
        """Return when the planner serves a job: the least first."""
        return self._depth(job), -self._priorities.get(job.queue, 0)
