"""The free cores of a cluster whose nodes are of several types: a job takes the fastest cores that are free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby
from math import inf

from oarpy.profiles.profile import CountedHold, Profile

TypedHold = Sequence[tuple[str, CountedHold]]
"""What a job holds of each type."""


@dataclass(frozen=True, slots=True)
class TypedCores:
    """The cores of each type over time, the fastest type first.

    It is a :class:`~oarpy.profiles.timeline.Processors`. A core of a type counts as free only throughout.
    """

    types: Mapping[str, Profile]

    def shares(self, procs: int, start: float, duration: float) -> dict[str, int]:
        """Return how many cores of each type a job would get, types without any left out."""
        found, left = {}, procs
        for kind, profile in self.types.items():
            if here := min(left, max(profile.free(start, duration), 0)):
                found[kind] = here
                left -= here
        return found

    def free(self, start: float, duration: float = 0) -> int:
        """Return how many cores are free throughout [start, start + duration), or at ``start``."""
        return sum(max(profile.free(start, duration), 0) for profile in self.types.values())

    def fits(self, request: int, start: float, duration: float) -> bool:
        """Tell whether so many cores are free throughout [start, start + duration)."""
        return self.free(start, duration) >= request

    def earliest(self, request: int, duration: float, lo: float, hi: float = inf) -> float:
        """Return the earliest start in [lo, hi] with ``request`` cores free for ``duration``, or infinity."""
        starts = (start for start in (lo, *self.ends(lo)) if start <= hi)
        return next((start for start in starts if self.fits(request, start, duration)), inf)

    def earlier(self, request: int, duration: float, lo: float, start: float) -> float:
        """Return the earliest start in [lo, start] for who holds the cores for ``duration`` from ``start`` on.

        Behind ``start`` the hold itself makes room.
        """
        starts = (begin for begin in (lo, *self.ends(lo)) if begin < start)
        return next((begin for begin in starts if self.fits(request, begin, min(duration, start - begin))), start)

    def ends(self, after: float) -> Sequence[float]:
        """Return the instants after ``after`` at which a number of free cores changes, rising."""
        return [instant for instant, _ in groupby(merge(*(one.ends(after) for one in self.types.values())))]

    def hold(self, request: int, start: float, end: float) -> TypedHold:
        """Hold cores that are free during [start, end)."""
        shares = self.shares(request, start, end - start)
        return [(kind, self.types[kind].hold(count, start, end)) for kind, count in shares.items()]

    def give_back(self, hold: TypedHold) -> None:
        """Give back a hold."""
        for kind, held in hold:
            self.types[kind].give_back(held)
