"""Intervals of starts, learnt from past starts: "90 % of the jobs with such a planned wait started within ...".

The plan of a pass counts with walltimes, and jobs end earlier. So its start is an upper bound, and the real wait is a
part of the planned wait. The *ratio* of a past start is its real wait over its planned wait, both from the first plan
that had a start for it. The interval comes from the ratios of similar jobs: the shortest that holds 90 % of them, times
the planned wait::

    ratio    0    0.1  0.2  0.3  0.4  0.5  0.6  0.7  0.8  0.9  1
             x  xxx xx  x   x    x         x              x    xx
             |---------- 90 % ----------------------------|

Jobs are similar if they are of the same queue and their planned waits lie within the same power of two. If there are
too few, all jobs of the queue count, then jobs with such waits in all queues, then all jobs. The number of ratios
inside is that of split conformal prediction, which counts the new job itself among them (V. Vovk, A. Gammerman, G.
Shafer, "Algorithmic Learning in a Random World", 2005; J. Lei et al., JASA 113(523), 2018).

Users and queues change, so the future may differ from the past. The given intervals are therefore compared with the
real starts. Each start outside its interval widens the next intervals, each start inside narrows them a little. (I.
Gibbs, E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import TypeAlias

LEVEL = 0.9
"""The share of starts that an interval should contain."""
WINDOW = 4000
"""The number of latest past starts that are learnt from."""
FEWEST = 50
"""The number of past starts below which no interval is given."""

_STEP = 0.005
"""The step by which one start outside its interval widens the next intervals."""
_LEAST_MISSED, _MOST_MISSED = 0.01, 0.4

_Cell: TypeAlias = "tuple[str | None, int | None]"
"""A set of similar jobs: of a queue (None: of all), with planned waits of so many binary digits (None: of any)."""


@dataclass(frozen=True, slots=True)
class PastStart:
    """A start that was planned to be ``planned`` seconds after its first plan, and came after ``waited`` seconds.

    ``held`` says whether it fell into the interval given at that time, None if there was none.
    """

    queue: str
    planned: float
    waited: float
    held: bool | None = None


@dataclass(frozen=True, slots=True)
class StartInterval:
    """Seconds from the first plan to the earliest and the latest start, learnt from ``starts`` past starts."""

    earliest: float
    latest: float
    starts: int


class StartForecast:
    """Intervals learnt from ``past``, in the order of the starts. Only the last :data:`WINDOW` are looked at."""

    def __init__(self, past: Sequence[PastStart] = ()) -> None:
        recent = past[-WINDOW:]
        self.starts = len(recent)
        self._missed = _adapted(recent)
        self._ratios: dict[_Cell, list[float]] = defaultdict(list)
        for start in recent:
            for cell in _cells(start.queue, start.planned):
                self._ratios[cell].append(start.waited / max(start.planned, 1.0))
        self._shortest: dict[_Cell, tuple[float, float]] = {}

    def interval(self, queue: str, planned: float) -> StartInterval | None:
        """Return the interval for a job of ``queue`` with ``planned`` seconds of planned wait; None: too few starts."""
        for cell in _cells(queue, planned):
            if len(self._ratios.get(cell, ())) >= FEWEST:
                low, high = self._of(cell)
                wait = max(planned, 1.0)
                return StartInterval(low * wait, high * wait, len(self._ratios[cell]))
        return None

    def _of(self, cell: _Cell) -> tuple[float, float]:
        if cell not in self._shortest:
            self._shortest[cell] = _shortest(sorted(self._ratios[cell]), 1 - self._missed)
        return self._shortest[cell]


def _cells(queue: str, planned: float) -> Iterator[_Cell]:
    """Yield the sets of similar jobs that a job belongs to, the closest first."""
    digits = int(log2(max(planned, 1.0)))
    yield queue, digits
    yield queue, None
    yield None, digits
    yield None, None


def _adapted(past: Sequence[PastStart]) -> float:
    """Return the share of ratios to leave out so that :data:`LEVEL` of the intervals hold at present."""
    missed = 1 - LEVEL
    for start in past:
        if start.held is not None:
            missed += _STEP * ((1 - LEVEL) - (not start.held))
            missed = min(max(missed, _LEAST_MISSED), _MOST_MISSED)
    return missed


def _shortest(ratios: Sequence[float], part: float) -> tuple[float, float]:
    """Return the shortest interval that holds ``part`` of sorted ``ratios``, counting one more anywhere."""
    count = min(len(ratios), ceil((len(ratios) + 1) * part))
    width, first = min((ratios[at + count - 1] - ratios[at], at) for at in range(len(ratios) - count + 1))
    return ratios[first], ratios[first] + width
