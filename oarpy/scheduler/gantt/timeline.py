"""A set of resources over time: the free resources of each period, from one instant on and for ever.

Time is cut into slots of constant content, and neighbouring slots are kept in chunks. Each chunk remembers the
resources that are free throughout it, and the resources still to be taken from its slots. So a job that covers a whole
chunk costs two operations there, both in a search and when it is entered. Core 2 is taken during [10, 25)::

    begins of slots   0         10        20          and then   0         10      20    25
    free cores        {1 2 3}   {1 2 3}   {2 3}                  {1 2 3}   {1 3}   {3}   {2 3}
    chunks            [ common: {2 3}         ]                  [ common: {3}               ]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import reduce
from itertools import accumulate
from math import inf
from operator import and_

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.free_counts import BlockTable, Rows
from oarpy.scheduler.gantt.slot_windows import BlockWindows, Windows
from oarpy.scheduler.resources.matching import Layout, RequestMatcher

_CHUNK = 20
"""The number of slots of a full chunk; a chunk that reaches twice as many is split."""

_ALL = -1

_MOST_TABLES = 3
"""The number of hierarchies whose blocks are counted slot by slot."""


class _Chunk:
    """Slots that follow each other.

    ``kept`` is still to be ANDed to each of ``free``. ``common`` are the resources free in all slots, ``kept``
    included.
    """

    __slots__ = ("begins", "common", "free", "kept")

    def __init__(self, begins: list[float], free: list[int], common: int) -> None:
        self.begins = begins
        self.free = free
        self.common = common
        self.kept = _ALL

    def copy(self) -> _Chunk:
        """Return an independent chunk of equal content."""
        twin = _Chunk(self.begins.copy(), self.free.copy(), self.common)
        twin.kept = self.kept
        return twin

    def settle(self) -> list[int]:
        """Bring ``free`` up to date and return it."""
        if self.kept != _ALL:
            kept = self.kept
            self.free = [bits & kept for bits in self.free]
            self.kept = _ALL
        return self.free

    def split(self) -> _Chunk:
        """Move the later half into a new chunk."""
        free, middle = self.settle(), len(self.free) // 2
        later = _Chunk(self.begins[middle:], free[middle:], _ALL)
        del self.begins[middle:], free[middle:]
        self.common, later.common = common_of(self.free), common_of(later.free)
        return later


def common_of(sets: list[int]) -> int:
    """Return the resources in every set; all resources if there is no set."""
    return reduce(and_, sets, _ALL)


class Timeline:
    """Slots of constant content. The first slot begins at ``origin``; earlier times do not exist.

    Every slot ends where the next begins; the last never ends. Beside the sets the timeline keeps the number of free
    resources of each slot. For each searched hierarchy, it also keeps a table of the free resources of each block.
    ``_rows`` are the rows of the slots in these tables, once there is a table.
    """

    __slots__ = ("_chunk_begins", "_chunks", "_counts", "_rows", "_tables", "begins")

    def __init__(self, origin: float, free: int) -> None:
        self.begins: list[float] = [origin]
        self._chunks = [_Chunk([origin], [free], free)]
        self._chunk_begins: list[float] = [origin]
        self._counts = np.full(64, free.bit_count(), dtype=np.int32)
        self._rows = np.zeros(64, dtype=np.int32)
        self._tables: dict[int, BlockTable] = {}

    def __len__(self) -> int:
        return len(self.begins)

    def copy(self) -> Timeline:
        """Return an independent timeline of equal content."""
        twin = Timeline(0, 0)
        twin.begins = self.begins.copy()
        twin._chunks = [chunk.copy() for chunk in self._chunks]
        twin._chunk_begins = self._chunk_begins.copy()
        twin._counts = self._counts.copy()
        return twin

    def remove(self, begin: float, end: float, bits: int, *, all_free: bool = False) -> None:
        """Take ``bits`` away during [begin, end); ``all_free`` says that they are known to be free throughout."""
        left, right = self._cut(begin, end)
        if left == right:
            return
        kept = ~bits
        slots_by_loss: dict[int, list[int]] = {}
        first = left
        rank, low = self._place(left)
        while left < right:
            chunk = self._chunks[rank]
            size = len(chunk.begins)
            high = min(size, low + right - left)
            if not all_free:
                _note_losses(slots_by_loss, chunk, low, high, left, bits)
            if high - low == size:
                chunk.kept &= kept
            else:
                chunk.free[low:high] = [other & kept for other in chunk.free[low:high]]
            chunk.common &= kept
            left += high - low
            rank, low = rank + 1, 0
        if all_free or len(slots_by_loss.get(bits, ())) == right - first:
            self._subtract(slice(first, right), bits)
        else:
            for loss, slots in slots_by_loss.items():
                self._subtract(slots, loss)

    def _subtract(self, slots: slice | list[int], bits: int) -> None:
        """Count ``bits`` as taken from some slots, which had all of them."""
        self._counts[slots] -= bits.bit_count()
        for table in self._tables.values():
            table.subtract(self._rows[slots], bits)

    def add(self, begin: float, end: float, bits: int) -> None:
        """Put ``bits`` in during [begin, end)."""
        left, right = self._cut(begin, end)
        for index in range(left, right):
            rank, low = self._place(index)
            chunk = self._chunks[rank]
            free = chunk.settle()
            free[low] |= bits
            chunk.common = common_of(free)
            self._counts[index] = free[low].bit_count()
            for table in self._tables.values():
                table.fill(int(self._rows[index]), free[low])

    def common(self, begin: float, end: float) -> int:
        """Return the resources free during the whole of [begin, end); ``begin`` is not before the origin."""
        rank = bisect_right(self._chunk_begins, begin) - 1
        last = bisect_left(self._chunk_begins, end) - 1
        chunk = self._chunks[rank]
        low = bisect_right(chunk.begins, begin) - 1
        if rank == last:
            return _part(chunk, low, bisect_left(chunk.begins, end))
        bits = _part(chunk, low, len(chunk.begins))
        for chunk in self._chunks[rank + 1 : last]:
            bits &= chunk.common
        chunk = self._chunks[last]
        return bits & _part(chunk, 0, bisect_left(chunk.begins, end))

    def after(self, instant: float) -> float | None:
        """Return the first beginning of a slot after ``instant``."""
        index = bisect_right(self.begins, instant)
        return self.begins[index] if index < len(self.begins) else None

    def first_fit(
        self, instant: float, hold: float, matcher: RequestMatcher, latest: float | None = None, within: int = _ALL
    ) -> tuple[float, int] | None:
        """Find the first date, ``instant`` or later, from which ``matcher`` is served for ``hold`` seconds.

        Return it with the resources to take, out of ``within``; None when there is none, or none before ``latest``.
        """
        begins = self.begins
        windows = self._windows(hold, inf if latest is None else latest, matcher)
        attempt = self._match if matcher.enough is None else self._count
        within &= matcher.usable
        window = windows.first(bisect_right(begins, instant) - 1, instant)
        while window is not None:
            left, start, right = window
            clear, bits = attempt(left, right, matcher, within)
            if bits:
                return start, bits
            window = windows.first(clear, begins[clear]) if clear < len(begins) else None
        return None

    def _count(self, left: int, right: int, matcher: RequestMatcher, within: int) -> tuple[int, int]:
        """Try the slots [left, right) for any resources; return the slot to go on with, and the resources to take."""
        clear, free = self._walk_back(left, right, matcher.enough or matcher.may_fit, within)
        return clear, matcher.match(free) if free else 0

    def _match(self, left: int, right: int, matcher: RequestMatcher, within: int) -> tuple[int, int]:
        """Serve any request by the slots [left, right): how far back is tested only once they are known to fail."""
        begins = self.begins
        end = begins[right] if right < len(begins) else inf
        if bits := matcher.match(within & self.common(begins[left], end)):
            return left, bits
        return max(left + 1, self._walk_back(left, right, matcher.may_fit, within)[0]), 0

    def _windows(self, hold: float, latest: float, matcher: RequestMatcher) -> Windows:
        """Return the windows to try: screened by blocks where that is possible, else by numbers of resources."""
        table = self._table(matcher.screen.layout) if matcher.screen else None
        if table is None or matcher.screen is None:
            return Windows(self.begins, self._counts[: len(self.begins)], hold, latest, matcher.least)
        return BlockWindows(self.begins, hold, latest, table, matcher.screen, self._rows[: len(self.begins)])

    def slots(self) -> tuple[list[float], list[int]]:
        """Return the begins of the slots, and the resources free in each."""
        return self.begins, [free for chunk in self._chunks for free in chunk.settle()]

    def counts(self) -> NDArray[np.int32]:
        """Return the number of free resources of each slot; it is valid until the next entry."""
        return self._counts[: len(self.begins)]

    def table(self, layout: Layout) -> tuple[BlockTable, Rows] | None:
        """Return the table of free resources of a layout's blocks, and the rows of the slots in it.

        Return None if too many tables are kept.
        """
        table = self._table(layout)
        return None if table is None else (table, self._rows[: len(self.begins)])

    def _table(self, layout: Layout) -> BlockTable | None:
        """Return the table for a layout; only some are kept, as each costs time whenever a job is entered."""
        key = id(layout)
        if key not in self._tables:
            if len(self._tables) == _MOST_TABLES:
                return None
            if not self._tables:
                self._rows = np.arange(len(self._counts), dtype=np.int32)
            table = self._tables[key] = BlockTable(layout, len(self._rows))
            place = 0
            for chunk in self._chunks:
                for free in chunk.settle():
                    table.fill(int(self._rows[place]), free)
                    place += 1
        return self._tables[key]

    def _walk_back(self, left: int, right: int, fits: Callable[[int], bool], within: int) -> tuple[int, int]:
        """Return the first slot from which all slots up to ``right`` may serve, and the common free resources.

        These are the resources of ``within`` that are free in all of them. Every window that begins later in [left,
        right) still covers the last of these slots. So no window that begins before the returned slot can serve.
        """
        bits = within
        rank, low = self._place(right - 1)
        high, place = low + 1, right
        while place > left:
            chunk = self._chunks[rank]
            low = max(0, high - (place - left))
            if high - low < len(chunk.begins) or not fits(narrowed := bits & chunk.common):
                # from the last slot backwards; the first entry is no slot
                shared = list(accumulate(reversed(chunk.free[low:high]), and_, initial=bits & chunk.kept))
                narrowed = shared[-1]
                if not fits(narrowed):
                    return place + 1 - bisect_left(shared, True, 1, key=lambda free: not fits(free)), 0
            bits = narrowed
            place -= high - low
            rank -= 1
            high = len(self._chunks[rank].begins)
        return left, bits

    def _place(self, index: int) -> tuple[int, int]:
        """Return the chunk of a slot and the slot's index there."""
        begin = self.begins[index]
        rank = bisect_right(self._chunk_begins, begin) - 1
        return rank, bisect_left(self._chunks[rank].begins, begin)

    def _cut(self, begin: float, end: float) -> tuple[int, int]:
        """Make ``begin`` and ``end`` boundaries; return the range of slots between them."""
        begin = max(begin, self.begins[0])
        if end <= begin:
            return 0, 0
        return self._boundary(begin), len(self.begins) if end == inf else self._boundary(end)

    def _boundary(self, instant: float) -> int:
        """Cut the slot that ``instant`` lies in, unless one begins there; return the slot that begins there."""
        index = bisect_left(self.begins, instant)
        size = len(self.begins)
        if index < size and self.begins[index] == instant:
            return index
        self.begins.insert(index, instant)
        if size == len(self._counts):
            self._counts = np.concatenate((self._counts, np.empty_like(self._counts)))
            self._rows = np.concatenate((self._rows, np.empty_like(self._rows)))
        self._counts[index + 1 : size + 1] = self._counts[index:size]
        self._counts[index] = self._counts[index - 1]
        if self._tables:
            self._rows[index + 1 : size + 1] = self._rows[index:size]
            self._rows[index] = size
            for table in self._tables.values():
                table.inherit(size, int(self._rows[index - 1]))
        rank = bisect_right(self._chunk_begins, instant) - 1
        chunk = self._chunks[rank]
        inner = bisect_left(chunk.begins, instant)
        chunk.begins.insert(inner, instant)
        chunk.free.insert(inner, chunk.free[inner - 1])
        if len(chunk.begins) >= 2 * _CHUNK:
            later = chunk.split()
            self._chunks.insert(rank + 1, later)
            self._chunk_begins.insert(rank + 1, later.begins[0])
        return index


def _note_losses(
    slots_by_loss: dict[int, list[int]], chunk: _Chunk, low: int, high: int, first: int, bits: int
) -> None:
    """Note which of ``bits`` the slots [low, high) of a chunk have and lose; ``first`` is the number of slot ``low``.

    Slots that have none of them lose nothing.
    """
    if _part(chunk, low, high) & bits == bits:
        slots_by_loss.setdefault(bits, []).extend(range(first, first + high - low))
        return
    for slot, free in enumerate(chunk.free[low:high], first):
        if loss := free & chunk.kept & bits:
            slots_by_loss.setdefault(loss, []).append(slot)


def _part(chunk: _Chunk, low: int, high: int) -> int:
    """Return the resources that are free in all of some slots of a chunk."""
    if high - low == len(chunk.begins):
        return chunk.common
    return reduce(and_, chunk.free[low:high], chunk.kept)
