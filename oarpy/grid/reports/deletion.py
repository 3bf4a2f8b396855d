"""``oargriddel`` as a function: it requests the end of grid jobs, which the broker's modules carry out."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.client.jobs.actions import Deletion
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.model.states import FINAL_GRID_JOBS
from oarpy.store.grid import broker_jobs
from oarpy.store.grid.broker_jobs import GridJobRow


def delete(session: Session, ids: Sequence[int], *, arrays: bool = False) -> Deletion:
    """Ask for the end of jobs, or of all live jobs of arrays. A job that cannot be deleted does not keep the others.

    Such a job is a complaint: not there, another user's, or over already.
    """
    wanted: list[int] = []
    failures: list[OarpyError] = []
    with session.connection.transaction():
        for id_ in dict.fromkeys(ids):
            jobs = _jobs(session, id_, arrays=arrays)
            if (failure := _why_not(session, id_, jobs, arrays=arrays)) is None:
                wanted += [job.id for job in jobs if job.state not in FINAL_GRID_JOBS]
            else:
                failures.append(failure)
        broker_jobs.ask_deletion(session.connection, wanted, session.user)
    return Deletion(tuple(wanted), tuple(failures))


def _jobs(session: Session, id_: int, *, arrays: bool) -> list[GridJobRow]:
    return broker_jobs.of_array(session.connection, id_) if arrays else broker_jobs.read(session.connection, [id_])


def _why_not(session: Session, id_: int, jobs: Sequence[GridJobRow], *, arrays: bool) -> OarpyError | None:
    what = "grid array" if arrays else "grid job"
    if not jobs:
        return NotFound(f"no {what} {id_}", hint="oargridstat lists yours")
    try:
        session.require_owner(jobs[0].user, f"{what} {id_}")
    except NotAllowed as error:
        return error
    if all(job.state in FINAL_GRID_JOBS for job in jobs):
        return OarpyError(f"{what} {id_} is over already ({jobs[0].state.value})", hint="nothing was done")
    return None
