"""The claimer: jobs with several components, from their submission to their end.

A round takes the answers of clusters, then does the next step of each job, then sends clusters the outcomes of
transactions. Everything is written before it is acted upon. If the claimer is killed, a transaction that was begun and
not decided is given up, and the try is made again. A decided transaction goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from math import inf
from typing import TypeVar

from oarpy.grid.broker.acts import Prepared
from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.coallocated.bag_offers import OffersFound
from oarpy.grid.broker.coallocated.bag_profiles import ProfilesFound
from oarpy.grid.broker.coallocated.bags import BagRules, GridBags
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.coallocated.deadline_jobs import MODULE, CoallocatedJobs, usable
from oarpy.grid.broker.coallocated.free_slots import SlotsFound
from oarpy.grid.broker.coallocated.job_files import GridJobFile, live_file, live_files
from oarpy.grid.broker.coallocated.mapped_programs import ProgramFound
from oarpy.grid.broker.coallocated.metajobs import MetajobRules, Metajobs, PartsReady
from oarpy.grid.broker.coallocated.named_jobs import NamedJobs
from oarpy.grid.broker.coallocated.room_looks import RoomLooks, RoomsFound
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.transactions import Transactions
from oarpy.grid.core.broker_state import DeadlineRules
from oarpy.modules.loop.module import Outcome
from oarpy.store.database import Connection
from oarpy.store.grid import transactions
from oarpy.store.grid.clusters import GridClusterRow

Result = TypeVar("Result")


class Claimer(BrokerModule):
    """The module. Its memory has the calls under way, which are made again when it is killed.

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
        metajobs: MetajobRules | None = None,
        bags: BagRules | None = None,
    ) -> None:
        super().__init__(connections, clock)
        self._looks = RoomLooks(self._conversations, tolerance)
        self._transactions = Transactions(MODULE, self._conversations, clock, times.margin)
        self._coallocated = CoallocatedJobs(self._transactions, rules, times, self._looks, clock)
        self._named = NamedJobs(self._transactions, tolerance)
        self._metajobs = Metajobs(self._transactions, self._conversations, metajobs or MetajobRules(), tolerance)
        self._bags = GridBags(self._transactions, self._conversations, bags or BagRules(), tolerance)

    def _begin_anew(self, connection: Connection) -> None:
        self._looks.clear()
        self._metajobs.forget(connection)
        self._bags.forget()

    def _round(self, connection: Connection, rows: Sequence[GridClusterRow]) -> Outcome:
        wake_at, heard = self._tend(connection), 0
        while over := self._conversations.go_on():
            while over:  # what follows from an answer at once goes out before all jobs are looked at
                for name, result in over:
                    self._hear(connection, name, result)
                heard, over = heard + len(over), self._conversations.go_on()
            wake_at = self._tend(connection)
        awaited = self._conversations.wake_at()
        dates = [date for date in (wake_at, awaited) if date is not None and date < inf]
        word = f"heard {heard}" if heard else "nothing"
        return Outcome(word, wake_at=min(dates, default=None), pending=awaited is not None)

    def _tend(self, connection: Connection) -> float:
        """Do the due steps of all jobs; return the time of the next step (epoch seconds), or infinity."""
        now, wake_at = self._clock(), inf
        for file in live_files(connection, MODULE):
            if file.job.id not in self._aside:
                with self._one_job(connection, file.job.id):
                    wake_at = min(wake_at, self._kind(file).tend(connection, file, now))
        known = usable(connection)
        self._looks.begin(known)
        wake_at = min(wake_at, self._metajobs.stop_measuring(connection, known, now))
        if (moving := self._metajobs.next_to_move(connection)) and moving.job.id not in self._aside:
            with self._one_job(connection, moving.job.id):
                self._metajobs.begin_move(connection, moving, now)
        return min(wake_at, self._transactions.spread(connection, self._aside))

    def _kind(self, file: GridJobFile) -> CoallocatedJobs | NamedJobs | Metajobs | GridBags:
        """Return the object that makes the steps of jobs of its kind."""
        kinds: dict[str, CoallocatedJobs | NamedJobs | Metajobs | GridBags] = {
            "coallocated": self._coallocated,
            "named": self._named,
            "metajob": self._metajobs,
            "bag": self._bags,
        }
        return kinds[file.job.kind]

    def _hear(self, connection: Connection, name: Hashable, result: object) -> None:
        """Take in the result of a conversation."""
        match name, result:
            case ("room", _), RoomsFound():
                self._rooms_found(connection, result)
            case ("slots", int(job)), SlotsFound() | ProgramFound():
                self._take(connection, job, self._metajobs.slots_found, result)
            case ("offers", int(job)), OffersFound():
                self._take(connection, job, self._bags.offers_found, result)
            case ("profile", int(job)), ProfilesFound():
                self._take(connection, job, self._bags.profiles_found, result)
            case ("tell", int(job), str(part)), int(version):
                with self._one_job(connection, job):
                    self._bags.told(connection, job, part, version, self._clock())
            case ("stop", int(job), str(cluster)), _:
                with self._one_job(connection, job):
                    self._metajobs.stopped(connection, job, cluster, result)
            case ("begin", int(job)), PartsReady():
                self._take(connection, job, self._metajobs.ready, result)
            case ("prepare", int(transaction)), Prepared():
                self._held(connection, transaction, result)
            case ("outcome", int(transaction), *_), str():
                with self._one_outcome(connection, transaction):
                    self._bags.confirmed(connection, self._transactions.heard(connection, name, result))

    def _rooms_found(self, connection: Connection, rooms: RoomsFound) -> None:
        """Let the jobs of a look decide one after the other, by id."""
        self._looks.forget(*rooms.jobs)
        for job in sorted(rooms.jobs):
            self._take(connection, job, self._coallocated.room_found, rooms)

    def _take(
        self,
        connection: Connection,
        job: int,
        step: Callable[[Connection, GridJobFile, Result, float], object],
        result: Result,
    ) -> None:
        """Make the step of a job that follows from a result, unless the job is over."""
        if file := live_file(connection, job):
            with self._one_job(connection, job):
                step(connection, file, result, self._clock())

    def _held(self, connection: Connection, transaction: int, result: Prepared) -> None:
        row = transactions.read(connection, transaction)
        file = live_file(connection, row.job) if row is not None and row.job is not None else None
        if file is None:
            return
        with self._one_job(connection, file.job.id):
            self._kind(file).held(connection, file, transaction, result, self._clock())
