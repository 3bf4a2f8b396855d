"""One job: its facts, its course, why it waits, its output for its owner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.jobs import description, explanation_report
from oarpy.client.jobs.explanation import explain
from oarpy.client.jobs.views.efficiency import size
from oarpy.client.platform.tokens import Scope
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.store.analytics import efficiency_rows, gpu_uses
from oarpy.store.analytics.efficiency_rows import MeasuredJob
from oarpy.store.analytics.gpu_uses import GpuUseRow
from oarpy.store.jobs import details, scope, windows
from oarpy.store.jobs.details import JobDetails, JobRow
from oarpy.store.jobs.job_listing import database_time
from oarpy.store.jobs.scope import JobScope
from oarpy.store.pages import job_course
from oarpy.store.pages.job_course import PassedState
from oarpy.store.past.reading import first_found
from oarpy.web.identity import Identity, Reader
from oarpy.web.output_tail import Tail, tail
from oarpy.web.pages.jobs import exit_words
from oarpy.web.pages.rendering import duration, page
from oarpy.web.seats import seats_of

router = APIRouter()

_WIDTH = 600.0
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DrawnState:
    """A state of the course, with its place in the drawing; ``lasted`` is in seconds, None for a final one."""

    state: str
    begin: float
    lasted: float | None
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class ShownOutput:
    """The end of an output, or the ``problem`` with it."""

    title: str
    path: str
    tail: Tail | None = None
    problem: str = ""


@router.get("/jobs/{job_id:int}")
def job(request: Request, identity: Reader, job_id: int) -> Response:
    """Return the page."""
    with seats_of(request).session(identity) as session:
        described = find(session, job_id)
        now = database_time(session.connection)
        course = job_course.states(session.connection, job_id)
        private = may_see(session, described)
        offers = windows.offers(session.connection, [job_id])
        used = _used(session, job_id, over=described.row.ended is not None)
    row = described.row
    walltime = description.walltime(described)
    predicted = description.scheduled_start(row)
    return page(
        request,
        identity,
        "job.html",
        stream_of=f"?job={job_id}",
        row=row,
        private=private,
        exit="" if row.exit_status is None else f"exit {exit_words(row.exit_status)}",
        actions=_actions(row, identity) if private else (),
        wanted=description.wanted_resources(described),
        predicted=predicted,
        expected=described.told if predicted is not None else None,
        few=description.few_starts(described.told.starts) if described.told else "",
        now=now,
        ran=None if row.started is None else (row.ended or now) - row.started,
        walltime=walltime,
        window=described.window,
        bag=described.bag,
        moves=[event for event in described.events if event.type == "RESERVATION_MOVED"],
        offers=offers,
        dependencies=described.dependencies,
        hosts=described.hosts,
        resources=len(described.resource_ids),
        amounts=description.amounts_text(described),
        stdout=description.output_file(row, "stdout"),
        stderr=description.output_file(row, "stderr"),
        course=_drawn(course, now),
        events=described.events[-50:],
        efficiency=used,
    )


@router.get("/jobs/{job_id:int}/why")
def why(request: Request, identity: Reader, job_id: int) -> Response:
    """Return why the job waits, and the changes that would let it start."""
    require_id(job_id)
    with seats_of(request).session(identity) as session:
        sentences = explanation_report.report(explain(session, job_id)).text().splitlines()
    return page(request, identity, "why.html", job=job_id, sentences=sentences)


@router.get("/jobs/{job_id:int}/output")
def output(request: Request, identity: Reader, job_id: int) -> Response:
    """Return the end of both outputs, to the owner alone: read as the owner may read them."""
    with seats_of(request).session(identity) as session:
        described = find(session, job_id)
        if described.row.user != session.user:
            raise NotAllowed(f"the output of job {job_id} is for its owner alone")
    row = described.row
    paths = {
        "Standard output": description.output_file(row, "stdout"),
        "Standard error": description.output_file(row, "stderr"),
    }
    started = row.started is not None
    outputs = [_output(title, path, row.user) for title, path in paths.items() if path and started]
    grows = started and row.ended is None
    return page(request, identity, "output.html", job=job_id, outputs=outputs, started=started, grows=grows)


def find(session: Session, job_id: int) -> JobDetails:
    """Return a job with its details; raise :class:`NotFound`."""
    require_id(job_id)
    wanted = JobScope((job_id,), live=False)
    with scope.reached(session.connection, wanted):
        rows = details.details(session.connection, wanted, session.configuration.scheduler.reservation_notice)
    if not rows:
        raise NotFound(f"job {job_id} does not exist", hint="the list of jobs has those that do")
    return rows[0]


def may_see(session: Session, described: JobDetails) -> bool:
    """Tell whether the caller may see the words that the job's user typed."""
    return session.is_admin or described.row.user == session.user


