"""What is divided, not counted: memory of hosts, bandwidth of switches, whatever jobs ask amounts of beside resources.

A consumable lies in the blocks of one level: each block has a capacity, and a job takes its amount from every block
that any of its resources is in, for as long as it holds them. Placing a job then is placing it among the resources
whose blocks have enough left, which is one more timeline of free resources to look at. Jobs that ask for nothing cost
nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oarpy.model.amounts import format_amount
from oarpy.model.request import Consumption
from oarpy.scheduler.platform import Platform
from oarpy.scheduler.timeline import Timeline

_MOST_VIEWS = 64
"""Different amounts of one consumable whose timelines are kept; each costs time whenever a job takes some of it."""
_MOST_NAMED = 3
"""Blocks named in an explanation."""


@dataclass(frozen=True, slots=True)
class Consumable:
    """``capacities`` by the value of property ``level``, as text; blocks without one have none of it."""

    name: str
    level: str
    capacities: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Store:
    """One block: its resources, its value, and how much there is."""

    name: str
    bits: int
    capacity: int


class Capacities:
    """The consumables of a platform, by name, as what each block holds."""

    def __init__(self, consumables: Iterable[Consumable], platform: Platform) -> None:
        self._everything = platform.everything
        self.levels = {one.name: one.level for one in consumables}
        self.stores: dict[str, tuple[Store, ...]] = {
            one.name: tuple(
                Store(str(block.value), block.bits, one.capacities.get(str(block.value), 0))
                for block in platform.blocks(platform.aliases.get(one.level, one.level))
            )
            for one in consumables
        }

    def admitted(self, consumes: Iterable[Consumption]) -> int:
        """Return the resources whose blocks could ever give these amounts; all consumables are known."""
        bits = self._everything
        for one in consumes:
            for store in self.stores[one.name]:
                if store.capacity < one.amount:
                    bits &= ~store.bits
        return bits

    def lacking(self, consumes: Iterable[Consumption], holders: Sequence[tuple[int, tuple[Consumption, ...]]]) -> int:
        """Return the resources whose blocks cannot give these amounts beside what ``holders`` have.

        A holder is a set of resources and the amounts that go with them. What is no consumable (any more) is not
        looked at.
        """
        bits = 0
        for one in consumes:
            for store in self.stores.get(one.name, ()):
                if self._taken(store, one.name, holders) + one.amount > store.capacity:
                    bits |= store.bits
        return bits

    @staticmethod
    def _taken(store: Store, name: str, holders: Sequence[tuple[int, tuple[Consumption, ...]]]) -> int:
        return sum(
            one.amount for bits, consumes in holders if bits & store.bits for one in consumes if one.name == name
        )

    def parts(self, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return what a job on ``bits`` takes, by consumable and block."""
        return {
            (one.name, store.name): one.amount
            for one in consumes
            for store in self.stores.get(one.name, ())
            if store.bits & bits
        }

    def excess(
        self,
        bits: int,
        consumes: Iterable[Consumption],
        holders: Sequence[tuple[int, tuple[Consumption, ...]]],
    ) -> dict[tuple[str, str], int]:
        """Return by how much a job on ``bits`` would take too much beside ``holders``, by consumable and block."""
        return {
            (one.name, store.name): self._taken(store, one.name, holders) + one.amount - store.capacity
            for one in consumes
            for store in self.stores.get(one.name, ())
            if store.bits & bits
        }

    def unknown(self, consumes: Iterable[Consumption]) -> str | None:
        """Return the first name that is not a consumable."""
        return next((one.name for one in consumes if one.name not in self.stores), None)

    def too_much(self, consumes: Iterable[Consumption], wanted: int) -> str | None:
        """Say which amount none of ``wanted`` can ever give, None when each is somewhere."""
        for one in consumes:
            if not wanted & self.admitted([one]):
                largest = max((store.capacity for store in self.stores[one.name] if store.bits & wanted), default=0)
                level = self.levels[one.name]
                return f"{one} is more than any {level} has (the largest has {format_amount(largest)})"
        return None


class _Use:
    """How much of one block is used over time."""

    __slots__ = ("begins", "used")

    def __init__(self) -> None:
        self.begins: list[float] = [float("-inf")]
        self.used: list[int] = [0]

    def copy(self) -> _Use:
        twin = _Use()
        twin.begins, twin.used = self.begins.copy(), self.used.copy()
        return twin

    def take(self, begin: float, end: float, amount: int) -> tuple[int, int]:
        """Use ``amount`` more during [begin, end); return the range of periods that changed."""
        left, right = self._boundary(begin), self._boundary(end)
        for index in range(left, right):
            self.used[index] += amount
        return left, right

    def most(self, begin: float, end: float) -> int:
        """Return the most that is used at ``begin`` or any other instant of [begin, end)."""
        first = bisect_right(self.begins, begin) - 1
        return max(self.used[first : max(first + 1, bisect_left(self.begins, end))])

    def end_of(self, index: int) -> float:
        return self.begins[index + 1] if index + 1 < len(self.begins) else float("inf")

    def _boundary(self, instant: float) -> int:
        index = bisect_left(self.begins, instant)
        if index == len(self.begins) or self.begins[index] != instant:
            self.begins.insert(index, instant)
            self.used.insert(index, self.used[index - 1])
        return index


