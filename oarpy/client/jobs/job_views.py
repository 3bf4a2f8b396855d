"""Jobs for programs and pages: a page of a list, or one in full, with the facts that the reader may know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from oarpy.client.jobs import description
from oarpy.client.jobs.selection import parse_user
from oarpy.client.rendering import local_date
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, UsageError
from oarpy.model.reasons import ReasonDocument, reason_record, sentence
from oarpy.model.states import JobState
from oarpy.store.jobs import details, requests, scope, scripts
from oarpy.store.jobs.details import JobDetails
from oarpy.store.jobs.job_listing import ListedJob
from oarpy.store.jobs.scope import JobScope


def may_look_into(session: Session, user: str) -> bool:
    """Tell whether the caller may see the command, the request and the environment of a job of ``user``."""
    return session.is_admin or user == session.user


def job(session: Session, job_id: int) -> JobDetails:
    """Return a job, live or past; raise :class:`NotFound`."""
    return several(session, [job_id])[0]


def several(session: Session, ids: list[int]) -> tuple[JobDetails, ...]:
    """Return jobs in order of id; raise :class:`NotFound` for a job that does not exist."""
    wanted = JobScope(tuple(ids), live=False)
    with scope.reached(session.connection, wanted):
        jobs = (
            details.details(session.connection, wanted, session.configuration.scheduler.reservation_notice)
            if ids
            else ()
        )
    known = {job.row.job_id for job in jobs}
    for number in ids:
        if number not in known:
            raise NotFound(f"job {number} does not exist", hint="GET jobs lists them")
    return jobs


def full(session: Session, job: JobDetails) -> description.JobDocument:
    """Return all of a job that the caller may know, as ``oarstat -f -J``."""
    return description.as_json(job, private=may_look_into(session, job.row.user))


class ListedJobDocument(TypedDict):
    """A job in a list; times in epoch seconds, the walltime in seconds."""

    job_id: int
    array_id: int
    array_index: int
    name: str | None
    owner: str
    project: str
    queue: str
    state: str
    message: str
    submitted: float
    started: float | None
    ended: float | None
    walltime: float | None
    predicted: float | None
    reason: str | None
    reason_data: ReasonDocument | None


def brief(job: ListedJob) -> ListedJobDocument:
    """Return a job in a list."""
    return {
        "job_id": job.job_id,
        "array_id": job.array_id,
        "array_index": job.array_index,
        "name": job.name or None,
        "owner": job.user,
        "project": job.project,
        "queue": job.queue,
        "state": job.state,
        "message": job.message,
        "submitted": job.submitted,
        "started": job.started,
        "ended": job.ended,
        "walltime": job.walltime,
        "predicted": job.predicted,
        "reason": sentence(job.why, local_date) or None,
        "reason_data": reason_record(job.why),
    }


def environment(session: Session, job: JobDetails) -> Mapping[str, str]:
    """Return the environment with which a job was submitted, if the caller may look into the job; else nothing."""
    if not may_look_into(session, job.row.user):
        return {}
    with scope.reached(session.connection, JobScope((job.row.job_id,), live=False)):
        return details.environments(session.connection, [job.row.job_id]).get(job.row.job_id, {})


def script(session: Session, job_id: int) -> str:
    """Return the script of a job, live or past, as it was submitted; a command has none.

    Raises :class:`NotFound`, and :class:`NotAllowed` for somebody else's.
    """
    handles = requests.find(session.connection, JobScope((job_id,), live=False))
    if not handles:
        raise NotFound(f"there is no job {job_id}", hint="oarstat lists the live ones")
    if not may_look_into(session, handles[0].user):
        raise NotAllowed(f"job {job_id} belongs to '{handles[0].user}'", hint="its user and admins see its script")
    text = scripts.of_job(session.connection, job_id)
    if text is None:
        raise NotFound(f"no script of job {job_id} is kept", hint="scripts below the directory of oarsub, or the home")
    return text


def known_states(words: list[str]) -> tuple[str, ...]:
    """Return these states of jobs; raise :class:`UsageError` for an unknown state."""
    names = {state.value.lower(): state.value for state in JobState}
    for word in words:
        if word.lower() not in names:
            raise UsageError(f"'{word[:40]}' is not a state of jobs", hint=", ".join(names.values()))
    return tuple(names[word.lower()] for word in words)


def known_users(words: list[str]) -> tuple[str, ...]:
    """Return these names of users; raise :class:`UsageError` for an impossible name."""
    return tuple(map(parse_user, words))
