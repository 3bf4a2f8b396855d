"""Replays a site's past through the production planner, with every request as it was made.

Unlike the replay of a trace it knows hierarchies, filters, types, moldable jobs, dependencies, reservations, quotas and
best-effort jobs. Within one instant completions come first, then arrivals, then best-effort jobs give way to
reservations whose date has come, then passes until nothing more moves; further passes take place at the instants for
which the plan foresees starts, and at those that jobs asked to wait for. A job holds what the planner gave it until its
real run time is over, or until its walltime if that is shorter.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from oarpy.scheduler.consumables import Capacities, giving_way
from oarpy.scheduler.dependencies import Span, earliest_start
from oarpy.scheduler.gantt import bits_held
from oarpy.scheduler.matching import Matchers
from oarpy.scheduler.orders import Order
from oarpy.scheduler.plan import Placement, plan
from oarpy.scheduler.roles import roles_of
from oarpy.scheduler.snapshot import HoldingJob, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from oarpy.simulation.engine import Watcher, ignore_progress
from oarpy.simulation.past import Admission, LiveJobs, Occupation, PastJob, Refusal, admit_as_they_were
from oarpy.simulation.past_usage import PastUsage


@dataclass(frozen=True, slots=True)
class Run:
    """When a job ran in the replay (epoch seconds), and on what (ids).

    ``cancelled`` is a best-effort job that gave way.
    """

    start: float
    end: float
    resources: tuple[int, ...]
    cancelled: bool = False


@dataclass(slots=True)
class ReplayOutcome:
    """What became of each job, by id: its run, or why it was refused or never started."""

    runs: dict[int, Run] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    not_started: dict[int, str] = field(default_factory=dict)


class HistoryReplay:
    """One replay. ``base`` holds all that does not change: platform, queues, quotas, filters, policy."""

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
        self._reasons: dict[int, str] = {}
        self._holding = {one.job.id: one.job for one in occupations}
        self._succeeded = {one.job.id: one.succeeded for one in occupations}
        self._ended: dict[int, Literal["ok", "notok"]] = dict(base.outcomes)
        self._spans: dict[int, Span] = {
            **base.spans,
            **{job.id: (job.start, job.end) for job in self._holding.values()},
        }
        self._promised: list[tuple[float, int]] = []
        """Accepted reservations by their date."""
        self._capacities = Capacities(base.consumables, base.platform)
        self._ends = [(one.until, one.job.id) for one in occupations]
        heapq.heapify(self._ends)
        self._wake: float | None = None
        self.outcome = ReplayOutcome()

    def run(self, watch: Watcher = ignore_progress) -> ReplayOutcome:
        """Replay to the end. ``watch`` is called with the number of jobs that have been settled so far."""
        while (now := self._next_instant()) is not None:
            self._complete(now)
            self._arrive(now)
            self._clear_the_way(now)
            if self._wake is not None and self._wake <= now:
                self._wake = None
            while self._waiting and self._pass(now):
                pass
            watch(len(self.outcome.runs) + len(self.outcome.refused))
        for job in self._waiting:
            self.outcome.not_started[job] = self._reasons.get(job, "never planned")
        return self.outcome

    def _next_instant(self) -> float | None:
        instants = [self._wake] if self._wake is not None else []
        instants += [queue[0][0] for queue in (self._ends, self._promised) if queue]
        if self._arrived < len(self._arrivals):
            instants.append(self._arrivals[self._arrived].job.submitted)
        return min(instants, default=None)

    def _complete(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            end, number = heapq.heappop(self._ends)
            job = self._holding.get(number)
            # a cancelled job left before the end that was noted for it
            if job is not None:
                self._leave(job, end, succeeded=self._succeeded[number])

    def _leave(self, job: HoldingJob, end: float, *, succeeded: bool) -> None:
        del self._holding[job.id]
        self._ended[job.id] = "ok" if succeeded else "notok"
        self._spans[job.id] = job.start, end
        self._usage.add(job, end)

    def _arrive(self, now: float) -> None:
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived].job.submitted <= now:
            past = self._arrivals[self._arrived]
            self._arrived += 1
            live = LiveJobs(tuple(self._waiting.values()), tuple(self._holding.values()))
            admitted = self._admission(past, now, live)
            if isinstance(admitted, Refusal):
                self.outcome.refused[past.job.id] = admitted.reason
                self._ended[past.job.id] = "notok"
            else:
                self._past[past.job.id] = admitted
                self._waiting[past.job.id] = admitted.job

    def _clear_the_way(self, now: float) -> None:
        """Cancel the best-effort jobs that were there when a reservation was accepted whose date has come."""
        while self._promised and self._promised[0][0] <= now:
            _, number = heapq.heappop(self._promised)
            job = self._holding.get(number)
            if job is not None and not job.besteffort:
                for other in self._in_the_way(job):
                    self._give_way(other, now)

    def _in_the_way(self, job: HoldingJob) -> list[int]:
        """Return the best-effort jobs on what ``job`` holds from now on; for amounts, those that started last."""
        platform, roles = self._base.platform, roles_of(job)
        bits = bits_held(platform, job)
        running = [other for other in self._holding.values() if other.start <= job.start and other.id != job.id]
        cheap = [other for other in running if other.besteffort]
        found = [
            other.id
            for other in cheap
            if bits_held(platform, other) & bits
            and not (roles.admits(roles_of(other)) or roles_of(other).admits(roles))
        ]
        held = {
            other.id: (bits_held(platform, other), other.consumes)
            for other in running
            if other.consumes and other.id not in found
        }
        excess = self._capacities.excess(bits, job.consumes, list(held.values()))
        youngest = sorted((other for other in cheap if other.id in held), key=lambda other: (-other.start, -other.id))
        return found + giving_way(excess, [(one.id, self._capacities.parts(*held[one.id])) for one in youngest])

    def _pass(self, now: float) -> bool:
        """Plan and do what the plan says; return whether best-effort jobs left, so that another pass is due."""
        snapshot = replace(
            self._base,
            now=now,
            holding=tuple(self._holding.values()),
            waiting=tuple(self._waiting.values()),
            outcomes=self._ended,
            spans=self._spans,
            priorities=self._usage.priorities(now, self._holding.values()),
        )
        made = plan(snapshot, self._orders, self._matchers)
        foreseen = []
        for placement in made.placements:
            self._apply(placement, now)
            if placement.job in self._waiting and placement.start is not None and placement.start > now:
                foreseen.append(placement.start)
        # a job without a prediction, as under EASY, may still be one that only waits for its time
        asked = (earliest_start(job, self._spans) for job in self._waiting.values())
        self._wake = min((*foreseen, *(instant for instant in asked if instant > now)), default=None)
        for number in made.kill:
            self._give_way(number, now)
        return bool(made.kill)

    def _apply(self, placement: Placement, now: float) -> None:
        number = placement.job
        if placement.verdict in (Verdict.STARTS, Verdict.RESERVED):
            self._start(placement, now)
        elif placement.verdict in (Verdict.RESERVATION, Verdict.NEVER):
            # a reservation is answered once, and what can never be served stays so
            del self._waiting[number]
            self._ended[number] = "notok"
            self.outcome.refused[number] = placement.reason
        else:
            self._reasons[number] = placement.reason

    def _start(self, placement: Placement, now: float) -> None:
        assert placement.start is not None
        assert placement.alternative is not None
        job = self._waiting.pop(placement.job)
        past = self._past[job.id]
        way = job.alternatives[placement.alternative]
        start = max(placement.start, now)
        end = start + min(past.runs[placement.alternative], way.walltime)
        self._holding[job.id] = HoldingJob(
            job.id,
            job.user,
            start,
            way.walltime,
            tuple(placement.resources),
            job.project,
            job.queue,
            job.name,
            job.types,
            placement.bits,
            way.consumes,
        )
        self._succeeded[job.id] = past.succeeded
        self._spans[job.id] = start, start + way.walltime
        heapq.heappush(self._ends, (end, job.id))
        if start > now:
            heapq.heappush(self._promised, (start, job.id))
        self.outcome.runs[job.id] = Run(start, end, tuple(placement.resources))

    def _give_way(self, number: int, now: float) -> None:
        """Let a best-effort job be cancelled."""
        self._leave(self._holding[number], now, succeeded=False)
        if number in self.outcome.runs:
            self.outcome.runs[number] = replace(self.outcome.runs[number], end=now, cancelled=True)
