"""The rows of jobs that have several components: of all of them, or of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.grid.broker.coallocated.common_starts import ComponentPart
from oarpy.model.states import GridJobState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, placing_tries, transactions
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.placing_tries import GridTryRow
from oarpy.store.grid.transactions import GridTransactionRow

_LIVE = (
    GridJobState.SUBMITTED,
    GridJobState.MAPPED,
    GridJobState.CLAIMING,
    GridJobState.CLAIMED,
    GridJobState.RUNNING,
)


@dataclass(frozen=True, slots=True)
class GridJobFile:
    """A job with its components and last try.

    The parts of its last transaction, and that transaction unless it is done.
    """

    job: GridJobRow
    components: Sequence[GridComponentRow]
    rows: Sequence[GridPartRow]
    transaction: GridTransactionRow | None
    last_try: GridTryRow | None

    @property
    def deadline(self) -> float:
        """The date of a job that has one, in epoch seconds."""
        assert self.job.deadline is not None
        return self.job.deadline

    @property
    def parts(self) -> list[ComponentPart]:
        """The parts of its last transaction, as far as their start and end are concerned."""
        return [
            ComponentPart(row.name, row.cluster, row.state, row.started is not None, row.exit_status, row.message)
            for row in self.rows
        ]

    @property
    def names(self) -> list[str]:
        """The names of the parts of its last transaction."""
        return [row.name for row in self.rows]

    def is_in(self, *states: GridTransactionState) -> bool:
        """Tell whether its last transaction is in one of these states."""
        return self.transaction is not None and self.transaction.state in states


def live_files(connection: Connection, module: str) -> list[GridJobFile]:
    """Return the files of all live jobs with several components, by id; ``module`` leads their transactions."""
    jobs = broker_jobs.in_states(connection, _LIVE, ("coallocated", "named", "metajob", "bag"))
    return _files(connection, jobs, transactions.open_of(connection, module))


def live_file(connection: Connection, job: int) -> GridJobFile | None:
    """Return the file of one of these jobs; None for a job that is over."""
    jobs = [row for row in broker_jobs.read(connection, [job]) if row.state in _LIVE]
    mine = [
        transaction
        for transaction in transactions.of_job(connection, job)
        if transaction.state is not GridTransactionState.DONE
    ]
    return next(iter(_files(connection, jobs, mine)), None)


def _files(
    connection: Connection, jobs: Sequence[GridJobRow], undone: Sequence[GridTransactionRow]
) -> list[GridJobFile]:
    ids = [job.id for job in jobs]
    components, looked = broker_jobs.components(connection, ids), placing_tries.last_of_jobs(connection, ids)
    by_id = {transaction.id: transaction for transaction in undone}
    parts: dict[int, list[GridPartRow]] = {job: [] for job in ids}
    for row in broker_parts.last_of_jobs(connection, ids):
        parts[row.job].append(row)
    return [
        GridJobFile(job, components[job.id], rows, by_id.get(rows[0].transaction) if rows else None, looked.get(job.id))
        for job in jobs
        for rows in [parts[job.id]]
    ]