class _Stock:
    """One consumable over time. ``_views`` are the resources in blocks with enough left, for the amounts asked."""

    def __init__(self, stores: Sequence[Store], origin: float, everything: int) -> None:
        self.stores = stores
        self._origin, self._everything = origin, everything
        self._uses = [_Use() for _ in stores]
        self._views: dict[int, Timeline] = {}

    def copy(self) -> _Stock:
        """Return an independent stock of equal content."""
        twin = _Stock(self.stores, self._origin, self._everything)
        twin._uses = [use.copy() for use in self._uses]
        return twin

    def take(self, begin: float, end: float, bits: int, amount: int) -> None:
        """Take ``amount`` during [begin, end) from every block with any of ``bits``."""
        for store, use in zip(self.stores, self._uses, strict=True):
            if store.bits & bits:
                left, right = use.take(begin, end, amount)
                for wanted, view in self._views.items():
                    _close(view, store, use, left, right, wanted)

    def view(self, amount: int) -> Timeline:
        """Return the timeline of the resources that are in no block, or in one with ``amount`` left."""
        if amount not in self._views:
            if len(self._views) == _MOST_VIEWS:
                del self._views[next(iter(self._views))]
            view = self._views[amount] = Timeline(self._origin, self._everything)
            for store, use in zip(self.stores, self._uses, strict=True):
                _close(view, store, use, 0, len(use.begins), amount)
        return self._views[amount]

    def left(self, begin: float, end: float) -> Iterable[tuple[Store, int]]:
        """Return each block with what is left of it throughout [begin, end)."""
        return [
            (store, store.capacity - use.most(begin, end)) for store, use in zip(self.stores, self._uses, strict=True)
        ]


def _close(view: Timeline, store: Store, use: _Use, left: int, right: int, amount: int) -> None:
    """Take a block out of ``view`` in those of the periods [left, right) that leave less than ``amount``.

    Who asks for more than the capacity does not look at the block: it stays.
    """
    if store.capacity < amount:
        return
    index = left
    while index < right:
        if store.capacity - use.used[index] < amount:
            begin = use.begins[index]
            while index + 1 < right and store.capacity - use.used[index + 1] < amount:
                index += 1
            view.remove(begin, use.end_of(index), store.bits)
        index += 1


class Stocks:
    """All consumables over time, from one instant on."""

    def __init__(self, capacities: Capacities, origin: float, everything: int) -> None:
        self._capacities, self._origin, self._everything = capacities, origin, everything
        self._stocks = {name: _Stock(stores, origin, everything) for name, stores in capacities.stores.items()}

    def copy(self) -> Stocks:
        """Return independent stocks of equal content."""
        twin = object.__new__(Stocks)
        twin._capacities, twin._origin, twin._everything = self._capacities, self._origin, self._everything
        twin._stocks = {name: stock.copy() for name, stock in self._stocks.items()}
        return twin

    def emptied(self) -> Stocks:
        """Return the same stocks with nothing taken from them."""
        return Stocks(self._capacities, self._origin, self._everything)

    def take(self, begin: float, end: float, bits: int, consumes: Iterable[Consumption]) -> None:
        """Take amounts during [begin, end) from the blocks of ``bits``; what is not a consumable (any more) is not."""
        for one in consumes:
            if one.name in self._stocks:
                self._stocks[one.name].take(begin, end, bits, one.amount)

    def views(self, consumes: Iterable[Consumption]) -> tuple[Timeline, ...]:
        """Return timelines whose common content has all of these amounts left; they change with what is taken."""
        return tuple(self._stocks[one.name].view(one.amount) for one in consumes)

    def parts(self, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return what a job on ``bits`` takes, by consumable and block."""
        return self._capacities.parts(bits, consumes)

    def excess(self, instant: float, bits: int, consumes: Iterable[Consumption]) -> dict[tuple[str, str], int]:
        """Return, by consumable and block of ``bits``, how much more is taken at ``instant`` than there is."""
        return {
            (one.name, store.name): -left
            for one in consumes
            for store, left in self._stocks[one.name].left(instant, instant)
            if store.bits & bits
        }

    def shortage(self, begin: float, end: float, wanted: int, consumes: Iterable[Consumption]) -> str:
        """Say of which consumables blocks with any of ``wanted`` have too little left in [begin, end); ``""`` if none.

        Blocks that never have enough are left out.
        """
        texts = []
        for one in consumes:
            short = [
                (store.name, left)
                for store, left in self._stocks[one.name].left(begin, end)
                if store.bits & wanted and left < one.amount <= store.capacity
            ]
            if short:
                named = ", ".join(f"{format_amount(max(left, 0))} left on {name}" for name, left in short[:_MOST_NAMED])
                more = f" and {len(short) - _MOST_NAMED} more" if len(short) > _MOST_NAMED else ""
                level = self._capacities.levels[one.name]
                texts.append(f"{one.name}: {format_amount(one.amount)} asked on each {level}, {named}{more}")
        return "; ".join(texts)


def giving_way(
    excess: dict[tuple[str, str], int], held: Iterable[tuple[int, Mapping[tuple[str, str], int]]]
) -> list[int]:
    """Return who of ``held`` (job, what it takes) goes, the first ones first, until nothing of ``excess`` is left."""
    chosen = []
    for number, parts in held:
        if any(excess[part] > 0 for part in parts.keys() & excess.keys()):
            chosen.append(number)
            for part in parts.keys() & excess.keys():
                excess[part] -= parts[part]
    return chosen
