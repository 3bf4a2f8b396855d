"""Gantt chart, use and queue over time of a replay, as an SVG file.

Up to :data:`MOST_BOXES` jobs each job is a coloured box. With more, boxes would be thinner than a pixel and the chart
shows instead how full each band of processors is in each span of time, the darker the fuller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from oarpy.simulation.chart_columns import Columns
from oarpy.simulation.processor_rows import Bar, spans

MOST_BOXES = 3000
"""Jobs drawn one by one."""

_LEFT, _TOP, _GAP, _WIDTH = 60.0, 40.0, 14.0, 1200.0
_GANTT, _CURVE, _FOOT = 480.0, 100.0, 30.0
_THINNEST = 0.2
_TICKS = 8
_CURVE_COLUMNS, _CELL_COLUMNS, _BANDS = 600, 400, 60
_SHADES = ("#e3ecf4", "#c3d6e8", "#9dbcd9", "#6f9cc6", "#3f74a8", "#1f4a77")
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def write_svg(bars: Sequence[Bar], rows: int, title: str, out: TextIO) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors."""
    first = min((bar.submit for bar in bars), default=0.0)
    last = max((bar.start + bar.run for bar in bars), default=1.0)
    span = max(last - first, 1e-9)
    height = _TOP + _GANTT + 2 * (_GAP + _CURVE) + _FOOT
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{_LEFT:g}" y="24" font-size="16">{escape(title)}</text>\n'
    )
    out.write(f'<g id="gantt" transform="translate({_LEFT:g} {_TOP:g})">\n')
    boxes = _boxes(bars, rows, first, span) if len(bars) <= MOST_BOXES else _shades(bars, rows, first, span)
    for path in boxes:
        out.write(path)
    out.write(_frame(_GANTT, "processors", str(rows)) + "</g>\n")
    columns = Columns(first, span / _CURVE_COLUMNS, _CURVE_COLUMNS)
    waiting = columns.waiting(bars)
    most = max([1.0, *waiting])
    top = _TOP + _GANTT + _GAP
    out.write(f'<g id="utilisation" transform="translate({_LEFT:g} {top:g})">\n')
    out.write(_curve(columns.busy(bars), rows, "#bab0ac") + _frame(_CURVE, "in use", "100%") + "</g>\n")
    out.write(f'<g id="waiting" transform="translate({_LEFT:g} {top + _CURVE + _GAP:g})">\n')
    out.write(_curve(waiting, most, "#e8c3a0") + _frame(_CURVE, "waiting jobs", f"{most:.0f}"))
    out.write(_time_axis(span) + "</g>\n</svg>\n")


def _boxes(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a job: a box for each run of neighbouring rows."""
    row_height, scale = _GANTT / rows, _WIDTH / span
    for bar in bars:
        left, width = (bar.start - first) * scale, max(bar.run * scale, _THINNEST)
        boxes = "".join(
            f"M{left:.1f} {_GANTT - high * row_height:.1f}h{width:.1f}v{(high - low) * row_height:.1f}h-{width:.1f}z"
            for low, high in spans(bar.rows)
        )
        colour = _COLOURS[bar.number % len(_COLOURS)]
        edge = ' stroke="white" stroke-width="0.3"' if width > 2 else ""
        yield f'<path fill="{colour}"{edge} d="{boxes}"><title>job {bar.number}</title></path>\n'


def _shades(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a shade: the spans of time in which a band of rows is that full."""
    per_band = -(-rows // _BANDS)
    bands = -(-rows // per_band)
    columns = Columns(first, span / _CELL_COLUMNS, _CELL_COLUMNS)
    width, height = _WIDTH / _CELL_COLUMNS, _GANTT * per_band / rows
    drawn: list[list[str]] = [[] for _ in _SHADES]
    for band, filled in enumerate(columns.cells(bars, per_band, bands)):
        top = max(0.0, _GANTT - (band + 1) * height)
        depth = _GANTT - band * height - top
        # the topmost band may have fewer rows, and is full when these are
        whole = min(per_band, rows - band * per_band) / per_band
        shades = [_shade(share / whole) for share in filled]
        for begin, end in _equal_runs(shades):
            shade = shades[begin]
            if shade is not None:
                wide = (end - begin) * width
                drawn[shade].append(f"M{begin * width:g} {top:.1f}h{wide:g}v{depth:.1f}h-{wide:g}z")
    for colour, boxes in zip(_SHADES, drawn, strict=True):
        if boxes:
            yield f'<path fill="{colour}" d="{"".join(boxes)}"/>\n'


def _shade(share: float) -> int | None:
    """Return the place among the shades, None for what is (nearly) never in use."""
    return None if share < 0.005 else min(len(_SHADES) - 1, int(share * len(_SHADES)))


def _equal_runs(values: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield the half-open intervals of equal neighbours."""
    begin = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[place] != values[begin]:
            yield begin, place
            begin = place


def _curve(values: Sequence[float], most: float, colour: str) -> str:
    width = _WIDTH / len(values)
    steps = "".join(
        f"V{_CURVE * (1 - value / most):.1f}H{place * width:g}" for place, value in enumerate(values, start=1)
    )
    return f'<path fill="{colour}" stroke="#555" stroke-width="0.5" d="M0 {_CURVE:g}{steps}V{_CURVE:g}z"/>\n'


def _frame(height: float, label: str, top: str) -> str:
    return (
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="none" stroke="black"/>\n'
        f'<text x="-6" y="12" text-anchor="end">{top}</text><text x="-6" y="{height:g}" text-anchor="end">0</text>\n'
        f'<text transform="translate(-40 {height / 2:g}) rotate(-90)" text-anchor="middle">{label}</text>\n'
    )


def _time_axis(span: float) -> str:
    size, unit = next((pair for pair in _UNITS if span >= 2 * pair[0]), _UNITS[-1])
    texts = []
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        label = f"{share * span / size:.1f} {unit}"
        texts.append(f'<text x="{share * _WIDTH:.1f}" y="{_CURVE + 16:g}" text-anchor="middle">{label}</text>')
    return "".join(texts) + "\n"
