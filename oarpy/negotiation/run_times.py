"""The run time of an application by its hosts.

``rounded`` turns an exact run time or walltime into the one that is used, for example whole milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from oarpy.negotiation.profiles import Time

Rounding = Callable[[Time], Time]
Latencies = Mapping[frozenset[str], Time]
"""Seconds between two clusters; pairs that are left out have 0."""


class Cluster(NamedTuple):
    """A set of equal hosts. ``speed`` is relative to a cluster of speed 1."""

    name: str
    hosts: int
    speed: Time = 1


def exact(duration: Time) -> Time:
    """Return the duration unchanged."""
    return duration


class AmdahlTime:
    """On n hosts of one cluster: (1 - parallel + parallel / n) x single / speed."""

    __slots__ = ("parallel", "rounded", "single")

    def __init__(self, parallel: Time, single: Time, rounded: Rounding = exact) -> None:
        self.parallel = parallel
        self.single = single
        self.rounded = rounded

    def on(self, cluster: Cluster, hosts: int) -> Time:
        """Return the run time on ``hosts`` of ``cluster``."""
        share = 1 - self.parallel + _ratio(self.parallel, hosts)
        return self.rounded(_ratio(share * self.single, cluster.speed))


class IterativeTime:
    """On several clusters at once: work / sum(hosts x speed) + iterations x the greatest latency between two of them.

    With more hosts at the same latency it never runs longer. So only few sets of clusters can be the best: for each
    latency, the largest sets in which no two clusters are farther apart.
    """

    def __init__(
        self,
        work: Time,
        iterations: Time,
        clusters: Sequence[Cluster],
        latencies: Latencies,
        rounded: Rounding = exact,
    ) -> None:
        self.work = work
        self.iterations = iterations
        self.clusters = tuple(clusters)
        self.rounded = rounded
        self._latency = [[latencies.get(frozenset((a.name, b.name)), 0) for b in clusters] for a in clusters]
        self._candidates = self._largest_sets()
        self._greatest: dict[int, Time] = {}

    def on(self, hosts: Mapping[str, int]) -> Time:
        """Return the run time on the ``hosts`` of each cluster used."""
        free = tuple(hosts.get(cluster.name, 0) for cluster in self.clusters)
        return self._time(_mask(free), free)

    def best(self, free: tuple[int, ...]) -> tuple[list[int], Time]:
        """Return the set of clusters on which it runs shortest with all their free hosts, as indexes, and how long.

        Among equal sets the first in the order of binary counting wins. At least one cluster has free hosts.
        """
        there = _mask(free)
        masks = {mask & there for mask in self._candidates} - {0}
        time, mask = min((self._time(mask, free), mask) for mask in masks)
        return [index for index in range(len(free)) if mask >> index & 1], time

    def _time(self, mask: int, free: tuple[int, ...]) -> Time:
        power: Time = 0
        for index, cluster in enumerate(self.clusters):
            if mask >> index & 1:
                power += free[index] * cluster.speed
        return self.rounded(_ratio(self.work, power) + self.iterations * self._greatest_latency(mask))

    def _greatest_latency(self, mask: int) -> Time:
        """Return the greatest latency between two clusters of a set, 0 for one cluster."""
        if mask not in self._greatest:
            members = [index for index in range(len(self.clusters)) if mask >> index & 1]
            pairs = [self._latency[a][b] for a in members for b in members if a < b]
            self._greatest[mask] = max(pairs, default=0)
        return self._greatest[mask]

    def _largest_sets(self) -> list[int]:
        """Return, for each latency, the sets of clusters within it to which no cluster can be added."""
        count = range(len(self.clusters))
        bounds = {self._latency[a][b] for a in count for b in count if a != b}
        sets = {1 << index for index in count}
        for bound in bounds:
            near = [_mask([a != b and self._latency[a][b] <= bound for b in count]) for a in count]
            sets |= set(_cliques(near, 0, _mask([1 for _ in count]), 0))
        return sorted(sets)


def _ratio(number: Time, by: Time) -> Time:
    """Divide exactly where both are exact."""
    if isinstance(number, float) or isinstance(by, float):
        return number / by
    return Fraction(number) / by


def _mask(chosen: Sequence[int]) -> int:
    """Return the set of the indexes where ``chosen`` is not 0, as bits."""
    return sum(1 << index for index, flag in enumerate(chosen) if flag)


def _cliques(near: Sequence[int], inside: int, open_: int, done: int) -> list[int]:
    """Return the largest sets of indexes that are all near each other (Bron and Kerbosch), as bits."""
    if not open_ and not done:
        return [inside]
    cliques: list[int] = []
    while open_:
        bit = open_ & -open_
        neighbours = near[bit.bit_length() - 1]
        cliques += _cliques(near, inside | bit, open_ & neighbours, done & neighbours)
        open_ ^= bit
        done |= bit
    return cliques
