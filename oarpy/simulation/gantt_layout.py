"""Measures and colours of the Gantt chart of a replay, common to SVG and PNG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oarpy.simulation.chart_columns import Columns
from oarpy.simulation.processor_rows import Bar

MOST_BOXES = 3000
"""Jobs drawn one by one. With more, boxes would be thinner than a pixel and shades are drawn instead."""

LEFT, TOP, GAP, WIDTH = 60.0, 40.0, 14.0, 1200.0
GANTT, CURVE, FOOT = 480.0, 100.0, 30.0
HEIGHT = TOP + GANTT + 2 * (GAP + CURVE) + FOOT
TICKS = 8
SHADES = ("#e3ecf4", "#c3d6e8", "#9dbcd9", "#6f9cc6", "#3f74a8", "#1f4a77")
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
_USE, _QUEUE = "#bab0ac", "#e8c3a0"
_CURVE_COLUMNS, _CELL_COLUMNS, _BANDS = 600, 400, 60
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Cell:
    """A span of time in which a band of rows is equally full; ``top`` and ``depth`` are those of the chart."""

    shade: int
    left: float
    width: float
    top: float
    depth: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A value over time, below the chart: one for each of the equal columns that the time is cut into.

    ``top`` is where it begins from the top of the picture; ``most`` is the value of its upper edge, ``most_text`` what
    is written there.
    """

    name: str
    label: str
    top: float
    values: Sequence[float]
    most: float
    most_text: str
    colour: str


def time_span(bars: Sequence[Bar]) -> tuple[float, float]:
    """Return the first submission and the seconds from there to the last end."""
    first = min((bar.submit for bar in bars), default=0.0)
    last = max((bar.start + bar.run for bar in bars), default=1.0)
    return first, max(last - first, 1e-9)


def colour(bar: Bar) -> str:
    """Return the colour of the box of a job."""
    return COLOURS[bar.number % len(COLOURS)]


def curves(bars: Sequence[Bar], rows: int, first: float, span: float) -> tuple[Curve, Curve]:
    """Return the rows in use and the waiting jobs over time, from the top down."""
    columns = Columns(first, span / _CURVE_COLUMNS, _CURVE_COLUMNS)
    waiting = columns.waiting(bars)
    most = max([1.0, *waiting])
    top = TOP + GANTT + GAP
    return (
        Curve("utilisation", "in use", top, columns.busy(bars), rows, "100%", _USE),
        Curve("waiting", "waiting jobs", top + CURVE + GAP, waiting, most, f"{most:.0f}", _QUEUE),
    )


def cells(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[Cell]:
    """Yield how full each band of rows is in each span of time; what is (nearly) never in use is left out."""
    per_band = -(-rows // _BANDS)
    bands = -(-rows // per_band)
    columns = Columns(first, span / _CELL_COLUMNS, _CELL_COLUMNS)
    width, height = WIDTH / _CELL_COLUMNS, GANTT * per_band / rows
    for band, filled in enumerate(columns.cells(bars, per_band, bands)):
        top = max(0.0, GANTT - (band + 1) * height)
        depth = GANTT - band * height - top
        # the topmost band may have fewer rows, and is full when these are
        whole = min(per_band, rows - band * per_band) / per_band
        shades = [_shade(share / whole) for share in filled]
        for begin, end in _equal_runs(shades):
            shade = shades[begin]
            if shade is not None:
                yield Cell(shade, begin * width, (end - begin) * width, top, depth)


def _shade(share: float) -> int | None:
    """Return the place among the shades, None for what is (nearly) never in use."""
    return None if share < 0.005 else min(len(SHADES) - 1, int(share * len(SHADES)))


def _equal_runs(values: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield the half-open intervals of equal neighbours."""
    begin = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[begin]:
            yield begin, place
            begin = place


def ticks(span: float) -> Iterator[tuple[float, str]]:
    """Yield the places on the time axis, as parts of its length, and what is written there."""
    size, unit = next((pair for pair in _UNITS if span >= 2 * pair[0]), _UNITS[-1])
    for tick in range(TICKS + 1):
        share = tick / TICKS
        yield share, f"{share * span / size:.1f} {unit}"
