"""Changes on several clusters, in two phases with presumed abort. Everything is written before clusters hear of it.

::

    begun (rows) -> all prepare -> decided (rows) -> all are told, until each has confirmed
                        |
                        +-- one refuses or is silent, or the module was killed: given up -> all are told

Outcomes of which a cluster has not confirmed that it knows are doubts: it is told again until it does.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from oarpy.grid.broker.errands import CallBatch, ClusterCall, Errand, Errands
from oarpy.grid.broker.outcomes import TransactionEnd, Verb, tell
from oarpy.grid.calls.parts import GridPart, PartOfTransaction, PreparedPart
from oarpy.grid.calls.table import CallRefused, Cluster, Prepare, PrepareAll
from oarpy.model.errors import OarpyError
from oarpy.model.states import GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import transactions
from oarpy.store.grid.transactions import NewGridPart

_PATIENCE, _PATIENCE_A_PART = 8.0, 0.5
"""Seconds that a cluster has for its answer, and for each part that is prepared."""


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part that is to be made on a cluster for a component, or (kind ``withdrawn``) frozen there."""

    job: int
    component: int
    cluster: str
    part: GridPart


@dataclass(frozen=True, slots=True)
class PreparedParts:
    """What clusters have prepared, by name of the part; ``failures`` says why others have not, by cluster.

    ``refused`` has the parts that a cluster refused while it prepared others.
    """

    prepared: Mapping[str, PreparedPart] = field(default_factory=dict)
    failures: Mapping[str, OarpyError] = field(default_factory=dict)
    refused: Mapping[str, CallRefused] = field(default_factory=dict)


def wire_name(transaction: int, word: str) -> str:
    """Return how clusters know a transaction. ``word`` keeps it apart from those of any other database."""
    return f"t{word}.{transaction}" if word else f"t{transaction}"


def part_name(job: int, component: int, transaction: str) -> str:
    """Return the name of the part that a transaction, by its name on clusters, makes for a component."""
    return f"g{job}.{component}.{transaction.removeprefix('t')}"


def prepare(transaction: str, parts: Sequence[PlannedPart], ttl: float) -> Errand[PreparedParts]:
    """Have all parts prepared, on all clusters at the same time; what one does not prepare is not tried again.

    ``transaction`` is its name on clusters.
    """
    by_cluster: dict[str, list[GridPart]] = defaultdict(list)
    for one in parts:
        by_cluster[one.cluster].append(one.part)
    patience = _PATIENCE + _PATIENCE_A_PART * max(map(len, by_cluster.values()))
    calls = [
        ClusterCall(cluster, _preparing(transaction, wanted, ttl), patience) for cluster, wanted in by_cluster.items()
    ]
    answers = yield CallBatch(calls, patience)
    prepared: dict[str, PreparedPart] = {}
    failures: dict[str, OarpyError] = {}
    refused: dict[str, CallRefused] = {}
    for call, answer in zip(calls, answers, strict=True):
        if isinstance(answer, OarpyError):
            failures[call.cluster] = answer
        elif isinstance(answer, dict):
            prepared |= {name: one for name, one in answer.items() if isinstance(one, PreparedPart)}
            mine = {name: one for name, one in answer.items() if isinstance(one, CallRefused)}
            if mine:
                failures[call.cluster] = next(iter(mine.values()))
                refused |= mine
    return PreparedParts(prepared, failures, refused)


def _preparing(name: str, parts: Sequence[GridPart], ttl: float) -> Callable[[Cluster], object]:
    def ask(cluster: Cluster) -> Mapping[str, PreparedPart | CallRefused]:
        if len(parts) > 1 and all(one.kind == "queued" for one in parts):
            wanted = [PartOfTransaction(name, one) for one in parts]
            answers = cluster.ask(PrepareAll(wanted, ttl, key=f"{name}:prepare"))
            return {one.name: answer for one, answer in zip(parts, answers, strict=True)}
        return {one.name: cluster.ask(Prepare(name, one, ttl, key=f"{name}:{one.name}:prepare")) for one in parts}

    return ask


class TransactionDriver:
    """Drives the transactions of one module. Its calls are errands named ``("prepare", ID)`` and ``("outcome", ...)``.

    Whoever owns the errands hands on their results: those of the first phase are for the owner to decide upon, those
    of outcomes go to :meth:`heard`.
    """

    def __init__(self, module: str, errands: Errands[object], clock: Callable[[], float] = time.time) -> None:
        self._module = module
        self._errands = errands
        self._clock = clock
        self._doubts: list[tuple[int, str, str, int]] = []

    def recover(self, connection: Connection) -> None:
        """Give up what was begun and not decided: nobody is left who would decide it."""
        for one in transactions.open_of(connection, self._module):
            if one.state is GridTransactionState.PREPARING and ("prepare", one.id) not in self._errands:
                with connection.transaction():
                    transactions.give_up(connection, one.id, "the broker was started anew before it was decided")

    def begin(
        self,
        connection: Connection,
        kind: str,
        job: int | None,
        ttl: float,
        plan: Callable[[str], Sequence[PlannedPart]],
    ) -> int:
        """Store a transaction with its parts, and have them prepared; return its number.

        ``plan`` is called with its name on clusters, which is part of names. Parts that do not wait any more are not
        frozen: the caller looks whether :class:`PreparedParts` has all that it planned.
        Begin it within a database transaction.
        """
        number = transactions.begin(connection, kind, self._module, job, ttl)
        name = wire_name(number, transactions.word(connection, number))
        planned = plan(name)
        made = [one for one in planned if one.part.kind != "withdrawn"]
        names = [one.part.name for one in planned if one.part.kind == "withdrawn"]
        frozen = set(transactions.freeze(connection, number, names)) if names else set()
        if made:
            transactions.add_parts(connection, number, [_row(one) for one in made])
        wanted = [one for one in planned if one.part.kind != "withdrawn" or one.part.name in frozen]
        if wanted:
            self._errands.begin(("prepare", number), prepare(name, wanted, ttl))
        return number

    def spread(self, connection: Connection) -> None:
        """Have every cluster told that does not know yet how a transaction ended; note those that do not answer."""
        while self._doubts:
            transactions.note_unknown(connection, *self._doubts.pop(0))
        for one in transactions.open_of(connection, self._module):
            if one.committed is None:
                continue
            verb: Verb = "commit" if one.committed else "abort"
            for cluster in one.unaware:
                name = ("outcome", one.id, cluster, verb)
                if name not in self._errands:
                    end = TransactionEnd(wire_name(one.id, one.word), cluster, verb, one.begin)
                    self._errands.begin(name, tell(end, partial(self._doubt, one.id, cluster)))

    def _doubt(self, number: int, cluster: str, reason: str, asked: int) -> None:
        self._doubts.append((number, cluster, reason, asked))

    def heard(self, connection: Connection, name: Hashable, result: object) -> bool:
        """Take in that a cluster has confirmed how a transaction ended; tell whether it has nothing of its parts.

        That is so when it refuses a commit, as ``result`` says.
        """
        assert isinstance(name, tuple)
        _, number, cluster, verb = name
        lost = str(result) if verb == "commit" else ""
        transactions.note_known(connection, number, cluster, lost)
        return bool(lost)


def _row(one: PlannedPart) -> NewGridPart:
    return NewGridPart(one.part.name, one.job, one.component, one.cluster, one.part.kind, one.part.request.walltime)
