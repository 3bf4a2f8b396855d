"""The plan of a reallocation pass: which jobs move where, by estimates of clusters. Nothing changes on any cluster.

Clusters are asked for their estimates as if some of the broker's jobs were gone and others had joined. So the core gets
the numbers that it would get if each move were carried out before the next move is chosen::

    core: ECTs?        estimate(jobs)                              every cluster
    core: move 7       noted
    core: ECTs?        estimate(jobs left, without 7)              where it was
                       estimate(jobs left, joined 7)               where it goes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf

from msgspec import structs

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.broker.decisions import DrivenCore, TakenDecision
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.calls.table import Cluster, Estimate
from oarpy.grid.core.broker_state import BrokerState, GridCluster, JobId, MappedJob, ReallocationRules, WaitingPart
from oarpy.grid.core.exchanges import Action, AskEcts, EctsTold, JoinQueue, MoveJob, PassDue, WithdrawJobs

_PATIENCE = 60.0
"""Seconds for which a cluster may plan."""
_AT_FIRST = 1000
"""Jobs in the first question to a cluster: its rules look at all of them together."""


@dataclass(frozen=True, slots=True)
class MovablePart:
    """A waiting part of a mapped job; the walltime of its request is at speed 1, ``submitted`` is in epoch seconds."""

    name: str
    job: int
    cluster: str
    submitted: float
    request: PartRequest


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A job that is to leave its queue for another queue, or for the end of its own; ``old`` and ``new`` are ECTs."""

    part: MovablePart
    target: str
    old: float
    new: float

    @property
    def stays(self) -> bool:
        """True when it joins again the queue in which it waits."""
        return self.part.cluster == self.target


@dataclass(frozen=True, slots=True)
class PassPlan:
    """The moves of a pass in their order, and the decision of the core that they follow from."""

    moves: tuple[PlannedMove, ...]
    decision: TakenDecision


@dataclass(slots=True)
class _Queue:
    """The changes of a cluster's queue in the planned pass so far: jobs that left, and jobs that joined, in order."""

    gone: list[str] = field(default_factory=list)
    joined: list[int] = field(default_factory=list)


class ClusterLost(Exception):
    """A cluster does not give the facts that a pass needs; ``reason`` says why."""

    def __init__(self, cluster: str, reason: str) -> None:
        super().__init__(f"cluster '{cluster}': {reason}")
        self.cluster, self.reason = cluster, reason


