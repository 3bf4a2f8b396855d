"""Jobs: listed, looked into, submitted, and acted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypedDict

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field

from oarpy.client.jobs import actions, description, job_views
from oarpy.client.jobs.description import JobDocument
from oarpy.client.jobs.explanation_report import WhyDocument
from oarpy.client.jobs.job_views import ListedJobDocument
from oarpy.client.jobs.running import walltime_changes
from oarpy.client.jobs.running.walltime_changes import WalltimeDocument
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.jobs.views import bag_report
from oarpy.client.jobs.views.bag_report import BagDocument
from oarpy.client.jobs.views.priority_report import PriorityDocument
from oarpy.client.past.periods import parse_date
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed
from oarpy.model.submission_checks import read_signal
from oarpy.store.past import job_pages
from oarpy.store.past.job_pages import JobFilter
from oarpy.web.answers import Page, Route
from oarpy.web.identity import Identity, Reader, Submitting
from oarpy.web.output_tail import tail
from oarpy.web.seats import seats_of

router = APIRouter(tags=["jobs"], route_class=Route)

LARGEST_ID = 2**63 - 1
MOST = 1000
"""Jobs of one page at most."""

JobId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="number of a job")]
Words = Annotated[list[str], Query(max_length=1000)]
Date = Annotated[str | None, Query(description="ISO date, epoch seconds, now, -1d ...", max_length=60)]


class OutputDocument(TypedDict):
    """The end of a file of ``size`` bytes."""

    path: str
    size: int
    content: str


class ActedDocument(TypedDict):
    """An action and its jobs."""

    action: str
    jobs: Sequence[int]


class WalltimeChangeDocument(TypedDict):
    """A change of a walltime that was asked for, in seconds."""

    action: str
    job: int
    pending: int


def job_filter(
    state: Words = [],  # noqa: B006
    user: Words = [],  # noqa: B006
    queue: Words = [],  # noqa: B006
    project: Words = [],  # noqa: B006
    name: Annotated[str | None, Query(max_length=1000)] = None,
    node: Annotated[str | None, Query(max_length=200, description="those that hold or held something of it")] = None,
    array: Annotated[int | None, Query(ge=1, le=LARGEST_ID)] = None,
    since: Date = None,
    until: Date = None,
    ended: Annotated[bool, Query(description="ended jobs too; implied by state, array, since and until")] = False,
) -> JobFilter:
    """Return the filter that the parameters of a list describe; raise :class:`oarpy.model.errors.UsageError`."""
    states = job_views.known_states(state)
    begin, end = (None if text is None else parse_date(text) for text in (since, until))
    return JobFilter(
        live=not (ended or states or array or begin or end),
        users=job_views.known_users(user),
        states=states,
        queues=tuple(queue),
        projects=tuple(project),
        name=name,
        node=node,
        array=array,
        begin=begin,
        end=end,
    )


@router.get("/jobs")
def jobs(
    request: Request,
    identity: Reader,
    chosen: Annotated[JobFilter, Depends(job_filter)],
    before: Annotated[int | None, Query(ge=1, le=LARGEST_ID, description="key of a page: next of the last one")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> Page[ListedJobDocument]:
    """List jobs, the newest first; ``next`` is what ``before`` has to be for the following page."""
    with seats_of(request).session(identity) as session:
        page = job_pages.page(session.connection, chosen, before=before, limit=limit)
    return {"items": [job_views.brief(job) for job in page.jobs], "next": page.before}


@router.get("/jobs/{job_id}")
def job(
    request: Request,
    identity: Reader,
    job_id: JobId,
    environment: Annotated[bool, Query(description="with the environment it was submitted in")] = False,
) -> JobDocument:
    """Return everything on a job, as ``oarstat -f -J``; of another's job neither command nor environment."""
    with seats_of(request).session(identity) as session:
        details = job_views.job(session, job_id)
        document = job_views.full(session, details)
        if environment:
            document["environment"] = dict(job_views.environment(session, details)) or None
        return document


@router.get("/bags/{bag_id}")
def bag(
    request: Request,
    identity: Reader,
    bag_id: Annotated[int, Path(ge=1, le=LARGEST_ID, description="number of a bag: that of its first job")],
) -> BagDocument:
    """Return a bag of tasks, with every change of what is promised, as ``oarstat --bag``."""
    with seats_of(request).session(identity) as session:
        return bag_report.report(bag_report.bag_state(session, bag_id)).data()


@router.get("/jobs/{job_id}/why")
def why(request: Request, identity: Reader, job_id: JobId) -> WhyDocument:
    """Say why a job waits, and what would let it start earlier, as ``oarstat --why``."""
    from oarpy.client.jobs import explanation, explanation_report

    with seats_of(request).session(identity) as session:
        return explanation_report.report(explanation.explain(session, job_id)).data()


