"""The number of busy hosts of a cluster, as a function of time.

A profile travels as a flat list ``[begin, duration, busy, duration, busy, ...]``. Here it is :class:`BusyHosts`, which
has the ends of its steps and no begin: the first step reaches back without limit. So the passing of time never changes
a profile, and two profiles are compared by their tails.

    busy  3 |------.
          1 |      '-----.          after the last end everything is free for ever
          0 |            '------
              ends[0]  ends[1]
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Union

Time = Union[int, float, Fraction]
"""An instant or a duration."""


class Visits:
    """Counts the steps of profiles that an algorithm looks at: the basic operations of figures."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


class BusyHosts:
    """Steps that end at ``ends`` (ascending) with ``busy`` hosts each; neighbours differ, and the last is above 0.

    >>> profile = BusyHosts.of([100, 20, 3, 5, 0, 10, 1])
    >>> profile.ends, profile.busy
    ((120, 125, 135), (3, 0, 1))
    >>> profile.flat(110)
    [110, 10, 3, 5, 0, 10, 1]
    """

    __slots__ = ("busy", "ends")

    def __init__(self, ends: tuple[Time, ...] = (), busy: tuple[int, ...] = ()) -> None:
        self.ends = ends
        self.busy = busy

    @classmethod
    def of(cls, flat: Sequence[Time]) -> BusyHosts:
        """Return the profile of a flat list. Raises ``ValueError`` when it is none."""
        if len(flat) % 2 == 0:
            raise ValueError("a profile is [begin, duration, busy, duration, busy, ...]")
        ends: list[Time] = []
        busy: list[int] = []
        end = flat[0]
        for duration, hosts in zip(flat[1::2], flat[2::2]):
            if not duration > 0 or not isinstance(hosts, int) or hosts < 0:
                raise ValueError("a step of a profile lasts above 0 and has a whole number of busy hosts")
            end += duration
            ends.append(end)
            busy.append(hosts)
        return _merged(ends, busy)

    def flat(self, begin: Time) -> list[Time]:
        """Return the flat list from ``begin`` on."""
        flat = [begin]
        for index in range(bisect_right(self.ends, begin), len(self.ends)):
            flat += (self.ends[index] - begin, self.busy[index])
            begin = self.ends[index]
        return flat

    def since(self, instant: Time) -> BusyHosts:
        """Return the profile without the steps that are over at ``instant``."""
        index = bisect_right(self.ends, instant)
        return BusyHosts(self.ends[index:], self.busy[index:]) if index else self

    def same(self, other: BusyHosts, instant: Time) -> bool:
        """Tell whether as many hosts are busy in both at ``instant`` and at all later ones."""
        if self is other:
            return True
        mine, theirs = bisect_right(self.ends, instant), bisect_right(other.ends, instant)
        return self.busy[mine:] == other.busy[theirs:] and self.ends[mine:] == other.ends[theirs:]

    def at(self, instant: Time) -> int:
        """Return how many hosts are busy at ``instant``."""
        index = bisect_right(self.ends, instant)
        return self.busy[index] if index < len(self.ends) else 0

    def most(self, begin: Time, end: Time, visits: Visits) -> int:
        """Return the largest number of hosts that are busy at once within [begin, end), 0 for an empty span."""
        if end <= begin:
            return 0
        first = bisect_right(self.ends, begin)
        within = self.busy[first : bisect_left(self.ends, end, first) + 1]
        visits.steps += len(within)
        return max(within, default=0)

    def change_points(self, now: Time) -> tuple[Time, ...]:
        """Return ``now`` and the end of every step after it."""
        return (now, *self.ends[bisect_right(self.ends, now) :])

    def added(self, begin: Time, end: Time, hosts: int, visits: Visits) -> BusyHosts:
        """Return the profile with ``hosts`` more busy within [begin, end); fewer, where ``hosts`` is below 0.

        before      head |------ a ------|-- b --|---- tail
        after       head |- a -|-- a+n --|- b+n -|- b -|---- tail
                             begin            end
        """
        if end <= begin or hosts == 0:
            return self
        ends, busy = self.ends, self.busy
        first, last = bisect_right(ends, begin), bisect_left(ends, end)
        inside = busy[first : last + 1] if last < len(ends) else (*busy[first:], 0)
        visits.steps += len(inside)
        head_ends, head_busy = ends[:first], busy[:first]
        if first == 0 or ends[first - 1] < begin:
            head_ends, head_busy = (*head_ends, begin), (*head_busy, inside[0])
        changed_ends, changed = (*ends[first:last], end), tuple([number + hosts for number in inside])
        rest = last + 1 if last < len(ends) and ends[last] == end else last
        tail_busy = busy[rest:]
        if head_busy[-1] == changed[0]:
            head_ends, head_busy = head_ends[:-1], head_busy[:-1]
        if changed[-1] == (tail_busy[0] if tail_busy else 0):
            changed_ends, changed = changed_ends[:-1], changed[:-1]
        return BusyHosts(head_ends + changed_ends + ends[rest:], head_busy + changed + tail_busy)

    def capped(self, hosts: int) -> BusyHosts:
        """Return the profile with at most ``hosts`` busy at any time."""
        if max(self.busy, default=0) <= hosts:
            return self
        return _merged(self.ends, [min(number, hosts) for number in self.busy])

    def __add__(self, other: BusyHosts) -> BusyHosts:
        """Return the profile of the hosts that are busy in either; no host is busy in both."""
        ends = sorted({*self.ends, *other.ends})
        # a step's number is that of the step of each which ends there or is the next to end
        busy = [_busy_until(self, end) + _busy_until(other, end) for end in ends]
        return _merged(ends, busy)


def _busy_until(profile: BusyHosts, end: Time) -> int:
    """Return how many hosts are busy just before ``end``."""
    index = bisect_left(profile.ends, end)
    return profile.busy[index] if index < len(profile.ends) else 0


def _merged(ends: Sequence[Time], busy: Sequence[int]) -> BusyHosts:
    """Return the profile of steps of which neighbours may be equal and the last may be free."""
    kept = [index for index in range(len(busy)) if busy[index] != (busy[index + 1] if index + 1 < len(busy) else 0)]
    return BusyHosts(tuple(ends[index] for index in kept), tuple(busy[index] for index in kept))


def earliest(
    profiles: Mapping[str, BusyHosts],
    sizes: Mapping[str, int],
    hosts: Mapping[str, int],
    length: Time,
    now: Time,
    visits: Visits,
) -> Time:
    """Return the earliest instant from ``now`` on at which ``hosts`` fit for ``length`` on all their clusters at once.

    ``sizes`` are the numbers of hosts that the clusters have; no request exceeds them, so a place is always found.
    """
    start, moved = now, True
    while moved:
        moved = False
        for cluster, number in hosts.items():
            later = _room(profiles[cluster], sizes[cluster] - number, length, start, visits)
            if later > start:
                start, moved = later, len(hosts) > 1
    return start


def _room(profile: BusyHosts, limit: int, length: Time, start: Time, visits: Visits) -> Time:
    """Return the earliest instant from ``start`` on after which at most ``limit`` hosts are busy for ``length``."""
    ends, busy = profile.ends, profile.busy
    index = bisect_right(ends, start)
    begin = start  # of the step at ``index``
    while index < len(ends) and begin < start + length:
        visits.steps += 1
        if busy[index] > limit:
            start = ends[index]
        begin = ends[index]
        index += 1
    return start
