"""The common part of systems with planned starts: instants in turn, begins, ends, and processors really used.

At one instant ends come first, in the order in which the runs began; then arrivals, in file order; then planned begins.
Jobs are named by their places in the file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappush
from math import inf
from statistics import fmean
from typing import Any, Generic, NamedTuple, TypeVar

from oarpy.grid.simulation.promised import fields
from oarpy.grid.simulation.promised.fields import ClusterEntry, JobEntry, Number
from oarpy.grid.simulation.rules import rule_of
from oarpy.simulation.event_loop import Happening, events
from oarpy.simulation.stepping.places import ClusterState, Place
from oarpy.simulation.stepping.stepped_run import EventDescription, Rule
from oarpy.simulation.stepping.stepper import always

Job = TypeVar("Job", bound=JobEntry)
Cluster = TypeVar("Cluster", bound=ClusterEntry)


class Kind(IntEnum):
    """The order of events within one instant."""

    END = 0
    ARRIVAL = 1
    BEGIN = 2


@dataclass(frozen=True, slots=True)
class PromisedScenario(Generic[Cluster, Job]):
    """Clusters, jobs, and the rules of their system. Utilisation is measured from one instant to another."""

    system: str
    clusters: Sequence[Cluster]
    jobs: Sequence[Job]
    measure: tuple[Number, Number] | None
    rules: Any


@dataclass(slots=True, eq=False)
class Run:
    """A job, or the tasks of a part that began together; ``held`` are its processors by cluster."""

    job: int
    held: Mapping[str, int]
    start: float
    planned_end: float
    end: float
    tasks: int = 1


@dataclass(slots=True)
class Course:
    """The course of a job so far: ``state`` is final once it is over."""

    state: str = "Submitted"
    moves: int = 0
    left: int = 1
    """Tasks that are not over."""
    runs: list[Run] = field(default_factory=list)


class PlannedPlace(NamedTuple):
    """The planned place of a part of a job on a cluster."""

    number: int
    start: float
    end: float
    procs: int


class PromisedWorld(ABC, Generic[Cluster, Job]):
    """Virtual time in which every accepted job has a planned start."""

    lasting: Mapping[type, Any] = {
        PromisedScenario: always,
        **dict.fromkeys((fields.WindowJobEntry, fields.FlexcoJobEntry, fields.OffersJobEntry), always),
        **dict.fromkeys((fields.BagsJobEntry, fields.ClusterEntry, fields.EstimatingClusterEntry), always),
        Course: lambda course: course.state in ("Terminated", "Refused"),
    }
    """The common part of copies of a world."""

    def __init__(self, scenario: PromisedScenario[Cluster, Job]) -> None:
        self.scenario = scenario
        self.jobs, self.clusters = scenario.jobs, {cluster.name: cluster for cluster in scenario.clusters}
        self.names = list(self.clusters)
        self.agenda: list[Happening] = []
        self.courses = [Course(left=job.count) for job in self.jobs]
        self.running: dict[str, dict[Run, None]] = {name: {} for name in self.clusters}
        self.changed: set[int] = set()
        """Jobs whose planned start or parts changed in the last event."""
        self.last: tuple[str, int] = ("", 0)
        """The last event and its job."""
        self._left = len(self.jobs)
        self._runs_begun = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out everything that follows from the scenario, and the jobs that have not arrived."""
        come = {number: course for number, course in enumerate(self.courses) if course.state != "Submitted"}
        return {**self.__dict__, "jobs": None, "clusters": None, "courses": come}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy."""
        self.__dict__.update(state)
        self.jobs = self.scenario.jobs
        self.clusters = {cluster.name: cluster for cluster in self.scenario.clusters}
        come: Mapping[int, Course] = state["courses"]
        self.courses = [come.get(number) or Course(left=job.count) for number, job in enumerate(self.jobs)]

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Handle events one by one; a second call goes on after the last."""
        left = (number for number, course in enumerate(self.courses) if course.state == "Submitted")
        order = sorted(left, key=lambda number: (self.arrival(number), number))
        return events(self, ((self.arrival(number), Kind.ARRIVAL, number) for number in order), until)

    def over(self) -> bool:
        """Tell whether every job is over."""
        return not self._left

    def handle(self, happening: Happening) -> bool:
        """Handle an event; a begin whose plan has changed meanwhile is none."""
        now, kind, what = happening
        changed: set[int] = set()
        self.changed = changed
        if kind == Kind.END:
            self._end(what[1], now)
            self.last = "end", what[1].job
        elif kind == Kind.ARRIVAL:
            self.courses[what].state = "Waiting"
            self.arrive(what, now)
            self.last = "arrival", what
        else:
            if not self.begin(what[0], self.names[what[1]], now):
                return False
            self.last = "begin", what[0]
        return True

    def arrival(self, number: int) -> float:
        """Return when a job arrives."""
        return self.jobs[number].submit

    @abstractmethod
    def arrive(self, number: int, now: float) -> None:
        """Give a job that arrives its planned start, or refuse it."""

    @abstractmethod
    def begin(self, number: int, cluster: str, now: float) -> bool:
        """Begin the parts of a job that are planned for now on a cluster; return whether there are any."""

    @abstractmethod
    def ended_early(self, run: Run, now: float) -> None:
        """Plan again after a run ended before its planned end."""

    @abstractmethod
    def planned(self, cluster: str) -> Iterable[PlannedPlace]:
        """Yield the planned places of waiting work on a cluster."""

    @abstractmethod
    def entry(self, number: int, planned: Sequence[PlannedPlace]) -> dict[str, Any]:
        """Return the course of a job so far as an object of JSON; ``planned`` has the places of its waiting parts."""

    @abstractmethod
    def metrics(self) -> dict[str, Any]:
        """Return the figures of a whole run."""

    def note_begin(self, number: int, cluster: str, start: float) -> None:
        """Note the planned begin of a part of a job."""
        heappush(self.agenda, (start, Kind.BEGIN, (number, self.names.index(cluster))))

    def start(self, run: Run) -> None:
        """Let something run."""
        course = self.courses[run.job]
        course.state = "Running"
        course.runs.append(run)
        for name in run.held:
            self.running[name][run] = None
        self._runs_begun += 1
        heappush(self.agenda, (run.end, Kind.END, (self._runs_begun, run)))

    def watch(self) -> None:
        """Note nothing: each event knows the jobs that it changed."""

    def digested(self, happening: Happening) -> Any:
        """Return the planned places of the jobs that the last event changed, and the state of its own job."""
        own = self.last[1]
        some = {*self.changed, own}
        places = sorted(place for name in self.names for place in self.planned(name) if place.number in some)
        return self.courses[own].state, [(run.start, run.end) for run in self.courses[own].runs], places

    def why(self, happening: Happening) -> Rule:
        """Return the rule by which the last event changed something."""
        now, kind, what = happening
        early = kind == Kind.END and now < what[1].planned_end
        return rule_of(self.scenario.system, self.last[0], early=early)

    def description(self, happening: Happening) -> EventDescription:
        """Return the last event."""
        event, own = self.last
        others = [self.jobs[number].id for number in sorted(self.changed) if number != own]
        return EventDescription(event, self.jobs[own].id, others)

    def state(self) -> dict[str, Any]:
        """Return jobs as they are after the last event."""
        planned: dict[int, list[PlannedPlace]] = {}
        for name in self.names:
            for place in self.planned(name):
                planned.setdefault(place.number, []).append(place)
        return {"jobs": [self.entry(number, planned.get(number, ())) for number in range(len(self.jobs))]}

    def holders(self) -> Mapping[str, Set[Run]]:
        """Return the runs on each cluster."""
        return {name: runs.keys() for name, runs in self.running.items()}

    def held(self, cluster: str, key: Run) -> Place:
        """Return the holding of a run on a cluster."""
        return Place(self.jobs[key.job].id, key.start, key.planned_end, key.held[cluster])

    def clusters_now(self) -> list[ClusterState]:
        """Return the jobs that wait on each cluster, with their planned places."""
        states = []
        for name, cluster in self.clusters.items():
            places = list(self.planned(name))
            queue = [self.jobs[number].id for number in dict.fromkeys(place.number for place in places)]
            planned = [Place(self.jobs[place.number].id, place.start, place.end, place.procs) for place in places]
            states.append(ClusterState(name, cluster.procs, queue, planned))
        return states

    def tables(self) -> dict[str, Any]:
        """Return the tables of the broker: empty, if the system has nothing beside the promises of jobs."""
        return {}

    def outcome(self) -> dict[str, Any]:
        """Return the courses of all jobs, and the figures of the run."""
        return {**self.state(), "metrics": self.metrics()}

    def finish(self, number: int, state: str) -> None:
        """Let a job be over."""
        self.courses[number].state = state
        self._left -= 1

    def _end(self, run: Run, now: float) -> None:
        course = self.courses[run.job]
        course.left -= run.tasks
        for name in run.held:
            del self.running[name][run]
        if not course.left:
            self.finish(run.job, "Terminated")
        if now < run.planned_end:
            self.ended_early(run, now)

    def held_until(self, cluster: str, now: float) -> list[tuple[float, int]]:
        """Return the holdings of runs on a cluster: (planned end, processors)."""
        return [(run.planned_end, run.held[cluster]) for run in self.running[cluster] if run.planned_end > now]

    def moved(self, number: int, count_it: bool = True) -> None:
        """Note that the planned start or the parts of a job changed."""
        self.changed.add(number)
        if count_it:
            self.courses[number].moves += 1

    def spans(self, number: int) -> list[tuple[float, float]]:
        """Return the starts and ends of a job's begun parts: planned ends while they run."""
        return [
            (run.start, run.planned_end if run in self.running[next(iter(run.held))] else run.end)
            for run in self.courses[number].runs
        ]

    # The figures of a run

    def runs(self) -> Iterator[Run]:
        """Yield all that ran."""
        for course in self.courses:
            yield from course.runs

    def last_end(self, number: int) -> float:
        """Return when a job that is over ended."""
        return max(run.end for run in self.courses[number].runs)

    def utilisation(self, names: Iterable[str] | None = None) -> float | None:
        """Return the share (%) of the processors that was really used, of all clusters or of some."""
        some = set(self.names if names is None else names)
        if self.scenario.measure is None:
            begin: float = min(job.submit for job in self.jobs)
            end = max((run.end for run in self.runs()), default=begin)
        else:
            begin, end = self.scenario.measure
        whole = sum(self.clusters[name].procs for name in some) * (end - begin)
        used = sum(
            procs * max(0, min(run.end, end) - max(run.start, begin))
            for run in self.runs()
            for name, procs in run.held.items()
            if name in some
        )
        return percent(used, whole)


def percent(part: float, whole: float) -> float | None:
    """Return a share in %, None of nothing."""
    return 100 * part / whole if whole else None


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, None of nothing."""
    numbers = list(values)
    return fmean(numbers) if numbers else None
