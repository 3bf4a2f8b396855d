"""The first date from which enough resources, or enough blocks, are free for long enough, read from the gaps.

A gap serves the windows that begin between its begin and its end minus the time held. So it adds resources at one date
and removes them after another. The sum over all gaps, in the order of dates, is the number of resources that serve a
window at each date. Two cores are wanted for 10 seconds::

    gap      core 1 [0, 30)    core 2 [5, 12)    core 3 [15, inf)
    serves   [0, 20]           never             [15, inf)
    sum      from 0: 1         from 15: 2        after 20: 1           the first date is 15

For blocks the same is done in each of them, and then with the blocks that have enough. Gaps that begin long after the
requested date are looked at only if the others give no date.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from oarpy.scheduler.gantt.gaps import WORD, Dates, GapRows, Gaps, Places, Words, words_of
from oarpy.scheduler.resources.block_counting import Counts
from oarpy.scheduler.resources.matching import Layout, Screen

_AHEAD = 64
"""Slots in which gaps that are looked at first begin; each further look has four times as many."""
_LOOSE = 1e-3
"""Seconds by which a gap may be too short: sums of dates are rounded, and each result is tested again."""

Numbers = NDArray[np.int64]


class BlocksOfWords:
    """The resources of each word in each block of a layout; a *part* is the intersection of a word and a block."""

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

    def split(self, rows: GapRows) -> tuple[Places | slice, NDArray[np.int32], Numbers]:
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

    ``usable`` are the resources that count, None for all. Return None if there is no such date before the last horizon.
    """
    for horizon in horizons:
        rows = gaps.chances(hold - _LOOSE, earliest, horizon)
        counts = np.bitwise_count(rows.masks if usable is None else rows.masks & usable.take(rows.words))
        date = _first_sum(rows.begins, rows.ends - (hold - _LOOSE), counts, least, earliest)
        if date is not None:
            return date
    return None


def _first_sum(since: Dates, until: Dates, counts: NDArray[np.uint8], least: int, earliest: float) -> float | None:
    """Return the first date at which the counts of the serving rows add up to ``least``."""
    there = int(counts[since <= earliest].sum(dtype=np.int64))
    if there >= least:
        return earliest
    later = (since > earliest).nonzero()[0]
    order = later[since[later].argsort()]
    gained = counts[order].cumsum(dtype=np.int64) + there
    # the sum cannot be enough before so many have begun, even if none has ended
    first = int(gained.searchsorted(least))
    if first == len(gained):
        return None
    begins = since[order[first:]]
    order = (until < begins[-1]).nonzero()[0]
    order = order[until[order].argsort()]
    lost = np.concatenate(([0], counts[order].cumsum(dtype=np.int64)))
    enough = gained[first:] - lost[until[order].searchsorted(begins)] >= least
    place = int(enough.argmax())
    return float(begins[place]) if enough[place] else None


def first_date_of_blocks(
    gaps: Gaps, blocks: BlocksOfWords, screen: Screen, hold: float, earliest: float, horizons: Sequence[float]
) -> float | None:
    """Return the first date, ``earliest`` or later, from which enough blocks may have enough for ``hold`` seconds."""
    for horizon in horizons:
        rows = gaps.chances(hold - _LOOSE, earliest, horizon)
        owners, ranks, counts = blocks.split(rows)
        since, until = rows.begins[owners], rows.ends[owners] - (hold - _LOOSE)
        date = _first_serving(since, until, ranks, counts, screen, earliest)
        if date is not None:
            return date
    return None


def _first_serving(
    since: Dates, until: Dates, ranks: NDArray[np.int32], counts: Numbers, screen: Screen, earliest: float
) -> float | None:
    """Return the first date at which enough blocks have the least count asked of each."""
    least, blocks = screen.least, len(screen.layout.blocks)
    ever = np.bincount(ranks, counts, minlength=blocks) >= least
    if np.count_nonzero(ever) < screen.need:
        return None
    now = (since <= earliest).nonzero()[0]
    there = np.bincount(ranks[now], counts[now], minlength=blocks).astype(np.int64)
    serving = int(np.count_nonzero(there >= least))
    if serving >= screen.need:
        return earliest
    wanted = ever[ranks]
    come = ((since > earliest) & wanted).nonzero()[0]
    if not len(come):
        return None
    gone = ((until < since[come].max()) & wanted).nonzero()[0]
    dates = np.concatenate((since[come], until[gone]))
    changes = np.concatenate((counts[come], -counts[gone]))
    dates, turns = _turns(dates, np.concatenate((ranks[come], ranks[gone])), changes, there, least)
    enough = turns.cumsum() + serving >= screen.need
    place = int(enough.argmax()) if len(enough) else 0
    return float(dates[place]) if len(enough) and enough[place] else None


def _turns(
    dates: Dates, ranks: NDArray[np.int32], changes: Numbers, there: Numbers, least: Counts | int
) -> tuple[Dates, NDArray[np.int8]]:
    """Return the dates at which a block begins (1) or ceases (-1) to have enough, in the order of dates.

    ``there`` is the count of each block before all changes.
    """
    order = dates.argsort()
    # few blocks are sorted by their digits, in one pass
    order = order[ranks[order].astype(np.uint16 if len(there) < 2**16 else np.int32).argsort(kind="stable")]
    ranks, changes = ranks[order], changes[order]
    sums = changes.cumsum()
    firsts = np.concatenate(([True], ranks[1:] != ranks[:-1]))
    before = (sums - changes)[firsts]
    sums += (there[ranks[firsts]] - before)[firsts.cumsum() - 1]
    enough = least if isinstance(least, int) else least[ranks]
    turns = (sums >= enough).astype(np.int8)
    turns -= sums - changes >= enough
    which = turns.nonzero()[0]
    dates, turns = dates[order[which]], turns[which]
    order = dates.argsort()
    return dates[order], turns[order]


def horizons(begins: Sequence[float], place: int) -> list[float]:
    """Return dates up to which to look, one after the other, from slot ``place`` on; the last one is infinite."""
    dates, ahead = [], _AHEAD
    while place + ahead < len(begins):
        dates.append(begins[place + ahead])
        ahead *= 4
    return [*dates, inf]
