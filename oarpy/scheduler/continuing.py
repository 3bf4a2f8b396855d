"""A planner that is kept after its pass, and goes on from there when jobs were added behind all others.

It keeps the timeline and, for each job that was weighed, what was asked and found: enough to say later, without a
search, why the job waits then. Whether a pass may go on is decided elsewhere (:mod:`oarpy.scheduler.replan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.scheduler.demands import Demand, Options
from oarpy.scheduler.dependencies import Dependencies
from oarpy.scheduler.matching import Matchers
from oarpy.scheduler.orders import Order
from oarpy.scheduler.planner import Decision, Planner, Turn
from oarpy.scheduler.ranking import Ranking
from oarpy.scheduler.roles import Profile
from oarpy.scheduler.search import Answer
from oarpy.scheduler.snapshot import HoldingJob, Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict


@dataclass(slots=True)
class Stage:
    """Queues planned together: their best-effort jobs or the others, in order, reservations left out."""

    queues: tuple[Queue, ...]
    besteffort: bool
    jobs: list[WaitingJob]


@dataclass(frozen=True, slots=True)
class _Weighed:
    """What was asked for a job, from when on, and what was found."""

    demand: Demand
    ready: float
    answer: Answer


class Continuing(Planner):
    """Conservative backfilling that can be continued."""

    def __init__(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> None:
        super().__init__(snapshot, orders, matchers)
        self._orders, self._matchers = orders, matchers
        self._weighed: dict[int, _Weighed] = {}
        self._last_explainer = self._explainer
        self.stages: list[Stage] = []
        """Those that had jobs, in the order in which they were planned."""
        self.parked = False
        """True when a job was looked at only after one behind it, which it needs."""

    def knows(self, profile: Profile) -> bool:
        """Tell whether the timelines serve jobs of this profile."""
        return self._board.gantt.knows(profile)

    def ordered(self, snapshot: Snapshot, jobs: list[WaitingJob], queue: Queue) -> list[WaitingJob]:
        """Order ``jobs`` of ``snapshot`` by the policy of ``queue``. Raises ``BrokenPolicy``."""
        options = Options(snapshot, self._matchers)
        return Ranking(self._orders, options.size, snapshot.now, snapshot.priorities).ordered(jobs, queue)

    def go_on(self, snapshot: Snapshot, started: Sequence[HoldingJob], fresh: Iterable[Stage]) -> set[int]:
        """Plan ``snapshot``: jobs that ``started`` as planned hold now, those of ``fresh`` come behind all others.

        Return the jobs whose decision changed or is new.
        """
        before, self._now, self._snapshot = self._now, snapshot.now, snapshot
        self._options = Options(snapshot, self._matchers)
        self._dependencies: Dependencies = self._dependencies.later(snapshot)
        # conditions of new jobs are known to the new options alone
        self._explainer = self._last_explainer = self._explaining(self._last_explainer.baseline)
        self._board.gantt.now = snapshot.now
        self._forget(job.id for job in started)
        changed = self._decide_again(before, started) if started or snapshot.now > before else set()
        for stage in fresh:
            self._add(stage)
            changed.update(job.id for job in stage.jobs)
        self._set_aside_the_parked()
        return changed

    def _run_queues(self, queues: Sequence[Queue], jobs: Sequence[WaitingJob]) -> None:
        self.stages.append(Stage(tuple(queues), jobs[0].besteffort, []))
        self._last_explainer = self._explainer
        super()._run_queues(queues, jobs)

    def _ordered(self, jobs: list[WaitingJob], queues: list[Queue]) -> list[WaitingJob]:
        self.stages[-1].jobs = super()._ordered(jobs, queues)
        return self.stages[-1].jobs

    def _park(self, needed: int | str, turn: Turn) -> None:
        self.parked = True
        super()._park(needed, turn)

    def _decide(self, demand: Demand, ready: float, answer: Answer) -> Decision:
        self._weighed[demand.job.id] = _Weighed(demand, ready, answer)
        return super()._decide(demand, ready, answer)

    def _forget(self, jobs: Iterable[int]) -> None:
        gone = set(jobs)
        for number in gone:
            self.decisions.pop(number, None)
            self._weighed.pop(number, None)
        if gone:
            for stage in self.stages:
                stage.jobs = [job for job in stage.jobs if job.id not in gone]

    def _add(self, stage: Stage) -> None:
        """Look at the jobs of a stage, which is the last one or comes after it."""
        last = self.stages[-1]
        if (stage.queues, stage.besteffort) != (last.queues, last.besteffort):
            self.stages.append(Stage(stage.queues, stage.besteffort, []))
            if stage.besteffort and not last.besteffort:
                self._explainer = self._last_explainer = self._besteffort_explaining()
        line = self._line()
        for job in stage.jobs:
            self.stages[-1].jobs.append(job)
            self._look_at_rationed(job, line)

    def _decide_again(self, before: float, started: Sequence[HoldingJob]) -> set[int]:
        """Bring the decisions made at ``before`` up to date; all placements stand."""
        baseline = self._explainer.baseline
        moved = _moves(baseline.whole.exclusive.after(before), self._now)
        moved = moved or any(job.start > before for job in self._snapshot.holding)
        ends = {job.end + self._snapshot.security_time for job in started}
        baseline.now = self._now
        baseline.hold(started)
        self._explainer = self._last_explainer = self._explaining(baseline)
        changed = set()
        for number, weighed in self._weighed.items():
            if not moved and (not started or self._is_still_held_up(number, weighed, ends)):
                found = weighed.answer.found
                if found is None or found.claim.start > self._now:
                    continue
            ready = weighed.ready if weighed.ready > before else self._now
            decision = super()._decide(weighed.demand, ready, weighed.answer)
            if decision != self.decisions[number]:
                self.decisions[number] = decision
                changed.add(number)
        return changed

    def _is_still_held_up(self, number: int, weighed: _Weighed, ends: set[float]) -> bool:
        """Tell whether a job waits for the same as before, more being held: nobody who started ends when it begins."""
        found = weighed.answer.found
        busy = self.decisions[number].verdict is Verdict.RESOURCES_BUSY
        return busy and found is not None and found.claim.start not in ends


def _moves(boundary: float | None, now: float) -> bool:
    """Tell whether something ends, or begins, up to ``now``."""
    return boundary is not None and boundary <= now
