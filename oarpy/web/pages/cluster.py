"""The state of the cluster, a cell a core."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.session import Session
from oarpy.store.jobs.job_listing import database_time
from oarpy.store.pages import cells, week
from oarpy.store.pages.cells import CellJob, NodeCells
from oarpy.store.pages.week import Hours
from oarpy.store.past.job_pages import live_counts
from oarpy.web.identity import Reader
from oarpy.web.pages.plots import hour_plot
from oarpy.web.pages.rendering import data, encoded, page
from oarpy.web.seats import seats_of

router = APIRouter()

Value = TypeVar("Value")

WORDS = {"d": "drained", "z": "asleep", "a": "absent", "s": "suspected", "x": "dead"}
"""The cells that are not in use, by letter."""

_FRESH = 0.4
"""Seconds for which one reading of all cells serves everybody: 200 listeners hear of a change at once."""

_HOURS = 7 * 24
_WEEK_FRESH = 60.0
"""Seconds for which one reading of the last week serves everybody."""


@dataclass(frozen=True, slots=True)
class ClusterReading:
    """The cluster at one moment."""

    nodes: tuple[NodeCells, ...]
    jobs: tuple[CellJob, ...]
    live: dict[str, int]
    drawn: bytes


@dataclass(frozen=True, slots=True)
class TroubledNode:
    """A node with cells that are not in use, why, and in ``words`` how many."""

    name: str
    words: str
    reason: str


class Shared(Generic[Value]):
    """The last value that was read; after ``fresh`` seconds one request reads again, and the others wait for it."""

    def __init__(self, fresh: float, read: Callable[[Session], Value]) -> None:
        self._fresh, self._read = fresh, read
        self._guard = threading.Lock()
        self._kept: tuple[float, Value] | None = None

    def get(self, session: Session) -> Value:
        """Return a reading that is fresh enough."""
        with self._guard:
            if self._kept is None or time.monotonic() - self._kept[0] > self._fresh:
                value = self._read(session)
                self._kept = time.monotonic(), value
            return self._kept[1]


def read(session: Session) -> ClusterReading:
    """Read all cells."""
    nodes = cells.nodes(session.connection)
    jobs = cells.holding_jobs(session.connection)
    return ClusterReading(nodes, jobs, live_counts(session.connection), encoded(_drawing(nodes, jobs)))


def read_week(session: Session) -> Hours:
    """Read the hours of the last week, up to now."""
    begin = datetime.fromtimestamp(database_time(session.connection), UTC) - timedelta(hours=_HOURS)
    return week.hours(session.connection, begin, _HOURS)


def shared_reading() -> Shared[ClusterReading]:
    """Return the cells as all requests share them."""
    return Shared(_FRESH, read)


def shared_week() -> Shared[Hours]:
    """Return the last week as all requests share it."""
    return Shared(_WEEK_FRESH, read_week)


@router.get("/")
@router.get("/cluster")
def cluster(request: Request, identity: Reader) -> Response:
    """Return the page."""
    with seats_of(request).session(identity) as session:
        reading = request.app.state.cluster_reading.get(session)
    counts = Counter("".join(node.letters for node in reading.nodes))
    held = Counter(job for node in reading.nodes for job in node.jobs if job)
    by_id = {job.job_id: job for job in reading.jobs}
    largest = [(by_id[job], number) for job, number in held.most_common(12) if job in by_id][:8]
    return page(
        request,
        identity,
        "cluster.html",
        counts=counts,
        busy=counts["b"] + counts["h"],
        total=sum(counts.values()),
        away=tuple(WORDS.items()),
        live=reading.live,
        nodes=reading.nodes,
        troubled=troubled(reading.nodes),
        largest=largest,
    )


@router.get("/cluster/week")
def last_week(request: Request, identity: Reader) -> Response:
    """Return busy cores and waiting jobs over the last week, which the page loads after the rest."""
    with seats_of(request).session(identity) as session:
        total = sum(len(node.letters) for node in request.app.state.cluster_reading.get(session).nodes)
        course = request.app.state.cluster_week.get(session)
    mean = sum(course.busy) / len(course.busy)
    return page(
        request,
        identity,
        "week.html",
        busy=hour_plot(course.begin, course.busy, total),
        waiting=hour_plot(course.begin, course.waiting),
        total=total,
        mean=round(mean),
        part=round(100 * mean / total, 1) if total else 0,
        most=round(max(course.waiting)),
    )


@router.get("/data/cells")
def drawn_cells(request: Request, identity: Reader) -> Response:
    """Return all cells for the drawing: ``[name, letters, [job, count, ...]]`` for each node."""
    with seats_of(request).session(identity) as session:
        return data(request, request.app.state.cluster_reading.get(session).drawn)


def troubled(nodes: Iterable[NodeCells]) -> list[TroubledNode]:
    """Return the nodes with cells that are not in use, or without a channel."""
    troubles = []
    for node in nodes:
        counts = Counter(letter for letter in node.letters if letter in WORDS)
        if counts or node.channel == "lost" or node.away_reason is not None:
            every = len(node.letters)
            words = [
                WORDS[letter] if count == every else f"{count} {WORDS[letter]}" for letter, count in counts.items()
            ]
            if not counts and node.away_reason is not None:
                words.append("drained, its jobs go on")
            if node.channel == "lost":
                words.append("no channel")
            troubles.append(TroubledNode(node.name, ", ".join(words), node.away_reason or ""))
    return troubles


def _drawing(nodes: Sequence[NodeCells], jobs: Sequence[CellJob]) -> dict[str, Any]:
    return {
        "nodes": [[node.name, node.letters, _runs(node.jobs)] for node in nodes],
        "jobs": {str(job.job_id): [job.user, job.queue, job.state, job.ends] for job in jobs},
    }


def _runs(jobs: Sequence[int]) -> list[int]:
    return [value for job, same in groupby(jobs) for value in (job, len(list(same)))]
