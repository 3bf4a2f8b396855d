"""The processes of a type of nodes, dealt to its cores: which core runs which, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from oarpy.processes.mapping import ProcessMap, Turns


class Share(NamedTuple):
    """So many ``processes`` of a size; each takes ``seconds`` there. In stages a core has ``each`` of them in a row."""

    size: str
    processes: int
    seconds: float
    each: int = 1


def shares(process_map: ProcessMap, kind: str, seconds: Callable[[str], float]) -> tuple[Share, ...]:
    """Return what the cores of a type run; ``seconds`` tells how long a process of a size takes there."""
    turns = process_map.turns.get(kind) or [Turns(size, count, 1) for size, count in process_map.assigned[kind].items()]
    return tuple(Share(turn.size, turn.cores * turn.stages, seconds(turn.size), turn.stages) for turn in turns)


class Turn(NamedTuple):
    """A core has so many processes of a size, one after the other."""

    core: int
    size: str
    processes: int


def dealt(shares: Sequence[Share], cores: int, *, in_stages: bool) -> list[Turn]:
    """Deal processes, in their order, to cores of one type, numbered from 0; return the turns core by core.

    In stages the cores take turns. Otherwise each process goes to the core that is free first.

    >>> dealt([Share("b", 1, 100), Share("a", 4, 25)], 2, in_stages=False)
    [Turn(core=0, size='b', processes=1), Turn(core=1, size='a', processes=4)]
    >>> dealt([Share("b", 2, 50, 2), Share("a", 2, 25, 2), Share("b", 1, 50)], 2, in_stages=True)
    [Turn(core=0, size='b', processes=3), Turn(core=1, size='a', processes=2)]
    """
    return _in_stages(shares, cores) if in_stages else _to_the_first_free(shares, cores)


def _in_stages(shares: Sequence[Share], cores: int) -> list[Turn]:
    turns: list[list[Turn]] = [[] for _ in range(cores)]
    place = 0
    for share in shares:
        for _ in range(share.processes // share.each):
            its, core = turns[place % cores], place % cores
            before = its.pop().processes if its and its[-1].size == share.size else 0
            its.append(Turn(core, share.size, before + share.each))
            place += 1
    return [turn for its in turns for turn in its]


def _to_the_first_free(shares: Sequence[Share], cores: int) -> list[Turn]:
    counts: list[dict[str, int]] = [{} for _ in range(cores)]
    free = [(0.0, core) for core in range(cores)]
    for share in shares:
        for _ in range(share.processes):
            busy, core = heappop(free)
            counts[core][share.size] = counts[core].get(share.size, 0) + 1
            heappush(free, (busy + share.seconds, core))
    return [Turn(core, size, count) for core, its in enumerate(counts) for size, count in its.items()]


def map_lines(
    assigned: Mapping[str, Sequence[Share]], hosts: Sequence[tuple[str, str]], *, in_stages: bool
) -> list[str]:
    """Return lines ``host core size processes``, ordered as cores are.

    ``hosts`` has a host and its type for each core. Cores of a host are numbered from 0.
    """
    places: dict[str, list[tuple[int, str]]] = {}
    seen: dict[str, int] = {}
    for place, (host, kind) in enumerate(hosts):
        core = seen[host] = seen.get(host, -1) + 1
        places.setdefault(kind, []).append((place, f"{host} {core}"))
    lines = [
        (places[kind][turn.core], turn)
        for kind, shares in assigned.items()
        if kind in places
        for turn in dealt(shares, len(places[kind]), in_stages=in_stages)
    ]
    lines.sort(key=lambda line: line[0][0])
    return [f"{where} {turn.size} {turn.processes}" for (_, where), turn in lines]
