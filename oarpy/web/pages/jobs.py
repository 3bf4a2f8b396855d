"""Lists of jobs: filters are in the address, and a page of the list begins after a key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.jobs.description import end_reason
from oarpy.client.jobs.job_table import expected
from oarpy.client.jobs.job_views import known_states
from oarpy.model.errors import UsageError
from oarpy.model.states import JobState
from oarpy.store.jobs.job_listing import ListedJob, database_time
from oarpy.store.pages import job_sizes
from oarpy.store.pages.job_sizes import JobSize
from oarpy.store.past import job_pages
from oarpy.store.past.job_pages import JobFilter, JobOrder
from oarpy.store.platform.queues import queues
from oarpy.web.identity import Reader
from oarpy.web.pages import query
from oarpy.web.pages.rendering import base, duration, page
from oarpy.web.seats import seats_of

router = APIRouter()

PAGE = 100
"""Jobs on a page."""

_NAMES = ("state", "failed", "user", "queue", "project", "name", "node", "since", "until", "array", "sort")
_TABS = ("", "Running", "Waiting", "Hold", "Terminated", "Error")

_COLUMNS = (
    ("job", "Job", "number"),
    ("state", "State", ""),
    ("user", "User", ""),
    ("name", "Name", ""),
    ("queue", "Queue", "wide-only"),
    ("project", "Project", "wide-only"),
    ("", "Nodes", "number"),
    ("", "Cores", "number"),
    ("submitted", "Submitted", "wide-only"),
    ("start", "Start", ""),
    ("ran", "Ran", "number"),
    ("walltime", "Walltime", "number"),
    ("", "Why", ""),
)
"""For each column its sort key (empty: none), its title, and its class."""

_TEXTS = frozenset(("state", "user", "name", "queue", "project"))
"""Columns that are sorted from A to Z first; the others begin with the largest."""

Link = Callable[..., str]


@dataclass(frozen=True, slots=True)
class Tab:
    """A narrowed list, and the number of its live jobs, if that is known."""

    name: str
    href: str
    current: bool
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column; ``href`` sorts by it, ``sorted`` is ``ascending``, ``descending`` or nothing."""

    title: str
    kind: str
    href: str
    sorted: str


@router.get("/jobs")
def jobs(request: Request, identity: Reader) -> Response:
    """Return the page."""
    values = {name: query.text(request, name) for name in _NAMES}
    wanted, order = _filter(request), _order(values["sort"])
    before, after = query.number(request, "before"), query.number(request, "after")
    if before is not None and after is not None:
        raise UsageError("before and after exclude each other")
    with seats_of(request).session(identity) as session:
        listed = job_pages.page(session.connection, wanted, order=order, before=before, after=after, limit=PAGE)
        sizes = job_sizes.sizes(session.connection, [job.job_id for job in listed.jobs])
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
        jobs=[shown_job(job, sizes[job.job_id], now) for job in listed.jobs],
        values=values,
        filtered=any(value for name, value in values.items() if name != "sort"),
        queues=names,
        tabs=_tabs(values, counts, link),
        mine=Tab(
            "Mine",
            link(user="" if values["user"] == identity.user else identity.user),
            values["user"] == identity.user,
        ),
        heads=[_head(key, title, kind, order, link) for key, title, kind in _COLUMNS],
        link=link,
        following=link(before=listed.before) if listed.before else "",
        ahead=link(after=listed.after) if listed.after else "",
        first=link() if before is not None or after is not None else "",
        by_id=order == job_pages.NEWEST_FIRST,
    )


def _tabs(values: Mapping[str, str], counts: Mapping[str, int], link: Link) -> list[Tab]:
    """Return the states, and the failures, which are of two states."""
    failed = bool(values["failed"])
    return [
        *(
            Tab(
                name or "All",
                link(state=name, failed=""),
                not failed and values["state"] == name,
                counts.get(name) if name else None,
            )
            for name in _TABS
        ),
        Tab("Failed", link(state="", failed="yes"), failed),
    ]


def _order(text: str) -> JobOrder:
    """Return the order of ``sort`` in the address: the key of a column, with ``-`` for the largest first."""
    if not text:
        return job_pages.NEWEST_FIRST
    key = text.removeprefix("-")
    if key not in job_pages.SORTS:
        raise UsageError(f"sort '{key}' is not known", hint="one of " + ", ".join(job_pages.SORTS))
    return JobOrder(key, text.startswith("-"))


def _head(key: str, title: str, kind: str, order: JobOrder, link: Link) -> Head:
    if not key:
        return Head(title, kind, "", "")
    current = key == order.key
    falling = not order.descending if current else key not in _TEXTS
    sort = f"-{key}" if falling else key
    return Head(
        title,
        kind,
        link(sort="" if sort == "-job" else sort),
        ("descending" if order.descending else "ascending") if current else "",
    )


def shown_job(job: ListedJob, size: JobSize, now: float) -> dict[str, Any]:
    """Return a job for a row of the list."""
    lasted = duration((job.ended or now) - job.started) if job.started is not None else ""
    status = job.exit_status or 0
    failed = job.state == JobState.ERROR or (job.state == JobState.TERMINATED and status != 0)
    waits = job.started is None and job.ended is None
    return {
        **asdict(job),
        "nodes": size.nodes,
        "cores": size.cores,
        "walltime": size.walltime,
        "in_array": size.in_array,
        "of_bag": size.of_bag,
        "lasted": lasted,
        "failed": failed,
        "told": expected(job, now),
        "why": job.why if waits else end_reason(job.state, job.exit_status, job.end_events) if failed else "",
    }


def exit_words(status: int) -> str:
    """Return how a command ended: its exit code, or the signal that ended it.

    >>> exit_words(256), exit_words(9)
    ('1', 'signal 9')
    """
    return f"signal {status & 127}" if status & 127 else str(status >> 8)


def _filter(request: Request) -> JobFilter:
    def given(name: str) -> tuple[str, ...]:
        value = query.text(request, name)
        return (value,) if value else ()

    until = query.day(request, "until")
    return JobFilter(
        live=False,
        states=known_states(list(given("state"))),
        users=given("user"),
        queues=given("queue"),
        projects=given("project"),
        name_part=query.text(request, "name") or None,
        node=query.text(request, "node") or None,
        array=query.number(request, "array"),
        since=query.day(request, "since"),
        # the day itself counts
        until=None if until is None else until + timedelta(days=1),
        failed=query.choice(request, "failed", ("", "yes")) == "yes",
    )
