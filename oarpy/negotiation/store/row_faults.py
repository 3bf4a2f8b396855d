"""Unreadable values in the row of an application: SQL by hand may have written any JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from oarpy.negotiation.messages import ClusterFilter
from oarpy.negotiation.store.applications import ApplicationRow
from oarpy.wire.frames import Malformed


def fault(row: ApplicationRow) -> str:
    """Return the column that cannot be read; an empty text when all can."""
    for column, check in _CHECKS.items():
        try:
            well = check(getattr(row, column.removeprefix("free_")))
        except (AttributeError, KeyError, TypeError, ValueError, Malformed):
            well = False
        if not well:
            return column
    return ""


def _is_filter(value: Mapping[str, Any]) -> bool:
    ClusterFilter.read(dict(value))
    return True


def _are_hosts(value: Mapping[str, int] | None) -> bool:
    return value is None or (bool(value) and all(type(hosts) is int and hosts > 0 for hosts in value.values()))


def _is_view(value: Mapping[str, tuple[int, list[float]]]) -> bool:
    return all(type(serial) is int and _is_profile(profile) for serial, profile in value.values())


def _is_profile(flat: list[float]) -> bool:
    """Tell whether a list is ``[begin, duration, busy, duration, busy, ...]``; views are long, and this is quick."""
    busy = flat[2::2]
    return (
        len(flat) % 2 == 1
        and {*map(type, flat)} <= {int, float}
        and {*map(type, busy)} <= {int}
        and min(busy, default=0) >= 0
        and min(flat[1::2], default=1) > 0
    )


def _is_told(value: Mapping[str, Any] | None) -> bool:
    return value is None or ("tag" in value and type(value["start"]) in (int, float, type(None)))


def _are_groups(value: Mapping[str, tuple[int, list[Any]]]) -> bool:
    """Tell whether there are groups of hosts with their free spans."""
    return all(
        type(serial) is int and all(type(hosts) is int and all(map(_is_span, spans)) for hosts, spans in groups)
        for serial, groups in value.values()
    )


def _is_span(span: list[float | None]) -> bool:
    begin, end = span
    return type(begin) in (int, float) and type(end) in (int, float, type(None))


def _are_marks(value: Mapping[str, tuple[int, int, str, str]]) -> bool:
    """Tell whether all values are numbers of views, and marks of facts about clusters and links."""
    return all([*map(type, marks)] == [int, int, str, str] for marks in value.values())


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "filter": _is_filter,
    "hosts": _are_hosts,
    "view": _is_view,
    "told": _is_told,
    "free_groups": _are_groups,
    "informed": _are_marks,
}
