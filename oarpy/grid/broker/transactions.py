"""The one engine of changes on several clusters: two phases with presumed abort, each step written before it is sent.

::

    begun (rows) -> all prepare -> decided (rows) -> all are told, until each has confirmed
                        |
                        +-- one refuses or is silent, or the module was killed: given up -> all are told

1. The changes are a list of acts (:mod:`~oarpy.grid.broker.acts`). Their rows come first.
2. Clusters prepare their acts. Prepared acts lapse by themselves if a cluster hears nothing more.
3. The owner of the transaction decides, in one transaction of the database, or keeps the held parts for a later
   decision.
4. Clusters get the decision. Where a part replaces another part, the cluster of the old part gets it first: if it has
   let the old part go on, the new part is given up.
5. An outcome that a cluster has not confirmed is a doubt: it is sent again until the cluster confirms it.

What is always true: a component has one part that could start; a cluster gets one outcome of a transaction; a
transaction that a killed module had begun and not decided is given up, except for parts that it held on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random

from oarpy.grid.broker.acts import Act, Amend, Evict, Freeze, Prepared, Terms, prepare
from oarpy.grid.broker.conversations import Conversations
from oarpy.grid.broker.outcomes import TransactionEnd, Undone, Verb, tell
from oarpy.model.states import GridJobState, GridPartState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, transactions
from oarpy.store.grid.transactions import GridTransactionRow, NewGridPart

_REPLACING = ("move", "amend")
"""Kinds of transactions in which new parts replace old ones."""
_LEFT = (GridPartState.DELETING, GridPartState.GONE)
"""States of replaced parts: their hosts are not the job's."""
_TOO_LATE = "it was not told in time to start"


OneJob = Callable[..., AbstractContextManager[object]]
"""Opens a transaction of the database about a job, or about none, which may fail alone."""


def outcome_name(transaction: int) -> Hashable:
    """Return the name of the work to send the outcome of a transaction."""
    return "outcome", transaction


def wire_name(transaction: int, word: str) -> str:
    """Return the name of a transaction on clusters; ``word`` keeps it apart from those of any other database."""
    return f"t{word}.{transaction}" if word else f"t{transaction}"


def part_name(job: int, component: int, transaction: str) -> str:
    """Return the name of the part that a transaction, by its name on clusters, makes for a component."""
    return f"g{job}.{component}.{transaction.removeprefix('t')}"


