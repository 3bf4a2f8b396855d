"""How many resources of each block are free in each slot of a timeline: a quick screen for hierarchical requests.

A block that has enough free resources throughout a window has enough in each of its slots. A window that fails by this
need not be looked at resource by resource.
"""

from __future__ import annotations

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

    def serving(self, rows: Rows, screen: Screen) -> NDArray[np.uint8]:
        """Return, for each of these rows, the set of the blocks that have enough, packed into bytes."""
        return np.packbits(self._numbers[rows] >= screen.least, axis=1)
