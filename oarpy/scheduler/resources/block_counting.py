"""Counting the free resources of many blocks at once, by operations on whole arrays.

A search asks this for every slot of a timeline: one Python loop over the nodes of a cluster would be too slow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.resources.bit_sets import positions

Counts = NDArray[np.int64] | NDArray[np.uint8]
_WORDS = ((64, np.uint64), (32, np.uint32), (16, np.uint16), (8, np.uint8))


class BlockCounter:
    """Counts, for each of some disjoint sets, how many of its members are in a given set.

    Whole nodes of 8, 16, 32 or 64 cores, listed one after the other, are runs of whole machine words. When every set is
    such a run, words are counted; otherwise members.
    """

    def __init__(self, sets: Sequence[int]) -> None:
        members = [positions(bits) for bits in sets]
        self.union = 0
        for bits in sets:
            self.union |= bits
        self._bytes = -(-self.union.bit_length() // 64) * 8
        self._word: type[np.unsignedinteger] | None = None
        self._order = np.array([place for places in members for place in places], dtype=np.intp)
        sizes = np.array([len(places) for places in members])
        self._offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self.sizes: Counts = sizes.astype(np.int64)
        self._choose_words(members)

    def _choose_words(self, members: Sequence[Sequence[int]]) -> None:
        """Find the widest machine word that every set is a run of, if there is one, and where its words lie."""
        runs = all(places[-1] - places[0] + 1 == len(places) for places in members)
        for width, word in _WORDS:
            if runs and all(places[0] % width == 0 and len(places) % width == 0 for places in members):
                self._word = word
                words = [place // width for places in members for place in places[::width]]
                self._order = np.array(words, dtype=np.intp)
                self._offsets = np.concatenate(([0], np.cumsum(self.sizes // width)[:-1])).astype(np.intp)
                break
        self._one_word_each = len(self._order) == len(self.sizes)
        length = self._bytes * 8 // (np.dtype(self._word).itemsize * 8 if self._word else 1)
        self._in_order = len(self._order) == length and bool((self._order == np.arange(length)).all())

    @property
    def in_words(self) -> bool:
        """True when each set is one machine word."""
        return self._word is not None and self._one_word_each

    def _raw(self, free: int) -> NDArray[np.unsignedinteger]:
        """Return the members in ``free`` as machine words, or as bytes."""
        return np.frombuffer((free & self.union).to_bytes(self._bytes, "little"), dtype=self._word or np.uint8)

    def lowest(self, free: int, ranks: NDArray[np.intp], count: int | None) -> int:
        """Return the ``count`` lowest members in ``free`` of each of some sets that have as many, or all; in words."""
        words = self._raw(free)
        places = self._order[ranks]
        left = there = words[places]
        if count is not None:
            for _ in range(count):
                left = left & (left - words.dtype.type(1))
            there = there ^ left
        taken = np.zeros_like(words)
        taken[places] = there
        return int.from_bytes(taken.tobytes(), "little")

    def count(self, free: int) -> Counts:
        """Return the number of members in ``free``, set by set."""
        raw = self._raw(free)
        amounts: NDArray[np.uint8] = np.bitwise_count(raw) if self._word else np.unpackbits(raw, bitorder="little")
        if not self._in_order:
            amounts = amounts[self._order]
        return amounts if self._one_word_each else np.add.reduceat(amounts, self._offsets, dtype=np.int64)

    def at_least(self, free: int, least: Counts | int) -> NDArray[np.bool_]:
        """Tell, set by set, whether ``least`` members are in ``free``."""
        flags: NDArray[np.bool_] = self.count(free) >= least
        return flags
