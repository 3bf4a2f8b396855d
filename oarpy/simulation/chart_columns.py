"""Time cut into equal columns: how much is in use, and how many wait, in each of them.

A chart of a year has fewer pixels than events; means over columns say what an overdrawn line cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oarpy.simulation.processor_rows import Bar


@dataclass(frozen=True, slots=True)
class Columns:
    """``count`` columns of ``width`` seconds each, the first of which begins at ``first``."""

    first: float
    width: float
    count: int

    def shares(self, begin: float, end: float) -> Iterable[tuple[int, float]]:
        """Yield each column that the time from ``begin`` to ``end`` meets, and the part of the column that it fills."""
        at = max(0, int((begin - self.first) / self.width))
        while at < self.count:
            left = self.first + at * self.width
            inside = min(end, left + self.width) - max(begin, left)
            if left >= end:
                return
            if inside > 0:
                yield at, inside / self.width
            at += 1

    def busy(self, bars: Iterable[Bar]) -> list[float]:
        """Return the mean number of rows in use in each column."""
        found = [0.0] * self.count
        for bar in bars:
            for at, share in self.shares(bar.start, bar.start + bar.run):
                found[at] += share * len(bar.rows)
        return found

    def waiting(self, bars: Iterable[Bar]) -> list[float]:
        """Return the mean number of waiting jobs in each column."""
        found = [0.0] * self.count
        for bar in bars:
            for at, share in self.shares(bar.submit, bar.start):
                found[at] += share
        return found

    def cells(self, bars: Sequence[Bar], rows_per_band: int, bands: int) -> list[list[float]]:
        """Return for each band of rows, the lowest first, how full (0 to 1) it is in each column."""
        found = [[0.0] * self.count for _ in range(bands)]
        for bar in bars:
            in_band: dict[int, int] = {}
            for row in bar.rows:
                in_band[row // rows_per_band] = in_band.get(row // rows_per_band, 0) + 1
            for at, share in self.shares(bar.start, bar.start + bar.run):
                for band, rows in in_band.items():
                    found[band][at] += share * rows / rows_per_band
        return found
