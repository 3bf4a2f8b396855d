"""How many resources of each block are free in each slot of a timeline: a quick screen for hierarchical requests.

A block that has enough free resources throughout a window has enough in each of its slots. A window that fails by this
need not be looked at resource by resource.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.matching import Layout, Screen

Rows = NDArray[np.int32]
Numbers = NDArray[np.integer]


class BlockTable:
    """One row per slot, kept at a place of its own for as long as the slot exists; rows are in no order."""

    __slots__ = ("_counter", "_numbers")

    def __init__(self, layout: Layout, capacity: int) -> None:
        self._counter = layout.counter
        largest = int(layout.counter.sizes.max())
        kind = np.uint8 if largest < 256 else np.int32
        self._numbers: Numbers = np.zeros((capacity, len(layout.blocks)), dtype=kind)

    def fill(self, row: int, free: int) -> None:
        """Count the free resources of one slot."""
        self._reach(row)
        self._numbers[row] = self._counter.count(free)

    def inherit(self, row: int, other: int) -> None:
        """Give a new slot the numbers of another."""
        self._reach(row)
        self._numbers[row] = self._numbers[other]

    def _reach(self, row: int) -> None:
        if row >= len(self._numbers):
            more: Numbers = np.zeros_like(self._numbers)
            self._numbers = np.concatenate((self._numbers, more))

    def subtract(self, rows: Rows, bits: int) -> None:
        """Take ``bits``, all of them free there, from some slots."""
        self._numbers[rows] -= self._counter.count(bits).astype(self._numbers.dtype)

    def serving(self, rows: Rows, screen: Screen) -> list[int]:
        """Return, for each of these rows, the set of the blocks that have enough."""
        packed = np.packbits(self._numbers[rows] >= screen.least, axis=1)
        raw, width = packed.tobytes(), packed.shape[1]
        return [int.from_bytes(raw[place : place + width], "little") for place in range(0, len(raw), width)]


_AHEAD = 48
"""Slots whose blocks are looked up at once."""


class Screening:
    """One search; remembers what it has looked up, as windows overlap."""

    __slots__ = ("_base", "_need", "_rows", "_screen", "_serving", "_table")

    def __init__(self, table: BlockTable, screen: Screen, rows: Rows) -> None:
        self._table, self._screen, self._rows = table, screen, rows
        self._need = screen.need
        self._base = 0
        self._serving: list[int] = []

    def behind(self, left: int, right: int) -> int:
        """Return the first slot, ``left`` or later, from which enough blocks serve in each slot before ``right``.

        Calls come with growing ``left``.
        """
        if left >= self._base + len(self._serving):
            self._base, self._serving = left, []
        serving, base, need = self._serving, self._base, self._need
        known = base + len(serving)
        if known < right:
            serving += self._table.serving(self._rows[known : right + _AHEAD], self._screen)
        blocks = -1
        for place in range(right - base - 1, left - base - 1, -1):
            blocks &= serving[place]
            if blocks.bit_count() < need:
                return base + place + 1
        return left


class Walls:
    """One search for at least ``least`` resources: the slots that have fewer, found as the search goes on."""

    __slots__ = ("_counts", "_found", "_known", "_least")

    def __init__(self, counts: NDArray[np.int32], least: int) -> None:
        self._counts, self._least = counts, least
        self._known = 0
        self._found: list[int] = []

    def behind(self, left: int, right: int) -> int:
        """Return the slot behind the last wall of [left, right), ``left`` when there is none.

        Calls come with growing ``left``.
        """
        if left > self._known:
            self._known, self._found = left, []
        if right > self._known:
            ahead = self._counts[self._known : right + _FAR_AHEAD] < self._least
            self._found += (np.flatnonzero(ahead) + self._known).tolist()
            self._known += len(ahead)
        place = bisect_left(self._found, right)
        return max(left, self._found[place - 1] + 1) if place else left


_FAR_AHEAD = 192
"""Slots whose counts are looked up at once."""
