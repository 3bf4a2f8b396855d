"""How many resources of each block are free in each slot of a timeline: a quick screen for hierarchical requests.

A block that has enough free resources throughout a window has enough in each of its slots. A window that fails by this
need not be looked at resource by resource. A job wants two cores of one node for three slots::

    slot             0       1       2
    free on node 1   4       1       4
    free on node 2   2       2       0
    nodes with two   {1 2}   {2}     {1}      none is in all three: the window fails
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.resources.matching import Layout, Screen

Rows = NDArray[np.int32]
_WORD = 64
Numbers = NDArray[np.integer]
Packed = NDArray[np.uint64]
"""A set of blocks a row, in whole machine words."""


class BlockTable:
    """One row per slot, kept at a place of its own for as long as the slot exists; rows are in no order.

    Rows are filled up with blocks without resources, which serve nothing, to whole machine words of blocks.
    """

    __slots__ = ("_blocks", "_counter", "_numbers")

    def __init__(self, layout: Layout, capacity: int) -> None:
        self._counter = layout.counter
        largest = int(layout.counter.sizes.max())
        kind = np.uint8 if largest < 256 else np.int32
        self._blocks = len(layout.blocks)
        width = -(-self._blocks // _WORD) * _WORD
        self._numbers: Numbers = np.zeros((capacity, width), dtype=kind)

    def fill(self, row: int, free: int) -> None:
        """Count the free resources of one slot."""
        self._reach(row)
        self._numbers[row, : self._blocks] = self._counter.count(free)

    def inherit(self, row: int, other: int) -> None:
        """Give a new slot the numbers of another."""
        self._reach(row)
        self._numbers[row] = self._numbers[other]

    def _reach(self, row: int) -> None:
        """Make room for a row."""
        if row >= len(self._numbers):
            more: Numbers = np.zeros_like(self._numbers)
            self._numbers = np.concatenate((self._numbers, more))

    def subtract(self, rows: Rows, bits: int) -> None:
        """Take ``bits``, all of them free there, from some slots."""
        amounts = np.zeros(self._numbers.shape[1], dtype=self._numbers.dtype)
        amounts[: self._blocks] = self._counter.count(bits)
        self._numbers[rows] -= amounts

    def numbers(self, rows: Rows) -> Numbers:
        """Return the free resources of each block in these slots; the caller may change the returned array."""
        return self._numbers[rows, : self._blocks]

    def serving(self, rows: Rows, screen: Screen) -> Packed:
        """Return, for each of these rows, the set of the blocks that have enough, packed into words."""
        least = screen.least
        if not isinstance(least, int):
            least = np.append(least, np.ones(self._numbers.shape[1] - self._blocks, dtype=np.int64))
        enough = self._numbers.take(rows, axis=0) >= least
        return np.packbits(enough.ravel()).view(np.uint64).reshape(len(rows), -1)


def packed(enough: NDArray[np.bool_]) -> Packed:
    """Return the blocks (columns) that have enough as one set a row."""
    serving = np.zeros((len(enough), -(-enough.shape[1] // _WORD) * _WORD // 8), dtype=np.uint8)
    serving[:, : -(-enough.shape[1] // 8)] = np.packbits(enough, axis=1)
    return serving.view(np.uint64)


def sizes(serving: Packed) -> NDArray[np.int32]:
    """Return how many blocks each set has."""
    counts: NDArray[np.int32] = np.add.reduce(np.bitwise_count(serving), axis=1, dtype=np.int32)
    return counts
