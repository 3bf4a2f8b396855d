"""The Gantt chart of :mod:`oarpy.simulation.gantt_svg` as a PNG file, in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO

from oarpy.simulation.gantt_layout import (
    CURVE,
    FOOT,
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
from oarpy.simulation.pixels import Colour, Picture, text_width
from oarpy.simulation.processor_rows import Bar, spans

_BLACK: Colour = (0, 0, 0)
_WHITE: Colour = (255, 255, 255)
_RIGHT = 60.0


def write_png(bars: Sequence[Bar], rows: int, title: str, out: BinaryIO) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors."""
    first, span = time_span(bars)
    picture = Picture(int(LEFT + WIDTH + _RIGHT), int(HEIGHT))
    size = 2 if text_width(title, 2) <= WIDTH else 1
    picture.write(title, LEFT, TOP / 2, size=size)
    if len(bars) <= MOST_BOXES:
        _boxes(picture, bars, rows, first, span)
    else:
        for cell in cells(bars, rows, first, span):
            left, top = LEFT + cell.left, TOP + cell.top
            picture.fill(left, top, left + cell.width, top + cell.depth, _parts(SHADES[cell.shade]))
    _frame(picture, TOP, GANTT, "processors", str(rows))
    for curve in curves(bars, rows, first, span):
        _curve(picture, curve)
        _frame(picture, curve.top, CURVE, curve.label, curve.most_text)
    for share, label in ticks(span):
        picture.write(label, LEFT + share * WIDTH, HEIGHT - FOOT / 2, anchor=0.5)
    picture.save(out)


def _boxes(picture: Picture, bars: Sequence[Bar], rows: int, first: float, span: float) -> None:
    """Draw a box for each run of neighbouring rows of each job, with a white edge where there is room."""
    row_height, scale = GANTT / rows, WIDTH / span
    for bar in bars:
        left = LEFT + (bar.start - first) * scale
        right = left + bar.run * scale
        edge = 1 if right - left > 3 and row_height > 3 else 0
        for low, high in spans(bar.rows):
            top, bottom = TOP + GANTT - high * row_height, TOP + GANTT - low * row_height
            if edge:
                picture.fill(left, top, right, bottom, _WHITE)
            picture.fill(left + edge, top + edge, right, bottom, _parts(colour(bar)))


def _curve(picture: Picture, curve: Curve) -> None:
    width, bottom = WIDTH / len(curve.values), curve.top + CURVE
    for place, value in enumerate(curve.values):
        left = LEFT + place * width
        if value > 0:
            top = curve.top + CURVE * (1 - value / curve.most)
            picture.fill(left, top, left + width, bottom, _parts(curve.colour))


def _frame(picture: Picture, top: float, height: float, label: str, most: str) -> None:
    picture.frame(LEFT, top, LEFT + WIDTH, top + height, _BLACK)
    picture.write(most, LEFT - 6, top + 6, anchor=1)
    picture.write("0", LEFT - 6, top + height - 4, anchor=1)
    picture.write(label, LEFT - 40, top + height / 2, anchor=0.5, upright=True)


def _parts(text: str) -> Colour:
    red, green, blue = bytes.fromhex(text.removeprefix("#"))
    return red, green, blue
