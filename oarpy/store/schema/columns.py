"""How tables are described: a name, what it is for, its columns. ``METADATA`` collects them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CheckConstraint, Column, Identity, MetaData, Table, text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.sql.elements import TextClause, conv
from sqlalchemy.sql.schema import SchemaItem
from sqlalchemy.types import TypeEngine

# PostgreSQL's own names for what has none
METADATA = MetaData(
    naming_convention={
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
    }
)

INSTANT = TIMESTAMP(timezone=True)
NOW = text("now()")
"""When the transaction began."""
CLOCK = text("clock_timestamp()")
"""When the row is written."""
ME = text("SESSION_USER")


def table(name: str, meaning: str, *parts: SchemaItem) -> Table:
    """Return a table of ``METADATA`` with what it is for."""
    return Table(name, METADATA, *parts, comment=meaning)


def column(
    name: str,
    kind: type[TypeEngine[Any]] | TypeEngine[Any],
    meaning: str,
    *parts: SchemaItem,
    default: str | float | TextClause | None = None,
    optional: bool = False,
    key: bool = False,
    check: str = "",
) -> Column[Any]:
    """Return a column with what it is for; without ``optional`` it is NOT NULL.

    ``default`` is a value, or SQL as ``text``; ``check`` a condition on the column alone; ``key`` says that it belongs
    to the primary key.
    """
    rules = [CheckConstraint(check, name=name)] if check else []
    return Column(
        name,
        kind,
        *parts,
        *rules,
        comment=meaning,
        nullable=optional,
        primary_key=key,
        # a key counts up only where it says so
        autoincrement="auto" if any(isinstance(part, Identity) for part in parts) else False,
        server_default=text(str(default).lower()) if isinstance(default, int | float) else default,
    )


def rule(name: str, condition: str) -> CheckConstraint:
    """Return a condition on the columns of a row, by the full name of its constraint."""
    return CheckConstraint(condition, name=conv(name))
