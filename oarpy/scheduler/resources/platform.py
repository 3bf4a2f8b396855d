"""The resources of a cluster as bit positions, and the values of their properties as blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from oarpy.scheduler.resources.bit_sets import bits_at, positions

RESOURCE_ID = "resource_id"
NETWORK_ADDRESS = "network_address"
ASLEEP = "(asleep)"
"""Property of resources that can be woken, where energy is saved; no site can name one so."""
DEFAULT_ALIASES: Final[Mapping[str, str]] = {"nodes": NETWORK_ADDRESS}
DEFAULT_TYPE = "default"
_RESERVABLE = frozenset({"Alive", "Absent", "Suspected"})


@dataclass(frozen=True, slots=True)
class Resource:
    """One row: the smallest thing that is allocated. ``properties`` include ``network_address``."""

    id: int
    type: str = DEFAULT_TYPE
    state: str = "Alive"
    properties: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """The resources that share one value of a property."""

    value: object
    bits: int


class Platform:
    """Resources in a given order, with bit sets for their states, types and properties.

    Bit *i* of every set is the *i*-th resource of that order. Instances do not change, may be kept between passes and
    cache the blocks that were requested.
    """

    def __init__(self, resources: Sequence[Resource], levels: frozenset[str], aliases: Mapping[str, str]) -> None:
        self.resources: Final = tuple(resources)
        self.levels: Final = levels
        self.aliases: Final = dict(aliases)
        self.ids: Final = tuple(resource.id for resource in resources)
        self.position: Final = {number: place for place, number in enumerate(self.ids)}
        self.everything: Final = (1 << len(self.ids)) - 1
        self.default_type: Final = self._where(resource.type == DEFAULT_TYPE for resource in resources)
        self.alive: Final = self._where(resource.state == "Alive" for resource in resources)
        self.reservable: Final = self._where(resource.state in _RESERVABLE for resource in resources)
        self.not_dead: Final = self._where(resource.state != "Dead" for resource in resources)
        self._blocks: dict[str, tuple[Block, ...]] = {}
        self._by_position: dict[str, list[int]] = {}

    @classmethod
    def build(
        cls,
        resources: Iterable[Resource],
        hierarchy: Sequence[str] | None = None,
        *,
        order: Sequence[str] = (),
        aliases: Mapping[str, str] = DEFAULT_ALIASES,
    ) -> Platform:
        """Order ``resources`` by the properties of ``order`` (missing values last), then by id.

        ``hierarchy`` names the properties usable as levels besides ``network_address`` and ``resource_id`` (None = all
        of them). ``aliases`` are other names of levels, which a property of that very name overrides.
        """
        rows = list(resources)
        # one stable pass a property, the last first: cheaper than a key of all of them for each row
        rows.sort(key=lambda row: row.id)
        for name in reversed(order):
            rows.sort(key=lambda row, name=name: _order_key(row.properties.get(name)))  # type: ignore[misc]
        named = {name for row in rows for name in row.properties} if hierarchy is None else set(hierarchy)
        levels = frozenset(named | {NETWORK_ADDRESS, RESOURCE_ID})
        return cls(rows, levels, {name: level for name, level in aliases.items() if name not in levels})

    def level(self, name: str) -> str | None:
        """Return the property that a level of a request stands for, None when it is not usable."""
        name = self.aliases.get(name, name)
        return name if name in self.levels else None

    def blocks(self, level: str) -> tuple[Block, ...]:
        """Return the blocks of a property, in the order of their first resource; missing values are in none."""
        if level not in self._blocks:
            members: dict[object, list[int]] = {}
            for place, row in enumerate(self.resources):
                value = row.id if level == RESOURCE_ID else row.properties.get(level)
                if value is not None:
                    members.setdefault(value, []).append(place)
            self._blocks[level] = tuple(Block(value, bits_at(places)) for value, places in members.items())
        return self._blocks[level]

    def touched(self, level: str, bits: int) -> int:
        """Return the resources of all blocks of a property that have some of ``bits``."""
        blocks = self._blocks_by_position(level)
        touched, left = 0, bits
        while left:
            lowest = left & -left
            block = blocks[lowest.bit_length() - 1]
            touched |= block
            left &= ~(block | lowest)
        return touched

    def _blocks_by_position(self, level: str) -> list[int]:
        """Return for each resource its block of a property as a set, 0 where it is in none."""
        if level not in self._by_position:
            blocks = self._by_position[level] = [0] * len(self.resources)
            for block in self.blocks(level):
                for place in positions(block.bits):
                    blocks[place] = block.bits
        return self._by_position[level]

    def bits_of(self, ids: Iterable[int]) -> int:
        """Return the set of the resources with these ids; ids that are not there are left out."""
        position = self.position
        return bits_at([position[number] for number in ids if number in position])

    def ids_of(self, bits: int) -> list[int]:
        """Return the ids of a set, ascending."""
        return sorted(self.ids[place] for place in positions(bits))

    def _where(self, flags: Iterable[bool]) -> int:
        """Return the set of the resources whose flag is true."""
        return bits_at([place for place, flag in enumerate(flags) if flag])


def _order_key(value: object) -> tuple[int, float, str]:
    """Return a sort key: numbers before texts before missing values, so that mixed columns still have an order."""
    if value is None:
        return 2, 0, ""
    return (0, value, "") if isinstance(value, (int, float)) else (1, 0, str(value))
