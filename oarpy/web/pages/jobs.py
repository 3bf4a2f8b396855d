"""Lists of jobs: filters are in the address, and a page of the list begins after a key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.jobs.job_table import expected
from oarpy.client.jobs.job_views import known_states
from oarpy.client.rendering import dated
from oarpy.model.errors import UsageError
from oarpy.store.jobs.job_listing import ListedJob, database_time
from oarpy.store.past import job_pages
from oarpy.store.past.job_pages import JobFilter
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
        found = job_pages.page(session.connection, wanted, before=before, after=after, limit=PAGE)
        counts = job_pages.live_counts(session.connection)
        names = [queue.name for queue in queues(session.connection)]
        now = database_time(session.connection)

    def link(**changes: object) -> str:
        kept = {name: value for name, value in {**values, **changes}.items() if value not in ("", None)}
        return f"{base(request)}/jobs" + (f"?{urlencode(kept)}" if kept else "")

    return page(
        request,
        identity,
        "jobs.html",
        jobs=[shown_job(job, now) for job in found.jobs],
        now=now,
        values=values,
        filtered=any(values.values()),
        queues=names,
        tabs=[
            Tab(name or "All", link(state=name), values["state"] == name, counts.get(name) if name else None)
            for name in _TABS
        ],
        older=link(before=found.before) if found.before else "",
        newer=link(after=found.after) if found.after else "",
        newest=link() if before is not None or after is not None else "",
    )


def shown_job(job: ListedJob, now: float) -> dict[str, Any]:
    """Return a job for a row of the list."""
    lasted = duration((job.ended or now) - job.started) if job.started is not None else ""
    status = job.exit_status or 0
    return {
        **asdict(job),
        "lasted": lasted,
        "failed": status != 0,
        "exit": exit_words(status),
        "told": expected(job, now),
        "reason": dated(job.reason) if job.started is None and job.ended is None else "",
    }


def exit_words(status: int) -> str:
    """Return how a command ended: its exit code, or the signal that ended it.

    >>> exit_words(256), exit_words(9)
    ('1', 'signal 9')
    """
    return f"signal {status & 127}" if status & 127 else str(status >> 8)


def _filter(request: Request) -> JobFilter:
    def given(name: str) -> tuple[str, ...]:
        value = asked.text(request, name)
        return (value,) if value else ()

    until = asked.day(request, "until")
    return JobFilter(
        live=False,
        states=known_states(list(given("state"))),
        users=given("user"),
        queues=given("queue"),
        projects=given("project"),
        name_part=asked.text(request, "name") or None,
        node=asked.text(request, "node") or None,
        array=asked.number(request, "array"),
        since=asked.day(request, "since"),
        # the day itself counts
        until=None if until is None else until + timedelta(days=1),
    )
