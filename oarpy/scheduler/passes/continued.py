"""A pass that is kept, and goes on when jobs were added behind all others.

It keeps the planner with its timeline and, for each searched job, the inquiry with its result. So it can say later,
without a search, why the job waits then. Another module decides whether a pass may go on
(:mod:`oarpy.scheduler.passes.changes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.job_roles import Profile
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.order.ranking import Ranking
from oarpy.scheduler.passes.planner import Inquiry, Planner
from oarpy.scheduler.passes.turns import Stage, Turn
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import HoldingJob, Snapshot
from oarpy.scheduler.verdicts import Verdict


class ContinuedPass:
    """Conservative backfilling that can be continued: :meth:`run`, then :meth:`go_on` any number of times."""

    def __init__(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> None:
        self.planner = Planner(snapshot, orders, matchers)
        self._snapshot, self._orders, self._matchers = snapshot, orders, matchers
        self._inquiries: dict[int, Inquiry] = {}

    @property
    def stages(self) -> list[Stage]:
        """The stages that had jobs, in the order in which they were planned."""
        return self.planner.begun

    def knows(self, profile: Profile) -> bool:
        """Tell whether the timelines serve jobs of this profile."""
        return self.planner.gantt.knows(profile)

    def ranking(self, snapshot: Snapshot) -> Ranking:
        """Return the ranking that orders the jobs of ``snapshot``."""
        options = CompiledRequests(snapshot, self._matchers)
        return Ranking(self._orders, options.size, snapshot.now, snapshot.priorities)

    def run(self) -> None:
        """Look at every job."""
        for turn in self.planner.turns():
            self.look_at(turn)

    def look_at(self, turn: Turn) -> None:
        """Settle or park the job of a turn, and keep its inquiry."""
        job, inquiry = turn.job, self.planner.look_at(turn)
        if inquiry is not None and job.reservation is None and job.id in self.planner.decisions:
            self._inquiries[job.id] = inquiry

    def go_on(self, snapshot: Snapshot, started: Sequence[HoldingJob], fresh: Iterable[Stage]) -> set[int]:
        """Plan ``snapshot``: jobs that ``started`` as planned hold now, the jobs of ``fresh`` come behind all others.

        Return the jobs whose decision changed or is new.
        """
        before, self._snapshot = self.planner.now, snapshot
        self.planner.move_on(snapshot)
        self._forget(job.id for job in started)
        changed = self._decide_again(before, started) if started or snapshot.now > before else set()
        for stage in fresh:
            self._add(stage)
            changed.update(job.id for job in stage.jobs)
        self.planner.set_aside_the_parked()
        return changed

    def _forget(self, jobs: Iterable[int]) -> None:
        """Drop the inquiries of jobs that do not wait any more."""
        gone = set(jobs)
        self.planner.forget(gone)
        for number in gone:
            self._inquiries.pop(number, None)

    def _add(self, stage: Stage) -> None:
        """Look at the jobs of a stage, which is the last one or comes after it."""
        last = self.stages[-1]
        if (stage.queues, stage.depth) != (last.queues, last.depth):
            last = Stage(stage.queues, stage.depth)
            self.planner.begin(last)
        last.jobs += stage.jobs
        for turn in self.planner.turns_in_order(stage.jobs):
            self.look_at(turn)

    def _decide_again(self, before: float, started: Sequence[HoldingJob]) -> set[int]:
        """Bring the decisions made at ``before`` up to date; all placements stand."""
        now, security = self._snapshot.now, self._snapshot.security_time
        baseline = self.planner.explainer.baseline
        moved = _moves(baseline.whole.exclusive.after(before), now)
        moved = moved or any(job.start > before for job in self._snapshot.holding)
        ends = {job.end + security for job in started}
        baseline.now = now
        baseline.hold(started)
        changed = set()
        for number, inquiry in self._inquiries.items():
            place = inquiry.answer.found
            starts = place is not None and place.claim.start <= now
            if not (starts or moved) and (not started or self._is_still_held_up(number, inquiry, ends)):
                continue
            ready = inquiry.ready if inquiry.ready > before else now
            decision = self.planner.decide(Inquiry(inquiry.demand, ready, inquiry.answer, now))
            if decision != self.planner.decisions[number]:
                self.planner.decisions[number] = decision
                changed.add(number)
        return changed

    def _is_still_held_up(self, number: int, inquiry: Inquiry, ends: set[float]) -> bool:
        """Tell whether a job waits for the same as before: no started job ends at its planned start."""
        place = inquiry.answer.found
        busy = self.planner.decisions[number].verdict is Verdict.RESOURCES_BUSY
        return busy and place is not None and place.claim.start not in ends


def _moves(boundary: float | None, now: float) -> bool:
    """Tell whether the next change of the timeline, if there is one, has come by ``now``."""
    return boundary is not None and boundary <= now