class PassPlanner:
    """Leads the core through one pass.

    ``closed`` tells whether the queue of a cluster is closed to jobs of a user. The first answer of a cluster shows its
    state now. Later answers may show a state that is ``age`` seconds old, so that all answers are of one state.
    ``ahead`` has the seconds by which the clocks of clusters are ahead.
    """

    def __init__(
        self,
        clusters: Sequence[GridCluster],
        rules: ReallocationRules,
        closed: Callable[[str, str], bool] = lambda cluster, user: False,
        age: float = 300,
        ahead: Mapping[str, float] | None = None,
    ) -> None:
        self._clusters = {cluster.name: cluster for cluster in clusters}
        self._rules, self._closed, self._age = rules, closed, age
        self._ahead = ahead or {}
        self._core = DrivenCore(BrokerState(tuple(clusters), reallocation=rules))
        self._parts: dict[int, MovablePart] = {}
        self._queues = {name: _Queue() for name in self._clusters}
        self._told: dict[int, dict[str, float]] = {}
        self._first: dict[int, float] = {}
        self._chosen: list[PlannedMove] = []
        self._looked: set[str] = set()

    def plan(self, parts: Sequence[MovablePart], now: float) -> Conversation[PassPlan]:
        """Return the moves of ``parts``, which are in order of submission; ``now`` in epoch seconds.

        Raises :class:`ClusterLost` if a cluster does not answer: without its numbers no job can be moved.
        """
        self._parts = {part.job: part for part in parts}
        due = PassDue(tuple(WaitingPart(_mapped(part), part.cluster) for part in parts))
        actions = self._core.tell(due, now)
        while actions:
            questions = [question for action in actions if (question := self._note(action)) is not None]
            actions = []
            for question in questions:
                answer = yield from self._answer(question)
                actions += self._core.tell(answer, now)
        return PassPlan(tuple(self._chosen), self._core.taken())

    def _note(self, action: Action) -> AskEcts | None:
        """Note the changes of an action; return the action if it is a question."""
        match action:
            case AskEcts():
                return action
            case WithdrawJobs(jobs):
                for job in jobs:
                    self._leave(_number(job))
                self._first = {job: ends[self._parts[job].cluster] for job, ends in self._told.items()}
            case JoinQueue(job, cluster):
                number = _number(job)
                self._join(number, cluster, self._first[number], self._told[number][cluster])
            case MoveJob(job, _, target, old, new):
                number = _number(job)
                if self._rules.algorithm == 1:
                    self._leave(number)
                self._join(number, target, old, new)
        return None

    def _leave(self, job: int) -> None:
        part = self._parts[job]
        self._queues[part.cluster].gone.append(part.name)

    def _join(self, job: int, cluster: str, old: float, new: float) -> None:
        self._queues[cluster].joined.append(job)
        self._chosen.append(PlannedMove(self._parts[job], cluster, old, new))

    def _answer(self, question: AskEcts) -> Conversation[EctsTold]:
        """Ask the clusters at the same time; return only the answers that are new."""
        jobs = [_number(job) for job in question.jobs]
        calls = [ClusterCall(name, self._estimate(name, jobs), _PATIENCE) for name in question.clusters]
        answers = yield CallBatch(calls, _PATIENCE)
        ects_of: dict[str, Sequence[float]] = {}
        for name, answer in zip(question.clusters, answers, strict=True):
            if not isinstance(answer, list):
                raise ClusterLost(name, str(answer))
            ects_of[name] = answer
        new: list[int] = []
        for place, job in enumerate(jobs):
            ends = {name: ects_of[name][place] for name in question.clusters}
            known = self._told.setdefault(job, {})
            if any(known.get(name) != end for name, end in ends.items()):
                known.update(ends)
                new.append(place)
        ects = tuple(tuple(ects_of[name][place] for place in new) for name in question.clusters)
        return EctsTold(tuple(question.clusters), tuple(jobs[place] for place in new), ects, question.question)

    def _estimate(self, cluster: str, jobs: Iterable[int]) -> _Estimate:
        """Return the question for jobs; the first question to a cluster has further jobs, behind these."""
        queue, there = self._queues[cluster], self._clusters[cluster]
        gone = frozenset(queue.gone)
        numbers = dict.fromkeys(jobs)
        if cluster not in self._looked:
            numbers |= dict.fromkeys(islice(self._parts, _AT_FIRST))
        requests: list[PartRequest | str | None] = []
        for job in numbers:
            part = self._parts[job]
            if part.cluster == cluster and part.name not in gone:
                requests.append(part.name)
            else:
                fits = part.request.procs <= there.procs and not self._closed(cluster, part.request.user)
                requests.append(request_there(part, there) if fits else None)
        joined = tuple(request_there(self._parts[job], there) for job in queue.joined)
        age = self._age if cluster in self._looked else 0
        self._looked.add(cluster)
        return _Estimate(tuple(requests), tuple(queue.gone), joined, age, self._ahead.get(cluster, 0))


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A question to a cluster; None stands for a job that is too large for it, or may not go there."""

    requests: tuple[PartRequest | str | None, ...]
    without: tuple[str, ...]
    joined: tuple[PartRequest, ...]
    age: float
    ahead: float

    def __call__(self, cluster: Cluster) -> list[float]:
        """Ask it."""
        requests = [request for request in self.requests if request is not None]
        ends = iter(cluster.ask(Estimate(requests, self.without, self.joined, self.age)) if requests else ())
        return [inf if request is None else next(ends) - self.ahead for request in self.requests]


def request_there(part: MovablePart, cluster: GridCluster) -> PartRequest:
    """Return the request of a part on a cluster of another speed."""
    if cluster.speed == 1:
        return part.request
    return structs.replace(part.request, walltime=part.request.walltime / cluster.speed)


def without_needless(moves: Sequence[PlannedMove], queues: Mapping[str, Sequence[str]]) -> list[PlannedMove]:
    """Leave out jobs that reach their place in a queue without leaving it; ``queues`` has the waiting parts in order.

    A job that joins a queue comes behind all that stay. So the first jobs of a queue may stay where they are. They must
    wait in the planned order, and all other jobs between and behind them must leave.
    """
    chosen = {move.part.name for move in moves}
    needless: set[str] = set()
    for cluster, names in queues.items():
        ranks = {name: rank for rank, name in enumerate(names)}
        last = max((rank for name, rank in ranks.items() if name not in chosen), default=-1)
        for move in moves:
            if move.target != cluster:
                continue
            rank = ranks.get(move.part.name, -1) if move.stays else -1
            if rank <= last:
                break
            last = rank
            needless.add(move.part.name)
    return [move for move in moves if move.part.name not in needless]


def _mapped(part: MovablePart) -> MappedJob:
    return MappedJob(part.job, part.submitted, part.request.procs, part.request.walltime)


def _number(job: JobId) -> int:
    """Return the number of a grid job: the core gets nothing else here."""
    assert isinstance(job, int)
    return job
