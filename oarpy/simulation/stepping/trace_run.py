"""A trace under a policy, event by event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import inf
from typing import Any

from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob
from oarpy.simulation.engines.engine import ARRIVAL, Replay, ignore_progress
from oarpy.simulation.engines.first_plans import ForeseeingScheduler
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.event_loop import Happening, events
from oarpy.simulation.stepping.places import ClusterState, Place
from oarpy.simulation.stepping.stepped_run import EventDescription, Rule
from oarpy.simulation.stepping.stepper import always
from oarpy.simulation.traces.trace import TraceJob

CLUSTER = "machine"
"""The name of the machine of a trace."""
_RULE = Rule("After each event the queue is planned by the policy, in its order.", "simulator.md#orders")


class TraceRun(Replay):
    """A replay that can be stepped through."""

    lasting: Mapping[type, Any] = dict.fromkeys(
        (TraceJob, WaitingJob, HoldingJob, Platform, Matchers, RequestMatcher, type(always)), always
    )

    def __init__(self, jobs: Sequence[TraceJob], machine: Machine, scheduler: ForeseeingScheduler) -> None:
        super().__init__(jobs, scheduler, ignore_progress)
        self._machine = machine
        self._scheduler: ForeseeingScheduler = scheduler
        self._come = 0
        self._running: dict[int, None] = {}
        self._waiting: dict[int, None] = {}
        self._before: Mapping[int, float | None] = {}

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Yield the events one by one, up to an instant; a further call goes on after the last event."""
        left = range(self._come, len(self._jobs))
        return events(self, ((self._jobs[job].submit, ARRIVAL, job) for job in left), until)

    def handle(self, happening: Happening) -> bool:
        """Let a job arrive, or end; then let the scheduler start jobs."""
        _, kind, what = happening
        if kind == ARRIVAL:
            self._come += 1
            self._waiting[what] = None
        else:
            del self._running[what[1]]
        return super().handle(happening)

    def launch(self, job: int, now: float) -> None:
        """Let a job run."""
        del self._waiting[job]
        self._running[job] = None
        super().launch(job, now)

    def watch(self) -> None:
        """Note where jobs are planned."""
        self._before = self._planned()

    def description(self, happening: Happening) -> EventDescription:
        """Return the description of the last event."""
        _, kind, what = happening
        own = what if kind == ARRIVAL else what[1]
        before, self._before = self._before, self._planned()
        changed: list[int | str] = [
            self._jobs[job].number
            for job, start in before.items()
            if job != own and start != (self.starts[job] if job in self._running else self._before.get(job))
        ]
        return EventDescription("arrival" if kind == ARRIVAL else "end", self._jobs[own].number, changed)

    def digested(self, happening: Happening) -> Any:
        """Return the starts of waiting jobs, and the start of the job that ended or arrived last."""
        what = happening[2]
        return self.starts[what if happening[1] == ARRIVAL else what[1]], sorted(self._before.items())

    def why(self, happening: Happening) -> Rule:
        """Return the rule of a replay."""
        return _RULE

    def state(self) -> Mapping[str, Any]:
        """Return jobs as they are after the last event."""
        return {"jobs": [self._entry(number, job) for number, job in enumerate(self._jobs)]}

    def outcome(self) -> Mapping[str, Any]:
        """Return the outcome of all jobs."""
        return self.state()

    def _entry(self, number: int, job: TraceJob) -> dict[str, Any]:
        start = self.starts[number]
        if number >= self._come:
            state = "Submitted"
        elif start is None:
            state, start = "Waiting", self._scheduler.planned(number)
        else:
            state = "Running" if number in self._running else "Terminated"
        end = None if start is None else start + (job.run if state == "Terminated" else job.estimate)
        return {"id": job.number, "state": state, "start": start, "end": end}

    def holders(self) -> Mapping[str, Set[int]]:
        """Return the running jobs."""
        return {CLUSTER: self._running.keys()}

    def held(self, cluster: str, key: int) -> Place:
        """Return the place of a job, on named processors if the policy names them."""
        job, start = self._jobs[key], self.starts[key]
        assert start is not None
        return Place(job.number, start, start + job.estimate, self._size(job), self._scheduler.processors(key))

    def clusters_now(self) -> list[ClusterState]:
        """Return the waiting jobs by submission, each with its planned place."""
        planned = [
            Place(
                self._jobs[job].number,
                start,
                start + self._jobs[job].estimate,
                self._size(self._jobs[job]),
                self._scheduler.processors(job),
            )
            for job, start in self._planned().items()
            if start is not None
        ]
        return [ClusterState(CLUSTER, self._machine.procs, [self._jobs[job].number for job in self._waiting], planned)]

    def tables(self) -> Mapping[str, Any]:
        """Return nothing: there is no broker."""
        return {}

    def _planned(self) -> dict[int, float | None]:
        return {job: self._scheduler.planned(job) for job in self._waiting}

    def _size(self, job: TraceJob) -> int:
        return self._machine.size(job.procs)
