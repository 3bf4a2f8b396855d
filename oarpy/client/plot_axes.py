"""Axes of plots that are drawn as SVG, in reports and on pages: round values at even steps."""

from __future__ import annotations


def scale(largest: float) -> tuple[float, float]:
    """Return a round number that is not less, and the step of at most five lines up to it.

    >>> scale(73.0)
    (80.0, 20.0)
    """
    step = 1e-3
    while largest > step * 5:
        step *= 2.5 if f"{step:e}".startswith("2") else 2
    lines = -(-largest // step)
    return max(lines, 1) * step, step


def grouped(value: float) -> str:
    """Return a number with blanks between thousands, and no more digits than it needs.

    >>> grouped(12500.0), grouped(0.25)
    ('12 500', '0.25')
    """
    return f"{value:,.6g}".replace(",", " ")
