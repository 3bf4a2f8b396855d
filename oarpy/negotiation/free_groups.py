"""Groups of hosts, each with the spans in which every one of its hosts is free.

Counts cannot tell whether one and the same host is free all the time. An application that asks for ``exact`` gets
groups besides its profiles: ``[[n, [[begin, end], ...]], ...]`` for each cluster, where an end of None is for ever.

    host 1  |====        ======     three groups of one host each;
    host 2  |  ============         between them two hosts are free at any time,
    host 3  |======    ========     and none of them throughout
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

from oarpy.negotiation.profiles import BusyHosts, Time, Visits, earliest

Spans = tuple[tuple[Time, Time], ...]
"""Ascending, disjoint spans [begin, end); a span that has begun may have any earlier begin."""


class FreeGroups:
    """How many hosts of a cluster are free in exactly the same spans, by these spans.

    >>> groups = FreeGroups.of([[2, [[100, 160], [200, None]]], [1, [[130, None]]]])
    >>> groups.free(100, 150), groups.free(140, 150), groups.free(200, 9999)
    (2, 3, 3)
    >>> groups.flat(150)
    [[2, [[150, 160], [200, None]]], [1, [[150, None]]]]
    """

    __slots__ = ("hosts",)

    def __init__(self, hosts: Mapping[Spans, int]) -> None:
        self.hosts = dict(hosts)

    @classmethod
    def of(cls, flat: Iterable[Sequence[Any]]) -> FreeGroups:
        """Return the groups of a flat list."""
        return cls({tuple((begin, inf if end is None else end) for begin, end in spans): n for n, spans in flat})

    def flat(self, begin: Time) -> list[list[Any]]:
        """Return the flat list from ``begin`` on, in the order of the spans; hosts that are never free are left out."""
        entries = []
        for spans, number in sorted(self._since(begin).items()):
            if spans:
                entries.append([number, [[first, None if end == inf else end] for first, end in spans]])
        return entries

    def same(self, other: FreeGroups, instant: Time) -> bool:
        """Tell whether equally many hosts are free in the same spans of both from ``instant`` on."""
        return self is other or self._since(instant) == other._since(instant)

    def free(self, begin: Time, end: Time) -> int:
        """Return how many hosts are free throughout [begin, end)."""
        return sum(number for spans, number in self.hosts.items() if _covered(spans, begin, end))

    def begins(self, now: Time) -> set[Time]:
        """Return ``now``, and the instants after it from which some host is free."""
        return {now, *(begin for spans in self.hosts for begin, _ in spans if begin > now)}

    def _since(self, instant: Time) -> Counter[Spans]:
        """Return the groups without spans that are over at ``instant``; begun spans begin at ``instant``."""
        groups: Counter[Spans] = Counter()
        for spans, number in self.hosts.items():
            groups[tuple((max(begin, instant), end) for begin, end in spans if end > instant)] += number
        groups.pop((), None)
        return groups


def _covered(spans: Spans, begin: Time, end: Time) -> bool:
    place = bisect_right(spans, (begin, inf)) - 1
    return place >= 0 and spans[place][1] >= end


def earliest_exact(
    groups: Mapping[str, FreeGroups],
    profiles: Mapping[str, BusyHosts],
    sizes: Mapping[str, int],
    hosts: Mapping[str, int],
    length: Time,
    now: Time,
) -> Time | None:
    """Return the earliest instant from ``now`` on at which ``hosts`` fit for ``length``, None if there is none.

    They fit if groups that are free throughout have enough hosts, and the counts allow them. These are the counts of
    the clusters, and of quotas if ``profiles`` has the cluster ``*``, whose size is that of all clusters of the view.
    """
    numbers = dict(hosts)
    if "*" in profiles:
        numbers["*"] = sum(hosts.values())
    visits = Visits()
    candidates = set().union(*(groups[cluster].begins(now) for cluster in hosts if cluster in groups))
    candidates |= {end for cluster in numbers for end in profiles[cluster].change_points(now)}
    for start in sorted(candidates):
        counted = earliest(profiles, sizes, numbers, length, start, visits) == start
        if counted and all(groups[cluster].free(start, start + length) >= hosts[cluster] for cluster in hosts):
            return start
    return None
