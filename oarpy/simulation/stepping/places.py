"""The processors that jobs hold over time. If processors are only counted, jobs get the lowest free rows.

A job keeps its rows from its begin to its end. Planned jobs get rows behind all running jobs::

    3 |       ccc        a and b run and keep their rows; c is planned for when b ends, and gets
    2 | bbbb  ccc        the lowest rows that are free then
    1 | aaaaaaaaa
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, Self

Spans = Sequence[tuple[int, int]]
"""Rows from 0 on: half-open intervals, ascending."""


class Place(NamedTuple):
    """A job on ``procs`` processors of a cluster from ``start`` to ``end``, as foreseen; ``bits`` if named."""

    job: int | str
    start: float
    end: float
    procs: int
    bits: int | None = None


class ClusterState(NamedTuple):
    """A cluster: the waiting jobs in the order of its queue, and the planned places."""

    name: str
    procs: int
    queue: Sequence[int | str]
    planned: Sequence[Place]


class Bar(NamedTuple):
    """A job on rows of a cluster, from ``start`` to ``end``."""

    job: int | str
    cluster: str
    start: float
    end: float
    rows: Spans


class Rows:
    """The free rows of a cluster."""

    def __init__(self, free: Iterable[tuple[int, int]]) -> None:
        self._free = list(free)

    def copy(self) -> Self:
        """Return independent rows of equal content."""
        return type(self)(self._free)

    def take(self, count: int) -> Spans:
        """Take the lowest free rows; fewer than ``count`` if not enough are free.

        >>> rows = Rows([(0, 2), (4, 9)])
        >>> rows.take(4), rows.take(9)
        (((0, 2), (4, 6)), ((6, 9),))
        """
        taken: list[tuple[int, int]] = []
        while count > 0 and self._free:
            low, high = self._free[0]
            here = min(count, high - low)
            taken.append((low, low + here))
            count -= here
            if low + here == high:
                del self._free[0]
            else:
                self._free[0] = low + here, high
        return tuple(taken)

    def take_these(self, spans: Spans) -> Spans:
        """Take rows by name."""
        for low, high in spans:
            self._free = [
                part
                for begin, end in self._free
                for part in ((begin, min(end, low)), (max(begin, high), end))
                if part[0] < part[1]
            ]
        return spans

    def give(self, spans: Spans) -> None:
        """Give rows back."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted((*self._free, *spans)):
            if merged and merged[-1][1] >= low:
                merged[-1] = merged[-1][0], max(high, merged[-1][1])
            else:
                merged.append((low, high))
        self._free = merged


def place_on(rows: Rows, place: Place) -> Spans:
    """Take the rows of a place: those of its processors, or the lowest."""
    return rows.take(place.procs) if place.bits is None else rows.take_these(spans_of(place.bits))


def spans_of(bits: int) -> Spans:
    """Return the rows that a set of processors has.

    >>> spans_of(0b1011)
    ((0, 2), (3, 4))
    """
    spans: list[tuple[int, int]] = []
    low = 0
    while bits:
        low += (zeros := (bits & -bits).bit_length() - 1)
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        spans.append((low, low + ones))
        bits >>= ones
        low += ones
    return tuple(spans)


def planned_bars(rows: Rows, standing: Iterable[Bar], cluster: ClusterState) -> list[Bar]:
    """Return the planned bars of a cluster, on rows that are free then; ``standing`` are the present bars."""
    rows = rows.copy()
    held = [(bar.end, place, bar.rows) for place, bar in enumerate(standing)]
    heapify(held)
    bars: list[Bar] = []
    for place in sorted(cluster.planned, key=lambda place: place.start):
        while held and held[0][0] <= place.start:
            rows.give(heappop(held)[2])
        if place.bits is None:
            spans = rows.take(place.procs)
            heappush(held, (place.end, -len(bars) - 1, spans))
        else:
            spans = spans_of(place.bits)
        bars.append(Bar(place.job, cluster.name, place.start, place.end, spans))
    return bars
