"""The needs of requests in whole blocks: enough free resources, and enough left of the consumables.

Both are counted block by block and slot by slot (:mod:`oarpy.scheduler.gantt.shared_search`). So a search skips most
windows that cannot serve, without a look at the resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oarpy.model.request import Consumption
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.block_counting import Counts
from oarpy.scheduler.resources.consumables import Capacities
from oarpy.scheduler.resources.matching import Layout, Matchers, RequestMatcher, Screen
from oarpy.scheduler.resources.platform import Platform

_NEVER = np.iinfo(np.int32).max
"""More free resources than a block has: the need of a request in a block that it does not use."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may be taken already from the stores of blocks: the stores of ``columns``, block by block."""

    columns: NDArray[np.intp] | slice
    most: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """The needs of a request in blocks (``screen``) and in all serving blocks (``total``), with its amounts."""

    screen: Screen
    total: int
    allowances: tuple[Allowance, ...]


class Gauges:
    """Makes gauges, once each."""

    def __init__(self, platform: Platform, matchers: Matchers, capacities: Capacities) -> None:
        self._platform, self._matchers, self._capacities = platform, matchers, capacities
        self._known: dict[tuple[RequestMatcher, tuple[Consumption, ...]], Gauge | None] = {}
        self._columns: dict[tuple[Layout, str], NDArray[np.intp] | None] = {}

    def of(self, matcher: RequestMatcher, consumes: tuple[Consumption, ...]) -> Gauge | None:
        """Return the gauge of a request that consumes something, None when its blocks cannot be counted."""
        key = matcher, consumes
        if key not in self._known:
            self._known[key] = self._gauge(matcher, consumes) if matcher.groups else None
        return self._known[key]

    def _gauge(self, matcher: RequestMatcher, consumes: Sequence[Consumption]) -> Gauge | None:
        """Count by blocks of the outermost level, or of the first consumable; None where these leave resources out."""
        name = matcher.groups[0].names[0] if matcher.screen is not None else self._capacities.levels[consumes[0].name]
        layout = self._matchers.blocks(name)
        if layout is None or matcher.usable & ~layout.counter.union:
            return None
        allowances = []
        for consumption in consumes:
            columns = self._columns_of(layout, consumption.name)
            if columns is None:
                return None
            capacities = np.append(self._capacities.amounts(), consumption.amount)
            allowances.append(Allowance(_run(columns), capacities[columns] - consumption.amount))
        if matcher.screen is None:
            return Gauge(Screen(layout, 1, 1), matcher.least, tuple(allowances))
        screen = Screen(layout, matcher.screen.need, self._least(layout, matcher.screen))
        return Gauge(screen, 0, tuple(allowances))

    def _least(self, layout: Layout, screen: Screen) -> Counts | int:
        """Return the needs of ``screen`` in the blocks of ``layout``, among them all blocks of its own layout.

        Blocks may have resources that the request does not use. They are counted too, which only lets more windows
        pass.
        """
        own = screen.layout
        if isinstance(screen.least, int) and len(own.blocks) == len(layout.blocks):
            return screen.least
        owners = self._owners(layout)
        least = np.full(len(layout.blocks), _NEVER, dtype=np.int64)
        firsts = [(block.bits & -block.bits).bit_length() - 1 for block in own.blocks]
        least[owners[firsts]] = screen.least
        return least

    def _owners(self, layout: Layout) -> NDArray[np.intp]:
        """Return the rank of the block that each resource is in, -1 for none."""
        owners = np.full(len(self._platform.ids), -1, dtype=np.intp)
        for rank, block in enumerate(layout.blocks):
            owners[positions(block.bits)] = rank
        return owners

    def _columns_of(self, layout: Layout, name: str) -> NDArray[np.intp] | None:
        """Return the column of the store that each block lies in, None when a block has parts of several."""
        key = layout, name
        if key not in self._columns:
            owners = self._capacities.owners(name)
            each = [np.unique(owners[positions(block.bits)]) for block in layout.blocks]
            apart = all(len(columns) == 1 for columns in each)
            self._columns[key] = np.array([columns[0] for columns in each], dtype=np.intp) if apart else None
        return self._columns[key]


def _run(columns: NDArray[np.intp]) -> NDArray[np.intp] | slice:
    """Return columns that follow each other as a slice, which is cheaper to pick."""
    first = int(columns[0])
    run = slice(first, first + len(columns))
    return run if bool((columns == np.arange(run.start, run.stop)).all()) else columns
