"""Consumption by day: a plot of stacked bars, drawn here, and the sums."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast

from fastapi import APIRouter, Request
from starlette.responses import Response

from oarpy.client.plot_axes import scale
from oarpy.model.errors import UsageError
from oarpy.store.pages import consumption
from oarpy.store.pages.consumption import DaySum, Kind
from oarpy.web.identity import Reader
from oarpy.web.pages import query
from oarpy.web.pages.plots import BOTTOM, LEFT, RIGHT, TOP, ticks
from oarpy.web.pages.rendering import base, page
from oarpy.web.seats import seats_of

router = APIRouter()

_KINDS = ("user", "project", "queue")
_SERIES = 7
"""Names with a colour of their own; the rest is one more."""

_LONGEST = 800
_OTHERS = "others"
_DAY = 86400


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A rectangle of the plot; ``series`` numbers its colour."""

    series: int
    x: float
    y: float
    width: float
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Plot:
    """The parts of the plot: values at heights, dates at places, names of the colours."""

    bars: tuple[PlotBar, ...]
    ticks: tuple[tuple[float, str], ...]
    days: tuple[tuple[float, str], ...]
    series: tuple[tuple[int, str], ...]


@router.get("/accounting")
def accounting(request: Request, identity: Reader) -> Response:
    """Return the page."""
    kind = cast(Kind, query.choice(request, "by", _KINDS))
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = _day(request, "begin", today - timedelta(days=30))
    end = _day(request, "end", today)
    number = (end - begin).days + 1
    if not 1 <= number <= _LONGEST:
        raise UsageError("the period is empty or too long", hint=f"at most {_LONGEST} days")
    with seats_of(request).session(identity) as session:
        rows = consumption.days(session.connection, begin, end + timedelta(days=1), kind)
    used, wanted = defaultdict[str, float](float), defaultdict[str, float](float)
    for row in rows:
        used[row.name] += row.used / 3600
        wanted[row.name] += row.asked / 3600
    sums = sorted(((name, used[name], wanted[name]) for name in used), key=lambda sums_of_name: -sums_of_name[1])
    first, last = f"{begin:%Y-%m-%d}", f"{end:%Y-%m-%d}"
    return page(
        request,
        identity,
        "accounting.html",
        kind=kind,
        kinds=[
            (choice, f"{base(request)}/accounting?by={choice}&begin={first}&end={last}", choice == kind)
            for choice in _KINDS
        ],
        plot=plot(rows, int(begin.timestamp()), number) if rows else None,
        sums=sums,
        total=round(sum(used.values())),
        begin=first,
        end=last,
    )


def plot(rows: Sequence[DaySum], begin: int, days: int) -> Plot:
    """Return stacked bars of core-hours, one a day from ``begin`` on (epoch seconds)."""
    totals, by_name = defaultdict[int, float](float), defaultdict[str, float](float)
    for row in rows:
        totals[row.day] += row.used / 3600
        by_name[row.name] += row.used
    names = sorted(by_name, key=lambda name: -by_name[name])
    series = {name: min(place, _SERIES) for place, name in enumerate(names)}
    highest, step = scale(max(totals.values(), default=1.0))
    slot = (RIGHT - LEFT) / days
    stacked: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        stacked[row.day][series[row.name]] += row.used / 3600
    labels = {place: name for name, place in reversed(series.items()) if place < _SERIES}
    if len(names) > _SERIES:
        labels[_SERIES] = _OTHERS
    bars = []
    for day, parts in sorted(stacked.items()):
        x, top = LEFT + (day - begin) / _DAY * slot, BOTTOM
        for place in sorted(parts):
            height = parts[place] / highest * (BOTTOM - TOP)
            top -= height
            title = f"{datetime.fromtimestamp(day, UTC):%Y-%m-%d}, {labels[place]}: {parts[place]:,.1f} core-hours"
            width = max(1.0, slot * 0.82)
            bars.append(PlotBar(place, round(x, 2), round(top, 2), round(width, 2), round(height, 2), title))
    every = max(1, -(-days // 10))
    dates = tuple(
        (round(LEFT + (day + 0.41) * slot, 1), f"{datetime.fromtimestamp(begin + day * _DAY, UTC):%d %b}")
        for day in range(0, days, every)
    )
    return Plot(tuple(bars), ticks(highest, step), dates, tuple(sorted(labels.items())))


def _day(request: Request, name: str, otherwise: datetime) -> datetime:
    text = query.text(request, name)
    if not text:
        return otherwise
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise UsageError(f"{name} '{text}' is not a day", hint="such as 2026-05-01") from None
