"""Gantt chart, use and queue over time of a replay, as an SVG file.

Up to :data:`MOST_BOXES` jobs each job is a coloured box. With more, boxes would be thinner than a pixel and the chart
shows instead how full each band of processors is in each span of time, the darker the fuller.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from oarpy.simulation.gantt_layout import (
    CURVE,
    GANTT,
    HEIGHT,
    LEFT,
    MOST_BOXES,
    SHADES,
    TOP,
    WIDTH,
    Curve,
    cells,
    colour,
    curves,
    ticks,
    time_span,
)
from oarpy.simulation.processor_rows import Bar, spans

_THINNEST = 0.2


def write_svg(bars: Sequence[Bar], rows: int, title: str, out: TextIO) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors."""
    first, span = time_span(bars)
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20:g}" height="{HEIGHT:g}" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{LEFT:g}" y="24" font-size="16">{escape(title)}</text>\n'
    )
    out.write(f'<g id="gantt" transform="translate({LEFT:g} {TOP:g})">\n')
    boxes = _boxes(bars, rows, first, span) if len(bars) <= MOST_BOXES else _shades(bars, rows, first, span)
    for path in boxes:
        out.write(path)
    out.write(_frame(GANTT, "processors", str(rows)) + "</g>\n")
    in_use, waiting = curves(bars, rows, first, span)
    out.write(_group(in_use) + _group(waiting, _time_axis(span)) + "</svg>\n")


def _boxes(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a job: a box for each run of neighbouring rows."""
    row_height, scale = GANTT / rows, WIDTH / span
    for bar in bars:
        left, width = (bar.start - first) * scale, max(bar.run * scale, _THINNEST)
        boxes = "".join(
            f"M{left:.1f} {GANTT - high * row_height:.1f}h{width:.1f}v{(high - low) * row_height:.1f}h-{width:.1f}z"
            for low, high in spans(bar.rows)
        )
        edge = ' stroke="white" stroke-width="0.3"' if width > 2 else ""
        yield f'<path fill="{colour(bar)}"{edge} d="{boxes}"><title>job {bar.number}</title></path>\n'


def _shades(bars: Sequence[Bar], rows: int, first: float, span: float) -> Iterator[str]:
    """Yield one path a shade: the spans of time in which a band of rows is that full."""
    drawn: list[list[str]] = [[] for _ in SHADES]
    for cell in cells(bars, rows, first, span):
        drawn[cell.shade].append(f"M{cell.left:g} {cell.top:.1f}h{cell.width:g}v{cell.depth:.1f}h-{cell.width:g}z")
    for shade, boxes in zip(SHADES, drawn, strict=True):
        if boxes:
            yield f'<path fill="{shade}" d="{"".join(boxes)}"/>\n'


def _group(curve: Curve, below: str = "") -> str:
    return (
        f'<g id="{curve.name}" transform="translate({LEFT:g} {curve.top:g})">\n'
        f"{_curve(curve)}{_frame(CURVE, curve.label, curve.most_text)}{below}</g>\n"
    )


def _curve(curve: Curve) -> str:
    width = WIDTH / len(curve.values)
    steps = "".join(
        f"V{CURVE * (1 - value / curve.most):.1f}H{place * width:g}"
        for place, value in enumerate(curve.values, start=1)
    )
    return f'<path fill="{curve.colour}" stroke="#555" stroke-width="0.5" d="M0 {CURVE:g}{steps}V{CURVE:g}z"/>\n'


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
