"""Virtual time: the events of clusters and jobs, and the actions of the broker's core.

Within one instant ends come first, then arrivals, begins of claimed jobs, tries, and the pass. After each event that
can let a job start, every cluster plans its queue, in the configured order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappush
from math import inf
from typing import Any

from oarpy.grid.core.broker_state import BrokerState, CoAllocatedJob, JobId, MappedJob, Seconds, WaitingPart
from oarpy.grid.core.exchanges import (
    Action,
    AskEcts,
    ClaimParts,
    EctsTold,
    Event,
    JobArrived,
    JoinQueue,
    LocalJob,
    MissJob,
    MoveJob,
    PassDue,
    TryAt,
    TryDue,
    WithdrawJobs,
)
from oarpy.grid.core.step import step
from oarpy.grid.simulation.counted_queues import ConservativeQueue, EasyQueue, FcfsQueue
from oarpy.grid.simulation.named_queue import NamedQueue, PlannedNamedQueue
from oarpy.grid.simulation.queues import ClusterQueue, JobsOutside, QueuedJob, completions_or_never
from oarpy.grid.simulation.scenario import EngineName, GridJob, GridScenario, QueuePolicy
from oarpy.simulation.event_loop import Happening, events


class Kind(IntEnum):
    """The order of events within one instant."""

    END = 0
    ARRIVAL = 1
    BEGIN = 2
    TRY = 3
    PASS = 4


@dataclass(slots=True)
class JobCourse:
    """The course of a job; ``state`` is empty until it is over. Instants are None where they do not apply."""

    state: str = ""
    clusters: tuple[str, ...] = ()
    claimed: float | None = None
    start: float | None = None
    end: float | None = None
    tries: list[float] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JobMove:
    """Job ``job`` went from one queue to another at ``at``; ``old`` and ``new`` are its ECTs."""

    at: float
    job: int
    source: str
    target: str
    old: float
    new: float


@dataclass(frozen=True, slots=True)
class GridOutcome:
    """The courses of all jobs, in the order of the file, and the moves in theirs. Jobs are named by their places.

    ``moved`` counts the moves, if they were only counted too.
    """

    courses: Sequence[JobCourse]
    moves: Sequence[JobMove]
    moved: int


@dataclass(slots=True)
class JobsAsked:
    """The jobs that a pass asks about, as clusters see them on which none of them waits."""

    jobs: list[JobId] = field(default_factory=list)
    by_cluster: dict[str, JobsOutside] = field(default_factory=dict)

    def remove(self, job: JobId, rank: Callable[[Any], int]) -> None:
        """Take out a job that joins a queue. A pass has the jobs in the order of ``rank``."""
        place = bisect_left(self.jobs, rank(job), key=rank)
        if place < len(self.jobs) and self.jobs[place] == job:
            del self.jobs[place]
            for outside in self.by_cluster.values():
                outside.remove(place)


class GridRun:
    """A run of a scenario. The broker and the clusters know jobs by their places in the file.

    Months with long queues have tens of millions of moves, which need not be kept.
    """

    def __init__(self, scenario: GridScenario, *, keep_moves: bool = True) -> None:
        self._know(scenario)
        self._state = BrokerState(scenario.clusters, scenario.deadlines, scenario.reallocation)
        self._queues: dict[str, ClusterQueue] = {
            cluster.name: queue_of(scenario.engine, policy, cluster.procs)
            for cluster, policy in zip(scenario.clusters, scenario.policies, strict=True)
        }
        self._asking: dict[str, dict[int, QueuedJob | None]] = {name: {} for name in self._queues}
        """The jobs whose ECTs were requested, as each cluster sees them; None: too large for it."""
        self._outside = JobsAsked()
        self._waits: dict[int, str] = {}
        self._parts: dict[int, WaitingPart] = {}
        """Jobs that waited at a pass, as the broker got them."""
        self._kinds: dict[tuple[int, float], int] = {}
        """The first job of each kind, by its request."""
        self._running: dict[str, dict[int, None]] = {name: {} for name in self._clusters}
        """Local jobs that run, by cluster, in the order of their starts."""
        self._courses = [JobCourse() for _ in self._jobs]
        self._keeps_moves = keep_moves
        self._moves: list[JobMove] = []
        self._moved = 0
        self._left = len(self._jobs)
        self.agenda: list[Happening] = []
        self._started = 0
        self._come = 0
        """How many jobs have arrived."""

    def _know(self, scenario: GridScenario) -> None:
        """Note everything that follows from a scenario alone."""
        self._scenario = scenario
        self._jobs = scenario.jobs
        self._arriving = sorted(range(len(self._jobs)), key=lambda number: self._jobs[number].submit)
        self._ranks = {number: rank for rank, number in enumerate(self._arriving)}
        self._clusters = {cluster.name: cluster for cluster in scenario.clusters}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out everything that follows from the scenario, and the jobs that have not arrived."""
        come = {number: self._courses[number] for number in self._arriving[: self._come]}
        return {**self.__dict__, **dict.fromkeys(("_jobs", "_arriving", "_ranks", "_clusters")), "_courses": come}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy."""
        self.__dict__.update(state)
        self._know(state["_scenario"])
        come: Mapping[int, JobCourse] = state["_courses"]
        self._courses = [come.get(number) or JobCourse() for number in range(len(self._jobs))]

    def run(self, until: float = inf) -> GridOutcome:
        """Run until every job is over; events after ``until`` are left out."""
        for _ in self.events(until):
            pass
        return self.outcome

    @property
    def outcome(self) -> GridOutcome:
        """The courses of all jobs so far."""
        return GridOutcome(self._courses, self._moves, self._moved)

    def waiting(self, now: float) -> dict[int, tuple[str, float]]:
        """Return in which queue jobs wait, and when each would end if all took their walltimes."""
        waiting: dict[int, tuple[str, float]] = {}
        for name, queue in self._queues.items():
            numbers = [number for number, cluster in self._waits.items() if cluster == name]
            ends = queue.completions([self._queued(number, name) for number in numbers], now)
            waiting |= {number: (name, end) for number, end in zip(numbers, ends, strict=True)}
        return waiting

    @property
    def queues(self) -> Mapping[str, ClusterQueue]:
        """The queues of all clusters."""
        return self._queues

    @property
    def broker(self) -> BrokerState:
        """The memory of the broker."""
        return self._state

    def events(self, until: float = inf) -> Iterator[Happening]:
        """Handle events one by one, until every job is over or the instant ``until``.

        A second call goes on after the last.
        """
        if self._scenario.reallocation.algorithm and not self._come and not self.agenda:
            self._note(min(job.submit for job in self._jobs) + self._scenario.period, Kind.PASS, 0)
        return events(
            self, ((self._jobs[number].submit, Kind.ARRIVAL, number) for number in self._arriving[self._come :]), until
        )

    def over(self) -> bool:
        """Tell whether every job is over, so that no pass is needed any more."""
        return not self._left

    def handle(self, happening: Happening) -> bool:
        """Handle an event; the end of an evicted job is none."""
        now, kind, what = happening
        if kind == Kind.END:
            return self._end(what[1], now)
        if kind == Kind.ARRIVAL:
            self._arrive(what, now)
        elif kind == Kind.BEGIN:
            self._begin(what, now)
        elif kind == Kind.TRY:
            self._try(what[1], now, last=what[2])
        else:
            self._pass(now)
        return True

    def _note(self, at: float, kind: Kind, what: Any) -> None:
        heappush(self.agenda, (at, kind, what))

    # The events

    def _end(self, number: int, now: float) -> bool:
        course = self._courses[number]
        if course.state:
            return False  # it was evicted
        self._over(number, "Terminated", now)
        self._round(now)
        return True

    def _arrive(self, number: int, now: float) -> None:
        self._come += 1
        job = self._jobs[number]
        if job.components:
            coallocated = CoAllocatedJob(number, job.submit, job.procs, job.components, job.deadline)
            self._tell(JobArrived(coallocated), now)
            return
        if job.cluster is not None:
            self._join(number, job.cluster, now)
        else:
            self._tell(JobArrived(self._mapped(number)), now)
        self._round(now)

    def _begin(self, number: int, now: float) -> None:
        """Let a claimed job run, on the processors that are held for it."""
        self._run(number, now, min(self._clusters[name].speed for name in self._courses[number].clusters))

    def _try(self, number: int, now: float, *, last: bool) -> None:
        self._courses[number].tries.append(now)
        idle = {name: queue.idle for name, queue in self._queues.items()}
        evictable = {name: self._evictable(name) for name in self._queues} if last else {}
        self._tell(TryDue(number, idle, evictable), now)

    def _evictable(self, cluster: str) -> list[LocalJob]:
        """Return the local jobs that run on a cluster, the latest started first, then the last of the file."""
        starts = self._courses
        order = sorted(self._running[cluster], key=lambda number: (starts[number].start or 0, number), reverse=True)
        return [LocalJob(number, self._jobs[number].procs) for number in order]

    def _pass(self, now: float) -> None:
        order = sorted((number for number in self._waits if self._jobs[number].mapped), key=self._ranks.__getitem__)
        self._tell(PassDue([self._part(number) for number in order]), now)
        self._round(now)
        self._note(now + self._scenario.period, Kind.PASS, 0)

    # The actions of the broker

    def _tell(self, event: Event, now: float) -> None:
        """Give the broker an event, and carry out its actions. Answers to its questions come before the rest."""
        self._outside = JobsAsked()
        left = deque(step(self._state, event, now))
        while left:
            match left.popleft():
                case AskEcts() as question:
                    left.extendleft(reversed(step(self._state, self._told(question, now), now)))
                case action:
                    self._do(action, now)

    def _do(self, action: Action, now: float) -> None:
        match action:
            case JoinQueue(job, cluster):
                self._join(_number(job), cluster, now)
            case WithdrawJobs(jobs):
                for job in jobs:
                    self._leave(_number(job))
                self._outside = JobsAsked()
            case MoveJob(job, source, target, old, new):
                number = _number(job)
                if number in self._waits:
                    self._leave(number)
                self._join(number, target, now)
                self._moved += 1
                if self._keeps_moves:
                    self._moves.append(JobMove(now, number, source, target, old, new))
            case TryAt(job, at, last):
                number = _number(job)
                self._note(at, Kind.TRY, (self._jobs[number].deadline, number, last))
            case ClaimParts(job, clusters, evicted):
                self._claim(_number(job), clusters, [_number(victim) for victim in evicted], now)
            case MissJob(job):
                self._courses[_number(job)].state = "Missed"
                self._left -= 1

    def _told(self, question: AskEcts, now: float) -> EctsTold:
        """Return ECTs. A pass asks again and again for the same jobs, or for the same jobs without the last one."""
        jobs = list(question.jobs)
        if self._outside.jobs != jobs:
            self._outside = JobsAsked(jobs)
        ects = [self._ends(name, question.jobs, now) for name in question.clusters]
        return EctsTold(question.clusters, question.jobs, ects, question.question)

    def _ends(self, cluster: str, jobs: Sequence[Any], now: float) -> Sequence[float] | Seconds:
        """Return the ECTs of jobs on a cluster; infinite for jobs that are too large for it."""
        asking, procs, queue = self._asking[cluster], self._clusters[cluster].procs, self._queues[cluster]
        outside = self._outside.by_cluster.get(cluster)
        if outside is None:
            for number in jobs:
                if number not in asking:
                    job = self._queued(number, cluster)
                    asking[number] = job if job.procs <= procs else None
            seen = [asking[number] for number in jobs]
            # no question comes again about jobs that have arrived, or still wait
            if self._state.passing is None or not self._waits.keys().isdisjoint(jobs):
                return completions_or_never(queue.completions, seen, now)
            outside = self._outside.by_cluster[cluster] = JobsOutside(seen, procs)
        return queue.completions_outside(outside, now)

    def _claim(self, number: int, clusters: tuple[str, ...], evicted: list[int], now: float) -> None:
        """Evict the jobs in ``evicted``, and hold the processors of each component up to the predicted end."""
        for victim in evicted:
            self._over(victim, "Killed", now)
        job, course = self._jobs[number], self._courses[number]
        course.clusters, course.claimed, course.killed = clusters, now, evicted
        end = job.deadline + job.walltime / min(self._clusters[name].speed for name in clusters)
        for name in dict.fromkeys(clusters):
            self._queues[name].hold(number, clusters.count(name) * job.procs, end, now)
        self._note(job.deadline, Kind.BEGIN, number)
        self._round(now)

    # Jobs and queues

    def _round(self, now: float) -> None:
        """Let every cluster plan its queue and start the jobs that are due."""
        for name, queue in self._queues.items():
            if queue.due > now:
                continue
            for number in queue.plan(now):
                del self._waits[number]
                self._courses[number].clusters = (name,)
                if self._jobs[number].cluster is not None:
                    self._running[name][number] = None
                self._run(number, now, self._clusters[name].speed)

    def _run(self, number: int, now: float, speed: float) -> None:
        self._courses[number].start = now
        self._started += 1
        self._note(now + self._jobs[number].length(speed), Kind.END, (self._started, number))

    def _over(self, number: int, state: str, now: float) -> None:
        course = self._courses[number]
        course.state, course.end = state, now
        self._left -= 1
        for name in dict.fromkeys(course.clusters):
            self._queues[name].free(number, now)
            self._running[name].pop(number, None)

    def _join(self, number: int, cluster: str, now: float) -> None:
        self._outside.remove(number, self._ranks.__getitem__)
        self._queues[cluster].join(self._asking[cluster].get(number) or self._queued(number, cluster), now)
        self._waits[number] = cluster

    def _leave(self, number: int) -> None:
        self._queues[self._waits.pop(number)].leave(number)

    def _queued(self, number: Any, cluster: str) -> QueuedJob:
        job: GridJob = self._jobs[number]
        return QueuedJob(number, job.procs, job.walltime / self._clusters[cluster].speed)

    def _part(self, number: int) -> WaitingPart:
        """Return a waiting job. Jobs with equal processors and walltimes are of one kind."""
        cluster, known = self._waits[number], self._parts.get(number)
        if known is not None and known.cluster == cluster:
            return known
        job = self._mapped(number)
        kind = self._kinds.setdefault((job.procs, job.walltime), number)
        part = self._parts[number] = WaitingPart(job, cluster, kind)
        return part

    def _mapped(self, number: int) -> MappedJob:
        job = self._jobs[number]
        return MappedJob(number, job.submit, job.procs, job.walltime)


def queue_of(engine: EngineName, policy: QueuePolicy, procs: int) -> ClusterQueue:
    """Return an empty queue of a cluster."""
    if engine == "production":
        return NamedQueue(procs, policy) if policy == "easy" else PlannedNamedQueue(procs, policy)
    if policy == "easy":
        return EasyQueue(procs)
    return FcfsQueue(procs) if policy == "fcfs" else ConservativeQueue(procs)


def _number(job: int | str) -> int:
    """Return the place of a job: the broker gets nothing else here."""
    assert isinstance(job, int)
    return job
