"""The Gantt: past, present and future jobs on cells, for a drawing with zoom and hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.session import Session
from oarpy.model.errors import UsageError
from oarpy.store.jobs.job_listing import database_time
from oarpy.store.pages import gantt_spans, node_course
from oarpy.store.pages.gantt_spans import Axis, Span, WindowSpan
from oarpy.store.passes.snapshot_rows import platform_version
from oarpy.store.platform.properties import properties
from oarpy.web.identity import Reader
from oarpy.web.pages import query
from oarpy.web.pages.job import find
from oarpy.web.pages.rendering import base, data, encoded, page
from oarpy.web.seats import seats_of

router = APIRouter()

LEVELS = ("site", "cluster", "pool", "switch", "rack", "network_address", "cpu", "core")
"""Properties that make the hierarchy where a site has them, the widest first."""

SPANS = {"6 h": 6 * 3600, "day": 86400, "3 days": 3 * 86400, "week": 7 * 86400, "month": 31 * 86400}
"""Periods offered, in seconds; a third of each is the future."""

_LONGEST = timedelta(days=800)
_MOST_BARS = 20_000
_MOST_WINDOWS = 1_000


class SharedAxis:
    """The cells in their order, read again when the platform has changed."""

    def __init__(self) -> None:
        self._kept: tuple[int, Axis] | None = None

    def get(self, session: Session) -> Axis:
        """Return the present axis."""
        version = platform_version(session.connection)
        kept = self._kept
        if kept is None or kept[0] != version:
            names = {column.name for column in properties(session.connection)}
            levels = [level for level in LEVELS if level in names]
            self._kept = kept = version, gantt_spans.axis(session.connection, levels)
        return kept[1]


@router.get("/gantt")
def gantt(request: Request, identity: Reader) -> Response:
    """Return the page; the drawing asks for its data."""
    with seats_of(request).session(identity) as session:
        now = database_time(session.connection)
        begin, end, span = _period(request, session, now)
    links = [(name, f"{base(request)}/gantt?span={name.replace(' ', '+')}", name == span) for name in SPANS]
    return page(request, identity, "gantt.html", begin=int(begin), end=int(end), spans=links)


@router.get("/data/gantt")
def drawn_gantt(request: Request, identity: Reader) -> Response:
    """Return the bars of a period; times count from its begin, places from the top of the hierarchy."""
    period = query.period(request, _LONGEST)
    if period is None:
        raise UsageError("begin and end are missing", hint="whole seconds since 1970")
    with seats_of(request).session(identity) as session:
        axis = request.app.state.gantt_axis.get(session)
        spans = gantt_spans.spans(session.connection, *period, axis, _MOST_BARS)
        windows = gantt_spans.windows(
            session.connection, *period, axis, _MOST_WINDOWS, session.configuration.scheduler.reservation_notice
        )
        outages = node_course.outages(session.connection, *period)
        now = database_time(session.connection)
    return data(request, encoded(_drawing(axis, spans, windows, outages, period, now)))


def _period(request: Request, session: Session, now: float) -> tuple[float, float, str]:
    period = query.period(request, _LONGEST)
    if period is not None:
        return period[0].timestamp(), period[1].timestamp(), ""
    job = query.number(request, "job")
    if job is not None:
        details = find(session, job)
        row, window = details.row, details.window
        first = row.started or row.predicted or now
        last = row.ended or first + (row.walltime or 3600)
        if window is not None and not window.fixed:
            first, last = min(first, window.ready or now), max(last, window.deadline)
        margin = max(600.0, (last - first) * 0.3)
        return first - margin, last + margin, ""
    span = query.text(request, "span", "day")
    if span not in SPANS:
        raise UsageError(f"span '{span}' is not known", hint="one of " + ", ".join(SPANS))
    return now - SPANS[span] * 2 / 3, now + SPANS[span] / 3, span


def _drawing(
    axis: Axis,
    spans: Sequence[Span],
    windows: Iterable[WindowSpan],
    outages: Sequence[node_course.NodeOutage],
    period: tuple[datetime, datetime],
    now: float,
) -> dict[str, Any]:
    base_time, wide = int(period[0].timestamp()), int(period[1].timestamp() - period[0].timestamp())
    users, queues = _numbers(span.user for span in spans), _numbers(span.queue for span in spans)
    projects, states = _numbers(span.project for span in spans), _numbers(span.state for span in spans)
    # unpacked: there are 10,000 of them in a busy week
    bars = [
        (
            job,
            int(begin) - base_time,
            int(end) - base_time,
            int(planned),
            users[user],
            queues[queue],
            projects[project],
            states[state],
            places.tolist(),
        )
        for job, begin, end, planned, user, queue, project, state, places in reversed(spans)
    ]
    node_at = _first_places(axis)
    away = [
        [
            *node_at[outage.node],
            int(outage.begin) - base_time,
            int(outage.end or period[1].timestamp()) - base_time,
            outage.state,
            outage.reason,
        ]
        for outage in outages
        if outage.node in node_at
    ]
    return {
        "base": base_time,
        "wide": wide,
        "skew": round(now - datetime.now(UTC).timestamp(), 1),
        "cells": len(axis.resource_ids),
        "levels": [[name, _runs(axis, name)] for name in axis.levels],
        "bars": bars,
        "windows": [
            [window.job_id, int(window.ready) - base_time, int(window.deadline) - base_time, window.places.tolist()]
            for window in windows
        ],
        "outages": away,
        "truncated": len(bars) >= _MOST_BARS,
        "users": list(users),
        "queues": list(queues),
        "projects": list(projects),
        "states": list(states),
    }


def _numbers(words: Iterable[str]) -> dict[str, int]:
    """Return a number for each word."""
    return {word: number for number, word in enumerate(dict.fromkeys(words))}


def _runs(axis: Axis, name: str) -> list[list[Any]]:
    """Return the blocks of a level with their numbers of cells; blocks of the same name in different parents differ."""
    above = list(axis.levels)[: list(axis.levels).index(name)]
    keys = zip(*(axis.levels[level] for level in (*above, name)), strict=True)
    return [[key[-1], len(list(same))] for key, same in groupby(keys)]


def _first_places(axis: Axis) -> dict[str, tuple[int, int]]:
    place, places = 0, {}
    for node, count in _runs(axis, "network_address"):
        places[node] = (place, count)
        place += count
    return places
