"""The first date from which enough resources, or enough blocks, are free long enough: read off the gaps.

A gap serves all windows that begin between its begin and its end less the time held. So each gives resources at one date
and takes them back after another one. Summed up in the order of dates, that is how many serve a window that begins then.
Two cores are wanted for 10 seconds::

    gap     core 1 [0, 30)     core 2 [5, 12)     core 3 [15, inf)
    serves  [0, 20]            never              [15, inf)
    sum     0: one             15: two            20: one            the first date is 15

For blocks the same is done in each of them, and then with the blocks that have enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.gaps import WORD, Dates, Gaps, Places, Rows, Words, words_of
from oarpy.scheduler.resources.block_counting import Counts
from oarpy.scheduler.resources.matching import Layout, Screen

_AHEAD = 64
"""Slots whose gaps are looked at first; each further look has four times as many."""
_LOOSE = 1e-3
"""Seconds by which a gap may be too short: sums of dates are rounded, and what is found is tested anyway."""

Numbers = NDArray[np.int64]


class BlocksOfWords:
    """Which resources of each word are in which block of a layout; a part is what a word and a block share."""

    __slots__ = ("_blocks", "_firsts", "_masks", "_parts", "_single")

    def __init__(self, layout: Layout, count: int) -> None:
        parts: list[tuple[int, int, int]] = []
        for rank, bits in enumerate(layout.sets):
            first = ((bits & -bits).bit_length() - 1) // WORD
            inside = bits >> first * WORD
            words = words_of(inside, -(-inside.bit_length() // WORD))
            parts += ((first + word, rank, int(words[word])) for word in words.nonzero()[0].tolist())
        parts.sort()
        words_with = np.array([word for word, _, _ in parts], dtype=np.intp)
        self._parts = np.bincount(words_with, minlength=count)
        self._firsts = np.concatenate(([0], np.cumsum(self._parts)[:-1]))
        self._blocks = np.array([rank for _, rank, _ in parts], dtype=np.int32)
        self._masks = np.array([mask for _, _, mask in parts], dtype=np.uint64)
        self._single = bool((self._parts == 1).all())

    def split(self, rows: Rows) -> tuple[Places | slice, NDArray[np.int32], Numbers]:
        """Return the parts of rows: which row each is of, its block, and its number of resources."""
        if self._single:
            counts = np.bitwise_count(rows.masks & self._masks[rows.words])
            return slice(None), self._blocks[rows.words], counts.astype(np.int64)
        each = self._parts[rows.words]
        owners = np.repeat(np.arange(len(each)), each)
        ends = np.cumsum(each)
        parts = np.arange(len(owners)) + np.repeat(self._firsts[rows.words] - ends + each, each)
        counts = np.bitwise_count(rows.masks[owners] & self._masks[parts])
        return owners, self._blocks[parts], counts.astype(np.int64)


def first_date_of_resources(
    gaps: Gaps, usable: Words | None, least: int, hold: float, earliest: float, horizons: Sequence[float]
) -> float | None:
    """Return the first date, ``earliest`` or later, from which ``least`` resources may be free for ``hold`` seconds.

    ``usable`` are those that count, None for all. None when there is no such date before the last horizon.
    """
    for horizon in horizons:
        rows = gaps.chances(hold - _LOOSE, earliest, horizon)
        counts = np.bitwise_count(rows.masks if usable is None else rows.masks & usable.take(rows.words))
        date = _first_sum(np.maximum(rows.begins, earliest), rows.ends - (hold - _LOOSE), counts, least)
        if date is not None:
            return date
    return None


def _first_sum(since: Dates, until: Dates, counts: NDArray[np.uint8], least: int) -> float | None:
    """Return the first date at which the numbers of those that serve come to ``least``."""
    order = since.argsort()
    gained = counts[order].cumsum(dtype=np.int64)
    if not len(gained) or gained[-1] < least:
        return None
    since = since[order]
    # not before so many have come, whoever has gone
    first = int(gained.searchsorted(least))
    order = until.argsort()
    lost = np.concatenate(([0], counts[order].cumsum(dtype=np.int64)))
    there = gained[first:] - lost[until[order].searchsorted(since[first:])]
    enough = there >= least
    place = int(enough.argmax())
    return float(since[first + place]) if enough[place] else None


def first_date_of_blocks(
    gaps: Gaps, blocks: BlocksOfWords, screen: Screen, hold: float, earliest: float, horizons: Sequence[float]
) -> float | None:
    """Return the first date, ``earliest`` or later, from which enough blocks may have enough for ``hold`` seconds."""
    for horizon in horizons:
        rows = gaps.chances(hold - _LOOSE, earliest, horizon)
        owners, ranks, counts = blocks.split(rows)
        since, until = np.maximum(rows.begins, earliest), rows.ends - (hold - _LOOSE)
        date = _first_serving(since[owners], until[owners], ranks, counts, screen)
        if date is not None:
            return date
    return None


def _first_serving(
    since: Dates, until: Dates, ranks: NDArray[np.int32], counts: Numbers, screen: Screen
) -> float | None:
    """Return the first date at which enough blocks have as much as is asked of each."""
    least, blocks = screen.least, len(screen.layout.blocks)
    ever = np.bincount(ranks, counts, minlength=blocks) >= least
    if np.count_nonzero(ever) < screen.need:
        return None
    some = ever[ranks].nonzero()[0]
    since, until, ranks, counts = since[some], until[some], ranks[some], counts[some]
    dates = np.concatenate((since, until))
    order = dates.argsort()
    # all that comes goes: sums begin anew with each block
    by_block = np.concatenate((ranks, ranks)).astype(np.int16 if blocks < 2**15 else np.int32)[order].argsort(kind="stable")
    order = order[by_block]
    change = np.concatenate((counts, -counts))[order]
    there = change.cumsum()
    asked = _asked(least, np.concatenate((ranks, ranks))[order])
    serves = (there >= asked).astype(np.int8)
    serves -= there - change >= asked
    turns = serves.nonzero()[0]
    dates, serves = dates[order[turns]], serves[turns]
    order = dates.argsort()
    enough = serves[order].cumsum() >= screen.need
    place = int(enough.argmax()) if len(enough) else 0
    return float(dates[order[place]]) if len(enough) and enough[place] else None


def _asked(least: Counts | int, ranks: NDArray[np.int32]) -> Counts | int:
    """Return what is asked of each of these blocks."""
    return least if isinstance(least, int) else least[ranks]


def horizons(begins: Sequence[float], place: int) -> list[float]:
    """Return dates up to which to look, one after the other; the last one is infinite."""
    found, ahead = [], _AHEAD
    while place + ahead < len(begins):
        found.append(begins[place + ahead])
        ahead *= 4
    return [*found, inf]
