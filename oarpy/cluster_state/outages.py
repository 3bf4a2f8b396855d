"""Resources that no job gets for a time: maintenance windows, and the ends of their availability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import reduce
from operator import or_

from oarpy.scheduler.resources.platform import NETWORK_ADDRESS, Platform, Resource
from oarpy.scheduler.snapshot import Outage
from oarpy.store.database import Connection
from oarpy.store.platform import maintenance

_FAR = 10 * 365 * 86400
"""The number of seconds from now beyond which a date does not count."""
_MOST_NAMED = 5
"""Nodes of an outage that its reason names."""


def maintenance_outages(connection: Connection, platform: Platform, now: float) -> tuple[list[Outage], float]:
    """Return the maintenance windows that are under way or to come, and when the first of them ends."""
    nodes = {str(block.value): block.bits for block in platform.blocks(NETWORK_ADDRESS)}
    outages, over = [], math.inf
    for row in maintenance.valid(connection):
        bits = reduce(or_, (nodes.get(name, 0) for name in row.nodes))
        if bits and row.end > now:
            over = min(over, row.end)
            why = f" ({' '.join(row.reason.split())})" if row.reason else ""
            outages.append(
                Outage(math.floor(row.begin), bits, math.ceil(row.end), f"maintenance of {_listed(row.nodes)}{why}")
            )
    return outages, over


def available_until(row: Resource) -> float | None:
    """Return when a resource is not available any more (epoch seconds), None if that is not known."""
    until = row.properties["available_upto"]
    return until.timestamp() if isinstance(until, datetime) else None


def ends_of_availability(rows: Sequence[Resource], platform: Platform, now: float) -> Iterator[Outage]:
    """Yield an outage for each instant at which resources cease to be available; dates far away are left out."""
    by_end: dict[float, list[Resource]] = {}
    for row in rows:
        until = available_until(row)
        if until is not None and now < until < now + _FAR:
            by_end.setdefault(until, []).append(row)
    for until in sorted(by_end):
        names = dict.fromkeys(str(row.properties[NETWORK_ADDRESS] or f"resource {row.id}") for row in by_end[until])
        yield Outage(
            until, platform.bits_of(row.id for row in by_end[until]), reason=f"{_listed([*names])} not available"
        )


def _listed(names: Sequence[str]) -> str:
    """Return the names joined, only the first ones if there are many."""
    return ", ".join(names[:_MOST_NAMED]) + (" ..." if len(names) > _MOST_NAMED else "")
