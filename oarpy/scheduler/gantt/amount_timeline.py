"""The used amounts of consumables over time: one row per period, one column per block.

One table serves all requested amounts. So it costs the same whether all jobs ask for the same amount or each for
another. One job takes 4 of node 1 during [0, 25), another 2 of both nodes from 10 on::

    begins     0    10   25
    node 1     4    6    2
    node 2     0    2    2
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oarpy.model.reasons import ShortAmount
from oarpy.model.request import Consumption
from oarpy.scheduler.resources.consumables import Capacities, Store

Amounts = NDArray[np.int64]
Places = NDArray[np.int32]
_ROOM = 64
"""The number of periods with room at first."""
_MOST_NAMED = 3
"""The most blocks named in an explanation."""


class Stocks:
    """All consumables of a platform, from one instant on. Amounts of unknown or removed consumables are ignored.

    A row stays in its place in the table while its period exists; ``_rows`` lists the rows in order of time. The last
    column stands for resources in no block; nothing is ever taken there.
    """

    __slots__ = ("_dates", "_rows", "_used", "begins", "capacities")

    def __init__(self, capacities: Capacities, origin: float) -> None:
        self.capacities = capacities
        self.begins: list[float] = [origin]
        self._dates = np.full(_ROOM, origin, dtype=np.float64)
        self._rows = np.zeros(_ROOM, dtype=np.int32)
        self._used: Amounts = np.zeros((_ROOM, capacities.columns + 1), dtype=np.int64)

    def copy(self) -> Stocks:
        """Return independent stocks of equal content."""
        twin = object.__new__(Stocks)
        twin.capacities = self.capacities
        twin.begins = self.begins.copy()
        twin._dates, twin._rows = self._dates.copy(), self._rows.copy()
        twin._used = self._used.copy()
        return twin

    def emptied(self) -> Stocks:
        """Return the same stocks with nothing taken from them."""
        return Stocks(self.capacities, self.begins[0])

    def take(self, begin: float, end: float, bits: int, consumes: Iterable[Consumption]) -> None:
        """Take amounts during [begin, end) from the blocks of ``bits``."""
        begin = max(begin, self.begins[0])
        known = [consumption for consumption in consumes if consumption.name in self.capacities.stores]
        if end <= begin or not known:
            return
        left, right = self._boundary(begin), self._boundary(end)
        rows = self._rows[left:right, None]
        for taken in known:
            self._used[rows, self.capacities.columns_of(taken.name, bits)] += taken.amount

    def after(self, instant: float) -> float | None:
        """Return the first instant after ``instant`` at which something may be taken or given back."""
        index = bisect_right(self.begins, instant)
        return self.begins[index] if index < len(self.begins) else None

    def used(self, begins: NDArray[np.float64]) -> Amounts:
        """Return the used amount of each block (columns) at each of these instants (rows)."""
        places = self._dates[: len(self.begins)].searchsorted(begins, side="right") - 1
        return self._used.take(self._rows[places], axis=0)

    def enough(self, begin: float, end: float, consumes: Iterable[Consumption]) -> int:
        """Return all resources except those of blocks that have too little left at some instant of [begin, end).

        A block whose capacity is too small counts as having enough, because a job that asks for so much never looks at
        it.
        """
        short = 0
        for consumption in consumes:
            stores = self.capacities.stores[consumption.name]
            left = self._left(consumption.name, begin, end)
            lacking = (left < consumption.amount) & (self.capacities.amounts(consumption.name) >= consumption.amount)
            for place in lacking.nonzero()[0].tolist():
                short |= stores[place].bits
        return self.capacities.everything & ~short

    def parts(self, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return the amounts that a job on ``bits`` takes, by consumable and block."""
        return self.capacities.parts(bits, consumes)

    def excess(self, instant: float, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return, by consumable and block of ``bits``, the amount taken at ``instant`` beyond the capacity."""
        return {
            (consumption.name, store.name): -left
            for consumption in consumes
            for store, left in self._each(consumption.name, instant, instant)
            if store.bits & bits
        }

    def shortage(
        self, begin: float, end: float, wanted: int, consumes: Iterable[Consumption]
    ) -> tuple[ShortAmount, ...]:
        """Say of which consumables blocks with any of ``wanted`` have too little left in [begin, end).

        Blocks that never have enough are left out.
        """
        shortages = []
        for consumption in consumes:
            short = [
                (store.name, max(left, 0))
                for store, left in self._each(consumption.name, begin, end)
                if left < consumption.amount <= store.capacity and store.bits & wanted
            ]
            if short:
                named, level = tuple(short[:_MOST_NAMED]), self.capacities.levels[consumption.name]
                shortages.append(
                    ShortAmount(consumption.name, consumption.amount, level, named, len(short) - len(named))
                )
        return tuple(shortages)

    def _each(self, name: str, begin: float, end: float) -> Iterable[tuple[Store, int]]:
        """Yield each block with the amount left in it throughout [begin, end)."""
        return zip(self.capacities.stores[name], self._left(name, begin, end).tolist(), strict=True)

    def _left(self, name: str, begin: float, end: float) -> Amounts:
        """Return the amount left in each block throughout [begin, end), at least at ``begin``."""
        first = max(bisect_right(self.begins, begin) - 1, 0)
        rows = self._rows[first : max(first + 1, bisect_left(self.begins, end))]
        used = self._used[rows, self.capacities.span(name)]
        left: Amounts = self.capacities.amounts(name) - (used[0] if len(rows) == 1 else used.max(axis=0))
        return left

    def _boundary(self, instant: float) -> int:
        """Make ``instant`` the beginning of a period; return which one."""
        index, size = bisect_left(self.begins, instant), len(self.begins)
        if index < size and self.begins[index] == instant:
            return index
        self.begins.insert(index, instant)
        if size == len(self._rows):
            self._dates = np.concatenate((self._dates, self._dates))
            self._rows = np.concatenate((self._rows, self._rows))
            self._used = np.concatenate((self._used, np.zeros_like(self._used)))
        for line in (self._dates, self._rows):
            line[index + 1 : size + 1] = line[index:size]
        self._dates[index], self._rows[index] = instant, size
        self._used[size] = self._used[self._rows[index - 1]]
        return index


@dataclass(frozen=True, slots=True)
class StockView:
    """The resources whose blocks have certain amounts left, over time."""

    stocks: Stocks
    consumes: tuple[Consumption, ...]

    @property
    def begins(self) -> Sequence[float]:
        """The instants at which the resources may change."""
        return self.stocks.begins

    def common(self, begin: float, end: float) -> int:
        """Return the resources whose blocks have enough left during the whole of [begin, end)."""
        return self.stocks.enough(begin, end, self.consumes)

    def after(self, instant: float) -> float | None:
        """Return the first instant after ``instant`` at which the resources may change."""
        return self.stocks.after(instant)
