"""Windows of slots that may serve a request, found without looking at the sets of free resources.

One object serves one search. Calls come with growing ``left``; looked-up values are remembered, as windows overlap. Two
resources are wanted for the time of three slots. A slot with fewer is a wall::

    slot        0   1   2   3   4   5
    free        3   1   2   2   4   0
    wall            #               #
    windows     [ . . . ]                 has a wall: go on behind the last one
                        [ . . . ]         the first window without
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from operator import and_

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.free_counts import BlockTable, Packed, Rows, sizes
from oarpy.scheduler.resources.matching import Screen

_AHEAD = 192
"""The number of slots whose counts are looked up at once."""
_BLOCKS_AHEAD = 96
"""The number of slots whose blocks are looked up at once."""

_NO_COUNTS = np.zeros(0, dtype=np.int32)

Window = tuple[int, float, int]
"""First slot, date in that slot, slot behind the last one."""


class Windows:
    """Windows of ``hold`` seconds without a wall: a slot with fewer than ``least`` free resources.

    Windows begin before ``latest``.
    """

    __slots__ = ("_begins", "_counts", "_hold", "_known", "_latest", "_least", "_walls")

    def __init__(
        self, begins: Sequence[float], counts: NDArray[np.int32], hold: float, latest: float, least: int
    ) -> None:
        self._begins, self._counts, self._hold, self._latest, self._least = begins, counts, hold, latest, least
        self._known = 0
        self._walls: list[int] = []

    def first(self, left: int, start: float) -> Window | None:
        """Return the first window from ``start``, which lies in slot ``left``, on; None when there is none.

        A window begins at ``start`` or with a slot.
        """
        begins, hold, latest = self._begins, self._hold, self._latest
        if left > self._known:
            self._forget(left)
        walls, end, size = self._walls, start + hold, len(begins)
        place = bisect_left(walls, left)
        while True:
            for wall in walls[place:]:
                if begins[wall] >= end:
                    return (left, start, bisect_left(begins, end, left, wall)) if start < latest else None
                left = wall + 1
                if left == size:
                    return None
                start = begins[left]
                end = start + hold
            right = bisect_left(begins, end, left)
            if start >= latest or right <= self._known:
                return (left, start, right) if start < latest else None
            place = len(walls)
            self._look_ahead(right)

    def _forget(self, left: int) -> None:
        """Look up again from slot ``left`` on."""
        self._known, self._walls = left, []

    def _look_ahead(self, right: int) -> None:
        """Find the walls up to slot ``right`` and some way beyond."""
        ahead = self._counts[self._known : right + _AHEAD] < self._least
        self._walls += (ahead.nonzero()[0] + self._known).tolist()
        self._known += len(ahead)


class BlockWindows(Windows):
    """Windows throughout which enough blocks of a layout have enough free resources in each slot.

    A slot is the set of the blocks that serve in it. A window consists of two runs of slots that meet at ``_middle``.
    ``_common`` is the intersection of the slots behind it. ``_before`` has the intersection of the slots before it, for
    each beginning. So testing the next window takes a few operations, however long it is::

            left                 _middle               right
              |----- _before ------|------ _common -----|        serves when both share enough blocks
    """

    __slots__ = (
        "_base",
        "_before",
        "_common",
        "_end",
        "_middle",
        "_need",
        "_packed",
        "_packed_base",
        "_rows",
        "_screen",
        "_sets",
        "_table",
    )

    def __init__(
        self, begins: Sequence[float], hold: float, latest: float, table: BlockTable, screen: Screen, rows: Rows
    ) -> None:
        super().__init__(begins, _NO_COUNTS, hold, latest, 0)
        self._table, self._screen, self._rows = table, screen, rows
        self._need = screen.need
        self._packed: list[bytes] = []
        self._packed_base = 0
        self._sets: list[int] = []
        self._base = 0
        self._middle = self._end = 0
        self._common = -1
        self._before: list[int] = []

    def first(self, left: int, start: float) -> Window | None:
        """Return the first window from ``start``, which lies in slot ``left``, on; None when there is none."""
        while (window := super().first(left, start)) is not None:
            clear = self._behind(window[0], window[2])
            if clear == window[0]:
                return window
            left, start = clear, self._begins[clear]
        return None

    def _forget(self, left: int) -> None:
        """Look up again from slot ``left`` on."""
        super()._forget(left)
        self._packed, self._packed_base = [], left

    def _look_ahead(self, right: int) -> None:
        """Find the blocks that serve, and so the walls, up to slot ``right`` and some way beyond."""
        self._note(self._table.serving(self._rows[self._known : right + _BLOCKS_AHEAD], self._screen))

    def _note(self, serving: Packed) -> None:
        """Add the next slots, each as the set of the blocks that serve."""
        self._walls += ((sizes(serving) < self._need).nonzero()[0] + self._known).tolist()
        self._packed += serving.view(f"V{8 * serving.shape[1]}").ravel().tolist()
        self._known += len(serving)

    def _behind(self, left: int, right: int) -> int:
        """Return the first slot, ``left`` or later, from which enough blocks serve in common up to ``right``."""
        if left >= self._middle:
            return self._meet(left, right)
        sets, base = self._unpacked(left, right), self._base
        self._common = reduce(and_, sets[self._end - base : right - base], self._common)
        self._end = right
        if self._common.bit_count() < self._need:
            return self._meet(left, right)
        return self._middle - self._serving(self._middle - left)

    def _meet(self, left: int, right: int) -> int:
        """Let the runs meet at ``right``; return the first slot from which the run before ``right`` serves."""
        sets, base = self._unpacked(left, right), self._base
        self._before = list(accumulate(sets[right - base - 1 : left - base - 1 if left > base else None : -1], and_))
        self._common = -1
        self._middle = self._end = right
        return right - self._serving(right - left)

    def _serving(self, most: int) -> int:
        """Return how many slots before ``_middle``, ``most`` at most, serve together with all behind it."""
        before, common, need = self._before, self._common, self._need
        if (common & before[most - 1]).bit_count() >= need:
            return most
        serving = 0
        while serving < most:
            half = (serving + most) // 2
            if (common & before[half]).bit_count() < need:
                most = half
            else:
                serving = half + 1
        return serving

    def _unpacked(self, left: int, right: int) -> list[int]:
        """Return the slots as sets; the first one is slot ``_base``, ``right`` is behind the last one at most."""
        if left > self._base + len(self._sets):
            self._base, self._sets = left, []
        known = self._base + len(self._sets)
        if right > known:
            packed = self._packed[known - self._packed_base : right - self._packed_base]
            self._sets += map(int.from_bytes, packed)
        return self._sets
