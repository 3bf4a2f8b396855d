"""How many hosts of clusters are busy over time, and which are free throughout, from sets of free resources.

::

    slots          0       10      20         resources    hosts     hosts of
    free           {1 2}   {2}     {1 2 3}  ------------> -------> clusters: profiles, groups
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from math import inf
from operator import and_, or_

import numpy as np
from numpy.typing import NDArray

from oarpy.negotiation.core.clusters import HostCluster
from oarpy.negotiation.core.host_folds import HostFolds
from oarpy.negotiation.free_groups import FreeGroups
from oarpy.negotiation.profiles import BusyHosts
from oarpy.scheduler.resources.bit_sets import positions

FAR = 32_503_680_000
"""Epoch seconds of the year 3000: the end of hosts that are never given back."""

Slots = tuple[Sequence[float], Sequence[int]]
"""The begins of periods, and the free resources in each; the last period never ends."""


class HostCounts:
    """Counts the busy hosts of clusters over slots; made once for the clusters of a platform of ``size`` resources."""

    def __init__(self, size: int, clusters: Sequence[HostCluster]) -> None:
        self._size = (size + 7) // 8
        self._clusters = clusters
        self._sizes = [(cluster, cluster.size, cluster.most) for cluster in clusters]
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

        Hosts beyond the share of one application appear busy; hosts that are busy anyway count first.
        """
        begins, free = slots
        counts = self._free_counts(free) if self._clusters else []
        return {
            cluster.name: profile_of(begins, [size - min(number, most) for number in numbers])
            for (cluster, size, most), numbers in zip(self._sizes, counts, strict=True)
        }

    def _free_counts(self, free: Sequence[int]) -> Sequence[Sequence[int]]:
        """Return for each cluster how many of its hosts are free, slot by slot."""
        if self._folds.possible:
            return list(zip(*map(self._folds.free_hosts, free), strict=True))
        table = self._free_hosts(free).astype(np.int32)
        counts: list[list[int]] = np.add.reduceat(table, self._layout[2], axis=1).T.tolist()
        return counts

    def groups(self, slots: Slots, steps: int) -> dict[str, FreeGroups]:
        """Return for every cluster which hosts are free throughout.

        Past ``steps`` slots, a host is free that is so in all of the others but the last one, which never ends.
        """
        begins, free = slots
        if len(free) > steps + 1:
            begins = (*begins[:steps], begins[-1])
            free = (*free[: steps - 1], reduce(and_, free[steps - 1 : -1]), free[-1])
        spans = self._spans(begins, free)
        groups = {}
        for cluster in self._clusters:
            groups[cluster.name] = FreeGroups(Counter(tuple(next(spans)) for _ in cluster.sets))
        return groups

    def _spans(self, begins: Sequence[float], free: Sequence[int]) -> Iterator[list[tuple[float, float]]]:
        """Yield the spans in which each host of the clusters, in order, is free; only changes are looked at."""
        hosts, owners, owned = self._owners
        spans: list[list[tuple[float, float]]] = [[] for _ in hosts]
        since: dict[int, float] = {}
        before = 0
        for begin, bits in zip(begins, free, strict=True):
            changed, taken = (bits ^ before) & owned, ~bits
            while changed:
                host = owners[(changed & -changed).bit_length() - 1]
                changed &= ~hosts[host]
                is_free = not hosts[host] & taken
                if is_free and host not in since:
                    since[host] = begin
                elif not is_free and host in since:
                    spans[host].append((since.pop(host), begin))
            before = bits
        for host, begin in since.items():
            spans[host].append((begin, inf))
        return iter(spans)

    @cached_property
    def _owners(self) -> tuple[list[int], dict[int, int], int]:
        """The resources of all hosts in order, which host each resource is of, and all of these resources."""
        hosts = [bits for cluster in self._clusters for bits in cluster.sets]
        owners = {place: host for host, bits in enumerate(hosts) for place in positions(bits)}
        return hosts, owners, reduce(or_, hosts, 0)

    def _free_hosts(self, free: Sequence[int]) -> NDArray[np.bool_]:
        """Return for each slot, and each host of the clusters in order, whether all of the host is free."""
        order, starts, _ = self._layout
        packed = np.frombuffer(b"".join(bits.to_bytes(self._size, "little") for bits in free), dtype=np.uint8)
        table = np.unpackbits(packed.reshape(len(free), self._size), axis=1, bitorder="little")[:, order]
        whole: NDArray[np.bool_] = np.logical_and.reduceat(table.astype(bool), starts, axis=1)
        return whole


def profile_of(begins: Sequence[float], busy: Sequence[int]) -> BusyHosts:
    """Return the profile of slots; the last step lasts for ever, and only hosts never given back are busy in it."""
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
    """Return a profile with at most ``steps`` steps: the last ones become one, with the greatest of their numbers."""
    if len(profile.ends) <= steps:
        return profile
    ends = (*profile.ends[: steps - 1], profile.ends[-1])
    busy = [*profile.busy[: steps - 1], max(profile.busy[steps - 1 :])]
    if len(busy) > 1 and busy[-1] == busy[-2]:
        return BusyHosts((*ends[:-2], ends[-1]), tuple(busy[:-1]))
    return BusyHosts(ends, tuple(busy))
