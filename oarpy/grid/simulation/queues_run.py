"""The system ``queues`` event by event: the queue of each cluster, and the course of all jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import inf
from typing import Any

from oarpy.grid.simulation.grid_run import GridOutcome, GridRun, JobCourse, Kind
from oarpy.grid.simulation.metrics import judge
from oarpy.grid.simulation.queues import QueuedJob
from oarpy.grid.simulation.rules import rule_of
from oarpy.grid.simulation.scenario import GridJob, GridScenario
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, WaitingJob
from oarpy.simulation.event_loop import Happening
from oarpy.simulation.stepping.places import ClusterState, Place
from oarpy.simulation.stepping.stepped_run import EventDescription, Rule
from oarpy.simulation.stepping.stepper import always

_Place = tuple[tuple[str, ...], float | None]
"""Clusters of a job, and its start; for a waiting job its predicted end."""


class QueuesRun:
    """A run of clusters with queues and their broker."""

    lasting: Mapping[type, Any] = {
        **dict.fromkeys((GridScenario, GridJob, QueuedJob, WaitingJob, HoldingJob), always),
        **dict.fromkeys((Platform, Matchers, RequestMatcher), always),
        JobCourse: lambda course: bool(course.state),
    }
    """The common part of copies of a run."""

    def __init__(self, scenario: GridScenario) -> None:
        self._scenario = scenario
        self._run = GridRun(scenario)
        self._now = -inf
        self._arrived: set[int] = set()
        self._places: dict[int, _Place] = {}
        self._changed: list[int] = []
        """The jobs that the last event changed."""

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Handle events one by one, up to an instant; a second call goes on after the last."""
        for happening in self._run.events(until):
            self._now = happening[0]
            if happening[1] == Kind.ARRIVAL:
                self._arrived.add(happening[2])
            yield happening

    def watch(self) -> None:
        """Note where jobs are."""
        self._places = self._placed()

    def digested(self, happening: Happening) -> Any:
        """Return the places of the jobs that the last event changed."""
        return [(number, self._places.get(number)) for number in self._changed]

    def why(self, happening: Happening) -> Rule:
        """Return the rule by which the last event changed something."""
        return rule_of("queues", Kind(happening[1]).name.lower())

    def description(self, happening: Happening) -> EventDescription:
        """Return the last event."""
        _, kind, what = happening
        jobs = self._scenario.jobs
        own = None if kind == Kind.PASS else what[1] if kind in (Kind.END, Kind.TRY) else what
        before, self._places = self._places, self._placed()
        self._changed = sorted(
            number for number, place in self._places.items() if number == own or place != before.get(number)
        )
        changed = [jobs[number].id for number in self._changed if number != own and number in before]
        return EventDescription(Kind(kind).name.lower(), None if own is None else jobs[own].id, changed)

    def _placed(self) -> dict[int, _Place]:
        """Return the places of jobs that have arrived, with their starts or predicted ends."""
        courses = self._run.outcome.courses
        places: dict[int, _Place] = {}
        for number in self._arrived:
            course = courses[number]
            if course.clusters:
                job = self._scenario.jobs[number]
                start = job.deadline if job.components else course.start
                places[number] = course.clusters, None if start is None else start + self._planned(job, course.clusters)
        for number, (cluster, end) in self._run.waiting(self._now).items():
            places[number] = (cluster,), end
        return places

    def _planned(self, job: GridJob, clusters: Sequence[str]) -> float:
        speeds = {cluster.name: cluster.speed for cluster in self._scenario.clusters}
        return job.walltime / min(speeds[name] for name in clusters)

    def state(self) -> Mapping[str, Any]:
        """Return jobs as they are after the last event, and the moves so far."""
        outcome = self._run.outcome
        waiting = self._run.waiting(self._now)
        jobs = [
            self._entry(number, job, outcome.courses[number], waiting.get(number))
            for number, job in enumerate(self._scenario.jobs)
        ]
        return {"jobs": jobs, "moves": moves_entry(self._scenario, outcome)}

    def holders(self) -> Mapping[str, Set[int]]:
        """Return the jobs that hold processors of each cluster, including claimed processors."""
        return {name: queue.holders() for name, queue in self._run.queues.items()}

    def held(self, cluster: str, key: int) -> Place:
        """Return the holding of a job on a cluster."""
        holding = self._run.queues[cluster].held(key)
        return Place(self._scenario.jobs[key].id, self._now, holding.end, holding.procs, holding.bits)

    def clusters_now(self) -> list[ClusterState]:
        """Return the jobs that wait on each cluster, with their planned places."""
        jobs = self._scenario.jobs
        queued: dict[str, list[Place]] = {cluster.name: [] for cluster in self._scenario.clusters}
        for number, (name, end) in self._run.waiting(self._now).items():
            job, bits = jobs[number], self._run.queues[name].planned_bits(number)
            queued[name].append(Place(job.id, end - self._planned(job, (name,)), end, job.procs, bits))
        return [
            ClusterState(
                cluster.name, cluster.procs, [place.job for place in queued[cluster.name]], queued[cluster.name]
            )
            for cluster in self._scenario.clusters
        ]

    def tables(self) -> Mapping[str, Any]:
        """Return the co-allocated jobs of the broker with their next tries, and the cluster whose turn it is."""
        broker, jobs = self._run.broker, self._scenario.jobs
        tries = [
            {"job": jobs[number].id, "try": planned_try.number, "at": planned_try.at, "last": planned_try.last}
            for number, planned_try in broker.tries.items()
            if isinstance(number, int)
        ]
        return {"tries": tries, "first": broker.names[broker.turn % len(broker.names)]}

    def _entry(self, number: int, job: GridJob, course: JobCourse, waits: tuple[str, float] | None) -> dict[str, Any]:
        entry = course_entry(job, course, self._scenario.jobs)
        if course.state:
            return entry
        if number not in self._arrived:
            return {**entry, "state": "Submitted"}
        if waits is not None:
            cluster, end = waits
            begin = end - self._planned(job, (cluster,))
            return {**entry, "state": "Waiting", "clusters": [cluster], "start": begin, "end": end}
        start = course.start
        if start is None and course.clusters:
            start = job.deadline
        last = None if start is None else start + self._planned(job, course.clusters)
        state = "Waiting" if course.start is None else "Running"
        return {**entry, "state": state, "start": start, "end": last}

    def outcome(self) -> Mapping[str, Any]:
        """Return the courses of all jobs."""
        return outcome_entry(self._scenario, self._run.outcome)


def outcome_entry(scenario: GridScenario, outcome: GridOutcome) -> dict[str, Any]:
    """Return the courses of a scenario's jobs as an object of JSON."""
    pairs = zip(scenario.jobs, outcome.courses, strict=True)
    return {
        "jobs": [course_entry(job, course, scenario.jobs) for job, course in pairs],
        "moves": moves_entry(scenario, outcome),
        "metrics": judge(scenario, outcome).entry(),
    }


def moves_entry(scenario: GridScenario, outcome: GridOutcome) -> list[dict[str, Any]]:
    """Return the moves of jobs from queue to queue."""
    return [
        {
            "at": move.at,
            "job": scenario.jobs[move.job].id,
            "from": move.source,
            "to": move.target,
            "old": move.old,
            "new": move.new,
        }
        for move in outcome.moves
    ]


def course_entry(job: GridJob, course: JobCourse, jobs: Sequence[GridJob]) -> dict[str, Any]:
    """Return the course of a job so far."""
    return {
        "id": job.id,
        "state": course.state,
        "clusters": list(course.clusters),
        "claimed": course.claimed,
        "start": course.start,
        "end": course.end,
        "tries": list(course.tries),
        "killed": [jobs[number].id for number in course.killed],
    }
