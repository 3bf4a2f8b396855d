"""Jobs with a part on each of the clusters that their user named, from a date on: all parts are reserved, or none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import inf

from oarpy.grid.broker.acts import Hold, Prepared, Terms
from oarpy.grid.broker.coallocated.common_starts import after_start
from oarpy.grid.broker.coallocated.component_requests import part_of
from oarpy.grid.broker.coallocated.deadline_jobs import (
    ANEW,
    end,
    end_parts,
    usable,
)
from oarpy.grid.broker.coallocated.job_files import GridJobFile
from oarpy.grid.broker.transactions import Transactions, note_prepared
from oarpy.model.states import GridJobState, GridPartState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, transactions

_TTL = 60.0
"""Seconds after which a cluster drops a reservation that was not committed."""
_SOON = 10.0
"""Seconds after which parts without a date of their user begin: all clusters have to be asked before."""
_FAR, _ROUNDS = 60.0, 3
"""Seconds before its date from which on clusters may be asked one after the other, and how often each of them is."""
_UNMADE = (GridPartState.ABORTING, GridPartState.GONE)


@dataclass(frozen=True, slots=True)
class NamedJobs:
    """The steps of these jobs. ``tolerance`` is how far clocks of clusters may be off, in seconds."""

    transactions: Transactions
    tolerance: float

    def tend(self, connection: Connection, file: GridJobFile, now: float) -> float:
        """Make the due steps of a job; return the time of the next step (epoch seconds), or infinity."""
        job = file.job
        if job.delete_asked is not None:
            self._refuse(connection, file, f"deleted by {job.delete_by}")
        elif job.state is GridJobState.SUBMITTED and (not file.rows or file.rows[0].state in _UNMADE):
            self._reserve(connection, file, now)
        elif job.state is GridJobState.SUBMITTED and not file.is_in(GridTransactionState.PREPARING):
            self._reserved(connection, file)
        elif job.state is GridJobState.SUBMITTED and not self.transactions.is_preparing(file.rows[0].transaction):
            self.transactions.give_up(connection, file.rows[0].transaction, ANEW)
            return now
        elif job.state is GridJobState.MAPPED:
            self._started(connection, file)
        elif job.state is GridJobState.RUNNING and after_start(file.parts).act == "over":
            end(connection, file)
        return inf

    def held(self, connection: Connection, file: GridJobFile, transaction: int, result: Prepared, now: float) -> None:
        """Decide for a job whose parts are all reserved; refuse it otherwise."""
        if file.job.state is not GridJobState.SUBMITTED or not file.rows or file.rows[0].transaction != transaction:
            return
        if result.failure:
            self._refuse(connection, file, result.failure)
            return
        note_prepared(connection, transaction, result)
        transactions.decide(connection, transaction, file.job.deadline)

    def _reserve(self, connection: Connection, file: GridJobFile, now: float) -> None:
        """Begin to reserve all its parts at once."""
        rows = {cluster.name: cluster for cluster in usable(connection)}
        known = {name: row.speed for name, row in rows.items()}
        wanted = [component.cluster or "" for component in file.components]
        missing = [name for name in wanted if name not in known]
        if missing:
            self._refuse(connection, file, f"no cluster '{missing[0]}' is in use")
            return
        closed = next(filter(None, (rows[name].refusal_to(file.job.user) for name in wanted)), "")
        if closed:
            self._refuse(connection, file, closed)
            return
        for name in wanted:
            offset = rows[name].clock_offset or 0.0
            if abs(offset) > self.tolerance:
                self._refuse(
                    connection, file, f"{name}: its clock is {offset:+.1f} s off, so parts do not begin together"
                )
                return
        walltime = file.job.walltime / min(known[name] for name in wanted)
        date = _date(file, now)
        job = replace(file.job, deadline=date)
        broker_jobs.set_deadline(connection, job.id, date)

        def plan(transaction: str) -> list[Hold]:
            places = zip(file.components, wanted, strict=True)
            return [
                Hold(job.id, component.number, cluster, part_of(job, component, "reserved", walltime, transaction))
                for component, cluster in places
            ]

        terms = Terms(lambda: _TTL, date, rounds=_ROUNDS if date - now >= _FAR else 1)
        self.transactions.begin(connection, "reserve", job.id, terms, plan)

    def _reserved(self, connection: Connection, file: GridJobFile) -> None:
        """Count the job as reserved when all clusters know, or refuse it when one has lost its part before."""
        lost = next((row for row in file.rows if row.state is GridPartState.ENDED and row.started is None), None)
        if lost is not None:
            self._refuse(connection, file, f"{lost.cluster}: {lost.message}")
        elif all(row.state is not GridPartState.COMMITTING for row in file.rows):
            broker_jobs.move(connection, [file.job.id], GridJobState.MAPPED, "")

    def _started(self, connection: Connection, file: GridJobFile) -> None:
        starts = [row.started for row in file.rows if row.started is not None]
        if starts:
            broker_jobs.move(connection, [file.job.id], GridJobState.RUNNING, "", started=min(starts))
        elif after_start(file.parts).act == "over":
            end(connection, file)

    def _refuse(self, connection: Connection, file: GridJobFile, reason: str) -> None:
        """End a job and all that it has on clusters."""
        end_parts(connection, self.transactions, file, reason)
        broker_jobs.move(connection, [file.job.id], GridJobState.ERROR, reason)


def _date(file: GridJobFile, now: float) -> float:
    """Return when parts begin: at the requested date; for jobs without one, as soon as possible."""
    if file.deadline > file.job.submitted + 2 * _SOON:
        return file.deadline
    return max(file.deadline, math.ceil(now + _SOON))
