"""Waiting until all parts of a grid job run: ``oargridstat -w``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oarpy.client.caller import Streams
from oarpy.client.events.listening import wait
from oarpy.client.session import Session, open_session
from oarpy.grid.reports.grid_job_views import own_jobs
from oarpy.model.errors import OarpyError
from oarpy.model.states import GridJobState
from oarpy.store.grid import broker_parts
from oarpy.store.grid.broker_jobs import GridJobRow

_PERIOD = 1.0
"""Seconds between two looks."""
_BEGAN = frozenset({GridJobState.RUNNING, GridJobState.TERMINATED})
_NEVER = frozenset({GridJobState.ERROR, GridJobState.MISSED})


@contextmanager
def wait_until_it_runs(number: int, streams: Streams) -> Iterator[tuple[Session, GridJobRow]]:
    """Yield the job once all its parts run, or ran; raise :class:`OarpyError` if it ends before."""
    while True:
        with open_session("oargridstat") as session:
            (job,) = own_jobs(session, [number])
            if all_parts_ran(session, job):
                yield session, job
                return
        if job.state in _NEVER:
            reason = " ".join(job.message.split()) or "it was over before"
            raise OarpyError(f"grid job {number} is {job.state.value} and never ran: {reason}", hint="submit it again")
        wait(_PERIOD, [], streams)


def all_parts_ran(session: Session, job: GridJobRow) -> bool:
    """Tell whether all parts of a job run, or ran. A job runs from the first one on; named clusters may start later."""
    if job.state is GridJobState.RUNNING and job.kind == "named":
        return all(part.started is not None for part in broker_parts.last_of_jobs(session.connection, [job.id]))
    return job.state in _BEGAN or (job.state in _NEVER and job.started is not None)
