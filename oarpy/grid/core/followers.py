"""Which kinds of withdrawn jobs may be chosen next. Facts of the other kinds are not needed before these are gone.

A kind is the places of its jobs that are left, the last submitted first. Under MaxMin the job that would end last is
chosen first. A job that asks for less time and for no more processors would end before it, wherever both joined::

    processors   walltimes of the kinds      may be chosen
        8        5 h  3 h                    5 h
        4        9 h  7 h  3 h               9 h
        2        8 h  5 h                    none: 9 h on 4 comes before
        1        9 h  2 h                    9 h: it might end when 9 h on 4 does
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

Kind = list[int]


class Asked(NamedTuple):
    """The size of the jobs of a kind. Kinds that are smaller in both respects are chosen first."""

    procs: float
    walltime: float


class Followers(Protocol):
    """Says which kinds follow the kinds that are gone."""

    def leaders(self) -> list[Kind]:
        """Return the kinds that may be chosen from now on, and not before."""


class InOrder:
    """Kinds in order: the first ``together`` may be chosen, and the next ones when these are gone."""

    def __init__(self, kinds: Sequence[Kind], together: int) -> None:
        self._behind, self._together = deque(kinds), together
        self._leading: list[Kind] = []

    def leaders(self) -> list[Kind]:
        """Return the next kinds if all before them are gone."""
        if any(self._leading):
            return []
        self._leading = [self._behind.popleft() for _ in range(min(self._together, len(self._behind)))]
        return self._leading


@dataclass(slots=True)
class _Size:
    """The kinds of equal processors, with their walltimes, the last one first; ``leads``: its first may be chosen."""

    kinds: list[tuple[float, Kind]]
    leads: bool = False


class BySize:
    """Kinds by processors and walltime: those may be chosen that no other kind precedes."""

    def __init__(self, kinds: Sequence[Kind], requests: Sequence[Asked]) -> None:
        sizes: dict[float, _Size] = {}
        for what, kind in sorted(zip(requests, kinds, strict=True), reverse=True):
            sizes.setdefault(what.procs, _Size([])).kinds.append((what.walltime, kind))
        self._sizes = list(sizes.values())[::-1]

    def leaders(self) -> list[Kind]:
        """Return the kinds that may be chosen now that the kinds before them are gone."""
        leaders: list[Kind] = []
        least = inf
        for size in self._sizes:
            if not size.kinds[-1][1]:
                size.kinds.pop()
                size.leads = False
            if not size.kinds:
                continue
            walltime, kind = size.kinds[-1]
            if walltime <= least:
                if not size.leads:
                    size.leads = True
                    leaders.append(kind)
                least = walltime
        self._sizes = [size for size in self._sizes if size.kinds]
        return leaders
