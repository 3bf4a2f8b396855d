"""Places on several views at once: free resources, resources held by partners, and amounts left of consumables.

The timeline of resources that no job holds changes wherever one of the other views does. So its slots are the slots of
all views. A window is searched there with the numbers of all views together::

    nobody holds    {1 2}     {1 2}   {1}
    partners hold   {3}       {}      {2 3}
    enough memory   {1 2 3}   {2 3}   {2 3}
    free            {1 2 3}   {2}     {2 3}
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.amount_timeline import StockView
from oarpy.scheduler.gantt.free_counts import BlockTable, Numbers, Packed, Rows, packed, sizes
from oarpy.scheduler.gantt.slot_windows import BlockWindows, Windows
from oarpy.scheduler.gantt.sparse_timeline import Pieces
from oarpy.scheduler.gantt.wide_timeline import AnyTimeline
from oarpy.scheduler.resources.block_requirements import Gauge
from oarpy.scheduler.resources.matching import RequestMatcher, Screen

_AHEAD = 256
"""Slots looked up at once."""

_NO_NUMBERS: Numbers = np.zeros((0, 0), dtype=np.uint8)


def first_fit(
    alone: AnyTimeline,
    partners: Pieces | None,
    stock: StockView | None,
    gauge: Gauge | None,
    matcher: RequestMatcher,
    instant: float,
    hold: float,
    latest: float | None = None,
    within: int = -1,
) -> tuple[float, int] | None:
    """Find the first date, ``instant`` or later, from which ``matcher`` is served for ``hold`` seconds.

    ``partners`` are resources free beside those of ``alone``. ``stock`` says which resources have enough of the
    consumables, as ``gauge`` counts it. Each of them changes only where ``alone`` does. Return the date with the
    resources to take, out of ``within``; None if there is no date before ``latest``.
    """
    return _Joint(alone, partners, stock, gauge, matcher, within).first(
        instant, hold, inf if latest is None else latest
    )


class _Joint:
    """One search, with the arguments of :func:`first_fit`."""

    def __init__(
        self,
        alone: AnyTimeline,
        partners: Pieces | None,
        stock: StockView | None,
        gauge: Gauge | None,
        matcher: RequestMatcher,
        within: int,
    ) -> None:
        self._alone, self._partners, self._stock = alone, partners, stock
        self._gauge, self._matcher, self._within = gauge, matcher, within

    def first(self, instant: float, hold: float, latest: float) -> tuple[float, int] | None:
        """Try one window after the other; after a failure, skip the beginnings that must fail too."""
        begins = self._alone.begins
        windows = self._windows(hold, latest)
        window = windows.first(bisect_right(begins, instant) - 1, instant)
        while window is not None:
            left, start, right = window
            if bits := self._matcher.match(self._free(windows, left, right)):
                return start, bits
            clear = self._clear(windows, left, right)
            window = windows.first(clear, begins[clear]) if clear < len(begins) else None
        return None

    def _windows(self, hold: float, latest: float) -> Windows:
        """Return the windows to try: screened by blocks where that is possible, else by numbers of resources."""
        alone, partners, matcher = self._alone, self._partners, self._matcher
        if self._stock is None:
            screen, total = matcher.screen, 0
        else:
            screen, total = (self._gauge.screen, self._gauge.total) if self._gauge else (None, 0)
        counts = alone.table(screen.layout) if screen else None
        if screen is None or counts is None:
            return _CountWindows(alone, partners, hold, latest, matcher.least)
        allowed = _Allowed(self._stock, self._gauge) if self._stock and self._gauge else None
        return _JointWindows(alone.begins, hold, latest, counts, screen, total, partners, allowed)

    def _free(self, windows: Windows, left: int, right: int) -> int:
        """Return the resources that are free throughout the slots [left, right) and have enough of the consumables."""
        begins = self._alone.begins
        begin, end = begins[left], begins[right] if right < len(begins) else inf
        free = self._within & common(self._alone, self._partners, begin, end)
        if self._stock is None:
            return free
        if isinstance(windows, _JointWindows):
            return free & windows.serving_bits(left)
        return free & self._stock.common(begin, end)

    def _clear(self, windows: Windows, left: int, right: int) -> int:
        """Return the first slot behind ``left`` from which up to ``right`` the request may be served.

        Every window that begins before this slot still covers the rest up to ``right``, so it cannot serve either.
        """
        if isinstance(windows, _JointWindows):
            windows.settle(left, right)
        low, high = left + 1, right
        while low < high:
            middle = (low + high) // 2
            if self._matcher.may_fit(self._free(windows, middle, right)):
                high = middle
            else:
                low = middle + 1
        return low


def common(alone: AnyTimeline, partners: Pieces | None, begin: float, end: float) -> int:
    """Return the resources that are free, or held by partners alone, during the whole of [begin, end)."""
    if partners is None or not partners.anything:
        return alone.common(begin, end)
    bits = -1
    for left, right, more in partners.parts(begin, end):
        bits &= alone.common(left, right) | more
    return bits


class _CountWindows(Windows):
    """Windows without a slot in which too few resources are free or held by partners."""

    __slots__ = ("_partners",)

    def __init__(self, alone: AnyTimeline, partners: Pieces | None, hold: float, latest: float, least: int) -> None:
        super().__init__(alone.begins, alone.counts(), hold, latest, least)
        self._partners = partners

    def _look_ahead(self, right: int) -> None:
        """Find the walls up to slot ``right`` and some way beyond; resources held by partners count as free."""
        if self._partners is None or not self._partners.anything:
            return super()._look_ahead(right)
        first, last = self._known, min(right + _AHEAD, len(self._begins))
        counts = self._counts[first:last].copy()
        for low, high, more in _slots_of(self._partners, self._begins, first, last):
            counts[low:high] += more.bit_count()
        self._walls += ((counts < self._least).nonzero()[0] + first).tolist()
        self._known = last
        return None


class _Allowed:
    """Tells which blocks have enough left of the consumables of a request."""

    __slots__ = ("_gauge", "_stocks")

    def __init__(self, stock: StockView, gauge: Gauge) -> None:
        self._stocks, self._gauge = stock.stocks, gauge

    def serving(self, instants: NDArray[np.float64]) -> Packed:
        """Return, for each of these instants, the set of the blocks that have enough."""
        used = self._stocks.used(instants)
        first, *others = self._gauge.allowances
        enough = used[:, first.columns] <= first.most
        for other in others:
            enough &= used[:, other.columns] <= other.most
        return packed(enough)


class _JointWindows(BlockWindows):
    """Windows throughout which enough blocks have enough of everything, and enough resources all together."""

    __slots__ = ("_allowed", "_bits", "_blocks", "_partners", "_serving_known", "_total")

    def __init__(
        self,
        begins: Sequence[float],
        hold: float,
        latest: float,
        counts: tuple[BlockTable, Rows],
        screen: Screen,
        total: int,
        partners: Pieces | None,
        allowed: _Allowed | None,
    ) -> None:
        super().__init__(begins, hold, latest, counts[0], screen, counts[1])
        self._total, self._partners, self._allowed = total, partners, allowed
        self._blocks = screen.layout.blocks
        self._serving_known, self._bits = 0, 0

    def serving_bits(self, left: int) -> int:
        """Return the resources of the blocks that have enough from slot ``left`` to the end of the window found last.

        It is that window's first slot, or a later one after :meth:`settle`.
        """
        serving = self._common & self._before[self._middle - left - 1]
        if serving != self._serving_known:
            raw = np.frombuffer(serving.to_bytes(-(-len(self._blocks) // 64) * 8), dtype=np.uint8)
            bits = 0
            for rank in np.unpackbits(raw).nonzero()[0].tolist():
                bits |= self._blocks[rank].bits
            self._serving_known, self._bits = serving, bits
        return self._bits

    def settle(self, left: int, right: int) -> None:
        """Get ready for all windows that begin in [left, right) and end with it."""
        self._meet(left, right)

    def _look_ahead(self, right: int) -> None:
        """Find the blocks that have enough of everything up to slot ``right`` and some way beyond."""
        first, last = self._known, min(right + _AHEAD, len(self._begins))
        if self._total or (self._partners is not None and self._partners.anything):
            numbers = self._numbers(first, last)
            serving = packed(numbers >= self._screen.least)
        else:
            numbers, serving = _NO_NUMBERS, self._table.serving(self._rows[first:last], self._screen)
        if self._allowed is not None:
            # amounts are looked up only where there are resources enough
            open_slots = (sizes(serving) >= self._need).nonzero()[0]
            serving[open_slots] &= self._allowed.serving(np.array(self._begins[first:last])[open_slots])
        if self._total:
            mask = np.unpackbits(serving.view(np.uint8), axis=1, count=numbers.shape[1])
            serving[(numbers * mask).sum(axis=1, dtype=np.int64) < self._total] = 0
        self._note(serving)

    def _numbers(self, first: int, last: int) -> Numbers:
        """Return the resources of each block that are free, or held by partners alone, in the slots [first, last)."""
        numbers = self._table.numbers(self._rows[first:last])
        if self._partners is not None and self._partners.anything:
            counter = self._screen.layout.counter
            for low, high, more in _slots_of(self._partners, self._begins, first, last):
                numbers[low:high] += counter.count(more).astype(numbers.dtype)
        return numbers


def _slots_of(partners: Pieces, begins: Sequence[float], first: int, last: int) -> list[tuple[int, int, int]]:
    """Return (first slot, end slot, resources) of what partners hold in [first, last), counted from ``first``."""
    end = begins[last] if last < len(begins) else inf
    return [
        (bisect_left(begins, left, first, last) - first, bisect_left(begins, right, first, last) - first, more)
        for left, right, more in partners.parts(begins[first], end)
        if more
    ]
