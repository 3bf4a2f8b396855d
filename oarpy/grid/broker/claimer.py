"""The claimer: jobs with several components, from their submission to their end.

A round hears what clusters answered, then does what is due for each job, then tells clusters how transactions ended.
Everything is written before it is acted upon. What was begun and not decided when the claimer was killed is given up,
and the try is made again. What was decided goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from math import inf

import psycopg
import structlog

from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.coallocated.claim_attempts import ClaimResult
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.coallocated.deadline_jobs import MODULE, CoallocatedJobs, usable
from oarpy.grid.broker.coallocated.job_files import live_file, live_files
from oarpy.grid.broker.coallocated.named_jobs import NamedJobs
from oarpy.grid.broker.coallocated.room_looks import RoomLooks, RoomsFound
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.outcomes import TransactionEnd, Verb, tell
from oarpy.grid.broker.transactions import wire_name
from oarpy.grid.core.broker_state import DeadlineRules
from oarpy.model.states import GridTransactionState
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import broker_parts, transactions
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.transactions import GridTransactionRow
from oarpy.store.refusals import first_line, is_refusal

log = structlog.get_logger()


class Claimer(BrokerModule):
    """The module. What it remembers are calls under way; they are made again when it is killed.

    ``tolerance`` says how far clocks of clusters may be off, in seconds.
    """

    name = MODULE

    def __init__(
        self,
        rules: DeadlineRules,
        times: ClaimTimes,
        tolerance: float,
        connections: ClusterConnections,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(connections, clock)
        self._times = times
        self._looks = RoomLooks(self._errands, tolerance)
        self._coallocated = CoallocatedJobs(self._errands, rules, times, self._looks)
        self._named = NamedJobs(self._errands, tolerance)

    def _begin_anew(self, connection: Connection) -> None:
        self._looks.clear()

    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        wake_at, heard = self._tend(connection), 0
        while over := self._errands.go_on():
            for name, result in over:
                self._hear(connection, name, result)
            wake_at, heard = self._tend(connection), heard + len(over)
        awaited = self._errands.wake_at()
        dates = [date for date in (wake_at, awaited) if date is not None and date < inf]
        word = f"heard {heard}" if heard else "nothing"
        return Outcome(word, wake_at=min(dates, default=None), pending=awaited is not None)

    def _tend(self, connection: Connection) -> float:
        """Do what is due for all jobs; return when there is more to do (epoch seconds), or infinity."""
        now, wake_at = self._clock(), inf
        for file in live_files(connection, MODULE):
            tended = self._coallocated if file.job.kind == "coallocated" else self._named
            with _one_job(connection, file.job.id):
                wake_at = min(wake_at, tended.tend(connection, file, now))
        self._looks.begin(usable(connection))
        for one in transactions.open_of(connection, MODULE):
            if one.state in (GridTransactionState.COMMITTING, GridTransactionState.ABORTING):
                wake_at = min(wake_at, self._spread(connection, one, now))
        return wake_at

    def _spread(self, connection: Connection, one: GridTransactionRow, now: float) -> float:
        """Have the clusters told that do not know yet how a transaction ended; return until when that is true."""
        verb, until = self._verb(one, now)
        rows = broker_parts.of_transaction(connection, one.id)
        hosts = [host for row in rows for host in row.hosts]
        for cluster in one.unaware:
            name = ("outcome", one.id, cluster)
            if (*name, "commit") in self._errands and verb == "abort":
                self._errands.drop((*name, "commit"))
            if (*name, verb) not in self._errands:
                end = TransactionEnd(wire_name(one.id, one.word), cluster, verb, one.begin, hosts)
                self._errands.begin((*name, verb), tell(end))
        return until

    def _verb(self, one: GridTransactionRow, now: float) -> tuple[Verb, float]:
        """Return what clusters are told, and until when.

        A claim that could begin late only is aborted. A cluster that knew better refuses that: its part has begun.
        """
        if not one.committed:
            return "abort", inf
        if one.kind != "claim" or one.begin is None:
            return "commit", inf
        latest = one.begin + self._times.margin
        return ("commit", latest) if now < latest else ("abort", inf)

    def _hear(self, connection: Connection, name: Hashable, result: object) -> None:
        """Take in what came out of an errand."""
        match name, result:
            case ("room", _), RoomsFound():
                self._rooms_found(connection, result)
            case ("hold", int(transaction)), ClaimResult():
                self._held(connection, transaction, result)
            case ("outcome", int(transaction), str(cluster), verb), str():
                with connection.transaction():
                    self._known_by(connection, transaction, cluster, verb, result)

    def _rooms_found(self, connection: Connection, rooms: RoomsFound) -> None:
        """Let the jobs of a look decide one after the other, by id."""
        self._looks.forget(*rooms.jobs)
        for job in sorted(rooms.jobs):
            if file := live_file(connection, job):
                with _one_job(connection, job):
                    self._coallocated.room_found(connection, file, rooms, self._clock())

    def _held(self, connection: Connection, transaction: int, result: ClaimResult) -> None:
        row = transactions.read(connection, transaction)
        file = live_file(connection, row.job) if row is not None and row.job is not None else None
        if file is None:
            return
        with _one_job(connection, file.job.id):
            if file.job.kind == "coallocated":
                self._coallocated.held(connection, file, transaction, result, self._clock())
            else:
                self._named.held(connection, file, transaction, result)

    def _known_by(self, connection: Connection, transaction: int, cluster: str, verb: object, refusal: str) -> None:
        """Note that a cluster knows how a transaction ended, and whether it has something of it."""
        row = transactions.read(connection, transaction)
        lost = ""
        if row is not None and row.committed:
            lost = refusal if verb == "commit" else "" if refusal else "it was not told in time to start"
        transactions.note_known(connection, transaction, cluster, lost)


@contextmanager
def _one_job(connection: Connection, job: int) -> Iterator[None]:
    """A transaction about one job: if the database refuses what is written for it, the others go on."""
    try:
        with connection.transaction():
            yield
    except psycopg.Error as error:
        if not is_refusal(error):
            raise
        log.exception("refused by the database", module=MODULE, job=job, reason=first_line(error))
