"""What the broker knows of jobs that have several components, read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.grid.broker.coallocated.common_starts import ComponentPart
from oarpy.model.states import GridJobState, GridTransactionState
from oarpy.store.database import Connection
from oarpy.store.grid import broker_jobs, broker_parts, transactions, tries
from oarpy.store.grid.broker_jobs import GridComponentRow, GridJobRow
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.transactions import GridTransactionRow
from oarpy.store.grid.tries import GridTryRow

_LIVE = (
    GridJobState.SUBMITTED,
    GridJobState.MAPPED,
    GridJobState.CLAIMING,
    GridJobState.CLAIMED,
    GridJobState.RUNNING,
)


@dataclass(frozen=True, slots=True)
class GridJobFile:
    """A job with its components and tries; the parts of its last transaction, and that one unless it is done."""

    job: GridJobRow
    components: Sequence[GridComponentRow]
    rows: Sequence[GridPartRow]
    transaction: GridTransactionRow | None
    tries: Sequence[GridTryRow]

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
    jobs = broker_jobs.in_states(connection, _LIVE, ("coallocated", "named"))
    ids = [job.id for job in jobs]
    components = broker_jobs.components(connection, ids)
    latest = _latest(broker_parts.of_jobs(connection, ids))
    open_ones = {one.id: one for one in transactions.open_of(connection, module)}
    looked: dict[int, list[GridTryRow]] = {}
    for row in tries.of_jobs(connection, ids):
        looked.setdefault(row.job, []).append(row)
    return [
        GridJobFile(
            job,
            components[job.id],
            rows := latest.get(job.id, []),
            open_ones.get(rows[0].transaction) if rows else None,
            looked.get(job.id, []),
        )
        for job in jobs
    ]


def _latest(rows: Sequence[GridPartRow]) -> dict[int, list[GridPartRow]]:
    """Return by job the parts of its last transaction."""
    last: dict[int, int] = {}
    for row in rows:
        last[row.job] = max(last.get(row.job, 0), row.transaction)
    found: dict[int, list[GridPartRow]] = {}
    for row in rows:
        if row.transaction == last[row.job]:
            found.setdefault(row.job, []).append(row)
    return found
