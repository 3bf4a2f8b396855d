"""The mapping of a program's processes to cores that differ in speed; the processes differ in size.

Cores are ordered by type, the fastest first, and sizes by weight, the heaviest first. All sizes have equally many
processes; if that is not possible, the heaviest ones have one more.

*Synchronous*: in each stage every core has one process, and all wait for the last. The line of cores is cut into as
many blocks as there are sizes; each block takes processes of its size as long as there are any::

    cores   fast fast | slow slow
    size    heavy       light

*Asynchronous*: each size in turn gives a process to the core that would end it first.

Cores of a type with the same work are handled together, and so are equal stages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import fsum
from typing import NamedTuple

Rates = Mapping[str, Mapping[str, float]]
"""Iterations a second, by type of core and by size of process."""


@dataclass(frozen=True, slots=True)
class Program:
    """Processes, the iterations of each, and the seconds that it takes to pass on the result of one."""

    processes: int
    iterations: int
    transfer: float = 0


class Turns(NamedTuple):
    """So many ``cores`` have a process of a size in each of so many ``stages``."""

    size: str
    cores: int
    stages: int


@dataclass(frozen=True, slots=True)
class ProcessMap:
    """Processes by type of core and size, the heaviest size first, and how long all take.

    ``stages`` is None where there are none. Else ``turns`` may say which cores of a type have which processes in which
    stages: the cores in their order have one each, and after the last core come the next stages.
    """

    stages: int | None
    seconds: float
    assigned: Mapping[str, Mapping[str, int]]
    turns: Mapping[str, Sequence[Turns]] = field(default_factory=dict)


Mapper = Callable[[Mapping[str, int], Rates, Program], ProcessMap]
"""Maps a program to cores, which are counted by type."""


class _Line:
    """The types of cores and the sizes of processes in their order, and how many there are of each."""

    def __init__(self, cores: Mapping[str, int], rates: Rates, program: Program) -> None:
        there = [kind for kind, count in cores.items() if count]
        sizes = rates[there[0]]
        self.kinds = sorted(there, key=lambda kind: -fsum(rates[kind].values()))
        self.sizes = sorted(sizes, key=lambda size: fsum(rates[kind][size] for kind in there))
        each, more = divmod(program.processes, len(sizes))
        self.left = {size: each + (place < more) for place, size in enumerate(self.sizes)}
        self._cores = cores
        self._assigned: Counter[tuple[str, str]] = Counter()
        self.seconds = {
            (kind, size): program.iterations / rates[kind][size] for kind in self.kinds for size in self.sizes
        }

    def assign(self, kind: str, size: str, count: int) -> None:
        """Let processes run on cores of a type."""
        self.left[size] -= count
        self._assigned[kind, size] += count

    def assigned(self) -> dict[str, dict[str, int]]:
        """Return how many processes of each size each type of cores got."""
        found = self._assigned
        return {kind: {size: found[kind, size] for size in self.sizes if found[kind, size]} for kind in self._cores}

    def blocks(self) -> list[tuple[str, str, int]]:
        """Return the line of cores as it is cut for stages: type, size, and number of cores."""
        cores = sum(self._cores[kind] for kind in self.kinds)
        width = max(cores // len(self.sizes), 1)
        cuts = [min(place * width, cores) for place in range(len(self.sizes))] + [cores]
        found, begin = [], 0
        for kind in self.kinds:
            end = begin + self._cores[kind]
            for size, first, last in zip(self.sizes, cuts, cuts[1:], strict=False):
                count = min(last, end) - max(first, begin)
                if count > 0:
                    found.append((kind, size, count))
            begin = end
        return found


def synchronous(cores: Mapping[str, int], rates: Rates, program: Program) -> ProcessMap:
    """Map processes in stages; each takes as long as its longest process, and the transfer."""
    line = _Line(cores, rates, program)
    blocks = line.blocks()
    stages, seconds = 0, 0.0
    turns: dict[str, list[Turns]] = {kind: [] for kind in line.kinds}
    while any(line.left.values()):
        stage = _stage(line, blocks)
        used: Counter[str] = Counter()
        for (_, size), count in stage.items():
            used[size] += count
        alike = min(line.left[size] // count for size, count in used.items())
        for (kind, size), count in stage.items():
            line.assign(kind, size, alike * count)
            turns[kind].append(Turns(size, count, alike))
        stages += alike
        seconds += alike * (max(line.seconds[placed] for placed in stage) + program.transfer)
    return ProcessMap(stages, seconds, line.assigned(), turns)


def _stage(line: _Line, blocks: list[tuple[str, str, int]]) -> Counter[tuple[str, str]]:
    """Return the processes of each size on each type in one stage.

    A block takes the heaviest processes left once its own size has none.
    """
    left = dict(line.left)
    stage: Counter[tuple[str, str]] = Counter()
    for kind, own, cores in blocks:
        for size in (own, *line.sizes):
            here = min(cores, left[size])
            if here:
                stage[kind, size] += here
                left[size] -= here
                cores -= here
    return stage


def asynchronous(cores: Mapping[str, int], rates: Rates, program: Program) -> ProcessMap:
    """Map each process to the core that ends it first, the first such core; sizes take turns, the heaviest first."""
    line = _Line(cores, rates, program)
    lines: dict[str, list[tuple[float, int, int]]] = {}
    """By type, runs of equally busy cores: busy until, the first core, and the core behind the last."""
    first = 0
    for kind in line.kinds:
        lines[kind] = [(0.0, first, first + cores[kind])]
        first += cores[kind]
    while any(line.left.values()):
        for size in line.sizes:
            if line.left[size]:
                _give(line, lines, size, program.transfer)
    longest = max(busy for entries in lines.values() for busy, _, _ in entries)
    return ProcessMap(None, longest, line.assigned())


def _give(line: _Line, lines: dict[str, list[tuple[float, int, int]]], size: str, transfer: float) -> None:
    """Give a process to the core on which it ends first."""
    end, core, kind = min(
        (entries[0][0] + line.seconds[kind, size] + transfer, entries[0][1], kind) for kind, entries in lines.items()
    )
    busy, _, behind = heappop(lines[kind])
    if core + 1 < behind:
        heappush(lines[kind], (busy, core + 1, behind))
    heappush(lines[kind], (end, core, core + 1))
    line.assign(kind, size, 1)


MAPPERS: Mapping[str, Mapper] = {"sync": synchronous, "async": asynchronous}
