"""Clusters as applications see them: equal hosts under one name, cut out of the resources of the platform.

::

    property 'cluster'      red red red red       blue blue
    cores of the hosts       4   4   8   8          2    2
    CIDs                    red#1   red#2          blue
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import floor
from operator import or_

from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.consumables import Capacities, Consumable
from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, RESOURCE_ID, Platform, Resource

ALL = "all"
"""The cluster of all hosts, where no property names clusters."""
HOST = "host"
"""What is counted, unless an application asks for a level of the hierarchy."""
QUOTAS = "*"
"""Quotas reach over clusters: they are shown as the profile of this one."""

_OF_A_HOST = frozenset(
    {NETWORK_ADDRESS, RESOURCE_ID, "host", "hostname", "ip", "cpu", "core", "thread", "cpuset", "gpu", "gpudevice"}
)
"""Properties that name a host or a part of it."""
_PASSING = frozenset({"state", "state_by", "state_since", "drain", "available_upto"})
"""Columns of resources that tell how they are at the moment."""


_Kind = tuple[object, ...]
"""What is equal for the hosts of one cluster, last what they have of consumables."""


@dataclass(frozen=True)
class HostCluster:
    """Equal hosts: their names, and ``properties`` that all of them share.

    ``value`` is that of the property that names clusters, None if there is none. ``whole`` tells that no other cluster
    has it. ``sets`` are the resources of each host or, where a level is counted, of each block of that level.
    ``resources`` counts the parts of one of these by level, ``consumables`` are the amounts that one host has. One
    application may have the part ``share``; the others are busy to it.
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
        """How many hosts there are, or what is counted."""
        return len(self.sets)

    @property
    def most(self) -> int:
        """How many of them one application may have: the share of it, rounded down, and at least one."""
        return max(1, floor(self.size * Fraction(str(self.share))))


def clusters_of(
    platform: Platform, named_by: str = "", share: float = 1.0, consumables: Iterable[Consumable] = ()
) -> tuple[HostCluster, ...]:
    """Return the clusters of a platform, by lowest host; ``named_by`` is the property whose values are their names.

    One application may have the part ``share`` of each. Hosts with a resource that is not Alive, or drained, cannot be
    given, and are in none.
    """
    capacities = Capacities(consumables, platform)
    groups: dict[object, dict[_Kind, list[tuple[str, int]]]] = {}
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
        kind = *_kind(rows), _amounts(capacities, bits)
        groups.setdefault(value, {}).setdefault(kind, []).append((str(block.value), bits))
    return tuple(_clusters(platform, groups, share))


def counted_at(platform: Platform, clusters: Iterable[HostCluster], level: str) -> tuple[HostCluster, ...]:
    """Return clusters as those see them who count blocks of a level in place of hosts.

    A cluster without any is left out. Raises ``ValueError`` for what is no level of the platform.
    """
    column = platform.level(level)
    if level == HOST or column == NETWORK_ADDRESS:
        return tuple(clusters)
    if column is None:
        raise ValueError(f"'{level[:60]}' is no level of resources")
    blocks = platform.blocks(column)
    found = []
    for one in clusters:
        if sets := tuple(part for block in blocks if (part := block.bits & one.bits)):
            parts = _values([platform.resources[place] for place in positions(sets[0])])
            counts = {name: len(some) for name, some in parts.items() if name in _OF_A_HOST & platform.levels}
            found.append(replace(one, sets=sets, resources=counts))
    return tuple(found)


def _amounts(capacities: Capacities, bits: int) -> tuple[tuple[str, int], ...]:
    """Return what a host has of consumables; what it shares with other hosts counts whole."""
    amounts = capacities.amounts()
    found = ((name, int(amounts[capacities.columns_of(name, bits)].sum())) for name in capacities.stores)
    return tuple((name, amount) for name, amount in found if amount)


def _clusters(
    platform: Platform, groups: Mapping[object, Mapping[_Kind, list[tuple[str, int]]]], share: float
) -> Iterator[HostCluster]:
    for value, kinds in groups.items():
        ordered = sorted(kinds.items(), key=lambda kind: min(platform.ids_of(kind[1][0][1])))
        for number, (kind, hosts) in enumerate(ordered, 1):
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
                dict(kind[-1]),  # type: ignore[call-overload]
                share,
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