def require_id(number: int, what: str = "job") -> None:
    """Raise :class:`NotFound` for a number that no job, or no other object ``what``, can have."""
    if not 0 < number <= _LARGEST_ID:
        raise NotFound(f"{what} {str(number)[:30]} does not exist", hint="the list of jobs has those that do")


def _output(title: str, path: str, user: str) -> ShownOutput:
    try:
        return ShownOutput(title, path, tail(path, user))
    except OarpyError as error:
        return ShownOutput(title, path, problem=error.message)


def _used(session: Session, job_id: int, *, over: bool) -> list[tuple[str, str]]:
    """Return the job's use of its resources, as names and values; empty where nothing was measured."""
    gpus = first_found(session.connection, lambda: gpu_uses.of_job(session.connection, job_id))
    measured = efficiency_rows.jobs(session.connection, [job_id]) if over else []
    lines = [line for job in measured for line in _processors(job)]
    return lines if gpus is None else [*lines, *_gpus(gpus, over=over)]


def _gpus(use: GpuUseRow, *, over: bool) -> Iterator[tuple[str, str]]:
    """Yield how busy GPUs are or were."""
    now = "" if over else f"{use.busy:.1f} of {use.gpus} now; "
    if use.seconds >= 1:
        part = use.busy_seconds / use.seconds
        yield ("GPUs busy", f"{now}{duration(use.busy_seconds)} of {duration(use.seconds)} looked at, {part:.0%}")
    if use.memory_peak is not None:
        total = f" of {size(use.memory_total)}" if use.memory_total else ""
        yield ("Most memory on a GPU", size(use.memory_peak) + total)


def _processors(job: MeasuredJob) -> Iterator[tuple[str, str]]:
    """Yield what a job that is over used of its processors and memory."""
    if (held := job.cores * job.run_seconds) >= 1:
        part = "" if job.cpu_efficiency is None else f", {job.cpu_efficiency:.0%}"
        yield ("CPU time", f"{duration(job.cpu_seconds)} of {duration(held)} held{part}")
    if job.memory_peak is not None:
        requested = job.memory_asked
        part = f" of {size(requested)} asked for, {job.memory_peak / requested:.0%}" if requested else ""
        yield ("Most memory on a node", size(job.memory_peak) + part)


def _actions(row: JobRow, identity: Identity) -> tuple[tuple[str, str, str], ...]:
    """Return action, label and kind of the actions that the job allows now."""
    state = JobState(row.state)
    if state in FINAL_STATES or not identity.scope.allows(Scope.SUBMIT):
        return ()
    actions = []
    if state is JobState.WAITING:
        actions.append(("hold", "Hold…", ""))
    if state in (JobState.HOLD, JobState.SUSPENDED):
        actions.append(("resume", "Release…", ""))
    return (*actions, ("delete", "Delete…", "danger"))


def _drawn(course: tuple[PassedState, ...], now: float) -> list[DrawnState]:
    if not course:
        return []
    begin, end = course[0].begin, max(now if course[-1].end is None else course[-1].end, course[0].begin + 1)
    scale = _WIDTH / (end - begin)
    drawn = []
    for state in course:
        final = state.state in FINAL_STATES
        until = state.begin if final else (state.end if state.end is not None else now)
        x, width = (state.begin - begin) * scale, max(3.0 if final else 1.5, (until - state.begin) * scale)
        place = min(x, _WIDTH - width)
        drawn.append(
            DrawnState(
                state.state, state.begin, None if final else until - state.begin, round(place, 2), round(width, 2)
            )
        )
    return drawn
