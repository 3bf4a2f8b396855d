"""The system ``windows``: reservations that may move inside their windows, each on one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from random import Random
from typing import Any

from oarpy.grid.simulation.promised.fields import ClusterEntry, WindowJobEntry, WindowRules
from oarpy.grid.simulation.promised.world import PlannedPlace, PromisedScenario, PromisedWorld, Run, mean, percent
from oarpy.profiles.profile import Profile
from oarpy.scheduler.windows.admission import Terms, admit, replanned
from oarpy.scheduler.windows.window_jobs import WindowJob, in_order


class WindowsWorld(PromisedWorld[ClusterEntry, WindowJobEntry]):
    """Each arrival is an admission; after an early end waiting jobs are placed again, if all of them find a place."""

    def __init__(self, scenario: PromisedScenario[ClusterEntry, WindowJobEntry]) -> None:
        super().__init__(scenario)
        self._rules: WindowRules = scenario.rules
        self._draw = Random(self._rules.seed).random
        self._waiting: dict[str, dict[int, WindowJob[int]]] = {name: {} for name in self.clusters}
        self._starts: dict[int, float] = {}
        self._phi: dict[int, float] = {}

    def arrive(self, number: int, now: float) -> None:
        """Accept or refuse a job."""
        job = self.jobs[number]
        name = self._cluster(number)
        waiting = self._waiting[name]
        self._fix(name, now)
        new = WindowJob(number, job.size, job.size, self._time(number), job.deadline, _ready(job), submitted=job.submit)
        accept = -inf if job.accept is None else job.accept
        admission = admit(
            self._profile(name, now),
            [(run.start, run.planned_end) for run in self.running[name] if run.planned_end > now],
            in_order([*waiting.values(), new], self._rules.order, now, self._draw),
            {other: self._starts[other] for other in waiting},
            now,
            Terms(limit=accept, accept=accept, farther=self._rules.farther),
        )
        if admission.start is None:
            self.finish(number, "Refused")
            return
        waiting[number] = new if admission.taken is None else new.fixed_at(admission.start)
        if admission.taken is not None:
            self._phi[number] = admission.taken.phi
        self._plan(name, admission.starts)

    def begin(self, number: int, cluster: str, now: float) -> bool:
        """Begin a job whose start is now."""
        if number not in self._waiting[cluster] or self._starts[number] != now:
            return False
        del self._waiting[cluster][number]
        job, speed = self.jobs[number], self.clusters[cluster].speed
        self.start(Run(number, {cluster: job.size}, now, now + self._time(number), now + job.length / speed))
        return True

    def ended_early(self, run: Run, now: float) -> None:
        """Place the waiting jobs of the cluster again."""
        (name,) = run.held
        self._fix(name, now)
        queue = in_order(self._waiting[name].values(), self._rules.order, now, self._draw)
        starts = replanned(self._profile(name, now), queue, now)
        if starts is not None:
            self._plan(name, starts)

    def planned(self, cluster: str) -> Iterator[PlannedPlace]:
        """Yield the places of the jobs that wait on a cluster."""
        for number in self._waiting[cluster]:
            start = self._starts[number]
            yield PlannedPlace(number, start, start + self._time(number), self.jobs[number].size)

    def entry(self, number: int, _planned: Sequence[PlannedPlace]) -> dict[str, Any]:
        """Return the course of a job."""
        start = self._starts.get(number)
        runs = self.courses[number].runs
        end = None if start is None else runs[0].planned_end if runs else start + self._time(number)
        if self.courses[number].state == "Terminated":
            end = self.last_end(number)
        return {
            "id": self.jobs[number].id,
            "state": self.courses[number].state,
            "cluster": self._cluster(number),
            "start": start,
            "end": end,
            "phi": self._phi.get(number),
            "moves": self.courses[number].moves,
        }

    def metrics(self) -> dict[str, Any]:
        """Return how many were accepted, and how."""
        accepted = sum(course.state == "Terminated" for course in self.courses)
        return {
            "accepted": accepted,
            "acceptance": percent(accepted, len(self.jobs)),
            "by_offer": len(self._phi),
            "mean_phi": mean(self._phi.values()),
            "utilisation": self.utilisation(),
        }

    def _cluster(self, number: int) -> str:
        return self.jobs[number].cluster or self.names[0]

    def _time(self, number: int) -> float:
        return self.jobs[number].planned / self.clusters[self._cluster(number)].speed

    def _profile(self, name: str, now: float) -> Profile:
        return Profile(self.clusters[name].procs, now, self.held_until(name, now))

    def _plan(self, name: str, starts: Any) -> None:
        for number, start in starts.items():
            old = self._starts.get(number)
            if old != start:
                self._starts[number] = start
                self.note_begin(number, name, start)
                if old is not None:
                    self.moved(number)

    def _fix(self, name: str, now: float) -> None:
        """Fix the starts of jobs that have waited for a given part (%) of their wait."""
        if self._rules.fix is None:
            return
        for number, job in self._waiting[name].items():
            start = self._starts[number]
            if now >= job.submitted + self._rules.fix / 100 * (start - job.submitted):
                self._waiting[name][number] = job.fixed_at(start)


def _ready(job: WindowJobEntry) -> float:
    return -inf if job.ready is None else job.ready
