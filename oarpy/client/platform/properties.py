"""``oarproperty``: the columns of resources that filters and requests may name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from oarpy.admission.filters.parts import is_word_of_sql
from oarpy.client.rendering import Column, JsonValue, Table
from oarpy.client.session import Session
from oarpy.model.errors import NotFound, OarpyError, UsageError
from oarpy.store.platform import consumables, properties
from oarpy.store.platform.properties import Property

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_RESERVED = frozenset({"nodes", "walltime"})


def add(session: Session, name: str, kind: str) -> None:
    """Add a property without values. Only an admin may."""
    session.require_admin("add properties")
    with session.connection.transaction():
        require_new(session, name)
        properties.add(session.connection, name, kind)


def delete(session: Session, name: str) -> None:
    """Drop a property with its values, unless oarpy or a live job needs it. Only an admin may."""
    session.require_admin("delete properties")
    with session.connection.transaction():
        _require_free(session, name)
        if (consumable := consumables.of_level(session.connection, name)) is not None:
            raise OarpyError(f"property '{name}' is the level of consumable '{consumable}'", hint="delete that first")
        properties.delete(session.connection, name)


def rename(session: Session, text: str) -> tuple[str, str]:
    """Give a property another name, written ``old,new``; return both. Only an admin may."""
    session.require_admin("rename properties")
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2:
        raise UsageError(f"'{text[:60]}' is not old,new", hint="for example -r mem,memory")
    old, new = parts
    with session.connection.transaction():
        _require_free(session, old)
        require_new(session, new)
        properties.rename(session.connection, old, new)
    return old, new


def require_new(session: Session, name: str) -> None:
    """Raise unless a property may be made that is called ``name``."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name[:60]}' is no name for a property", hint="lower-case letters, digits and _")
    if name in _RESERVED:
        raise UsageError(f"'{name}' has a meaning in requests", hint="choose another name")
    if is_word_of_sql(name):
        raise UsageError(f"'{name}' is a word of SQL, so conditions could not name it", hint="choose another name")
    if properties.column_exists(session.connection, name):
        raise OarpyError(f"property '{name}' exists already", hint="oarproperty -l lists them")
    if name in {consumable.name for consumable in consumables.consumables(session.connection)}:
        raise OarpyError(f"'{name}' is a consumable already", hint="choose another name")


def _require_free(session: Session, name: str) -> None:
    """Raise unless ``name`` is a property that neither oarpy, its configuration nor a live job needs."""
    known = {row.name: row for row in properties.properties(session.connection)}
    if name not in known:
        raise NotFound(f"there is no property '{name[:60]}'", hint="oarproperty -l lists them")
    if known[name].protected:
        raise OarpyError(f"property '{name}' is part of oarpy", hint="it can be neither deleted nor renamed")
    scheduler = session.configuration.scheduler
    for setting, named in (("resource_order", scheduler.resource_order), ("node_type", (scheduler.node_type,))):
        if name in named:
            raise OarpyError(f"property '{name}' is in scheduler.{setting}", hint="take it out of there first")
    job = properties.live_user(session.connection, name)
    if job is not None:
        raise OarpyError(f"property '{name}' is in the request of job {job}", hint="wait for it, or delete it first")


def table(listed: Sequence[Property]) -> str:
    """Return a line a property."""
    columns = (Column("Property", 20), Column("Type", 11), Column("Protected"))
    return Table(columns, tuple((row.name, row.kind, "yes" if row.protected else "no") for row in listed)).text()


def document(listed: Sequence[Property]) -> dict[str, JsonValue]:
    """Return an object keyed by property."""
    return {row.name: {"type": row.kind, "protected": row.protected} for row in listed}