def part_origin(name: str) -> tuple[int, int]:
    """Return the component that a part was made for, and the number of the transaction that made it."""
    _, component, *_, transaction = name.split(".")
    return int(component), int(transaction)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A cluster's confirmation that it knows how a transaction ended; ``refusal`` says why it did not carry it out.

    ``stayed``: a part there went on in its old place, and the move failed; for an amendment the other clusters still
    get the outcome. ``dropped`` has the jobs whose parts the cluster has dropped; ``undone``: it knows that none began.
    """

    transaction: int
    cluster: str
    refusal: str = ""
    stayed: bool = False
    dropped: Sequence[int] = ()
    undone: bool = False

    def map_anew(self, connection: Connection) -> None:
        """Let mapped jobs whose parts were dropped be mapped again."""
        waiting = [job.id for job in broker_jobs.read(connection, self.dropped) if job.state is GridJobState.MAPPED]
        broker_jobs.move(connection, waiting, GridJobState.SUBMITTED, self.refusal[:1000])


class Transactions:
    """The transactions of one module.

    Its calls are conversations of its owner: ``("prepare", ID)``, ``("outcome", ID, ...)``. The owner hands on their
    results. The first gives a :class:`Prepared`, on which the owner decides; the results of the others go to
    :meth:`heard`. ``margin``: seconds after its date when a claim that its cluster does not know yet is aborted.
    """

    def __init__(
        self,
        module: str,
        conversations: Conversations[object],
        clock: Callable[[], float] = time.time,
        margin: float = inf,
        chance: Random | None = None,
    ) -> None:
        self._module = module
        self._conversations = conversations
        self._clock = clock
        self._margin = margin
        self._chance = chance or Random()
        self._doubts: list[tuple[int, str, str, int]] = []

    def recover(self, connection: Connection, one_job: OneJob) -> None:
        """Give up the transactions that were begun and not decided: their preparation died with the process before.

        Each is given up within ``one_job``.
        """
        for row in transactions.open_of(connection, self._module):
            if row.state is GridTransactionState.PREPARING and not self.is_preparing(row.id):
                with one_job(connection, *([] if row.job is None else [row.job])):
                    transactions.give_up(connection, row.id, "the broker was started anew before it was decided")

    # The first phase

    def begin(
        self,
        connection: Connection,
        kind: str,
        job: int | None,
        terms: Terms,
        plan: Callable[[str], Sequence[Act]],
    ) -> int:
        """Store a transaction with its parts, and have its acts prepared; return its number.

        ``plan`` is called with its name on clusters, which is part of names. Parts that do not wait any more are not
        frozen: the owner looks whether :class:`Prepared` has all that it planned.
        Begin it within a database transaction.
        """
        number = transactions.begin(connection, kind, self._module, job, terms.ttl(), terms.begin)
        name = wire_name(number, transactions.word(connection, number))
        acts = plan(name)
        names = [old for act in acts if (old := _old(act))]
        frozen = set(transactions.freeze(connection, number, names)) if names else set()
        rows = [_row(act) for act in acts if not isinstance(act, Freeze | Evict)]
        if rows:
            transactions.add_parts(connection, number, rows)
        wanted = [act for act in acts if not (old := _old(act)) or old in frozen]
        self._conversations.begin(("prepare", number), prepare(name, wanted, terms, self._clock, self._chance))
        return number

    def is_preparing(self, number: int) -> bool:
        """Tell whether clusters are asked to prepare a transaction; not so for one that was begun before a restart."""
        return ("prepare", number) in self._conversations

    def give_up(self, connection: Connection, number: int, reason: str) -> None:
        """Give up a transaction, if it is not decided."""
        self._conversations.drop(("prepare", number))
        transactions.give_up(connection, number, reason)

    # The second phase

    def spread(self, connection: Connection, aside: Container[Hashable] = ()) -> float:
        """Send outcomes of transactions to the clusters that do not know them yet; note the clusters that are silent.

        Outcomes whose names are ``aside`` are not sent now. Return the next time to send (epoch seconds), or infinity.
        """
        while self._doubts:
            transactions.note_unknown(connection, *self._doubts.pop(0))
        again = inf
        for row in transactions.open_of(connection, self._module):
            if row.committed is not None and outcome_name(row.id) not in aside:
                verb, until = self._verb(row)
                again = min(again, until)
                untold = [name for name in row.unaware if ("outcome", row.id, name, verb) not in self._conversations]
                if untold:
                    self._tell(connection, row, verb, untold)
        return again

    def _verb(self, row: GridTransactionRow) -> tuple[Verb, float]:
        """Return the outcome for clusters, and until when it holds.

        A claim that could only begin late is aborted. A cluster whose part has begun refuses the abort.
        """
        if not row.committed:
            return "abort", inf
        if row.kind != "claim" or row.begin is None:
            return "commit", inf
        latest = row.begin + self._margin
        return ("commit", latest) if self._clock() < latest else ("abort", inf)

    def _tell(self, connection: Connection, row: GridTransactionRow, verb: Verb, untold: Sequence[str]) -> None:
        """Begin to send an outcome to clusters. A new copy is let go when the old copy is known to be gone."""
        parts = broker_parts.of_transaction(connection, row.id)
        going = {part.cluster for part in parts if part.state is GridPartState.DELETING}
        if row.kind in _REPLACING and not going and not any(part.state is GridPartState.COMMITTING for part in parts):
            verb = "abort"
        hosts = [host for part in parts if part.state not in _LEFT for host in part.hosts]
        for cluster in untold:
            key = ("outcome", row.id, cluster)
            if (going and cluster not in going) or (*key, verb) in self._conversations:
                continue
            if verb == "abort":
                self._conversations.drop((*key, "commit"))
            end = TransactionEnd(wire_name(row.id, row.word), cluster, verb, row.begin, hosts)
            self._conversations.begin((*key, verb), tell(end, partial(self._doubt, row.id, cluster)))

    def _doubt(self, number: int, cluster: str, reason: str, times: int) -> None:
        self._doubts.append((number, cluster, reason, times))

    def heard(self, connection: Connection, name: Hashable, result: object) -> Confirmed:
        """Note that a cluster has confirmed how a transaction ended; ``result`` says why it refused the outcome.

        Call it within a database transaction.
        """
        assert isinstance(name, tuple)
        _, number, cluster, verb = name
        refusal = str(result)
        row = transactions.read(connection, number)
        there = [part for part in broker_parts.of_transaction(connection, number) if part.cluster == cluster]
        if verb == "commit" and refusal and any(part.state is GridPartState.DELETING for part in there):
            reason = f"cluster '{cluster}' let it go on: {refusal}"
            transactions.keep_old(connection, number, cluster, reason)
            transactions.note_known(connection, number, cluster)
            return Confirmed(number, cluster, reason, stayed=True)
        lost = ""
        if row is not None and row.committed:
            lost = refusal if verb == "commit" else "" if refusal else _TOO_LATE
        dropped = [part.job for part in there if lost and part.state is GridPartState.COMMITTING]
        transactions.note_known(connection, number, cluster, lost)
        return Confirmed(number, cluster, lost, dropped=dropped, undone=isinstance(result, Undone))


def _old(act: Act) -> str:
    """Return the name of the part that goes when an act is committed; empty if none does."""
    return act.name if isinstance(act, Freeze) else act.old if isinstance(act, Amend) else ""


def _row(act: Act) -> NewGridPart:
    assert not isinstance(act, Freeze | Evict)
    part = act.part
    return NewGridPart(part.name, act.job, act.component, act.cluster, part.kind, part.request.walltime)


def note_prepared(connection: Connection, number: int, prepared: Prepared) -> None:
    """Store the prepared parts of clusters."""
    transactions.note_prepared(connection, number, {name: part.job for name, part in prepared.parts.items()})
    if hosts := {name: part.hosts for name, part in prepared.parts.items() if part.hosts}:
        broker_parts.note_hosts(connection, hosts)
