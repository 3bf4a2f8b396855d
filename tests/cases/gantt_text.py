"""A Gantt as text: one line per resource, one letter per period of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.scheduler.resources.platform import Platform

FREE, SHARED, DOWN = ".", "+", "x"


@dataclass(frozen=True, slots=True)
class Bar:
    """Resources (ids) that ``job`` holds during [start, end)."""

    job: int
    start: float
    end: float
    resources: Sequence[int]


def render(
    platform: Platform,
    bars: Iterable[Bar],
    *,
    step: float,
    columns: int,
    letters: Mapping[int, str],
    beneath: Sequence[int] = (),
) -> str:
    """Draw ``bars`` from second 0 on, ``step`` seconds per column, one row per resource.

    A cell shows the job that holds the resource during the column, by its letter, ``+`` for several, ``.`` when it is
    free, ``x`` when it is not Alive. Others are drawn over the jobs ``beneath``, such as containers, outermost first.
    """
    rows = {row.id: [FREE if row.state == "Alive" else DOWN] * columns for row in platform.resources}
    depth = {job: rank for rank, job in enumerate(beneath)}
    covered = {FREE, DOWN, *(letters[job] for job in beneath if job in letters)}
    for bar in sorted(bars, key=lambda bar: depth.get(bar.job, len(depth))):
        first, last = max(0, int(bar.start // step)), min(columns, -int(-bar.end // step))
        for cells in (rows[number] for number in bar.resources):
            for column in range(first, last):
                cells[column] = _cell(cells[column], letters[bar.job], covered)
    width = max((len(str(number)) for number in rows), default=0)
    return "\n".join(f"{number:<{width}} |{''.join(cells)}|" for number, cells in rows.items())


def _cell(before: str, letter: str, covered: Collection[str]) -> str:
    return letter if before == letter or before in covered else SHARED
