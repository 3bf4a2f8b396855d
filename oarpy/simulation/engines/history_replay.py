"""Replays a site's past through the production planner, with every request as it was made.

Unlike the replay of a trace it handles hierarchies, filters, types, moldable jobs, dependencies, reservations, quotas
and best-effort jobs: each pass follows :func:`~oarpy.scheduler.decide.decide`. Within one instant completions come
first, then arrivals, then passes until no job leaves any more. Further passes take place when time alone changes a
decision. A job holds its resources until its real run time is over, or its walltime if that is shorter. A job that
gives way is gone when it has written its checkpoint.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from msgspec import structs

from oarpy.model.billing import GPU
from oarpy.model.reasons import Reason, sentence
from oarpy.scheduler.decide import decide
from oarpy.scheduler.gantt.exclusive_levels import Blocks
from oarpy.scheduler.gantt.gantt import bits_held
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.budgets import Charge
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.rules.dependencies import Span
from oarpy.scheduler.rules.reservations import JobStart, promised
from oarpy.scheduler.snapshot import HoldingJob, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.simulation.engines.engine import Watcher, ignore_progress
from oarpy.simulation.traces.past import Admission, LiveJobs, Occupation, PastJob, RefusedJob, admit_as_they_were
from oarpy.simulation.traces.past_usage import PastUsage


@dataclass(frozen=True, slots=True)
class Run:
    """The start and the end of a job in the replay (epoch seconds), and its resources (ids).

    ``cancelled`` is true for a best-effort job that gave way.
    """

    start: float
    end: float
    resources: tuple[int, ...]
    cancelled: bool = False


@dataclass(slots=True)
class ReplayOutcome:
    """The outcome of each job, by id: its run, or why it was refused or never started."""

    runs: dict[int, Run] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    not_started: dict[int, str] = field(default_factory=dict)


class HistoryReplay:
    """One replay. ``base`` holds what does not change, platform, queues, quotas, filters, policy, and projects."""

    def __init__(
        self,
        base: Snapshot,
        jobs: Sequence[PastJob],
        occupations: Sequence[Occupation],
        orders: Mapping[str, Order],
        *,
        admission: Admission = admit_as_they_were,
        usage_window: float = 0,
    ) -> None:
        self._base = base
        self._orders = orders
        self._admission = admission
        self._matchers = Matchers(base.platform)
        self._usage = PastUsage.watched(base, usage_window)
        self._arrivals = sorted(jobs, key=lambda past: (past.job.submitted, past.job.id))
        self._arrived = 0
        self._past: dict[int, PastJob] = {}
        self._waiting: dict[int, WaitingJob] = {}
        self._reasons: dict[int, Reason] = {}
        self._holding = {occupation.job.id: occupation.job for occupation in occupations}
        self._succeeded = {occupation.job.id: occupation.succeeded for occupation in occupations}
        self._ended: dict[int, Literal["ok", "notok"]] = dict(base.outcomes)
        self._spans: dict[int, Span] = {
            **base.spans,
            **{job.id: (job.start, job.end) for job in self._holding.values()},
        }
        self._reserved: dict[int, Reservation] = {}
        self._leaving: dict[int, float] = {}
        """The ends of jobs that give way."""
        self._ends = [(occupation.until, occupation.job.id) for occupation in occupations]
        heapq.heapify(self._ends)
        self._wake: float | None = None
        self.outcome = ReplayOutcome()

    def run(self, watch: Watcher = ignore_progress) -> ReplayOutcome:
        """Replay to the end. ``watch`` is called with the number of jobs that have been settled so far."""
        while (now := self._next_instant()) is not None:
            self._complete(now)
            self._arrive(now)
            if self._wake is not None and self._wake <= now:
                self._wake = None
            while (self._waiting or self._reserved) and self._pass(now):
                pass
            watch(len(self.outcome.runs) + len(self.outcome.refused))
        for job in self._waiting:
            reason = self._reasons.get(job)
            self.outcome.not_started[job] = "never planned" if reason is None else self._text(reason)
        return self.outcome

    def _next_instant(self) -> float | None:
        """Return the next instant: an end, a submission, or the wake-up time of the last pass."""
        instants = [self._wake] if self._wake is not None else []
        if self._ends:
            instants.append(self._ends[0][0])
        if self._arrived < len(self._arrivals):
            instants.append(self._arrivals[self._arrived].job.submitted)
        return min(instants, default=None)

    def _complete(self, now: float) -> None:
        """End the jobs whose time has come by ``now``."""
        while self._ends and self._ends[0][0] <= now:
            end, number = heapq.heappop(self._ends)
            job = self._holding.get(number)
            if job is None:
                continue  # a cancelled job left before the end that was noted for it
            if self._leaving.pop(number, None) == end:
                self._give_way(job, end)
            else:
                self._leave(job, end, succeeded=self._succeeded[number])

    def _leave(self, job: HoldingJob, end: float, *, succeeded: bool) -> None:
        """Take a job out, and keep the data that dependants need: its outcome and its span."""
        del self._holding[job.id]
        self._ended[job.id] = "ok" if succeeded else "notok"
        self._spans[job.id] = job.start, end
        self._usage.add(job, end)
        if (projects := self._base.projects) is not None and not job.besteffort and roles_of(job).counted:
            platform = self._base.platform
            bits = bits_held(platform, job)
            blocks = Blocks(
                platform, (GPU,), {consumable.name: consumable.level for consumable in self._base.consumables}
            )
            held = blocks.billed(bits, blocks.of_holder(job), job.consumes, projects.weights)
            charge = Charge(job.start, end, projects.rate(job.project, held))
            self._base = replace(self._base, projects=projects.with_use(job.project, charge))

    def _arrive(self, now: float) -> None:
        """Submit the jobs whose date has come by ``now``; admission may refuse some."""
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].job.submitted <= now:
            past = self._arrivals[self._arrived]
            self._arrived += 1
            live = LiveJobs(tuple(self._waiting.values()), self._all_holding(now))
            admitted = self._admission(past, now, live)
            if isinstance(admitted, RefusedJob):
                self.outcome.refused[past.job.id] = admitted.reason
                self._ended[past.job.id] = "notok"
            else:
                self._past[past.job.id] = admitted
                self._waiting[past.job.id] = admitted.job

    def _all_holding(self, now: float) -> tuple[HoldingJob, ...]:
        """Return the jobs that hold resources, accepted reservations included."""
        promises = (promised(reservation, now) for reservation in self._reserved.values())
        return (*self._holding.values(), *(job for job in promises if job is not None))

    def _pass(self, now: float) -> bool:
        """Decide, and carry out the decisions. Return whether another pass is due at once.

        It is if jobs left, or reservations were accepted.
        """
        snapshot = replace(
            self._base,
            now=now,
            holding=self._all_holding(now),
            reservations=tuple(self._reserved.values()),
            waiting=tuple(self._waiting.values()),
            outcomes=self._ended,
            spans=self._spans,
            priorities=self._usage.priorities(now, self._holding.values()),
        )
        decided = decide(snapshot, None, self._orders, self._matchers)
        for start in decided.starts:
            self._start(start, now)
        for placement in decided.accepted:
            self._accept(placement)
        for refusal in decided.refused:
            self._refuse(refusal.job, self._text(refusal.reason).removeprefix("reservation "))
        self._note_reasons(decided.plan)
        self._wake = decided.wake_at
        gone = [self._cancel(number, now) for number in decided.victims if number not in self._leaving]
        return any(gone) or bool(decided.accepted)

    def _note_reasons(self, plan: Plan) -> None:
        """Remember why jobs wait; refuse jobs that can never be served."""
        for placement in plan.placements:
            if placement.job in self._waiting:
                if placement.verdict is Verdict.NEVER:
                    self._refuse(placement.job, self._text(placement.reason))
                else:
                    self._reasons[placement.job] = placement.reason

    def _text(self, reason: Reason) -> str:
        return sentence(reason, self._base.show_instant)

    def _refuse(self, number: int, reason: str) -> None:
        """Take a job out that will never run, and note why."""
        self._waiting.pop(number, None)
        self._reserved.pop(number, None)
        self._ended[number] = "notok"
        self.outcome.refused[number] = reason

    def _accept(self, placement: Placement) -> None:
        """Keep a new reservation where the pass has placed it."""
        assert placement.start is not None
        assert placement.alternative is not None
        job = self._waiting.pop(placement.job)
        way = job.alternatives[placement.alternative]
        self._reserved[job.id] = Reservation(
            structs.replace(job, alternatives=(way,)),
            placement.start,
            way.walltime,
            tuple(placement.resources),
            placement.alternative,
        )

    def _start(self, start: JobStart, now: float) -> None:
        """Start a job, and note when it will really end."""
        reserved = self._reserved.pop(start.job, None)
        past, resources = self._past[start.job], tuple(self._base.platform.ids_of(start.bits))
        job = self._waiting.pop(start.job) if reserved is None else past.job
        end = now + min(past.runs[start.alternative], start.walltime)
        self._holding[job.id] = HoldingJob(
            job.id,
            job.user,
            now,
            start.walltime,
            resources,
            job.project,
            job.queue,
            job.name,
            job.types,
            bits=start.bits,
            consumes=job.alternatives[start.alternative].consumes,
            levels=job.alternatives[start.alternative].levels,
            checkpoint=past.checkpoint,
        )
        self._succeeded[job.id] = past.succeeded
        self._spans[job.id] = now, now + start.walltime
        heapq.heappush(self._ends, (end, job.id))
        self.outcome.runs[job.id] = Run(now, end, resources)

    def _cancel(self, number: int, now: float) -> bool:
        """Cancel a best-effort job. Return whether it is gone at once, without a checkpoint to write."""
        if number in self._reserved:
            self._refuse(number, "it gave way before it began")
            return True
        job = self._holding[number]
        if job.checkpoint:
            self._leaving[number] = now + job.checkpoint
            heapq.heappush(self._ends, (now + job.checkpoint, number))
            return False
        self._give_way(job, now)
        return True

    def _give_way(self, job: HoldingJob, now: float) -> None:
        """Let a best-effort job be gone before its end."""
        self._leave(job, now, succeeded=False)
        if job.id in self.outcome.runs:
            self.outcome.runs[job.id] = replace(self.outcome.runs[job.id], end=now, cancelled=True)
