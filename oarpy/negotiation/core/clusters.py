"""Clusters as applications see them: equal hosts under one name, cut out of the resources of the platform.

::

    property 'cluster'      red red red red       blue blue
    cores of the hosts       4   4   8   8          2    2
    CIDs                    red#1   red#2          blue
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import floor
from operator import or_

from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.consumables import Capacities, Consumable
from oarpy.scheduler.resources.platform import ASLEEP, NETWORK_ADDRESS, RESOURCE_ID, Platform, Resource

ALL = "all"
"""The cluster of all hosts, where no property names clusters."""
HOST = "host"
"""The unit of counting, unless an application asks for a level of the hierarchy."""
QUOTAS = "*"
"""Quotas reach over clusters: they are shown as the profile of this one."""

_OF_A_HOST = frozenset(
    {NETWORK_ADDRESS, RESOURCE_ID, "host", "hostname", "ip", "cpu", "core", "thread", "cpuset", "gpu", "gpudevice"}
)
"""Properties that name a host or a part of it, with any values."""
_PASSING = frozenset({"state", "state_by", "state_since", "drain", "available_upto", ASLEEP})
"""Properties that describe the present state of resources."""
_ENOUGH = 3
"""The least number of hosts with distinct texts in a property for that property to count as a name of hosts."""
_Values = dict[str, set[object]]
"""The values that the resources of a host have of each property."""
_Kind = tuple[object, ...]
"""A value that is equal for all hosts of one cluster."""


@dataclass(frozen=True, slots=True)
class _Host:
    name: str
    bits: int
    values: _Values
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class HostCluster:
    """Equal hosts: their names, and ``properties`` that all of them share.

    ``value`` is that of the property that names clusters, None if there is none. ``whole`` is true if no other cluster
    has it. ``sets`` are the resources of each host or, if a level is counted, of each block of that level.
    ``resources`` counts the parts of one of these by level, ``consumables`` are the amounts of one host. One
    application may have the part ``share``; the others appear busy to it.
    """

    name: str
    value: object
    whole: bool
    hosts: tuple[str, ...]
    sets: tuple[int, ...]
    resources: Mapping[str, int]
    properties: Mapping[str, object]
    consumables: Mapping[str, int]
    share: float

    @cached_property
    def bits(self) -> int:
        """All resources of the cluster."""
        return reduce(or_, self.sets, 0)

    @property
    def size(self) -> int:
        """The number of hosts, or of the blocks counted in their place."""
        return len(self.sets)

    @property
    def most(self) -> int:
        """The most of them that one application may have: the share of it, rounded down, and at least one."""
        return max(1, floor(self.size * Fraction(str(self.share))))


def clusters_of(
    platform: Platform, named_by: str = "", share: float = 1.0, consumables: Iterable[Consumable] = ()
) -> tuple[HostCluster, ...]:
    """Return the clusters of a platform, by lowest host; ``named_by`` is the property whose values are their names.

    One application may have the part ``share`` of each. Hosts with a resource that is not Alive, or that is drained,
    cannot be given, and are in no cluster.
    """
    capacities = Capacities(consumables, platform)
    groups: dict[object, list[_Host]] = {}
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
        host = _Host(str(block.value), bits, _values(rows), _amounts(capacities, bits))
        groups.setdefault(value, []).append(host)
    return tuple(_clusters(platform, groups, share))


def counted_at(platform: Platform, clusters: Iterable[HostCluster], level: str) -> tuple[HostCluster, ...]:
    """Return clusters as applications see them that count blocks of a level in place of hosts.

    A cluster without such blocks is left out. Raises ``ValueError`` for an unknown level.
    """
    column = platform.level(level)
    if level == HOST or column == NETWORK_ADDRESS:
        return tuple(clusters)
    if column is None:
        raise ValueError(f"'{level[:60]}' is no level of resources")
    blocks = platform.blocks(column)
    counted = []
    for cluster in clusters:
        if sets := tuple(part for block in blocks if (part := block.bits & cluster.bits)):
            parts = _values([platform.resources[place] for place in positions(sets[0])])
            counts = {name: len(parts[name]) for name in cluster.resources if name in parts}
            counted.append(replace(cluster, sets=sets, resources=counts))
    return tuple(counted)


def _amounts(capacities: Capacities, bits: int) -> tuple[tuple[str, int], ...]:
    """Return the amounts of consumables of a host; an amount shared with other hosts counts whole."""
    amounts = capacities.amounts()
    pairs = ((name, int(amounts[capacities.columns_of(name, bits)].sum())) for name in capacities.stores)
    return tuple((name, amount) for name, amount in pairs if amount)


def _clusters(platform: Platform, groups: Mapping[object, Sequence[_Host]], share: float) -> Iterator[HostCluster]:
    for value, members in groups.items():
        naming = _naming(members)
        kinds: dict[_Kind, list[_Host]] = {}
        for host in members:
            kinds.setdefault(_kind(host, naming), []).append(host)
        ordered = sorted(kinds.values(), key=lambda hosts: min(platform.ids_of(hosts[0].bits)))
        for number, hosts in enumerate(ordered, 1):
            values = hosts[0].values
            yield HostCluster(
                str(value) if len(ordered) == 1 else f"{value}#{number}",
                value,
                len(ordered) == 1,
                tuple(host.name for host in hosts),
                tuple(host.bits for host in hosts),
                {name: len(some) for name, some in values.items() if _counts(name, some, platform)},
                {name: next(iter(some)) for name, some in values.items() if name not in naming and len(some) == 1},
                dict(hosts[0].amounts),
                share,
            )


def _counts(name: str, values: Collection[object], platform: Platform) -> bool:
    """Tell whether a property is a level of which a host has parts."""
    return name in platform.levels and (name in _OF_A_HOST or len(values) > 1)


def _naming(hosts: Sequence[_Host]) -> frozenset[str]:
    """Return the properties that name these hosts or parts of them.

    Besides the well-known ones, they are properties with a distinct value for each host. These either are texts with a
    digit, as addresses and serial numbers are, or have several values in a host, as levels within it do.
    """
    naming = set(_OF_A_HOST)
    for name in {name for host in hosts for name in host.values} - _OF_A_HOST:
        sets = [host.values.get(name, set()) for host in hosts]
        apart = all(sets) and sum(map(len, sets)) == len(set().union(*sets))
        inside = any(len(some) > 1 for some in sets)
        if apart and (inside or (len(hosts) >= _ENOUGH and all(map(_identifies, set().union(*sets))))):
            naming.add(name)
    return frozenset(naming)


def _identifies(value: object) -> bool:
    return isinstance(value, str) and any(sign.isdigit() for sign in value)


def _kind(host: _Host, naming: frozenset[str]) -> _Kind:
    """Return a key for hosts of one class: number of resources, plain properties, parts, and consumables."""
    plain = sorted((name, sorted(map(repr, some))) for name, some in host.values.items() if name not in naming)
    parts = sorted((name, len(some)) for name, some in host.values.items() if name in naming)
    return host.bits.bit_count(), repr(plain), repr(parts), host.amounts


def _values(rows: Sequence[Resource]) -> _Values:
    """Return the values of each property, except properties of the present state."""
    values: _Values = {}
    for row in rows:
        for name, value in row.properties.items():
            if name not in _PASSING and value is not None:
                values.setdefault(name, set()).add(value)
    return values
