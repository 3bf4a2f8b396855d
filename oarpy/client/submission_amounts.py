"""Amounts of consumables in a request: whether they exist, and which resources could ever give them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from psycopg import sql

from oarpy.model.amounts import format_amount
from oarpy.model.errors import UsageError
from oarpy.model.request import Consumption, ResourceRequest
from oarpy.store.consumables import Consumable, capacities, consumables
from oarpy.store.database import Connection

SqlCondition = tuple[str, tuple[object, ...]]
"""A condition on ``resources`` and the values of its ``%s``."""

# A resource that is in no block, such as a licence, gives nothing and lacks nothing.
_ENOUGH = (
    "({level} IS NULL OR {level}::text IN"
    " (SELECT block FROM consumable_capacities WHERE consumable = %s AND capacity >= %s))"
)


def check_consumables(
    connection: Connection, alternatives: Sequence[ResourceRequest], properties: Mapping[str, str]
) -> None:
    """Raise :class:`UsageError` for an amount of what is no consumable, and for a consumable in place of a level."""
    levels = {level.name for way in alternatives for group in way.groups for level in group.levels}
    wanted = [one.name for way in alternatives for one in way.consumes]
    if not wanted and levels <= {"nodes", *properties}:
        return
    known = [one.name for one in consumables(connection)]
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            listed = f"consumables: {', '.join(known)}" if known else "leave it out of the request"
            raise UsageError(
                f"there is no consumable '{name}' here", hint=f"did you mean {close[0]}?" if close else listed
            )
    for name in levels & set(known) - set(properties):
        raise UsageError(f"'{name}' is a consumable, not a level", hint=f"amounts come last: /nodes=1,{name}=4")


def enough(connection: Connection, request: ResourceRequest) -> SqlCondition | None:
    """Return the condition that resources meet which could give what ``request`` asks for, None if all could."""
    if not request.consumes:
        return None
    known = {one.name: one for one in consumables(connection)}
    parts = [sql.SQL(_ENOUGH).format(level=sql.Identifier(known[one.name].level)) for one in request.consumes]
    text = sql.SQL(" AND ").join(parts).as_string(connection)
    return text, tuple(value for one in request.consumes for value in (one.name, one.amount))


def too_much(connection: Connection, request: ResourceRequest) -> str | None:
    """Say which amount no block has, None when each is somewhere."""
    known = {one.name: one for one in consumables(connection)} if request.consumes else {}
    return next((text for one in request.consumes if (text := _too_much(connection, one, known[one.name]))), None)


def _too_much(connection: Connection, asked: Consumption, consumable: Consumable) -> str | None:
    largest = max((one.capacity for one in capacities(connection) if one.consumable == asked.name), default=0)
    if largest >= asked.amount:
        return None
    return f"{asked} is more than any {consumable.level} has (the largest has {format_amount(largest)})"
