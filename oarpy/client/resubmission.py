"""``oarsub --resubmit``: a finished job once more, with the same request, command and environment."""

from __future__ import annotations

from oarpy.client.session import Session
from oarpy.client.submission import Submitted
from oarpy.model.errors import AdmissionRefused, NotFound, UsageError
from oarpy.model.states import JobState
from oarpy.model.submission_checks import read_number
from oarpy.store import submissions

_RESUBMITTABLE = frozenset({JobState.TERMINATED, JobState.ERROR, JobState.FINISHING})
_LARGEST_ID = 2**59


def resubmit(session: Session, job: str) -> Submitted:
    """Submit the job with this id again, for its own user; jobs that wait for the old one wait for the new one.

    Raises :class:`NotFound`, :class:`NotAllowed` for another's job, :class:`UsageError` for one that is not over.
    """
    job_id = read_number("--resubmit", job, 1, _LARGEST_ID)
    with session.connection.transaction():
        old = submissions.ended_job(session.connection, job_id)
        if old is None:
            raise NotFound(f"job {job_id} does not exist", hint="oarstat shows the jobs")
        session.require_owner(old.user, f"job {job_id}")
        if old.state not in _RESUBMITTABLE:
            raise UsageError(f"job {job_id} is {old.state}, not over", hint="oardel it, or wait for its end")
        if old.kind != "PASSIVE":
            raise UsageError(f"job {job_id} is interactive", hint="only a job with a command can run again")
        if not submissions.queues(session.connection)[old.queue].active:
            raise AdmissionRefused(f"queue '{old.queue}' is not active", hint="oarqueue shows the queues")
        return Submitted((submissions.copy_job(session.connection, job_id),), is_array=False)
