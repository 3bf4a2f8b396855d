"""Hierarchies as trees: which blocks of a level lie inside which block of the level above.

The tree of ``/switch/nodes``, on two switches with three nodes of two cores::

    everything {1 2 3 4 5 6}
      switch 1 {1 2 3 4}      node 1 {1 2}    node 2 {3 4}
      switch 2 {5 6}          node 3 {5 6}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oarpy.scheduler.resources.bit_sets import bits_at, positions
from oarpy.scheduler.resources.platform import RESOURCE_ID, Platform


@dataclass(frozen=True, slots=True)
class Tree:
    """A block: its resources and, below the last level of a request, the blocks inside it.

    Blocks of a single resource are not spelled out: ``singles`` is their union, ``blocks`` is empty then. ``blocks``
    are in the order of their first resource.
    """

    bits: int
    blocks: tuple[Tree, ...] = ()
    singles: int = 0

    def restrict(self, mask: int) -> Tree:
        """Return the tree of the resources in ``mask``, without empty blocks; blocks are sorted anew."""
        if mask & self.bits == self.bits:
            return self
        blocks = [block.restrict(mask) for block in self.blocks if block.bits & mask]
        return Tree(self.bits & mask, _ordered(blocks), self.singles & mask)


class Forest:
    """Trees of one platform for the hierarchies and masks requested so far; valid as long as the platform."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._whole: dict[tuple[str, ...], Tree] = {}
        self._restricted: dict[tuple[tuple[str, ...], int], Tree] = {}
        self._values: dict[str, list[object]] = {}

    def tree(self, levels: tuple[str, ...], mask: int) -> Tree:
        """Return the blocks of ``levels`` (properties, outermost first) among the resources of ``mask``."""
        key = levels, mask
        if key not in self._restricted:
            self._restricted[key] = self._tree(levels).restrict(mask)
        return self._restricted[key]

    def _tree(self, levels: tuple[str, ...]) -> Tree:
        """Return the tree of all resources, grown once."""
        if levels not in self._whole:
            places = range(len(self._platform.ids))
            self._whole[levels] = self._grow(places, levels)
        return self._whole[levels]

    def _grow(self, places: Sequence[int], levels: tuple[str, ...]) -> Tree:
        """Return the tree of some resources: one block for each value of the first level, and so on inside it."""
        bits = bits_at(places)
        if not levels:
            return Tree(bits)
        if levels == (RESOURCE_ID,):
            return Tree(bits, singles=bits)
        values = self._column(levels[0])
        members: dict[object, list[int]] = {}
        for place in places:
            if (value := values[place]) is not None:
                members.setdefault(value, []).append(place)
        if len(levels) == 1 and all(len(block) == 1 for block in members.values()):
            return Tree(bits, singles=bits_at([block[0] for block in members.values()]))
        return Tree(bits, tuple(self._grow(block, levels[1:]) for block in members.values()))

    def _column(self, level: str) -> list[object]:
        """Return the value of a property for each resource, in the platform's order."""
        if level not in self._values:
            rows = self._platform.resources
            self._values[level] = [row.id if level == RESOURCE_ID else row.properties.get(level) for row in rows]
        return self._values[level]


def _ordered(blocks: list[Tree]) -> tuple[Tree, ...]:
    """Return blocks in the order of their first resource."""
    return tuple(sorted(blocks, key=lambda block: positions(block.bits & -block.bits)[0]))
