"""How many hosts of clusters are busy over time, and which are free throughout, from sets of free resources.

::

    slots          0       10      20         resources    hosts     hosts of
    free           {1 2}   {2}     {1 2 3}  ------------> -------> clusters: profiles, groups
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from oarpy.negotiation.free_groups import FreeGroups, Spans
from oarpy.negotiation.profiles import BusyHosts
from oarpy.scheduler.negotiation.clusters import HostCluster
from oarpy.scheduler.resources.bit_sets import positions

FAR = 32_503_680_000
"""Epoch seconds of the year 3000: until then a host is busy that is never given back."""

Slots = tuple[Sequence[float], Sequence[int]]
"""Where periods begin, and what is free in each; the last one never ends."""


class HostCounts:
    """Counts the busy hosts of clusters over slots; made once for the clusters of a platform of ``size`` resources."""

    def __init__(self, size: int, clusters: Sequence[HostCluster]) -> None:
        self._size = (size + 7) // 8
        order: list[int] = []
        starts: list[int] = []
        first_hosts: list[int] = []
        hosts = 0
        for cluster in clusters:
            first_hosts.append(hosts)
            hosts += cluster.size
            for bits in cluster.sets:
                starts.append(len(order))
                order.extend(positions(bits))
        self._order: NDArray[np.int64] = np.array(order, dtype=np.int64)
        self._starts, self._first_hosts = starts, first_hosts
        self._clusters = clusters
        self._denied = np.array([cluster.size - cluster.most for cluster in clusters], dtype=np.int32)

    def profiles(self, slots: Slots) -> dict[str, BusyHosts]:
        """Return the profile of every cluster; hosts that stay busy for ever stay in it.

        Hosts that no one application may have besides its own are busy: those that are anyway count first.
        """
        if not self._clusters:
            return {}
        begins, free = slots
        busy = np.logical_not(self._free_hosts(free))
        counts = np.add.reduceat(busy.astype(np.int32), self._first_hosts, axis=1)
        counts = np.maximum(counts, self._denied)
        return {one.name: profile_of(begins, counts[:, column].tolist()) for column, one in enumerate(self._clusters)}

    def groups(self, slots: Slots, steps: int) -> dict[str, FreeGroups]:
        """Return for every cluster which hosts are free throughout.

        Past ``steps`` slots, a host is free that is so in all of the others but the last one, which never ends.
        """
        if not self._clusters:
            return {}
        begins, free = slots
        table = self._free_hosts(free)
        if len(table) > steps + 1:
            rest = np.logical_and.reduce(table[steps - 1 : -1], axis=0, keepdims=True)
            table = np.concatenate((table[: steps - 1], rest, table[-1:]))
            begins = (*begins[:steps], begins[-1])
        found = {}
        for cluster, first in zip(self._clusters, self._first_hosts, strict=True):
            kinds = Counter(column.tobytes() for column in table[:, first : first + cluster.size].T)
            found[cluster.name] = FreeGroups({_spans(begins, kind): number for kind, number in kinds.items()})
        return found

    def _free_hosts(self, free: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each slot, and each host of the clusters in order, whether all of the host is free."""
        packed = np.frombuffer(b"".join(one.to_bytes(self._size, "little") for one in free), dtype=np.uint8)
        table = np.unpackbits(packed.reshape(len(free), self._size), axis=1, bitorder="little")[:, self._order]
        found: NDArray[np.bool_] = np.logical_and.reduceat(table.astype(bool), self._starts, axis=1)
        return found


def _spans(begins: Sequence[float], free: bytes) -> Spans:
    """Return the spans in which a host is free, given slot by slot."""
    spans: list[tuple[float, float]] = []
    for begin, end, one in zip(begins, (*begins[1:], inf), free, strict=True):
        if one and spans and spans[-1][1] == begin:
            spans[-1] = spans[-1][0], end
        elif one:
            spans.append((begin, end))
    return tuple(spans)


def profile_of(begins: Sequence[float], busy: Sequence[int]) -> BusyHosts:
    """Return the profile of slots; the last one lasts for ever and is free but for what is never given back."""
    ends: list[float] = []
    numbers: list[int] = []
    for end, number in zip((*begins[1:], FAR), busy, strict=True):
        if numbers and numbers[-1] == number:
            ends[-1] = end
        else:
            ends.append(end)
            numbers.append(number)
    if numbers and numbers[-1] == 0:
        ends.pop()
        numbers.pop()
    return BusyHosts(tuple(ends), tuple(numbers))


def shortened(profile: BusyHosts, steps: int) -> BusyHosts:
    """Return a profile with at most ``steps`` steps: the last ones are one, with the greatest of their numbers."""
    if len(profile.ends) <= steps:
        return profile
    ends = (*profile.ends[: steps - 1], profile.ends[-1])
    busy = [*profile.busy[: steps - 1], max(profile.busy[steps - 1 :])]
    if len(busy) > 1 and busy[-1] == busy[-2]:
        return BusyHosts((*ends[:-2], ends[-1]), tuple(busy[:-1]))
    return BusyHosts(ends, tuple(busy))
