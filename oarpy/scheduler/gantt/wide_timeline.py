"""The timeline of a large machine: it answers from gaps where it can, else from slots.

Entries are written to a log. Gaps and slots are brought up to date only when they are read. So a pass pays for what its
jobs need. That is usually the gaps alone, whose cost depends on the number of jobs, not of cores.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.free_counts import BlockTable, Rows
from oarpy.scheduler.gantt.gap_search import BlocksOfWords, first_date_of_blocks, first_date_of_resources, horizons
from oarpy.scheduler.gantt.gaps import Gaps, Words, bits_of, words_of
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.resources.bit_sets import lowest
from oarpy.scheduler.resources.matching import Layout, RequestMatcher

_ALL = -1

_MANY = 32_768
"""Resources from which gaps are faster than slots."""


class WideTimeline:
    """Same as :class:`~oarpy.scheduler.gantt.timeline.Timeline`, for very many resources."""

    __slots__ = (
        "_blocks",
        "_count",
        "_everything",
        "_gaps",
        "_in_gaps",
        "_in_slots",
        "_last",
        "_log",
        "_slots",
        "_usable",
        "begins",
    )

    def __init__(self, origin: float, free: int) -> None:
        self.begins: list[float] = [origin]
        self._everything = free
        self._slots = Timeline(origin, free)
        self._gaps: Gaps | None = Gaps(origin, free)
        self._count = self._gaps.count
        self._log: list[tuple[float, float, int, bool]] = []
        """The log of entries; the gaps include its first ``_in_gaps`` entries, the slots the first ``_in_slots``."""
        self._in_gaps = self._in_slots = 0
        self._usable: dict[RequestMatcher, Words | None] = {}
        self._blocks: dict[Layout, BlocksOfWords] = {}
        self._last: tuple[int, Words] = 0, np.zeros(0, dtype=np.uint64)
        """The set found last, also as words: it is usually entered next."""

    def __len__(self) -> int:
        return len(self.begins)

    def copy(self) -> WideTimeline:
        """Return an independent timeline of equal content."""
        twin = object.__new__(WideTimeline)
        twin.begins, twin._everything, twin._count = self.begins.copy(), self._everything, self._count
        twin._slots, twin._gaps = self._slots.copy(), self._gaps and self._gaps.copy()
        twin._log, twin._in_gaps, twin._in_slots = self._log.copy(), self._in_gaps, self._in_slots
        twin._usable, twin._blocks, twin._last = self._usable, self._blocks, self._last
        if twin._gaps is None:
            twin.begins = twin._slots.begins
        return twin

    def remove(self, begin: float, end: float, bits: int, *, all_free: bool = False) -> None:
        """Take ``bits`` away during [begin, end); ``all_free`` says that they are known to be free throughout."""
        begin = max(begin, self.begins[0])
        if self._gaps is None:
            self._slots.remove(begin, end, bits, all_free=all_free)
        elif begin < end:
            self._bound(begin)
            self._bound(end)
            self._log.append((begin, end, bits, all_free))

    def _bound(self, instant: float) -> None:
        """Let a slot begin at an instant."""
        place = bisect_left(self.begins, instant)
        if instant < inf and (place == len(self.begins) or self.begins[place] != instant):
            self.begins.insert(place, instant)

    def add(self, begin: float, end: float, bits: int) -> None:
        """Put ``bits`` in during [begin, end). Slots alone are kept from then on."""
        self._slots_now().add(begin, end, bits)
        self.begins = self._slots.begins
        self._gaps = None

    def common(self, begin: float, end: float) -> int:
        """Return the resources free during the whole of [begin, end); ``begin`` is not before the origin."""
        if self._gaps is None or self._in_slots > self._in_gaps:
            return self._slots_now().common(begin, end)
        return bits_of(self._gaps_now(self._gaps).common(begin, end))

    def after(self, instant: float) -> float | None:
        """Return the first beginning of a slot after ``instant``."""
        index = bisect_right(self.begins, instant)
        return self.begins[index] if index < len(self.begins) else None

    def slots(self) -> tuple[list[float], list[int]]:
        """Return the begins of the slots, and the resources free in each."""
        return self._slots_now().slots()

    def counts(self) -> NDArray[np.int32]:
        """Return the number of free resources of each slot; it is valid until the next entry."""
        return self._slots_now().counts()

    def table(self, layout: Layout) -> tuple[BlockTable, Rows] | None:
        """Return the table of free resources of a layout's blocks, and the rows of the slots in it.

        Return None if too many tables are kept.
        """
        return self._slots_now().table(layout)

    def first_fit(
        self, instant: float, hold: float, matcher: RequestMatcher, latest: float | None = None, within: int = _ALL
    ) -> tuple[float, int] | None:
        """Find the first date, ``instant`` or later, from which ``matcher`` is served for ``hold`` seconds.

        Return it with the resources to take, out of ``within``; None when there is none, or none before ``latest``.
        """
        if self._gaps is None or within != _ALL or (matcher.enough is None and matcher.screen is None):
            return self._slots_now().first_fit(instant, hold, matcher, latest, within)
        gaps = self._gaps_now(self._gaps)
        while (start := self._first_date(gaps, matcher, hold, instant)) is not None:
            if latest is not None and start >= latest:
                return None
            free = gaps.common(start, start + hold)
            if bits := self._serve(matcher, free):
                return instant if start == instant else self.begins[bisect_left(self.begins, start)], bits
            after = self.after(start)
            if after is None:
                return None
            instant = after
        return None

    def _first_date(self, gaps: Gaps, matcher: RequestMatcher, hold: float, instant: float) -> float | None:
        """Return the first date at which the gaps may serve a request."""
        ahead = horizons(self.begins, bisect_right(self.begins, instant) - 1)
        if matcher.screen is None:
            return first_date_of_resources(gaps, self._usable_of(matcher), matcher.least, hold, instant, ahead)
        layout = matcher.screen.layout
        if layout not in self._blocks:
            self._blocks[layout] = BlocksOfWords(layout, self._count)
        return first_date_of_blocks(gaps, self._blocks[layout], matcher.screen, hold, instant, ahead)

    def _serve(self, matcher: RequestMatcher, free: Words) -> int:
        """Return the free resources that a request takes, 0 if it is not served."""
        if matcher.screen is not None:
            return matcher.match(bits_of(free))
        usable = self._usable_of(matcher)
        if usable is not None:
            free &= usable
        there = np.bitwise_count(free).cumsum(dtype=np.int64)
        if there[-1] < matcher.least:
            return 0
        last = int(there.searchsorted(matcher.least))
        free[last + 1 :] = 0
        excess = int(there[last]) - matcher.least
        if excess:
            word = int(free[last])
            free[last] = lowest(word, word.bit_count() - excess)
        bits = bits_of(free[: last + 1])
        self._last = bits, free
        return bits

    def _usable_of(self, matcher: RequestMatcher) -> Words | None:
        """Return the resources that a request may use, None for all."""
        if matcher not in self._usable:
            usable = self._everything & matcher.usable
            self._usable[matcher] = None if usable == self._everything else words_of(usable, self._count)
        return self._usable[matcher]

    def _gaps_now(self, gaps: Gaps) -> Gaps:
        """Return the gaps with all that was entered."""
        known, words = self._last
        for begin, end, bits, all_free in self._log[self._in_gaps :]:
            if there := bits & self._everything:
                taken = words if bits is known else words_of(there, self._count)
                gaps.remove(begin, end, taken, all_free=all_free)
        self._in_gaps = len(self._log)
        return gaps

    def _slots_now(self) -> Timeline:
        """Return the slots with all that was entered."""
        for begin, end, bits, all_free in self._log[self._in_slots :]:
            self._slots.remove(begin, end, bits, all_free=all_free)
        self._in_slots = len(self._log)
        return self._slots


AnyTimeline: TypeAlias = Timeline | WideTimeline


def timeline_of(origin: float, free: int) -> AnyTimeline:
    """Return a timeline of the kind that suits the number of resources."""
    return WideTimeline(origin, free) if free.bit_count() >= _MANY else Timeline(origin, free)
