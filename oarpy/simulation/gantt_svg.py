"""Gantt chart, use and queue over time of a replay, as an SVG file.

Up to :data:`MOST_BOXES` jobs each job is a coloured box. With more, boxes would be thinner than a pixel and the chart
shows instead how full each band of processors is in each span of time, the darker the fuller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from oarpy.simulation.chart_columns import Columns
from oarpy.simulation.gantt_layout import (
    COLOURS,
    CURVE,
    CURVE_COLUMNS,
    FOOT,
    GANTT,
    GAP,
    LEFT,
    MOST_BOXES,
    QUEUE,
    SHADES,
    TOP,
    USE,
    WIDTH,
    cells,
    ticks,
    time_span,
)
from oarpy.simulation.processor_rows import Bar, spans

_THINNEST = 0.2


def write_svg(bars: Sequence[Bar], rows: int, title: str, out: TextIO) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors."""
    first, span = time_span(bars)
    height = TOP + GANTT + 2 * (GAP + CURVE) + FOOT
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{LEFT:g}" y="24" font-size="16">{escape(title)}</text>\n'
    )
    out.write(f'<g id="gantt" transform="translate({LEFT:g} {TOP:g})">\n')
    boxes = _boxes(bars, rows, first, span) if len(bars) <= MOST_BOXES else _shades(bars, rows, first, span)
    for path in boxes:
        out.write(path)
    out.write(_frame(GANTT, "processors", str(rows)) + "</g>\n")
    columns = Columns(first, span / CURVE_COLUMNS, CURVE_COLUMNS)
    waiting = columns.waiting(bars)
    most = max([1.0, *waiting])
    top = TOP + GANTT + GAP
    out.write(f'<g id="utilisation" transform="translate({LEFT:g} {top:g})">\n')
    out.write(_curve(columns.busy(bars), rows, USE) + _frame(CURVE, "in use", "100%") + "</g>\n")
    out.write(f'<g id="waiting" transform="translate({LEFT:g} {top + CURVE + GAP:g})">\n')
    out.write(_curve(waiting, most, QUEUE) + _frame(CURVE, "waiting jobs", f"{most:.0f}"))
    out.write(_time_axis(span) + "</g>\n</svg>\n")


def _boxes(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a job: a box for each run of neighbouring rows."""
    row_height, scale = GANTT / rows, WIDTH / span
    for bar in bars:
        left, width = (bar.start - first) * scale, max(bar.run * scale, _THINNEST)
        boxes = "".join(
            f"M{left:.1f} {GANTT - high * row_height:.1f}h{width:.1f}v{(high - low) * row_height:.1f}h-{width:.1f}z"
            for low, high in spans(bar.rows)
        )
        colour = COLOURS[bar.number % len(COLOURS)]
        edge = ' stroke="white" stroke-width="0.3"' if width > 2 else ""
        yield f'<path fill="{colour}"{edge} d="{boxes}"><title>job {bar.number}</title></path>\n'


def _shades(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a shade: the spans of time in which a band of rows is that full."""
    drawn: list[list[str]] = [[] for _ in SHADES]
    for cell in cells(bars, rows, first, span):
        drawn[cell.shade].append(f"M{cell.left:g} {cell.top:.1f}h{cell.width:g}v{cell.depth:.1f}h-{cell.width:g}z")
    for colour, boxes in zip(SHADES, drawn, strict=True):
        if boxes:
            yield f'<path fill="{colour}" d="{"".join(boxes)}"/>\n'


def _curve(values: Sequence[float], most: float, colour: str) -> str:
    width = WIDTH / len(values)
    steps = "".join(
        f"V{CURVE * (1 - value / most):.1f}H{place * width:g}" for place, value in enumerate(values, start=1)
    )
    return f'<path fill="{colour}" stroke="#555" stroke-width="0.5" d="M0 {CURVE:g}{steps}V{CURVE:g}z"/>\n'


def _frame(height: float, label: str, top: str) -> str:
    return (
        f'<rect width="{WIDTH:g}" height="{height:g}" fill="none" stroke="black"/>\n'
        f'<text x="-6" y="12" text-anchor="end">{top}</text><text x="-6" y="{height:g}" text-anchor="end">0</text>\n'
        f'<text transform="translate(-40 {height / 2:g}) rotate(-90)" text-anchor="middle">{label}</text>\n'
    )


def _time_axis(span: float) -> str:
    texts = [
        f'<text x="{share * WIDTH:.1f}" y="{CURVE + 16:g}" text-anchor="middle">{label}</text>'
        for share, label in ticks(span)
    ]
    return "".join(texts) + "\n"
