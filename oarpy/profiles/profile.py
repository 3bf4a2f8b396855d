"""How many of equal processors are free over time.

::

    free  8 |        ______     3 processors for as long as the line is wide fit from here
          4 |   ____|      |____|...
          0 |__|

Two sorted arrays have the instants at which the number changes, and how many processors are free from each to the next.
From the last instant on they are free for ever. Places are found by bisection and one walk to the right.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple, Self, TypeVar

from oarpy.profiles.timeline import Processors

Hold = TypeVar("Hold")


class CountedHold(NamedTuple):
    """A number of processors during [start, end)."""

    procs: int
    start: float
    end: float


class Profile:
    """The free processors of a machine with ``procs`` from ``begin`` on; ``held`` are (end, processors until then).

    It is a :class:`~oarpy.profiles.timeline.Timeline` whose requests are numbers of processors.
    """

    __slots__ = ("_free", "_times", "procs")

    def __init__(self, procs: int, begin: float = -inf, held: Iterable[tuple[float, int]] = ()) -> None:
        later = sorted(one for one in held if one[0] > begin)
        self.procs = procs
        self._times = [begin]
        self._free = [procs - sum(count for _, count in later)]
        for end, count in later:
            if end != self._times[-1]:
                self._times.append(end)
                self._free.append(self._free[-1])
            self._free[-1] += count

    def copy(self) -> Self:
        """Return an independent profile of equal content."""
        twin = type(self)(self.procs)
        twin._times, twin._free = self._times.copy(), self._free.copy()
        return twin

    def earliest(self, request: int, duration: float, lo: float, hi: float = inf) -> float:
        """Return the earliest start in [lo, hi] with ``request`` processors free for ``duration``, or infinity.

        >>> profile = Profile(4, 0, [(10, 3)])
        >>> profile.earliest(2, 5, 0), profile.earliest(2, 5, 0, hi=9)
        (10, inf)
        """
        if request > self.procs:
            return inf
        times, free = self._times, self._free
        at = max(bisect_right(times, lo) - 1, 0)
        start = lo
        while start <= hi:
            if free[at] < request:
                while free[at] < request:
                    at += 1
                start = times[at]
                continue
            behind = bisect_left(times, start + duration, at + 1)
            if min(free[at:behind]) >= request:
                return start
            # no start before the end of the last shortage will do
            at = behind
            while free[at - 1] >= request:
                at -= 1
            start = times[at]
        return inf

    def earlier(self, request: int, duration: float, lo: float, start: float) -> float:
        """Return the earliest start in [lo, start] for who holds the processors for ``duration`` from ``start`` on.

        Behind ``start`` the hold itself makes room, unless more is held there than there is.

        >>> profile = Profile(4, 0, [(10, 3)])
        >>> _ = profile.hold(2, 20, 30)
        >>> profile.earlier(2, 10, 0, 20), profile.earlier(2, 15, 0, 20), profile.earlier(4, 10, 0, 10)
        (10, 10, 10)
        """
        times, free = self._times, self._free
        at = max(bisect_right(times, lo) - 1, 0)
        last = len(times)
        begin = lo
        while begin < start:
            if free[at] >= request:
                end, behind = begin + duration, at + 1
                while behind < last and times[behind] < end:
                    if free[behind] < (request if times[behind] < start else 0):
                        break
                    behind += 1
                if behind == last or times[behind] >= end:
                    return begin
                at = behind
            else:
                at += 1
            if at == last:
                return start
            begin = times[at]
        return start

    def fits(self, request: int, start: float, duration: float) -> bool:
        """Tell whether ``request`` processors are free throughout [start, start + duration)."""
        return self.free(start, duration) >= request

    def free(self, start: float, duration: float = 0) -> int:
        """Return how many processors are free throughout [start, start + duration), or at ``start``."""
        return self.least_free(start, start + duration)

    def least_free(self, start: float, end: float) -> int:
        """Return how many processors are free throughout [start, end), or at ``start``."""
        first = bisect_right(self._times, start) - 1
        return min(self._free[first : max(bisect_left(self._times, end), first + 1)])

    def openings(self, procs: int, lo: float, hi: float) -> list[tuple[float, float]]:
        """Return the spans of [lo, hi) in which so many processors are free: (begin, end), rising.

        >>> Profile(4, 0, [(10, 3), (20, 1)]).openings(3, 5, 50)
        [(10, 50)]
        """
        times, free = self._times, self._free
        first, behind = max(bisect_right(times, lo) - 1, 0), bisect_left(times, hi)
        spans: list[tuple[float, float]] = []
        at = first
        while at < behind:
            if free[at] >= procs:
                begin = times[at]
                while at < behind and free[at] >= procs:
                    at += 1
                spans.append((max(begin, lo), times[at] if at < behind else hi))
            at += 1
        return spans

    def fits_all(self, holds: Iterable[CountedHold]) -> bool:
        """Tell whether all of some holds fit together."""
        twin = self.copy()
        for procs, start, end in holds:
            twin.take(start, end, procs)
        return twin.least() >= 0

    def least(self) -> int:
        """Return how many processors are free when fewest are; below 0 where more are held than there are."""
        return min(self._free)

    def hold(self, request: int, start: float, end: float) -> CountedHold:
        """Hold processors during [start, end), whether they are free or not."""
        self.take(start, end, request)
        return CountedHold(request, start, end)

    def give_back(self, hold: CountedHold) -> None:
        """Give back a hold; instants at which nothing changes any more are forgotten."""
        procs, start, end = hold
        self.take(start, end, -procs)
        self._join(end)
        self._join(start)

    def take(self, start: float, end: float, procs: int) -> None:
        """Take processors during [start, end); a negative number gives them back."""
        first, behind = self._cut(start), self._cut(end)
        free = self._free
        free[first:behind] = [count - procs for count in free[first:behind]]

    def ends(self, after: float) -> Sequence[float]:
        """Return the instants after ``after`` at which the number of free processors changes, rising."""
        return self._times[bisect_right(self._times, after) :]

    def forget(self, before: float) -> None:
        """Forget all times before an instant."""
        at = bisect_right(self._times, before) - 1
        if at > 0:
            del self._times[:at], self._free[:at]

    def _cut(self, instant: float) -> int:
        """Return the place of an instant, at which the number of free processors may change from now on."""
        times = self._times
        at = bisect_left(times, instant)
        if at == len(times) or times[at] != instant:
            times.insert(at, instant)
            self._free.insert(at, self._free[at - 1])
        return at

    def _join(self, instant: float) -> None:
        at = bisect_left(self._times, instant)
        if 0 < at < len(self._times) and self._times[at] == instant and self._free[at] == self._free[at - 1]:
            del self._times[at], self._free[at]


def first_common_start(
    wanted: Sequence[tuple[Processors[Hold], int]], duration: float, lo: float, hi: float = inf
) -> float:
    """Return the earliest start in [lo, hi] at which each machine has the processors wanted for ``duration``.

    Infinite if there is none. Each machine in turn puts the start off, until all agree.
    """
    start, agreed, turn = lo, 0, 0
    while agreed < len(wanted):
        profile, procs = wanted[turn]
        found = profile.earliest(procs, duration, start, hi)
        if found == inf:
            return inf
        agreed = agreed + 1 if found == start else 1
        start, turn = found, (turn + 1) % len(wanted)
    return start
