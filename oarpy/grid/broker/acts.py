"""The acts of a transaction on clusters, and its first phase, in which all clusters prepare their acts or none counts.

The first phase is a conversation. Losing it does no harm: an abort undoes the prepared acts, or they lapse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random

from msgspec import UNSET

from oarpy.grid.broker.conversations import CallBatch, ClusterCall, Conversation
from oarpy.grid.calls import table
from oarpy.grid.calls.parts import GridPart, PartOfTransaction, PartRequest, PreparedPart
from oarpy.grid.calls.table import CallRefused, Change, Cluster, Prepare, PrepareAll
from oarpy.model.errors import OarpyError


@dataclass(frozen=True, slots=True)
class Place:
    """A part for a component of a job, which waits in the queue of a cluster once it is committed."""

    job: int
    component: int
    cluster: str
    part: GridPart


@dataclass(frozen=True, slots=True)
class Hold:
    """A part for a component whose processors are held from the first phase on: a claim, or a reservation."""

    job: int
    component: int
    cluster: str
    part: GridPart


@dataclass(frozen=True, slots=True)
class Freeze:
    """The part ``name`` that waits on a cluster does not start meanwhile; it is gone once the freeze is committed."""

    cluster: str
    name: str
    request: PartRequest


@dataclass(frozen=True, slots=True)
class Amend:
    """The reserved part ``old`` of a component gets another place on its cluster, as ``part``: date, size, walltime.

    The old place is kept until the decision is known there. At no time are fewer resources held than were promised.
    """

    job: int
    component: int
    cluster: str
    old: str
    part: GridPart


@dataclass(frozen=True, slots=True)
class Evict:
    """Local jobs of a cluster end until ``procs`` more processors are idle, for the part that is held there."""

    cluster: str
    request: PartRequest
    procs: int


Act = Place | Hold | Freeze | Amend | Evict
_Part = Place | Hold | Freeze | Amend
"""Acts that change a part each."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms on which a transaction is prepared.

    ``ttl`` is called when a call goes out. It returns the seconds after which a cluster drops the acts that it has
    prepared. ``begin`` is the date of the parts. On clusters where jobs are evicted, parts are requested again until
    ``limit``. Dates are epoch seconds.

    With one of ``rounds``, all clusters are asked at the same time, and a cluster that refuses is not asked again. With
    several rounds, the clusters that are to hold processors are asked in turn, by name. A cluster that refuses is asked
    again, in at most ``rounds`` rounds, after random pauses. So if two brokers want the same clusters, the broker that
    reaches the first cluster first gets all of them.
    """

    ttl: Callable[[], float]
    begin: float | None = None
    limit: float = inf
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """The parts that clusters have prepared, by name. ``failures`` has the clusters that have not, and why.

    ``refused`` has the parts that a cluster refused among many requested ones.
    """

    parts: Mapping[str, PreparedPart] = field(default_factory=dict)
    failures: Sequence[tuple[str, OarpyError]] = ()
    refused: Mapping[str, CallRefused] = field(default_factory=dict)

    @property
    def failure(self) -> str:
        """Why some acts are not prepared, cluster by cluster; empty if all are."""
        return "; ".join(dict.fromkeys(f"{cluster}: {error}" for cluster, error in self.failures))

    def beside(self, more: Prepared, *failures: tuple[str, OarpyError]) -> Prepared:
        """Return the prepared parts of both, with the ``failures`` that still count and the failures of ``more``."""
        refused = {**self.refused, **more.refused}
        return Prepared({**self.parts, **more.parts}, (*failures, *more.failures), refused)


_PATIENCE, _PLACED, _HELD = 8.0, 0.5, 1.0
"""Seconds that a cluster has for its answer, and for each part; a part that holds processors waits for a pass."""
_TASK = 0.01
"""The seconds for each task of a bag."""
_VICTIMS_END = 0.5
"""Seconds after which a part is requested again, while the jobs that were evicted for it end."""
_BACK_OFF = (0.2, 1.0)
"""Seconds, random between these, after which a cluster that refused is asked again."""


KEPT = PreparedPart("")
"""The answer for a part that another part is to replace: its job is as before."""


def name_of(act: _Part) -> str:
    """Return the name of the part that an act freezes or makes."""
    return act.name if isinstance(act, Freeze) else act.part.name


def _names(act: _Part) -> list[str]:
    return [name_of(act), act.old] if isinstance(act, Amend) else [name_of(act)]


def prepare(
    transaction: str, acts: Sequence[Act], terms: Terms, clock: Callable[[], float], chance: Random
) -> Conversation[Prepared]:
    """Have all acts prepared; ``transaction`` is its name on clusters.

    Clusters without evictions come first, so that no job is evicted for a job that finds no room elsewhere.
    """
    phase = _FirstPhase(transaction, terms, chance)
    evictions = [act for act in acts if isinstance(act, Evict)]
    evicting = {act.cluster for act in evictions}
    parts = [act for act in acts if not isinstance(act, Evict)]
    prepared = yield from phase.prepared([act for act in parts if act.cluster not in evicting])
    if prepared.failures or not evictions:
        return prepared
    for act in evictions:
        if failure := (yield from phase.evicted(act)):
            return Prepared(prepared.parts, [(act.cluster, failure)])
    missing, pause = [act for act in parts if act.cluster in evicting], 0.0
    while True:
        prepared = prepared.beside((yield from phase.asked(missing, pause)))
        missing = [act for act in missing if name_of(act) not in prepared.parts]
        if not missing or clock() + _VICTIMS_END >= terms.limit:
            return prepared
        pause = _VICTIMS_END


class _FirstPhase:
    """Asks clusters. A refused part is requested again; a call without an answer is repeated as it was."""

    def __init__(self, transaction: str, terms: Terms, chance: Random) -> None:
        self._transaction = transaction
        self._terms = terms
        self._chance = chance
        self._refused: Counter[str] = Counter()

    def prepared(self, acts: Sequence[_Part]) -> Conversation[Prepared]:
        """Ask clusters to prepare acts, all at the same time or one by one."""
        if self._terms.rounds == 1:
            return (yield from self.asked(acts))
        prepared = yield from self.asked([act for act in acts if not isinstance(act, Hold | Amend)])
        holds = [act for act in acts if isinstance(act, Hold | Amend)]
        for cluster in sorted({act.cluster for act in holds}):
            if prepared.failures:
                break
            prepared = yield from self._tried([act for act in holds if act.cluster == cluster], prepared)
        return prepared

    def _tried(self, missing: Sequence[_Part], prepared: Prepared) -> Conversation[Prepared]:
        """Have the acts of one cluster prepared beside the prepared parts, in at most ``rounds`` rounds."""
        for number in range(self._terms.rounds):
            pause = self._chance.uniform(*_BACK_OFF) if number else 0.0
            prepared = prepared.beside((yield from self.asked(missing, pause)))
            missing = [act for act in missing if name_of(act) not in prepared.parts]
            if not all(isinstance(error, CallRefused) for _, error in prepared.failures) or not missing:
                break
        return prepared

    def asked(self, acts: Sequence[_Part], pause: float = 0.0) -> Conversation[Prepared]:
        """Ask once, all clusters at the same time."""
        if not acts:
            return Prepared()
        calls = list(self._calls(acts))
        patience = _PATIENCE + max(_time_of(act for act in acts if act.cluster == other.cluster) for other in acts)
        answers = yield CallBatch([ClusterCall(cluster, ask, patience) for cluster, _, ask in calls], patience, pause)
        prepared = Prepared()
        for (cluster, names, _), answer in zip(calls, answers, strict=True):
            prepared = prepared.beside(self._heard(cluster, names, answer), *prepared.failures)
        return prepared

    def _heard(self, cluster: str, names: Sequence[str], answer: object) -> Prepared:
        """Return the result of an answer about parts."""
        if isinstance(answer, OarpyError):
            self._refused.update(names if isinstance(answer, CallRefused) else ())
            return Prepared(failures=[(cluster, answer)])
        if isinstance(answer, PreparedPart):
            return Prepared({names[0]: answer, **dict.fromkeys(names[1:], KEPT)})
        assert isinstance(answer, list)
        parts = {name: part for name, part in zip(names, answer, strict=True) if isinstance(part, PreparedPart)}
        refused = {name: error for name, error in zip(names, answer, strict=True) if isinstance(error, CallRefused)}
        return Prepared(parts, [(cluster, error) for error in refused.values()][:1], refused)

    def evicted(self, act: Evict) -> Conversation[OarpyError | None]:
        """Have local jobs of a cluster end; return why that does not free enough processors."""
        call = table.Evict(self._transaction, act.request, act.procs, key=f"{self._transaction}:evict")
        (answer,) = yield CallBatch([ClusterCall(act.cluster, call)])
        if isinstance(answer, OarpyError):
            return answer
        return None if answer else CallRefused("too few local jobs may give way")

    def _calls(self, acts: Sequence[_Part]) -> Iterable[tuple[str, list[str], Callable[[Cluster], object]]]:
        """Yield cluster, names of parts, and the call for these: one for all that join the queue of a cluster."""
        placed: dict[str, list[Place]] = {}
        for act in acts:
            if isinstance(act, Place):
                placed.setdefault(act.cluster, []).append(act)
            else:
                yield act.cluster, _names(act), self._asking(act)
        for cluster, some in placed.items():
            if len(some) == 1:
                yield cluster, [name_of(some[0])], self._asking(some[0])
            else:
                yield cluster, [name_of(act) for act in some], self._asking_all(some)

    def _asking(self, act: _Part) -> Callable[[Cluster], object]:
        key = f"{self._transaction}:{name_of(act)}:{self._refused[name_of(act)]}"
        return lambda cluster: cluster.ask(self._change(act, key))

    def _change(self, act: _Part, key: str) -> Change[PreparedPart]:
        if isinstance(act, Amend):
            return table.Amend(self._transaction, act.old, act.part, self._terms.ttl(), key=key)
        part = GridPart(act.name, "withdrawn", act.request) if isinstance(act, Freeze) else act.part
        return Prepare(self._transaction, part, self._terms.ttl(), key=key)

    def _asking_all(self, acts: Sequence[Place]) -> Callable[[Cluster], object]:
        parts = [PartOfTransaction(self._transaction, act.part) for act in acts]
        call = PrepareAll(parts, self._terms.ttl(), key=f"{self._transaction}:prepare")
        return lambda cluster: list(cluster.ask(call))


def _time_of(acts: Iterable[_Part]) -> float:
    """Return for how many seconds more a cluster may be busy with acts."""
    return sum((_HELD if isinstance(act, Hold | Amend) else _PLACED) + _TASK * _tasks_of(act) for act in acts)


def _tasks_of(act: _Part) -> int:
    """Return how many tasks of a bag an act is about."""
    return len(act.part.bag.tasks) if isinstance(act, Hold) and act.part.bag is not UNSET else 0
