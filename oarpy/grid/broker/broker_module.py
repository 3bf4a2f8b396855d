"""The common part of a broker's modules: connections to clusters, conversations there, rounds, and jobs set aside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime

from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.conversations import Conversations
from oarpy.grid.broker.set_aside import Attempt, JobsSetAside
from oarpy.grid.broker.transactions import outcome_name
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import clusters, transactions
from oarpy.store.grid.clusters import GridClusterRow


class BrokerModule(ABC):
    """A module that asks clusters. Its memory goes with the database session that it was read in."""

    name: str
    period = 10.0

    def __init__(self, connections: ClusterConnections, clock: Callable[[], float]) -> None:
        self._connections, self._clock = connections, clock
        self._conversations = Conversations[object](connections.submit, clock)
        self._aside = JobsSetAside(self.name, self._conversations, clock)
        self._known: Connection | None = None

    def files(self) -> Sequence[int]:
        """Return descriptors that are readable when an answer of a cluster arrives, or a cluster answers again."""
        return [*self._conversations.files(), *self._connections.files()]

    def close(self) -> None:
        """End the connections."""
        self._connections.close()

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Run one round: answers, work, outcomes; then again until no answer is there at once."""
        try:
            if connection is not self._known:
                self._conversations.clear()
                self._aside.clear()
                self._begin_anew(connection)
                self._known = connection
            self._connections.quiet()
            rows = clusters.every(connection)
            self._connections.adopt(rows)
            outcome = self._round(connection, rows)
        except Exception:
            self._known = None  # the answers of this round are lost: everything is looked at again
            raise
        dates = [date for date in (outcome.wake_at, self._aside.wake_at()) if date is not None]
        return replace(outcome, wake_at=min(dates, default=None))

    def _one_job(self, connection: Connection, *jobs: int) -> AbstractContextManager[Attempt]:
        """Open a transaction about a job, or jobs that stand or fall together.

        They are set aside for a while if their rows contradict each other, or their handling raises.
        """
        return self._aside.attempt(connection, jobs)

    def _one_outcome(self, connection: Connection, transaction: int) -> AbstractContextManager[Attempt]:
        """Open a transaction to note that a cluster knows an outcome; if that fails, it is sent again after a while."""
        row = transactions.read(connection, transaction)
        jobs = [] if row is None or row.job is None else [row.job]
        return self._aside.attempt(connection, jobs, outcome_name(transaction))

    @abstractmethod
    def _begin_anew(self, connection: Connection) -> None:
        """Forget the work under way in another session of the database."""

    @abstractmethod
    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        """Do the work that is due; ``rows`` are the clusters."""
