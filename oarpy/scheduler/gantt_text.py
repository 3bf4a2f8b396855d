"""A Gantt as text: one line per resource (or block), one letter per period of time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase, digits

from oarpy.scheduler.platform import Platform

_LETTERS = digits[1:] + ascii_uppercase
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
    start: float = 0,
    step: float = 1,
    columns: int = 40,
    by: str | None = None,
    letters: dict[int, str] | None = None,
    beneath: Sequence[int] = (),
) -> str:
    """Draw ``bars`` from ``start`` on, ``step`` seconds per column, one row per resource.

    ``by`` draws one row per block of that property instead. A cell shows the job that holds some of the row during the
    column (``letters``, else 1-9, A-Z by rank of the job), ``+`` for several, ``.`` when free, ``x``
    when the resources are not Alive. Others are drawn over the jobs ``beneath``, such as containers, outermost first.

    >>> from oarpy.scheduler.platform import Resource
    >>> platform = Platform.build([Resource(1), Resource(2)])
    >>> print(render(platform, [Bar(7, 0, 4, [1]), Bar(8, 4, 6, [1, 2])], columns=8))
    1 |111122..|
    2 |....22..|
    """
    drawn = list(bars)
    names = _letters(drawn) if letters is None else letters
    rows = _rows(platform, by)
    width = max((len(label) for label, _ in rows), default=0)
    cells = {label: [_empty(platform, ids)] * columns for label, ids in rows}
    depth = {job: rank for rank, job in enumerate(beneath)}
    covered = {FREE, DOWN, *(names[job] for job in beneath if job in names)}
    for bar in sorted(drawn, key=lambda bar: depth.get(bar.job, len(depth))):
        held = set(bar.resources)
        first = max(0, int((bar.start - start) // step))
        last = min(columns, -int(-(bar.end - start) // step))
        for label, ids in rows:
            if held & ids:
                for column in range(first, last):
                    cells[label][column] = _cell(cells[label][column], names[bar.job], covered)
    return "\n".join(f"{label:<{width}} |{''.join(cells[label])}|" for label, _ in rows)


def _letters(bars: Sequence[Bar]) -> dict[int, str]:
    jobs = sorted({bar.job for bar in bars})
    return {job: _LETTERS[rank % len(_LETTERS)] for rank, job in enumerate(jobs)}


def _rows(platform: Platform, by: str | None) -> list[tuple[str, frozenset[int]]]:
    if by is None:
        return [(str(row.id), frozenset([row.id])) for row in platform.resources]
    return [(str(block.value), frozenset(platform.ids_of(block.bits))) for block in platform.blocks(by)]


def _empty(platform: Platform, ids: frozenset[int]) -> str:
    return FREE if platform.bits_of(ids) & platform.alive else DOWN


def _cell(before: str, letter: str, covered: Collection[str]) -> str:
    return letter if before == letter or before in covered else SHARED
