"""Lists of jobs: filters are in the address, and a page of the list begins after a key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.rendering import dated
from oarpy.model.errors import UsageError
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import database_time
from oarpy.store.pages import job_lists
from oarpy.store.pages.job_lists import ListFilter, PagedJob
from oarpy.store.platform.queues import queues
from oarpy.web.identity import Reader
from oarpy.web.pages import asked
from oarpy.web.pages.rendering import base, duration, page
from oarpy.web.seats import seats_of

router = APIRouter()

PAGE = 100
"""Jobs on a page."""

_NAMES = ("state", "user", "queue", "project", "name", "node", "since", "until", "array")
_TABS = ("", "Running", "Waiting", "Hold", "Terminated", "Error")


@dataclass(frozen=True, slots=True)
class Tab:
    """A state that the list can be narrowed to, and how many live jobs are in it."""

    name: str
    href: str
    current: bool
    count: int | None


@router.get("/jobs")
def jobs(request: Request, identity: Reader) -> Response:
    """Return the page."""
    values = {name: asked.text(request, name) for name in _NAMES}
    wanted = _filter(request)
    before, after = asked.number(request, "before"), asked.number(request, "after")
    if before is not None and after is not None:
        raise UsageError("before and after exclude each other")
    with seats_of(request).session(identity) as session:
        found = job_lists.page(session.connection, wanted, PAGE + 1, before, after)
        counts = job_lists.live_counts(session.connection)
        names = [queue.name for queue in queues(session.connection)]
        now = database_time(session.connection)
    # one job more than shown tells whether there is another page
    more = len(found) > PAGE
    shown = (found[1:] if after is not None else found[:PAGE]) if more else found
    has_older = more if after is None else bool(shown)
    has_newer = before is not None if after is None else more

    def link(**changes: object) -> str:
        kept = {name: value for name, value in {**values, **changes}.items() if value not in ("", None)}
        return f"{base(request)}/jobs" + (f"?{urlencode(kept)}" if kept else "")

    return page(
        request,
        identity,
        "jobs.html",
        jobs=[shown_job(job, now) for job in shown],
        now=now,
        values=values,
        filtered=any(values.values()),
        queues=names,
        tabs=[
            Tab(name or "All", link(state=name), values["state"] == name, counts.get(name) if name else None)
            for name in _TABS
        ],
        older=link(before=shown[-1].job_id) if shown and has_older else "",
        newer=link(after=shown[0].job_id) if shown and has_newer else "",
        newest=link() if before is not None or after is not None else "",
    )


def shown_job(job: PagedJob, now: float) -> dict[str, Any]:
    """Return a job for a row of the list."""
    lasted = duration((job.ended or now) - job.started) if job.started is not None else ""
    status = job.exit_status or 0
    return {
        **asdict(job),
        "lasted": lasted,
        "failed": status != 0,
        "exit": exit_words(status),
        "reason": dated(job.reason) if job.started is None and job.ended is None else "",
    }


def exit_words(status: int) -> str:
    """Return how a command ended: its exit code, or the signal that ended it.

    >>> exit_words(256), exit_words(9)
    ('1', 'signal 9')
    """
    return f"signal {status & 127}" if status & 127 else str(status >> 8)


def _filter(request: Request) -> ListFilter:
    state = asked.text(request, "state")
    known = {one.value.lower(): one.value for one in JobState}
    if state and state.lower() not in known:
        raise UsageError(f"'{state}' is not a state of jobs", hint=", ".join(known.values()))
    until = asked.day(request, "until")
    return ListFilter(
        states=(known[state.lower()],) if state else None,
        user=asked.text(request, "user") or None,
        queue=asked.text(request, "queue") or None,
        project=asked.text(request, "project") or None,
        name=asked.text(request, "name") or None,
        node=asked.text(request, "node") or None,
        array=asked.number(request, "array"),
        since=asked.day(request, "since"),
        # the day itself counts
        until=None if until is None else until + timedelta(days=1),
    )
