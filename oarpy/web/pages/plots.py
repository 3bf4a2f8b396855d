"""Plots that pages draw as SVG: where bars stand, and lines at round values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.client.plot_axes import grouped, scale

LEFT, RIGHT, TOP, BOTTOM = 50.0, 895.0, 10.0, 230.0
HOURS_RIGHT, HOURS_BOTTOM = 595.0, 170.0
"""Right and bottom edges of plots of hours, which stand beside each other."""


@dataclass(frozen=True, slots=True)
class HourBar:
    """An hour from ``at`` (epoch seconds) on, with its value, as a rectangle."""

    at: int
    value: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class HourPlot:
    """Bars of hours from ``begin`` to ``end`` (epoch seconds), values at heights, and the height of the ``most``."""

    begin: int
    end: int
    bars: tuple[HourBar, ...]
    ticks: tuple[tuple[float, str], ...]
    most: float | None


def hour_plot(begin: float, values: Sequence[float], most: float | None = None) -> HourPlot:
    """Return the plot of ``values``, one an hour from ``begin`` on, up to ``most`` at least."""
    highest, step = scale(max(*values, most or 0, 1.0))
    width = (HOURS_RIGHT - LEFT) / len(values)
    bars = tuple(
        HourBar(
            int(begin) + 3600 * place,
            f"{value:,.1f}".removesuffix(".0").replace(",", " "),
            round(LEFT + place * width, 2),
            _height(value, highest, HOURS_BOTTOM),
            round(width, 2),
            round(HOURS_BOTTOM - _height(value, highest, HOURS_BOTTOM), 2),
        )
        for place, value in enumerate(values)
        if value > 0
    )
    end = int(begin) + 3600 * len(values)
    limit = None if most is None else _height(most, highest, HOURS_BOTTOM)
    return HourPlot(int(begin), end, bars, ticks(highest, step, HOURS_BOTTOM), limit)


def ticks(highest: float, step: float, bottom: float = BOTTOM) -> tuple[tuple[float, str], ...]:
    """Return the heights of the lines up to ``highest``, with their values."""
    return tuple(
        (_height(number * step, highest, bottom), grouped(number * step)) for number in range(int(highest / step) + 1)
    )


def _height(value: float, highest: float, bottom: float) -> float:
    return round(bottom - value / highest * (bottom - TOP), 2)
