"""A set of resources over time that is mostly empty: the resources held by partners, for jobs that share with them.

::

    begins   -inf   5     9       12
    sets     {}     {1}   {1 2}   {}

It is a plain list of pieces. A full timeline would cost more than the few pieces it holds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from math import inf


class Pieces:
    """Sets of resources, each from one instant to the next; before the first one the set is empty."""

    __slots__ = ("_begins", "_sets")

    def __init__(self) -> None:
        self._begins: list[float] = [-inf]
        self._sets: list[int] = [0]

    def copy(self) -> Pieces:
        """Return independent pieces of equal content."""
        twin = Pieces()
        twin._begins, twin._sets = self._begins.copy(), self._sets.copy()
        return twin

    @property
    def anything(self) -> bool:
        """True when the set was ever anything but empty."""
        return len(self._begins) > 1

    def parts(self, begin: float, end: float) -> Iterator[tuple[float, float, int]]:
        """Yield [begin, end) cut where the set changes, with the set in each part."""
        index = bisect_right(self._begins, begin) - 1
        while begin < end:
            index += 1
            until = min(end, self._begins[index]) if index < len(self._begins) else end
            yield begin, until, self._sets[index - 1]
            begin = until

    def add(self, begin: float, end: float, bits: int) -> None:
        """Put ``bits`` in during [begin, end)."""
        if bits and begin < end:
            for index in range(*self._cut(begin, end)):
                self._sets[index] |= bits

    def remove(self, begin: float, end: float, bits: int) -> None:
        """Take ``bits`` out during [begin, end)."""
        if begin < end and any(more & bits for _, _, more in self.parts(begin, end)):
            for index in range(*self._cut(begin, end)):
                self._sets[index] &= ~bits

    def _cut(self, begin: float, end: float) -> tuple[int, int]:
        """Make ``begin`` and ``end`` boundaries; return the range of pieces between them."""
        return self._boundary(begin), len(self._begins) if end == inf else self._boundary(end)

    def _boundary(self, instant: float) -> int:
        """Make ``instant`` the beginning of a piece; return which one."""
        index = bisect_left(self._begins, instant)
        if index == len(self._begins) or self._begins[index] != instant:
            self._begins.insert(index, instant)
            self._sets.insert(index, self._sets[index - 1])
        return index
