"""Consumables for admins: declare them, say how much of them blocks have, list, delete."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oarpy.client.rendering import Column, JsonValue, Table
from oarpy.client.session import Session
from oarpy.model.amounts import format_amount, parse_amount
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.store.platform import consumables, properties
from oarpy.store.platform.consumables import UNITS, Capacity, ConsumableRow

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_RESERVED = frozenset({"nodes", "walltime"})
_KINDS_OF_LEVELS = frozenset({"integer", "text"})
_MOST_NAMED = 5

Amounts = Mapping[str, "int | None"]
"""Capacities to give to blocks, by consumable; None takes one away."""


def add(session: Session, name: str, level: str, unit: str) -> None:
    """Declare a consumable; no block has any capacity of it yet. Only an admin may."""
    session.require_admin("declare consumables")
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name[:60]}' is no name for a consumable", hint="lower-case letters, digits and _")
    if name in _RESERVED:
        raise UsageError(f"'{name}' has a meaning in requests", hint="choose another name")
    if unit not in UNITS:
        raise UsageError(f"'{unit[:40]}' is no unit", hint=" or ".join(UNITS))
    with session.connection.transaction():
        known = {row.name: row for row in properties.properties(session.connection)}
        if level not in known:
            raise NotFound(f"there is no property '{level[:60]}'", hint="oarproperty -l lists them")
        if known[level].kind not in _KINDS_OF_LEVELS:
            raise UsageError(f"property '{level}' cannot be a level: it is a {known[level].kind}")
        if properties.column_exists(session.connection, name):
            raise OarpyError(f"'{name}' is a property already", hint="choose another name, or delete the property")
        if name in {consumable.name for consumable in consumables.consumables(session.connection)}:
            raise OarpyError(f"consumable '{name}' exists already", hint="oaradmin consumables list shows it")
        consumables.add(session.connection, ConsumableRow(name, level, unit))


def delete(session: Session, name: str) -> None:
    """Remove a consumable with its capacities, unless a live job asks for it. Only an admin may."""
    session.require_admin("delete consumables")
    with session.connection.transaction():
        if name not in {consumable.name for consumable in consumables.consumables(session.connection)}:
            raise NotFound(f"there is no consumable '{name[:60]}'", hint="oaradmin consumables list shows them")
        job = consumables.live_user(session.connection, name)
        if job is not None:
            raise OarpyError(f"job {job} asks for consumable '{name}'", hint="wait for it, or delete it first")
        consumables.delete(session.connection, name)


def split(session: Session, words: Sequence[str]) -> tuple[Amounts, tuple[str, ...]]:
    """Separate assignments of capacities (``memory=64G``, ``memory!``) from assignments of properties.

    Raises :class:`UsageError` for a word that is no amount.
    """
    known = {consumable.name for consumable in consumables.consumables(session.connection)} if words else set()
    amounts: dict[str, int | None] = {}
    others = []
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        name = name if equals else name.removesuffix("!")
        if name not in known or not (equals or word.endswith("!")):
            others.append(word)
        elif name in amounts:
            raise UsageError(f"consumable '{name}' is given twice")
        else:
            amounts[name] = parse_amount(text) if equals else None
    return amounts, tuple(others)


def give(session: Session, amounts: Amounts, resources: Sequence[int]) -> None:
    """Give these capacities to the blocks that these resources lie in, in the caller's transaction.

    Raises :class:`OarpyError` when jobs hold more than that.
    """
    known = {consumable.name: consumable for consumable in consumables.consumables(session.connection)}
    for name, amount in amounts.items():
        level = known[name].level
        blocks = consumables.blocks_of(session.connection, level, resources)
        if not blocks:
            raise UsageError(f"none of the resources has a {level}, where {name} lies", hint="nothing was changed")
        for stock in consumables.locked(session.connection, name, blocks):
            if stock.held > (amount or 0):
                jobs = consumables.holders(session.connection, name, [stock.block])
                named = ", ".join(map(str, jobs[:_MOST_NAMED])) + (", ..." if len(jobs) > _MOST_NAMED else "")
                held = shown(stock.held, known[name].unit)
                raise OarpyError(f"jobs hold {held} of {name} on {stock.block}: {named}", hint="nothing was changed")
        consumables.set_capacities(session.connection, name, blocks, amount)


def shown(amount: int, unit: str) -> str:
    """Return an amount as people read it: ``16G`` of bytes, ``1024`` of countable units."""
    return format_amount(amount) if unit == "bytes" else str(amount)


def table(listed: Sequence[ConsumableRow], capacities: Sequence[Capacity]) -> str:
    """Return a line a block; a consumable that no block has is a line by itself."""
    columns = tuple(map(Column, ("Consumable", "Level", "Unit", "Block", "Capacity", "Held")))
    rows = []
    for row in listed:
        blocks = [capacity for capacity in capacities if capacity.consumable == row.name]
        rows += [
            (row.name, row.level, row.unit, each.block, shown(each.capacity, row.unit), shown(each.held, row.unit))
            for each in blocks
        ] or [(row.name, row.level, row.unit, "", "", "")]
    return Table(columns, tuple(rows)).text()


def document(listed: Sequence[ConsumableRow], capacities: Sequence[Capacity]) -> dict[str, JsonValue]:
    """Return an object keyed by consumable, with the capacity and the held amount of each block."""
    return {
        row.name: {
            "level": row.level,
            "unit": row.unit,
            "blocks": {
                each.block: {"capacity": each.capacity, "held": each.held}
                for each in capacities
                if each.consumable == row.name
            },
        }
        for row in listed
    }
