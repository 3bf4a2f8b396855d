"""Finds the resources that serve a request among those that are free for the whole time.

Blocks are tried in the order of their first resource. One group is a tree search in which siblings never overlap, so
taking the first serving blocks finds an answer if there is one. ``/switch=1/nodes=2`` while core 2 is held::

    switch 1    node 1 {1 .}   node 2 {3 4}      one whole node: does not serve
    switch 2    node 3 {5 6}   node 4 {7 8}      two: cores 5 to 8 are taken

Groups joined by ``+`` compete. They are served in their order. If that fails, the other orders are tried, and resources
that only one group may use are given first. If that fails too, groups leave out blocks that they took::

    /nodes=1+/core=2    node 1 {1 3}   node 2 {2}      node 1 leaves one core: node 2, then cores 1 and 3
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

import numpy as np
from numpy.typing import NDArray

from oarpy.model.request import Count, Group
from oarpy.scheduler.resources.bit_sets import lowest, positions
from oarpy.scheduler.resources.block_counting import BlockCounter, Counts
from oarpy.scheduler.resources.hierarchy_trees import Forest, Tree
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, RESOURCE_ID, Platform

Shape = tuple[int, tuple[int, ...]]

_MOST_PERMUTED = 5
"""The most groups of one request whose orders are all tried: 120 orders."""

_MOST_CHOICES, _CHOICES_OF_AN_ORDER = 256, 32
"""The most choices of blocks tried for competing groups: in all, and in one order of the groups."""


class Layout:
    """The outermost blocks of a tree in which blocks are whole or consist of single resources; counted all at once."""

    def __init__(self, tree: Tree) -> None:
        self.blocks = tree.blocks
        self._whole = not tree.blocks[0].singles
        sets = [block.singles or block.bits for block in tree.blocks]
        self.counter = BlockCounter(sets)
        sizes = self.counter.sizes
        self.uniform = not self._whole or bool((sizes == sizes[0]).all())
        """True if equal numbers of blocks always give equal numbers of resources."""
        self._offsets = [(bits & -bits).bit_length() - 1 for bits in sets]
        self.sets = sets
        """The resources of each block that count."""

    @classmethod
    def of(cls, tree: Tree, depth: int) -> Layout | None:
        """Return the layout of a tree of ``depth`` levels, None when it has another form or is not worth it."""
        if (
            depth > 2
            or len(tree.blocks) < _FEW_BLOCKS
            or any(bool(block.singles) != (depth == 2) for block in tree.blocks)
        ):
            return None
        return cls(tree)

    def least(self, counts: tuple[int, ...]) -> Counts | int:
        """Return how many free resources a block needs to serve ``counts`` below the outermost level."""
        need = Count.ALL if self._whole else counts[1]
        return self.counter.sizes if need == Count.ALL else max(need, 1)

    @property
    def in_singles(self) -> bool:
        """True if blocks consist of single resources."""
        return not self._whole

    def serving(self, counts: tuple[int, ...], free: int) -> NDArray[np.bool_]:
        """Tell, block by block, whether it can serve ``counts`` below the outermost level."""
        return self.counter.at_least(free, self.least(counts))

    def take(self, ranks: NDArray[np.intp], counts: tuple[int, ...], free: int) -> int:
        """Return the resources that the blocks ``ranks``, all serving, give together."""
        below = Count.ALL if self._whole else counts[1]
        if self.counter.in_words and below != Count.BESTHALF and len(ranks) > max(below, _FEW_BLOCKS):
            return self.counter.lowest(free, ranks, below if below > 0 else None)
        taken = 0
        for rank in ranks.tolist():
            taken |= self._take_one(rank, counts, free)
        return taken

    def _take_one(self, rank: int, counts: tuple[int, ...], free: int) -> int:
        """Return the resources that the serving block ``rank`` gives."""
        if self._whole:
            return self.sets[rank]
        offset = self._offsets[rank]
        return _match_singles(self.sets[rank] >> offset, counts[1], (free & self.sets[rank]) >> offset) << offset


_FEW_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Screen:
    """The needs of a request in the blocks of a layout: ``need`` blocks with ``least`` free resources each."""

    layout: Layout
    need: int
    least: Counts | int


@dataclass(frozen=True, slots=True)
class GroupMatcher:
    """One group of a request against the resources it may use; ``reason`` says why it can never be served."""

    names: tuple[str, ...]
    counts: tuple[int, ...]
    tree: Tree
    reason: str = ""
    layout: Layout | None = None

    @property
    def usable(self) -> int:
        """The resources that the group may use."""
        return self.tree.bits

    @property
    def least(self) -> int:
        """No fewer resources than this will do."""
        below = self.counts[1] if self.layout is not None and self.layout.in_singles else Count.ALL
        if below == Count.ALL:
            return _least(self.tree, self.counts)
        # all blocks cost the same
        blocks = len(self.tree.blocks)
        need = max(1, self.counts[0]) if self.counts[0] != Count.ALL else blocks
        return need * max(1, below) if need <= blocks else need

    @property
    def fixed(self) -> bool:
        """True when it takes the same number of resources wherever it is served."""
        return self._is_fixed_below(0)

    @property
    def grows(self) -> bool:
        """True when more free resources never make it take fewer.

        They may where it takes some only of the blocks that serve, and these give different numbers.
        """
        return all(
            count in (Count.ALL, Count.BEST) or self._is_fixed_below(depth)
            for depth, count in enumerate(self.counts, 1)
        )

    def _is_fixed_below(self, depth: int) -> bool:
        """Tell whether each block of a level, 0 for the whole platform, gives the same number wherever it serves."""
        uniform = self.layout.uniform if self.layout is not None else len(_innermost_sizes(self.tree)) == 1
        return min(self.counts[depth:], default=1) > 0 and uniform

    def fits(self, free: int) -> bool:
        """Tell whether :meth:`match` finds something."""
        need = self.counts[0]
        if self.layout is not None:
            there = int(np.count_nonzero(self.layout.serving(self.counts, free)))
            return there >= need if need > 0 else _enough(need, there, len(self.layout.blocks))
        singles = self.tree.singles
        if singles and len(self.counts) == 1:
            there = (free & singles).bit_count()
            return there >= need if need > 0 else _enough(need, there, singles.bit_count())
        return bool(self.match(free))

    def match(self, free: int) -> int:
        """Return the resources to take among ``free``, 0 when the group does not fit."""
        if self.reason:
            return 0
        if self.layout is None:
            return _match(self.tree, self.counts, free)
        layout, need = self.layout, self.counts[0]
        ranks = layout.serving(self.counts, free).nonzero()[0]
        if not _enough(need, len(ranks), len(layout.blocks)):
            return 0
        if need > 0 or need == Count.BESTHALF:
            ranks = ranks[: need if need > 0 else max(1, len(ranks) // 2)]
        return layout.take(ranks, self.counts, free)


def _enough(need: int, there: int, most: int) -> bool:
    """Tell whether ``there`` serving blocks, out of ``most``, satisfy a count."""
    if need == Count.ALL:
        return there == most and there > 0
    return there >= max(need, 1)


def _match(tree: Tree, counts: tuple[int, ...], free: int) -> int:
    """Return the resources of the first blocks of a tree that serve ``counts``, outermost first; 0 if too few do."""
    if tree.singles:
        return _match_singles(tree.singles, counts[0], free)
    need, below = counts[0], counts[1:]
    parts = []
    for block in tree.blocks:
        if below:
            part = _match(block, below, free) if block.bits & free else 0
        else:
            part = block.bits if block.bits & free == block.bits else 0
        if part:
            parts.append(part)
            if len(parts) == need:
                break
        elif need == Count.ALL:
            return 0
    if need == Count.BESTHALF:
        del parts[max(1, len(parts) // 2) :]
    taken = 0
    if need < 0 or len(parts) == need:
        for part in parts:
            taken |= part
    return taken


def _match_singles(singles: int, need: int, free: int) -> int:
    """Return the lowest ``need`` free single resources; 0 if there are too few."""
    free &= singles
    if need > 0:
        return lowest(free, need) if free.bit_count() >= need else 0
    if need == Count.ALL:
        return free if free == singles else 0
    if need == Count.BEST or not free:
        return free
    return lowest(free, max(1, free.bit_count() // 2))


class RequestMatcher:
    """All groups of one alternative; ``reason`` says why it can never be served, if that is known beforehand."""

    def __init__(self, groups: Sequence[GroupMatcher], reason: str = "") -> None:
        self.groups = tuple(groups)
        self.reason = reason or next((group.reason for group in self.groups if group.reason), "")
        usable = 0
        for group in self.groups:
            usable |= group.usable
        self.usable = usable
        self.least = sum(group.least for group in self.groups)
        """No fewer resources than this will do."""
        self.fixed = all(group.fixed for group in self.groups)
        """True when the request takes the same number of resources wherever it is served."""
        self.grows = len(self.groups) == 1 and self.groups[0].grows
        """True when more free resources are known never to make the request take fewer."""
        self.plain_shape: Shape = usable, ()
        """The shape of asking for ``least`` of the same resources, wherever they are."""
        self.shape: Shape | None = None
        """Equal for requests that differ in ``amounts`` alone; None when nothing can be learnt from one for another."""
        self.amounts: tuple[int, ...] = ()
        self._plain = 0
        if len(self.groups) == 1 and not self.reason:
            tree, counts = self.groups[0].tree, self.groups[0].counts
            plain = len(counts) == 1 and tree.singles == tree.bits and counts[0] > 0
            self._plain = tree.singles if plain else 0
            self.shape = self.plain_shape if plain else (id(tree), tuple(min(count, 0) for count in counts))
            self.amounts = tuple(max(count, 0) for count in counts)
        least = self.least
        self.enough: Callable[[int], bool] | None = (lambda free: free.bit_count() >= least) if self._plain else None
        """Tells whether some of the resources that it may use serve it, where all it takes is enough; else None."""
        self.screen = self._screen()
        """A condition on the blocks that any set serving the request meets, None when there is none to count."""

    def _screen(self) -> Screen | None:
        """Return the needs of a single group in the outermost blocks, None if these cannot be counted."""
        if len(self.groups) != 1 or self.reason or self.groups[0].layout is None:
            return None
        layout, counts = self.groups[0].layout, self.groups[0].counts
        need = len(layout.blocks) if counts[0] == Count.ALL else max(counts[0], 1)
        return Screen(layout, need, layout.least(counts))

    def may_fit(self, free: int) -> bool:
        """Tell whether ``free`` could serve each group alone; if so, every larger set can."""
        if self._plain:
            return (free & self._plain).bit_count() >= self.least
        if len(self.groups) == 1:
            return self.groups[0].fits(free)
        return not self.reason and all(group.fits(free) for group in self.groups)

    def match(self, free: int) -> int:
        """Return the resources to take among ``free``, 0 when the request does not fit."""
        if self._plain:
            free &= self._plain
            return lowest(free, self.least) if free.bit_count() >= self.least else 0
        if self.reason:
            return 0
        if len(self.groups) == 1:
            return self.groups[0].match(free)
        return self._match_groups(free)

    def _match_groups(self, free: int) -> int:
        """Serve several groups: in their order, in others (all of them where the groups are few), from other blocks."""
        if taken := _in_order(self.groups, free):
            return taken
        if any(not group.match(free) for group in self.groups):
            return 0
        orders = list(permutations(self.groups)) if len(self.groups) <= _MOST_PERMUTED else [self.groups[::-1]]
        for order in orders:
            if taken := _in_order(order, free) or _in_order(order, free, frugal=True):
                return taken
        if self.least > (self.usable & free).bit_count():
            return 0
        tries = iter(range(_MOST_CHOICES))
        chosen = (_from_other_blocks(order, free, islice(tries, _CHOICES_OF_AN_ORDER)) for order in orders)
        return next(filter(None, chosen), 0)


class WholeNodesMatcher(RequestMatcher):
    """A request that takes all of the ``nodes`` that it touches, given as disjoint sets, and so needs all of them free.

    ::

        node          1 1 1 1  2 2 2 2  3 3 3 3
        free          x . x x  x x x x  x x x x
        3 cores          |     3 3 3 .             node 1 is not whole
        it takes               x x x x
    """

    def __init__(self, inner: RequestMatcher, nodes: Iterable[int]) -> None:
        super().__init__(inner.groups, inner.reason)
        self._node_of = {place: node for node in nodes if node & inner.usable for place in positions(node)}
        self._of_nodes = 0
        for node in self._node_of.values():
            self._of_nodes |= node
        self.usable |= self._of_nodes
        self.plain_shape = self.usable, ()
        self.shape, self.amounts = None, ()
        self.fixed = self.grows = False
        self.enough = self.screen = None

    def may_fit(self, free: int) -> bool:
        """Tell whether the nodes that are wholly ``free`` could serve each group alone."""
        return super().may_fit(free & ~self._touched(~free))

    def match(self, free: int) -> int:
        """Return the nodes to take, and resources on no node; 0 if the request does not fit."""
        taken = super().match(free & ~self._touched(~free))
        return taken | self._touched(taken)

    def _touched(self, bits: int) -> int:
        """Return all of the nodes that have a resource among ``bits``."""
        touched, left = 0, bits & self._of_nodes
        while left:
            node = self._node_of[(left & -left).bit_length() - 1]
            touched |= node
            left &= ~node
        return touched


def _in_order(groups: Sequence[GroupMatcher], free: int, *, frugal: bool = False) -> int:
    """Serve the groups in order; ``frugal`` first offers each group the resources that no later group may use."""
    taken = 0
    for rank, group in enumerate(groups):
        part = 0
        if frugal:
            wanted = 0
            for other in groups[rank + 1 :]:
                wanted |= other.usable
            part = group.match(free & ~wanted)
        part = part or group.match(free)
        if not part:
            return 0
        taken |= part
        free &= ~part
    return taken


def _from_other_blocks(groups: Sequence[GroupMatcher], free: int, tries: Iterator[int]) -> int:
    """Serve the groups one after the other, each without some blocks that it took before, while ``tries`` last.

    A group leaves out one block more only when all with as many left out have failed.
    """
    first, *others = groups
    left_out, known = deque([0]), {0}
    while left_out and next(tries, None) is not None:
        without = left_out.popleft()
        part = first.match(free & ~without)
        if not part:
            continue
        taken = _from_other_blocks(others, free & ~part, tries) if others else part
        if taken:
            return part | taken
        for block in _blocks_of(first, part):
            if without | block not in known:
                known.add(without | block)
                left_out.append(without | block)
    return 0


def _blocks_of(group: GroupMatcher, part: int) -> list[int]:
    """Return the outermost blocks that a group took, none if it needs all of them."""
    if group.counts[0] == Count.ALL:
        return []
    if group.tree.singles:
        return [1 << place for place in positions(part)]
    return [block.bits for block in group.tree.blocks if block.bits & part]


def _innermost_sizes(tree: Tree) -> set[int]:
    """Return the sizes of the blocks of the last level."""
    if tree.singles:
        return {1}
    return set().union(*map(_innermost_sizes, tree.blocks)) if tree.blocks else {tree.bits.bit_count()}


def _least(tree: Tree, counts: tuple[int, ...]) -> int:
    """Return a number of resources below which the group cannot be served."""
    need = max(1, counts[0]) if counts[0] != Count.ALL else max(1, len(tree.blocks) or tree.singles.bit_count())
    if tree.singles or not tree.blocks:
        return need
    below = (_least(block, counts[1:]) for block in tree.blocks) if counts[1:] else _sizes(tree)
    cheapest = sorted(below)
    return sum(cheapest[:need]) if need <= len(cheapest) else need


def _sizes(tree: Tree) -> list[int]:
    """Return the number of resources of each block."""
    return [block.bits.bit_count() for block in tree.blocks]


class Matchers:
    """Compiled requests of one platform, each made once; valid as long as the platform."""

    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self._forest = Forest(platform)
        self._groups: dict[tuple[Group, int], GroupMatcher] = {}
        self._requests: dict[tuple[tuple[Group, int], ...], RequestMatcher] = {}
        self._layouts: dict[tuple[tuple[str, ...], int], Layout | None] = {}
        self._blocks: dict[str, Layout | None] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def request(self, groups: Sequence[Group], masks: Sequence[int]) -> RequestMatcher:
        """Compile ``groups``, each with the set of resources that it may use (filter and state)."""
        key = tuple(zip(groups, masks, strict=True))
        if key not in self._requests:
            self._requests[key] = RequestMatcher([self._group(group, mask) for group, mask in key])
        return self._requests[key]

    def whole_nodes(self, groups: Sequence[Group], masks: Sequence[int], usable: int) -> RequestMatcher:
        """Compile ``groups`` for a job that gets whole nodes, whose resources that are not Dead are all ``usable``."""
        nodes = [block.bits & self.platform.not_dead for block in self.platform.blocks(NETWORK_ADDRESS)]
        broken = 0
        for node in nodes:
            broken |= node if node & ~usable else 0
        return WholeNodesMatcher(self.request(groups, [mask & ~broken for mask in masks]), nodes)

    def blocks(self, name: str) -> Layout | None:
        """Return all blocks of a level, whatever their number, with all their resources; None when it has none."""
        if name not in self._blocks:
            level = self.platform.aliases.get(name, name)
            tree = self._forest.tree((level, RESOURCE_ID), self.platform.everything)
            self._blocks[name] = Layout(tree) if tree.blocks else None
        return self._blocks[name]

    def _group(self, group: Group, mask: int) -> GroupMatcher:
        """Return a compiled group; each different one is compiled once."""
        key = group, mask
        if key not in self._groups:
            self._groups[key] = self._compile(group, mask)
        return self._groups[key]

    def _compile(self, group: Group, mask: int) -> GroupMatcher:
        """Make a matcher of a group; a level that the platform does not have is its reason to serve nothing."""
        resolved = [self.platform.level(level.name) for level in group.levels]
        names = tuple(level.name for level in group.levels)
        counts = tuple(int(level.count) for level in group.levels)
        for level, name in zip(group.levels, resolved, strict=True):
            if name is None:
                return GroupMatcher(names, counts, Tree(0), f"'{level.name}' is not a level of this platform")
        levels = tuple(name for name in resolved if name is not None)
        tree = self._forest.tree(levels, mask)
        if (levels, mask) not in self._layouts:
            self._layouts[levels, mask] = Layout.of(tree, len(levels))
        return GroupMatcher(names, counts, tree, layout=self._layouts[levels, mask])


def bottleneck(group: GroupMatcher) -> tuple[int, int]:
    """Return the level (0 is outermost) at which a group fails on an empty platform, and the number of its blocks.

    This is the innermost level at which no block of the level above holds enough blocks. The number counts the blocks
    that serve the levels below, in the place with the most. A group that is served gives (-1, 0).
    """
    for depth in reversed(range(len(group.counts))):
        tallies = [_tally(place, group.counts[depth + 1 :]) for place in _places(group.tree, depth)]
        if not any(_enough(group.counts[depth], there, most) for there, most in tallies):
            return depth, max((there for there, _ in tallies), default=0)
    return -1, 0


def _places(tree: Tree, depth: int) -> list[Tree]:
    """Return the blocks of a level, 0 for the whole."""
    places = [tree]
    for _ in range(depth):
        places = [block for place in places for block in place.blocks]
    return places


def _tally(tree: Tree, below: tuple[int, ...]) -> tuple[int, int]:
    """Count the blocks of a tree that could serve the counts ``below`` them, and all its blocks."""
    if tree.singles:
        return tree.singles.bit_count(), tree.singles.bit_count()
    if not below:
        return len(tree.blocks), len(tree.blocks)
    return sum(1 for block in tree.blocks if _match(block, below, block.bits)), len(tree.blocks)


def shortage(matcher: RequestMatcher, conditions: Sequence[str]) -> str:
    """Return the reason why a request fails on an empty platform; ``conditions`` are those of its groups."""
    if matcher.reason:
        return matcher.reason
    for rank, group in enumerate(matcher.groups):
        if not group.match(group.usable):
            where = f" where {conditions[rank][:200]}" if conditions[rank] else ""
            return f"{_missing(group)}{where}"
    if matcher.least > matcher.usable.bit_count():
        return "its groups together need more resources than there are"
    return "its groups stand in each other's way"


def _missing(group: GroupMatcher) -> str:
    """Return the shortage of one group on an empty platform."""
    need, name = group.counts[0], group.names[0]
    inner = "".join(f"/{level}={_word(count)}" for level, count in zip(group.names[1:], group.counts[1:], strict=True))
    where = f" that hold {inner}" if inner else ""
    serving, _ = _tally(group.tree, group.counts[1:])
    if not group.usable:
        return "no resource"
    if need < 0:
        return f"no {name}{where}" if need != Count.ALL or not serving else f"not every {name} holds {inner}"
    return f"{serving} of {need} {name}{where}"


def _word(count: int) -> str:
    return Count(count).name if count < 0 else str(count)
