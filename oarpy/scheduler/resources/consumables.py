"""Consumables: amounts that jobs divide, such as memory of hosts or bandwidth of switches, beside resources.

A consumable lies in the blocks of one level, and each block has a capacity. A job takes its amount from every block
that contains any of its resources, for as long as it holds them. So a job must be placed among the resources whose
blocks have enough left (:mod:`oarpy.scheduler.gantt.amount_timeline`). Jobs without amounts cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oarpy.model.amounts import format_amount
from oarpy.model.request import Consumption
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.block_counting import BlockCounter
from oarpy.scheduler.resources.platform import Platform

Columns = NDArray[np.intp]
Consumer = tuple[int, tuple[Consumption, ...]]
"""Resources that a job has, and the amounts that it takes from their blocks."""


@dataclass(frozen=True, slots=True)
class Consumable:
    """A consumable: ``capacities`` by the value of property ``level``, as text; other blocks have none of it."""

    name: str
    level: str
    capacities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Store:
    """One block: its resources, its value, and its capacity."""

    name: str
    bits: int
    capacity: int


class Capacities:
    """The consumables of a platform, by name, with the capacity of each block.

    Every block of every consumable has a column. Resources in no block have the column behind the last one.
    """

    def __init__(self, consumables: Iterable[Consumable], platform: Platform) -> None:
        self.everything = platform.everything
        self.levels = {consumable.name: consumable.level for consumable in consumables}
        self.stores: dict[str, tuple[Store, ...]] = {
            consumable.name: tuple(
                Store(str(block.value), block.bits, consumable.capacities.get(str(block.value), 0))
                for block in platform.blocks(platform.aliases.get(consumable.level, consumable.level))
            )
            for consumable in consumables
        }
        self.columns = 0
        self._spans: dict[str, slice] = {}
        for name, stores in self.stores.items():
            self._spans[name] = slice(self.columns, self.columns + len(stores))
            self.columns += len(stores)
        all_stores = [store for stores in self.stores.values() for store in stores]
        self._amounts = np.array([store.capacity for store in all_stores], dtype=np.int64)
        self._counters: dict[str, BlockCounter] = {}
        self._owners: dict[str, Columns] = {}

    def span(self, name: str) -> slice:
        """Return the columns of a consumable: one for each of its stores."""
        return self._spans[name]

    def amounts(self, name: str | None = None) -> NDArray[np.int64]:
        """Return the capacities of the stores of a consumable, or of all of them."""
        return self._amounts if name is None else self._amounts[self._spans[name]]

    def columns_of(self, name: str, bits: int) -> Columns:
        """Return the columns of the blocks that any of ``bits`` is in."""
        if not self.stores[name]:
            return np.zeros(0, dtype=np.intp)
        if name not in self._counters:
            self._counters[name] = BlockCounter([store.bits for store in self.stores[name]])
        columns: Columns = self._counters[name].count(bits).nonzero()[0] + self._spans[name].start
        return columns

    def owners(self, name: str) -> Columns:
        """Return the column of each resource."""
        if name not in self._owners:
            owners = np.full(self.everything.bit_length(), self.columns, dtype=np.intp)
            for column, store in enumerate(self.stores[name], self._spans[name].start):
                owners[positions(store.bits)] = column
            self._owners[name] = owners
        return self._owners[name]

    def admitted(self, consumes: Iterable[Consumption]) -> int:
        """Return the resources whose blocks could ever give these amounts; all consumables are known."""
        bits = self.everything
        for consumption in consumes:
            for store in self.stores[consumption.name]:
                if store.capacity < consumption.amount:
                    bits &= ~store.bits
        return bits

    def lacking(self, consumes: Iterable[Consumption], holders: Sequence[Consumer]) -> int:
        """Return the resources whose blocks cannot give these amounts beside the amounts of ``holders``.

        Unknown or removed consumables are ignored.
        """
        bits = 0
        for consumption in consumes:
            for store in self.stores.get(consumption.name, ()):
                if self._taken(store, consumption.name, holders) + consumption.amount > store.capacity:
                    bits |= store.bits
        return bits

    @staticmethod
    def _taken(store: Store, name: str, holders: Sequence[Consumer]) -> int:
        """Return the amount that ``holders`` take from one store."""
        return sum(
            consumption.amount
            for bits, consumes in holders
            if bits & store.bits
            for consumption in consumes
            if consumption.name == name
        )

    def beyond(self, bits: int, others: int, consumes: Iterable[Consumption]) -> tuple[Consumption, ...]:
        """Return the amounts taken from blocks that contain some of ``bits`` and none of ``others``."""
        return tuple(
            consumption
            for consumption in consumes
            if any(store.bits & bits and not store.bits & others for store in self.stores.get(consumption.name, ()))
        )

    def parts(self, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return the amounts that a job on ``bits`` takes, by consumable and block."""
        return {
            (consumption.name, store.name): consumption.amount
            for consumption in consumes
            for store in self.stores.get(consumption.name, ())
            if store.bits & bits
        }

    def excess(
        self, bits: int, consumes: Iterable[Consumption], holders: Sequence[Consumer]
    ) -> dict[tuple[str, str], int]:
        """Return by how much a job on ``bits`` would take too much beside ``holders``, by consumable and block."""
        return {
            (consumption.name, store.name): self._taken(store, consumption.name, holders)
            + consumption.amount
            - store.capacity
            for consumption in consumes
            for store in self.stores.get(consumption.name, ())
            if store.bits & bits
        }

    def unknown(self, consumes: Iterable[Consumption]) -> str | None:
        """Return the first name that is not a consumable."""
        return next((consumption.name for consumption in consumes if consumption.name not in self.stores), None)

    def too_much(self, consumes: Iterable[Consumption], wanted: int) -> str | None:
        """Return why no resource of ``wanted`` can ever give an amount, None if every amount is available somewhere."""
        for consumption in consumes:
            if not wanted & self.admitted([consumption]):
                largest = max(
                    (store.capacity for store in self.stores[consumption.name] if store.bits & wanted), default=0
                )
                level = self.levels[consumption.name]
                return f"{consumption} is more than any {level} has (the largest has {format_amount(largest)})"
        return None
