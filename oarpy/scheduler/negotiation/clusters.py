"""Clusters as applications see them: equal hosts under one name, cut out of the resources of the platform.

::

    property 'cluster'      red red red red       blue blue
    cores of the hosts       4   4   8   8          2    2
    CIDs                    red#1   red#2          blue
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor

import numpy as np
from numpy.typing import NDArray

from oarpy.negotiation.profiles import BusyHosts
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, RESOURCE_ID, Platform, Resource

ALL = "all"
"""The cluster of all hosts, where no property names clusters."""

_OF_A_HOST = frozenset(
    {NETWORK_ADDRESS, RESOURCE_ID, "host", "hostname", "ip", "cpu", "core", "thread", "cpuset", "gpu", "gpudevice"}
)
"""Properties that name a host or a part of it."""
_PASSING = frozenset({"state", "state_by", "state_since", "drain", "available_upto"})
"""Columns of resources that tell how they are at the moment."""


@dataclass(frozen=True)
class HostCluster:
    """Equal hosts: their names, and the resources of each as a set; ``properties`` are what all of them share.

    ``value`` is that of the property that names clusters, None if there is none. ``whole`` tells that no other cluster
    has it. One application may have ``most`` of the hosts; the others are busy to it.
    """

    name: str
    value: object
    whole: bool
    hosts: tuple[str, ...]
    sets: tuple[int, ...]
    resources: Mapping[str, int]
    properties: Mapping[str, object]
    most: int

    @cached_property
    def bits(self) -> int:
        """All resources of the cluster."""
        bits = 0
        for one in self.sets:
            bits |= one
        return bits


def clusters_of(platform: Platform, named_by: str = "", share: float = 1.0) -> tuple[HostCluster, ...]:
    """Return the clusters of a platform, by lowest host; ``named_by`` is the property whose values are their names.

    One application may have the part ``share`` of the hosts of each, rounded down, and at least one host. Hosts
    with a resource that is not Alive, or drained, cannot be given, and are in none.
    """
    groups: dict[object, dict[tuple[object, ...], list[tuple[str, int]]]] = {}
    for block in platform.blocks(NETWORK_ADDRESS):
        bits = block.bits & platform.default_type
        if not bits or bits & ~platform.alive:
            continue
        rows = [platform.resources[place] for place in positions(bits)]
        if any(row.properties.get("drain") for row in rows):
            continue
        value = rows[0].properties.get(named_by) if named_by else ALL
        if value is None:
            continue
        groups.setdefault(value, {}).setdefault(_kind(rows), []).append((str(block.value), bits))
    return tuple(_clusters(platform, groups, share))


def _clusters(
    platform: Platform, groups: Mapping[object, Mapping[tuple[object, ...], list[tuple[str, int]]]], share: float
) -> Iterator[HostCluster]:
    for value, kinds in groups.items():
        ordered = sorted(kinds.values(), key=lambda hosts: min(platform.ids_of(hosts[0][1])))
        for number, hosts in enumerate(ordered, 1):
            name = str(value) if len(ordered) == 1 else f"{value}#{number}"
            values = _values([platform.resources[place] for place in positions(hosts[0][1])])
            yield HostCluster(
                name,
                value,
                len(ordered) == 1,
                tuple(host for host, _ in hosts),
                tuple(bits for _, bits in hosts),
                {name: len(some) for name, some in values.items() if name in _OF_A_HOST & platform.levels},
                {name: some.pop() for name, some in values.items() if name not in _OF_A_HOST and len(some) == 1},
                max(1, floor(len(hosts) * share)),
            )


def _kind(rows: Sequence[Resource]) -> tuple[object, ...]:
    """Return what is equal for hosts of one class: their numbers of resources, and the properties of these."""
    values = _values(rows)
    plain = sorted((name, sorted(map(repr, some))) for name, some in values.items() if name not in _OF_A_HOST)
    parts = sorted((name, len(some)) for name, some in values.items() if name in _OF_A_HOST)
    return len(rows), repr(plain), repr(parts)


def _values(rows: Sequence[Resource]) -> dict[str, set[object]]:
    """Return the values of each property, but for those that change while a host stays what it is."""
    found: dict[str, set[object]] = {}
    for row in rows:
        for name, value in row.properties.items():
            if name not in _PASSING and value is not None:
                found.setdefault(name, set()).add(value)
    return found


class HostCounts:
    """Counts the busy hosts of clusters over a timeline; made once for a platform and its clusters."""

    def __init__(self, platform: Platform, clusters: Sequence[HostCluster]) -> None:
        self._size = (len(platform.ids) + 7) // 8
        order: list[int] = []
        starts: list[int] = []
        first_hosts: list[int] = []
        hosts = 0
        for cluster in clusters:
            first_hosts.append(hosts)
            hosts += len(cluster.hosts)
            for bits in cluster.sets:
                starts.append(len(order))
                order.extend(positions(bits))
        self._order: NDArray[np.int64] = np.array(order, dtype=np.int64)
        self._starts, self._first_hosts = starts, first_hosts
        self._names = [cluster.name for cluster in clusters]
        self._denied = np.array([len(cluster.hosts) - cluster.most for cluster in clusters], dtype=np.int32)

    def profiles(self, timeline: Timeline) -> dict[str, BusyHosts]:
        """Return the profile of every cluster as ``timeline`` is now; hosts that stay busy for ever stay in it.

        Hosts that no one application may have besides its own are busy: those that are anyway count first.
        """
        if not self._names:
            return {}
        begins, free = timeline.slots()
        packed = np.frombuffer(b"".join(one.to_bytes(self._size, "little") for one in free), dtype=np.uint8)
        table = np.unpackbits(packed.reshape(len(free), self._size), axis=1, bitorder="little")[:, self._order]
        busy_hosts = np.logical_not(np.logical_and.reduceat(table.astype(bool), self._starts, axis=1))
        counts = np.add.reduceat(busy_hosts.astype(np.int32), self._first_hosts, axis=1)
        counts = np.maximum(counts, self._denied)
        return {name: _profile(begins, counts[:, column].tolist()) for column, name in enumerate(self._names)}


def _profile(begins: Sequence[float], busy: Sequence[int]) -> BusyHosts:
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


FAR = 32_503_680_000
"""Epoch seconds of the year 3000: until then a host is busy that is never given back."""


def shortened(profile: BusyHosts, steps: int) -> BusyHosts:
    """Return a profile with at most ``steps`` steps: the last ones are one, with the greatest of their numbers."""
    if len(profile.ends) <= steps:
        return profile
    ends = (*profile.ends[: steps - 1], profile.ends[-1])
    busy = [*profile.busy[: steps - 1], max(profile.busy[steps - 1 :])]
    if len(busy) > 1 and busy[-1] == busy[-2]:
        return BusyHosts((*ends[:-2], ends[-1]), tuple(busy[:-1]))
    return BusyHosts(ends, tuple(busy))
