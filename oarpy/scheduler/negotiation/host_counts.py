"""How many hosts of clusters are busy over time, and which are free throughout, from sets of free resources.

::

    slots          0       10      20         resources    hosts     hosts of
    free           {1 2}   {2}     {1 2 3}  ------------> -------> clusters: profiles, groups
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from oarpy.negotiation.free_groups import FreeGroups, Spans
from oarpy.negotiation.profiles import BusyHosts
from oarpy.scheduler.negotiation.clusters import HostCluster
from oarpy.scheduler.negotiation.host_folds import HostFolds
from oarpy.scheduler.resources.bit_sets import positions

FAR = 32_503_680_000
"""Epoch seconds of the year 3000: until then a host is busy that is never given back."""

Slots = tuple[Sequence[float], Sequence[int]]
"""Where periods begin, and what is free in each; the last one never ends."""


class HostCounts:
    """Counts the busy hosts of clusters over slots; made once for the clusters of a platform of ``size`` resources."""

    def __init__(self, size: int, clusters: Sequence[HostCluster]) -> None:
        self._size = (size + 7) // 8
        self._clusters = clusters
        self._sizes = [(one, one.size, one.most) for one in clusters]
        self._folds = HostFolds(clusters)

    @cached_property
    def _layout(self) -> tuple[NDArray[np.int64], list[int], list[int]]:
        """The resources of all hosts in order, where each host begins there, and the first host of each cluster."""
        order: list[int] = []
        starts: list[int] = []
        first_hosts: list[int] = []
        for cluster in self._clusters:
            first_hosts.append(len(starts))
            for bits in cluster.sets:
                starts.append(len(order))
                order.extend(positions(bits))
        return np.array(order, dtype=np.int64), starts, first_hosts

    def profiles(self, slots: Slots) -> dict[str, BusyHosts]:
        """Return the profile of every cluster; hosts that stay busy for ever stay in it.

        Hosts that no one application may have besides its own are busy: those that are anyway count first.
        """
        begins, free = slots
        counts = self._free_counts(free) if self._clusters else []
        return {
            one.name: profile_of(begins, [size - min(number, most) for number in numbers])
            for (one, size, most), numbers in zip(self._sizes, counts, strict=True)
        }

    def _free_counts(self, free: Sequence[int]) -> Sequence[Sequence[int]]:
        """Return for each cluster how many of its hosts are free, slot by slot."""
        if self._folds.possible:
            return list(zip(*map(self._folds.free_hosts, free), strict=True))
        table = self._free_hosts(free).astype(np.int32)
        found: list[list[int]] = np.add.reduceat(table, self._layout[2], axis=1).T.tolist()
        return found

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
        for cluster, first in zip(self._clusters, self._layout[2], strict=True):
            kinds = Counter(column.tobytes() for column in table[:, first : first + cluster.size].T)
            found[cluster.name] = FreeGroups({_spans(begins, kind): number for kind, number in kinds.items()})
        return found

    def _free_hosts(self, free: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each slot, and each host of the clusters in order, whether all of the host is free."""
        order, starts, _ = self._layout
        packed = np.frombuffer(b"".join(one.to_bytes(self._size, "little") for one in free), dtype=np.uint8)
        table = np.unpackbits(packed.reshape(len(free), self._size), axis=1, bitorder="little")[:, order]
        found: NDArray[np.bool_] = np.logical_and.reduceat(table.astype(bool), starts, axis=1)
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
