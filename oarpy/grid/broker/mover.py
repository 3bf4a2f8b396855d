"""The mover: reallocation passes over mapped jobs that wait, and the moves that they decide.

A pass is planned by estimates alone. Then each move is a transaction. Moves between the same clusters follow each
other: the next move begins when the one before it is decided::

    freeze the old copy, make the new one, held -> do both ECTs still say so? -> decided -> delete the old
                                                    |                                            |
                                                    +-- no: the old copy goes on in its rank     +-> let the new go

Prepared acts lapse. So the cluster of the old copy gets the decision first: if it has let the old copy go on, the move
is given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, inf

import psycopg
import structlog

from oarpy.grid.broker.acts import Act, Freeze, Prepared, Terms
from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.mapper import queued_part
from oarpy.grid.broker.move_checks import MoveCheck, PlannedPass, check_move, clocks_ahead, plan_pass
from oarpy.grid.broker.pass_plan import MovablePart, PlannedMove
from oarpy.grid.broker.transactions import Transactions, note_prepared
from oarpy.grid.calls.parts import PartRequest
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.model.states import GridJobState
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, reallocation_passes, transactions
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.refusals import first_line

log = structlog.get_logger()
MODULE = "mover"
_TERMS = Terms(lambda: 120.0)
"""Seconds after which clusters drop the prepared acts of a move."""


@dataclass(slots=True)
class _PassUnderWay:
    """A pass: the remaining moves, and the moves that are begun and not decided, by transaction."""

    number: int
    ready: bool = False
    left: list[PlannedMove] = field(default_factory=list)
    begun: dict[int, PlannedMove] = field(default_factory=dict)
    moved: int = 0
    remarks: list[str] = field(default_factory=list)


class Mover(BrokerModule):
    """The module. A pass that was under way when it was killed does not go on: the next pass sees the remaining jobs.

    ``period`` are the seconds between passes.
    """

    name = MODULE
    period = 60.0

    def __init__(
        self,
        rules: ReallocationRules,
        period: float,
        connections: ClusterConnections,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(connections, clock)
        self._rules, self._between = rules, period
        self._transactions = Transactions(MODULE, self._conversations, clock)
        self._pass: _PassUnderWay | None = None

    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        due, heard = self._tend(connection), 0
        while over := self._conversations.go_on():
            for name, result in over:
                self._hear(connection, name, result)
            due, heard = self._tend(connection), heard + len(over)
        dates = [date for date in (due, self._conversations.wake_at()) if date is not None and date < inf]
        word = f"heard {heard}" if heard else "nothing"
        return Outcome(word, wake_at=min(dates, default=None), pending=self._pass is not None)

    def _begin_anew(self, connection: Connection) -> None:
        """Forget the pass under way, and note its outcome."""
        self._pass = None
        self._transactions.recover(connection, self._one_job)
        for move in reallocation_passes.open_moves(connection):
            with self._one_job(connection, move.job):
                row = None if move.transaction is None else transactions.read(connection, move.transaction)
                settled = ("moved", "") if row is not None and row.committed else ("given up", "the broker ended")
                reallocation_passes.settle_move(connection, move.id, *settled)
        with connection.transaction():
            for begun in reallocation_passes.unfinished(connection):
                moved = sum(move.outcome == "moved" for move in reallocation_passes.moves_of_pass(connection, begun.id))
                reallocation_passes.end(connection, begun.id, moved, "the broker was started anew before it was over")

    def _tend(self, connection: Connection) -> float:
        """Begin a pass that is due, and the moves that may begin; return when there is more to do (epoch seconds)."""
        due = inf
        if self._pass is None:
            due = self._begin_pass(connection)
        if (under_way := self._pass) is not None and under_way.ready:
            self._begin_moves(connection, under_way)
            if not under_way.left and not under_way.begun:
                self._end_pass(connection, under_way)
                due = self._begin_pass(connection)
        self._transactions.spread(connection, self._aside)
        return due

    # Passes

    def _begin_pass(self, connection: Connection) -> float:
        """Begin a pass if one is requested or due; return when the next pass is due, infinity if there is none."""
        request = next(iter(reallocation_passes.asked(connection)), None)
        due = self._due(connection)
        if request is None and due > self._clock():
            return due
        rules = self._rules
        parts = [movable(row) for row in broker_parts.movable(connection)]
        with connection.transaction():
            number = reallocation_passes.begin(
                connection,
                rules.algorithm or None,
                rules.heuristic,
                len(parts),
                None if request is None else request.id,
                self._clock(),
            )
        self._pass = _PassUnderWay(number)
        if not rules.algorithm:
            self._pass.remarks.append("reallocation is off: [grid] algorithm is 0")
            self._pass.ready = True
            return self._clock()
        planning = plan_pass(clusters.every(connection), parts, rules, self._clock())
        self._conversations.begin(("pass", number), planning)
        return inf

    def _due(self, connection: Connection) -> float:
        """Return when the next pass is due: one period after the first submission of all, and each period then."""
        first = broker_jobs.first_submission(connection) if self._rules.algorithm else None
        if first is None:
            return inf
        last = reallocation_passes.last_begun(connection)
        return next_pass(first, last, self._between)

    def _planned(self, connection: Connection, under_way: _PassUnderWay, planned: PlannedPass) -> None:
        """Take the moves of a pass, and store its decision; the moves go on if it cannot be stored."""
        under_way.left = list(planned.moves)
        under_way.remarks += planned.lost
        under_way.ready = True
        if planned.decision is None:
            return
        decision = planned.decision
        try:
            with connection.transaction():
                decisions.add(connection, MODULE, self._clock(), decision.state, decision.events, decision.actions)
        except psycopg.Error as error:
            if connection.closed:
                raise
            log.warning("a decision was not stored", module=MODULE, reason=first_line(error))
            under_way.remarks.append(f"what it was decided from was not stored: {first_line(error)}")

    def _end_pass(self, connection: Connection, under_way: _PassUnderWay) -> None:
        with connection.transaction():
            message = "; ".join(dict.fromkeys(under_way.remarks))
            reallocation_passes.end(connection, under_way.number, under_way.moved, message)
        log.info("pass", module=MODULE, number=under_way.number, moved=under_way.moved)
        self._pass = None

    # Moves

    def _begin_moves(self, connection: Connection, under_way: _PassUnderWay) -> None:
        """Begin the moves between clusters that have no undecided move."""
        rows = self._drop_lost(connection, under_way)
        busy = {name for move in under_way.begun.values() for name in (move.part.cluster, move.target)}
        for move in list(under_way.left):
            concerned = {move.part.cluster, move.target}
            if not busy & concerned:
                under_way.left.remove(move)
                with self._one_job(connection, move.part.job) as attempt:
                    number = self._begin_move(connection, under_way, move, rows[move.target])
                if attempt.failure:
                    under_way.remarks.append(f"job {move.part.job} stayed: {attempt.failure}")
                    continue
                under_way.begun[number] = move
            busy |= concerned
            if busy >= {name for other in under_way.left for name in (other.part.cluster, other.target)}:
                break

    def _drop_lost(self, connection: Connection, under_way: _PassUnderWay) -> Mapping[str, GridClusterRow]:
        """Drop the moves to clusters that were disabled, removed or closed since the plan; return the others."""
        rows = {row.name: row for row in clusters.every(connection) if row.active}
        for move in list(under_way.left):
            there = rows.get(move.target)
            reason = f"cluster '{move.target}' is not in use any more"
            if there is not None and not (reason := there.refusal_to(move.part.request.user)):
                continue
            under_way.left.remove(move)
            under_way.remarks.append(f"job {move.part.job} stayed: {reason}")
        return rows

    def _begin_move(
        self, connection: Connection, under_way: _PassUnderWay, move: PlannedMove, target: GridClusterRow
    ) -> int:
        """Begin a transaction that freezes the old copy and makes the new one; return its number."""
        part = move.part
        (job,) = broker_jobs.read(connection, [part.job])
        (component,) = broker_jobs.components(connection, [part.job])[part.job]

        def plan(transaction: str) -> list[Act]:
            return [
                Freeze(part.cluster, part.name, part.request),
                queued_part(job, component, target, transaction),
            ]

        transaction = self._transactions.begin(connection, "move", part.job, _TERMS, plan)
        if not move.stays:
            old, new = (None if end == inf else end for end in (move.old, move.new))
            reallocation_passes.add_move(
                connection, under_way.number, part.job, part.cluster, move.target, old, new, transaction
            )
        return transaction

    def _hear(self, connection: Connection, name: Hashable, result: object) -> None:
        """Take in the result of a conversation."""
        under_way = self._pass
        match name, result:
            case ("pass", _), PlannedPass() if under_way is not None:
                self._planned(connection, under_way, result)
            case ("prepare", int(transaction)), Prepared() if under_way is not None:
                self._prepared(connection, under_way, transaction, result)
            case ("look again", int(transaction)), MoveCheck() if under_way is not None:
                move = under_way.begun[transaction]
                self._settle(connection, under_way, transaction, result.objection(move, self._rules))
            case ("outcome", int(transaction), *_), str():
                with self._one_outcome(connection, transaction):
                    self._known_by(connection, name, result)

    def _prepared(self, connection: Connection, under_way: _PassUnderWay, transaction: int, result: Prepared) -> None:
        """Look again at both ECTs, if both copies are held."""
        move = under_way.begun[transaction]
        names = {row.name for row in broker_parts.of_transaction(connection, transaction)}
        if result.failures or move.part.name not in result.parts or not names <= set(result.parts):
            reasons = [f"cluster '{name}': {error}" for name, error in result.failures]
            self._settle(connection, under_way, transaction, "; ".join(reasons) or "it does not wait any more")
            return
        with self._one_job(connection, move.part.job) as attempt:
            self._look_again(connection, under_way, transaction, result)
        if attempt.failure:
            self._settle(connection, under_way, transaction, attempt.failure)

    def _look_again(self, connection: Connection, under_way: _PassUnderWay, transaction: int, result: Prepared) -> None:
        """Ask where both copies, which are held, would end now."""
        move = under_way.begun[transaction]
        note_prepared(connection, transaction, result)
        new = next(name for name in result.parts if name != move.part.name)
        later = [other.part.name for other in under_way.left if other.part.cluster == move.target]
        gone = later if self._rules.algorithm == 2 else []
        ahead = clocks_ahead(clusters.every(connection))
        self._conversations.begin(("look again", transaction), check_move(move, new, gone, ahead))

    def _settle(self, connection: Connection, under_way: _PassUnderWay, transaction: int, objection: str) -> None:
        """Decide a move, or give it up with a reason."""
        move = under_way.begun.pop(transaction)
        with self._one_job(connection, move.part.job) as attempt:
            objection = objection or _decide(connection, transaction, move.part.job)
            if objection:
                transactions.give_up(connection, transaction, objection)
            outcome = "given up" if objection else "moved"
            reallocation_passes.settle_moves_of(connection, transaction, outcome, objection)
        if attempt.failure:
            objection = objection or attempt.failure
            with self._one_job(connection, move.part.job):
                transactions.give_up(connection, transaction, objection)
                reallocation_passes.settle_moves_of(connection, transaction, "given up", objection)
        if objection:
            under_way.remarks.append(f"job {move.part.job} stayed: {objection}")
        elif not move.stays:
            under_way.moved += 1

    def _known_by(self, connection: Connection, name: Hashable, result: str) -> None:
        """Note that a cluster knows how a transaction ended, and the consequence if it refused to carry it out."""
        known = self._transactions.heard(connection, name, result)
        known.map_anew(connection)
        if known.stayed:
            reallocation_passes.settle_moves_of(connection, known.transaction, "given up", known.refusal)


def _decide(connection: Connection, transaction: int, number: int) -> str:
    """Decide the move of a job; say why it is not decided, or nothing if it is."""
    broker_jobs.lock(connection, [number])
    (job,) = broker_jobs.read(connection, [number])
    if job.delete_asked is not None or job.state is not GridJobState.MAPPED:
        return "the job is to end, or does not wait any more"
    return "" if transactions.decide(connection, transaction) else "one of its copies is not held any more"


def next_pass(first: float, last: float | None, period: float) -> float:
    """Return when a pass is due after the ``last`` pass: whole periods after the ``first`` submission (epoch seconds).

    A pass that began a little early, by another clock, counts for its date.
    """
    if last is None or last < first:
        return first + period
    return first + period * (floor((last - first) / period + 0.01) + 1)


def movable(row: broker_parts.WaitingGridPart) -> MovablePart:
    """Return the row of a part as a pass sees it."""
    request = PartRequest(
        row.user, row.resources, row.procs, row.walltime, row.queue, row.properties, row.project, row.types
    )
    return MovablePart(row.name, row.job, row.cluster, row.submitted, request)
