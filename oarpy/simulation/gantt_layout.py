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
TICKS = 8
CURVE_COLUMNS = 600
SHADES = ("#e3ecf4", "#c3d6e8", "#9dbcd9", "#6f9cc6", "#3f74a8", "#1f4a77")
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
USE, QUEUE = "#bab0ac", "#e8c3a0"
_CELL_COLUMNS, _BANDS = 400, 60
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class Cell:
    """A span of time in which a band of rows is equally full; ``top`` and ``depth`` are those of the chart."""

    shade: int
    left: float
    width: float
    top: float
    depth: float


def time_span(bars: Sequence[Bar]) -> tuple[float, float]:
    """Return the first submission and the seconds from there to the last end."""
    first = min((bar.submit for bar in bars), default=0.0)
    last = max((bar.start + bar.run for bar in bars), default=1.0)
    return first, max(last - first, 1e-9)


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
