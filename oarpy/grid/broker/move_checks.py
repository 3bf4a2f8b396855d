"""The questions of a reallocation pass to clusters: a plan of it, and before each move whether it still pays."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.broker.decisions import TakenDecision
from oarpy.grid.broker.pass_plan import ClusterLost, MovablePart, PassPlanner, PlannedMove, without_needless
from oarpy.grid.calls.parts import ClusterDescription
from oarpy.grid.calls.table import Describe, Estimate, Waiting
from oarpy.grid.core.broker_state import GridCluster, ReallocationRules
from oarpy.model.errors import OarpyError
from oarpy.store.grid.clusters import GridClusterRow

_PLANNING = 60.0
"""Seconds that a cluster has to plan its queue."""
_CONNECTING = 20.0
"""Seconds that a cluster has to open its door and answer with its description."""


@dataclass(frozen=True, slots=True)
class PlannedPass:
    """The moves of a pass in their order, and the decision behind them.

    ``lost`` has the clusters that could not be asked. ``looked_at`` counts the jobs that might have been moved.
    """

    moves: tuple[PlannedMove, ...] = ()
    decision: TakenDecision | None = None
    looked_at: int = 0
    lost: tuple[str, ...] = ()


def plan_pass(
    rows: Sequence[GridClusterRow], parts: Sequence[MovablePart], rules: ReallocationRules, now: float
) -> Conversation[PlannedPass]:
    """Plan a pass over ``parts``, in order of submission. Clusters that do not answer are left out with their jobs.

    Algorithm 2 looks only at dedicated clusters: elsewhere others could submit while jobs are withdrawn.
    """
    if rules.algorithm == 2:
        rows = [row for row in rows if row.dedicated and row.active]
    lost: dict[str, str] = {}
    while True:
        usable = [row for row in rows if row.name not in lost]
        if len(usable) < 2:
            kind = "dedicated clusters" if rules.algorithm == 2 else "clusters"
            return PlannedPass(lost=(*_reasons(lost), f"a pass needs two {kind}, and has {len(usable)}"))
        try:
            described = yield from _described(usable)
            able = {row.name for row in usable if described[row.name].abilities.withdraw}
            concerned = [part for part in parts if part.cluster in able]
            clusters = [GridCluster(row.name, described[row.name].procs, row.speed) for row in usable]
            if not concerned:
                return PlannedPass(lost=_reasons(lost))
            planner = PassPlanner(clusters, rules, _closed(usable), ahead=clocks_ahead(usable))
            planned = yield from planner.plan(concerned, now)
            moves: Sequence[PlannedMove] = planned.moves
            if rules.algorithm == 2:
                moves = without_needless(moves, (yield from _queues(usable)))
            return PlannedPass(tuple(moves), planned.decision, len(concerned), _reasons(lost))
        except ClusterLost as error:
            lost[error.cluster] = error.reason


def _closed(rows: Iterable[GridClusterRow]) -> Callable[[str, str], bool]:
    """Return a function of cluster and user that tells whether the cluster is closed to the user's jobs."""
    by_name = {row.name: row for row in rows}
    return lambda cluster, user: not by_name[cluster].active or bool(by_name[cluster].refusal_to(user))


def clocks_ahead(rows: Iterable[GridClusterRow]) -> dict[str, float]:
    """Return by how many seconds the clocks of clusters are ahead."""
    return {row.name: row.clock_ahead for row in rows}


def _reasons(lost: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"cluster '{name}' was left out: {reason}" for name, reason in lost.items())


def _described(rows: Sequence[GridClusterRow]) -> Conversation[Mapping[str, ClusterDescription]]:
    """Ask clusters for their descriptions. Raises :class:`ClusterLost`."""
    calls = [ClusterCall(row.name, Describe(), _CONNECTING) for row in rows]
    answers = yield CallBatch(calls, _CONNECTING)
    descriptions = {}
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, ClusterDescription):
            raise ClusterLost(row.name, str(answer))
        descriptions[row.name] = answer
    return descriptions


def _queues(rows: Sequence[GridClusterRow]) -> Conversation[Mapping[str, Sequence[str]]]:
    """Ask clusters for their waiting parts, in order. Raises :class:`ClusterLost`."""
    calls = [ClusterCall(row.name, Waiting(), _CONNECTING) for row in rows]
    answers = yield CallBatch(calls, _CONNECTING)
    queues = {}
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, Sequence):
            raise ClusterLost(row.name, str(answer))
        queues[row.name] = [part.name for part in answer]
    return queues


@dataclass(frozen=True, slots=True)
class MoveCheck:
    """The ECTs of the frozen copy and of the new copy, each as if it were let go.

    ``failure`` says why they are unknown.
    """

    old: float = 0
    new: float = 0
    failure: str = ""

    def objection(self, move: PlannedMove, rules: ReallocationRules) -> str:
        """Say why a move does not pay any more; empty if it does. In algorithm 2 the ECTs must be as planned."""
        if self.failure:
            return self.failure
        if rules.algorithm == 2:
            later = self.new - move.new
            return f"it would end {later:.0f} s later than planned" if later > rules.threshold else ""
        if self.new + rules.threshold < self.old:
            return ""
        return f"it would gain {self.old - self.new:.0f} s, less than {rules.threshold:.0f}"


def check_move(
    move: PlannedMove, new: str, later: Collection[str], ahead: Mapping[str, float]
) -> Conversation[MoveCheck]:
    """Ask where both copies of a job would end now; ``new`` is the name of the new one.

    Parts named by ``later`` are still to leave the queue that it joins (algorithm 2). ``ahead`` is as
    :func:`clocks_ahead` says.
    """
    source, target = move.part.cluster, move.target
    gone = tuple(later)
    calls = [ClusterCall(target, Estimate([new], gone), _PLANNING)]
    if not move.stays:
        old = move.part.name
        calls.append(ClusterCall(source, Estimate([old]), _PLANNING))
    answers = yield CallBatch(calls, _PLANNING)
    ends: list[float] = []
    for call, answer in zip(calls, answers, strict=True):
        if isinstance(answer, OarpyError) or not isinstance(answer, Sequence):
            return MoveCheck(failure=f"cluster '{call.cluster}': {answer}")
        ends.append(float(answer[0]) - ahead[call.cluster])
    return MoveCheck(ends[-1], ends[0])