@router.get("/jobs/{job_id}/priority")
def priority(request: Request, identity: Reader, job_id: JobId) -> PriorityDocument:
    """Return the rank of a waiting job and the numbers behind it, as ``oarstat --priority``."""
    from oarpy.client.jobs.views import priority_report

    with seats_of(request).session(identity) as session:
        return priority_report.report(priority_report.priority(session, job_id)).data()


@router.get("/jobs/{job_id}/output")
def output(
    request: Request,
    identity: Reader,
    job_id: JobId,
    stream: Annotated[str, Query(pattern="^(stdout|stderr)$")] = "stdout",
    size: Annotated[int, Query(ge=1, le=262_144, description="bytes from the end")] = 16_384,
) -> OutputDocument:
    """Return the end of what the caller's own job wrote, not even an admin another's."""
    with seats_of(request).session(identity) as session:
        row = job_views.job(session, job_id).row
    if row.user != identity.user:
        raise NotAllowed(f"the output of job {job_id} is for its owner alone")
    end = tail(description.output_file(row, stream), row.user, size)
    return {"path": end.path, "size": end.size, "content": end.text}


@router.delete("/jobs/{job_id}")
def delete(request: Request, identity: Submitting, job_id: JobId) -> ActedDocument:
    """Ask for the end of a job, as ``oardel``."""
    with seats_of(request).session(identity, changes=True) as session:
        deletion = actions.delete(session, JobSelection((job_id,)))
    deletion.raise_complaints()
    return {"action": "delete", "jobs": deletion.job_ids}


class SuspendWish(BaseModel):
    """The way to hold a job."""

    running: bool = Field(False, description="suspend it if it runs, as oarhold -r")


class SignalWish(BaseModel):
    """The signal to send."""

    signal: str = Field(max_length=20, description="10, USR1 or SIGUSR1")


class WalltimeWish(BaseModel):
    """The wanted walltime, as with ``oarwalltime``."""

    walltime: str = Field(max_length=40, description="H:M:S, with a sign how much it changes")
    force: bool = False
    whole: bool = False
    delay_next_jobs: bool = False
    timeout: int | None = Field(None, ge=0, le=315_360_000)


@router.post("/jobs/{job_id}/hold")
def hold(request: Request, identity: Submitting, job_id: JobId, wish: SuspendWish | None = None) -> ActedDocument:
    """Keep a job from being scheduled, as ``oarhold``."""
    running = wish is not None and wish.running
    return _acted(request, identity, "hold", lambda session: actions.hold(session, _named(job_id), running=running))


@router.post("/jobs/{job_id}/resume")
def resume(request: Request, identity: Submitting, job_id: JobId) -> ActedDocument:
    """Let a job go on, as ``oarresume``."""
    return _acted(request, identity, "resume", lambda session: actions.resume(session, _named(job_id)))


@router.post("/jobs/{job_id}/signal")
def signal(request: Request, identity: Submitting, job_id: JobId, wish: SignalWish) -> ActedDocument:
    """Send a signal to a job that runs, as ``oardel -s``."""
    number = read_signal(wish.signal)
    return _acted(request, identity, "signal", lambda session: actions.send_signal(session, _named(job_id), number))


@router.post("/jobs/{job_id}/checkpoint")
def checkpoint(request: Request, identity: Submitting, job_id: JobId) -> ActedDocument:
    """Send a job its checkpoint signal, as ``oardel -c``."""
    return _acted(request, identity, "checkpoint", lambda session: actions.checkpoint(session, _named(job_id)))


@router.get("/jobs/{job_id}/walltime")
def walltime(request: Request, identity: Reader, job_id: JobId) -> WalltimeDocument:
    """Return how the walltime of a job stands, as ``oarwalltime``."""
    with seats_of(request).session(identity) as session:
        return walltime_changes.show(session, job_id)


@router.post("/jobs/{job_id}/walltime")
def change_walltime(
    request: Request, identity: Submitting, job_id: JobId, wish: WalltimeWish
) -> WalltimeChangeDocument:
    """Ask for another walltime, as ``oarwalltime``; ``pending`` is in seconds."""
    question = walltime_changes.WalltimeQuestion(
        wish.walltime, wish.force, wish.whole, wish.delay_next_jobs, wish.timeout
    )
    with seats_of(request).session(identity, changes=True) as session:
        return {"action": "walltime", "job": job_id, "pending": walltime_changes.change(session, job_id, question)}


def _named(job_id: int) -> JobSelection:
    return JobSelection((job_id,))


def _acted(request: Request, identity: Identity, word: str, act: Callable[[Session], tuple[int, ...]]) -> ActedDocument:
    with seats_of(request).session(identity, changes=True) as session:
        return {"action": word, "jobs": act(session)}
