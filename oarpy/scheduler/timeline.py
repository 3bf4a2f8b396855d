"""A set of resources over time: what is free in each period, from one instant on and for ever."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Timeline:
    """Slots of constant content. The first one begins at ``origin``; earlier times do not exist.

    Every slot ends where the next begins, the last one never.
    """

    __slots__ = ("begins", "free")

    def __init__(self, origin: float, free: int) -> None:
        self.begins: list[float] = [origin]
        self.free: list[int] = [free]

    def __len__(self) -> int:
        return len(self.begins)

    def copy(self) -> Timeline:
        """Return an independent timeline of equal content."""
        twin = Timeline(0, 0)
        twin.begins = self.begins.copy()
        twin.free = self.free.copy()
        return twin

    def remove(self, begin: float, end: float, bits: int) -> None:
        """Take ``bits`` away during [begin, end)."""
        left, right = self._cut(begin, end)
        kept = ~bits
        free = self.free
        for index in range(left, right):
            free[index] &= kept

    def add(self, begin: float, end: float, bits: int) -> None:
        """Put ``bits`` in during [begin, end)."""
        left, right = self._cut(begin, end)
        free = self.free
        for index in range(left, right):
            free[index] |= bits

    def common(self, begin: float, end: float) -> int:
        """Return what is free during the whole of [begin, end); ``begin`` is not before the origin."""
        left = bisect_right(self.begins, begin) - 1
        right = bisect_left(self.begins, end)
        bits = self.free[left]
        for index in range(left + 1, right):
            bits &= self.free[index]
        return bits

    def after(self, instant: float) -> float | None:
        """Return the first beginning of a slot after ``instant``."""
        index = bisect_right(self.begins, instant)
        return self.begins[index] if index < len(self.begins) else None

    def _cut(self, begin: float, end: float) -> tuple[int, int]:
        """Make ``begin`` and ``end`` boundaries; return the range of slots between them."""
        begin = max(begin, self.begins[0])
        if end <= begin:
            return 0, 0
        return self._boundary(begin), self._boundary(end)

    def _boundary(self, instant: float) -> int:
        index = bisect_left(self.begins, instant)
        if index == len(self.begins) or self.begins[index] != instant:
            self.begins.insert(index, instant)
            self.free.insert(index, self.free[index - 1])
        return index
