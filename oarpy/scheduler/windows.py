"""Windows of slots that may serve a request, found without looking at the sets of free resources.

One object serves one search. Calls come with growing ``left``; what was looked up is remembered, as windows overlap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.matching import Screen
from oarpy.scheduler.tables import BlockTable, Rows

_AHEAD = 192
"""Slots whose counts are looked up at once."""
_BLOCKS_AHEAD = 64
"""Slots whose blocks are looked up at once."""


class Windows:
    """Windows of ``hold`` seconds without a wall: a slot with fewer than ``least`` free resources."""

    __slots__ = ("_begins", "_counts", "_hold", "_known", "_least", "_walls")

    def __init__(self, begins: Sequence[float], counts: NDArray[np.int32], hold: float, least: int) -> None:
        self._begins, self._counts, self._hold, self._least = begins, counts, hold, least
        self._known = 0
        self._walls: list[int] = []

    def first(self, left: int, start: float) -> tuple[int, float, int] | None:
        """Return the first window, from ``start`` in slot ``left`` on, as slot, date and slot behind it.

        None when there is none. A window begins at ``start`` or with a slot.
        """
        begins, hold = self._begins, self._hold
        if left > self._known:
            self._known, self._walls = left, []
        walls = self._walls
        while True:
            right = bisect_left(begins, start + hold, left)
            if right > self._known:
                self._look_ahead(right)
            place = bisect_left(walls, right)
            if not place or walls[place - 1] < left:
                return left, start, right
            left = walls[place - 1] + 1
            if left >= len(begins):
                return None
            start = begins[left]

    def _look_ahead(self, right: int) -> None:
        ahead = self._counts[self._known : right + _AHEAD] < self._least
        self._walls += (np.flatnonzero(ahead) + self._known).tolist()
        self._known += len(ahead)


class Screening:
    """Slots seen as the sets of the blocks that serve; too few blocks in common rule a window out."""

    __slots__ = ("_base", "_known", "_need", "_raw", "_rows", "_screen", "_sets", "_sets_base", "_table", "_walls")

    def __init__(self, table: BlockTable, screen: Screen, rows: Rows) -> None:
        self._table, self._screen, self._rows = table, screen, rows
        self._need = screen.need
        self._base = self._known = self._sets_base = 0
        self._walls: list[int] = []
        self._raw = bytearray()
        self._sets: list[int] = []

    def behind(self, left: int, right: int) -> int:
        """Return the first slot, ``left`` or later, from which enough blocks serve in common up to ``right``."""
        if left > self._known:
            self._base = self._known = left
            self._walls, self._raw = [], bytearray()
        if right > self._known:
            self._look_ahead(right)
        place = bisect_left(self._walls, right)
        if place and self._walls[place - 1] >= left:
            return self._walls[place - 1] + 1
        self._unpack(left, right)
        sets, base, need, blocks = self._sets, self._sets_base, self._need, -1
        for place in range(right - base - 1, left - base - 1, -1):
            blocks &= sets[place]
            if blocks.bit_count() < need:
                return base + place + 1
        return left

    def _look_ahead(self, right: int) -> None:
        packed = self._table.serving(self._rows[self._known : right + _BLOCKS_AHEAD], self._screen)
        serving = np.bitwise_count(packed).sum(axis=1, dtype=np.intp)
        self._walls += (np.flatnonzero(serving < self._need) + self._known).tolist()
        self._raw += packed.tobytes()
        self._known += len(packed)

    def _unpack(self, left: int, right: int) -> None:
        """Turn the slots of a window that are still bytes into sets."""
        if left >= self._sets_base + len(self._sets):
            self._sets_base, self._sets = left, []
        width = len(self._raw) // (self._known - self._base)
        first = (self._sets_base + len(self._sets) - self._base) * width
        raw = self._raw[first : (right - self._base) * width]
        self._sets += [int.from_bytes(raw[place : place + width], "little") for place in range(0, len(raw), width)]
