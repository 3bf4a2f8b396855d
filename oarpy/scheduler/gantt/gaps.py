"""The free times of resources: a table of gaps, each row with at most 64 neighbouring resources and a free interval.

On a large machine a window has hundreds of slots, and a slot has a bit for each core. But few resources change hands at
a time, so there are few rows. Core 2 of four is taken during [10, 25)::

    word   begin   end   cores                word   begin   end   cores
    0      0       inf   {1 2 3 4}            0      0       inf   {1 3 4}
                                              0      0       10    {2}
                                              0      25      inf   {2}

A gap is as long as it can be. At any time a resource is in at most one row, and it serves a window if that row covers
the window. Gaps shorter than every request so far are set aside.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WORD = 64
"""Resources of a row at most."""

Words = NDArray[np.uint64]
"""A set of resources as machine words."""
Dates = NDArray[np.float64]
Places = NDArray[np.intp]

_ROOM = 256
"""Rows for which there is room at first."""


def words_of(bits: int, count: int) -> Words:
    """Return a set as ``count`` words."""
    return np.frombuffer(bits.to_bytes(count * 8, "little"), dtype=np.uint64)


def bits_of(words: Words) -> int:
    """Return words as a set.

    >>> bin(bits_of(words_of(0b101, 2)))
    '0b101'
    """
    return int.from_bytes(words.tobytes(), "little")


class GapRows(NamedTuple):
    """Some gaps: from when (``begins``) to when (``ends``) which (``masks``) resources of which word are free."""

    begins: Dates
    ends: Dates
    words: Places
    masks: Words

    def pick(self, which: NDArray[np.bool_] | slice) -> GapRows:
        """Return some of the rows."""
        return GapRows(self.begins[which], self.ends[which], self.words[which], self.masks[which])


class Gaps:
    """The gaps of resources that are all free from ``origin`` on; each entry takes resources away."""

    __slots__ = ("_aside", "_begins", "_ends", "_masks", "_shortest", "_size", "_words", "count")

    def __init__(self, origin: float, free: int) -> None:
        self.count = max(1, -(-free.bit_length() // WORD))
        masks = words_of(free, self.count)
        words = masks.nonzero()[0]
        self._begins, self._ends = np.empty(_ROOM), np.empty(_ROOM)
        self._words, self._masks = np.empty(_ROOM, dtype=np.intp), np.empty(_ROOM, dtype=np.uint64)
        self._size = 0
        self._shortest = 0.0
        self._aside: list[GapRows] = []
        self._append(GapRows(np.full(len(words), origin), np.full(len(words), inf), words, masks[words]))

    def copy(self) -> Gaps:
        """Return independent gaps of equal content."""
        twin = object.__new__(Gaps)
        twin.count, twin._size, twin._shortest = self.count, self._size, self._shortest
        twin._begins, twin._ends = self._begins.copy(), self._ends.copy()
        twin._words, twin._masks = self._words.copy(), self._masks.copy()
        twin._aside = self._aside.copy()
        return twin

    def chances(self, hold: float, earliest: float, horizon: float) -> GapRows:
        """Return the gaps in which ``hold`` seconds may pass that begin between ``earliest`` and ``horizon``."""
        self._admit(hold)
        near = (self._begins[: self._size] <= horizon).nonzero()[0]
        begins, ends = self._begins.take(near), self._ends.take(near)
        long = ((ends >= earliest + hold) & (ends - begins >= hold)).nonzero()[0]
        near = near[long]
        return GapRows(begins[long], ends[long], self._words.take(near), self._masks.take(near))

    def common(self, begin: float, end: float) -> Words:
        """Return the resources that are free during the whole of [begin, end)."""
        free = np.zeros(self.count, dtype=np.uint64)
        _unite(free, GapRows(self._begins, self._ends, self._words, self._masks).pick(slice(self._size)), begin, end)
        if end - begin < self._shortest:
            for rows in self._aside:
                _unite(free, rows, begin, end)
        return free

    def remove(self, begin: float, end: float, taken: Words, *, all_free: bool) -> None:
        """Take resources away during [begin, end); ``all_free`` says that they are known to be free throughout."""
        if end - begin < self._shortest or not all_free:
            self._recall()
        begins, ends = self._begins[: self._size], self._ends[: self._size]
        if all_free:
            rows = ((begins <= begin) & (ends >= end)).nonzero()[0]
        else:
            rows = ((begins < end) & (ends > begin)).nonzero()[0]
        masks = self._masks.take(rows) & taken.take(self._words.take(rows))
        hit = masks.nonzero()[0]
        rows, masks = rows[hit], masks[hit]
        old = self._rows(rows)
        self._masks[rows] = old.masks ^ masks
        left, right = (old.begins < begin).nonzero()[0], (old.ends > end).nonzero()[0]
        count = len(left)
        begins, ends = np.empty(count + len(right)), np.empty(count + len(right))
        begins[:count], begins[count:] = old.begins[left], end
        ends[:count], ends[count:] = begin, old.ends[right]
        both = np.concatenate((left, right))
        fresh = GapRows(begins, ends, old.words[both], masks[both])
        self._replace(rows[old.masks == masks], fresh)

    def _admit(self, hold: float) -> None:
        """Take back the gaps set aside if a time this long is shorter than all requests so far."""
        if not self._shortest or hold < self._shortest:
            self._shortest = hold
            self._recall()

    def _recall(self) -> None:
        """Take back the gaps that were set aside."""
        aside, self._aside = self._aside, []
        for rows in aside:
            self._append(rows)

    def _rows(self, which: Places) -> GapRows:
        """Return some of the rows."""
        return GapRows(
            self._begins.take(which), self._ends.take(which), self._words.take(which), self._masks.take(which)
        )

    def _replace(self, empty: Places, fresh: GapRows) -> None:
        """Put new rows in the place of empty rows, then behind the last row; short rows are set aside."""
        long = fresh.ends - fresh.begins >= self._shortest
        if not long.all():
            self._aside.append(fresh.pick(~long))
            fresh = fresh.pick(long)
        count = min(len(empty), len(fresh.begins))
        self._put(empty[:count], fresh.pick(slice(count)))
        self._ends[empty[count:]] = -inf
        self._append(fresh.pick(slice(count, None)))

    def _append(self, rows: GapRows) -> None:
        """Add rows behind the last one."""
        size = self._size + len(rows.begins)
        if size > len(self._begins):
            self._tidy(len(rows.begins))
            size = self._size + len(rows.begins)
        self._put(slice(self._size, size), rows)
        self._size = size

    def _put(self, where: Places | slice, rows: GapRows) -> None:
        """Write rows."""
        self._begins[where], self._ends[where] = rows.begins, rows.ends
        self._words[where], self._masks[where] = rows.words, rows.masks

    def _tidy(self, more: int) -> None:
        """Drop empty rows, set short rows aside, and make room for ``more`` rows."""
        lengths = self._ends[: self._size] - self._begins[: self._size]
        short = ((lengths < self._shortest) & (lengths > 0)).nonzero()[0]
        if len(short):
            self._aside.append(self._rows(short))
        kept = self._rows(((lengths >= self._shortest) & (lengths > 0)).nonzero()[0])
        room = len(self._begins)
        while room < 2 * (len(kept.begins) + more):
            room *= 2
        self._begins, self._ends = np.empty(room), np.empty(room)
        self._words, self._masks = np.empty(room, dtype=np.intp), np.empty(room, dtype=np.uint64)
        self._size = len(kept.begins)
        self._put(slice(0, self._size), kept)


def _unite(free: Words, rows: GapRows, begin: float, end: float) -> None:
    """Add the resources to a set that the rows have free during the whole of [begin, end)."""
    cover = ((rows.begins <= begin) & (rows.ends >= end)).nonzero()[0]
    np.bitwise_or.at(free, rows.words.take(cover), rows.masks.take(cover))
