"""How tables are described: a name, a meaning, columns. ``METADATA`` collects them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CheckConstraint, Column, Double, Identity, MetaData, Numeric, Table, text
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, TIMESTAMP, TSTZMULTIRANGE, TSTZRANGE
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.sql.elements import TextClause, conv
from sqlalchemy.sql.schema import SchemaItem
from sqlalchemy.types import TypeEngine, UserDefinedType

# PostgreSQL's own names for objects without a name
METADATA = MetaData(
    naming_convention={
        "ck": "%(table_name)s_%(constraint_name)s_check",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
    }
)


class TransactionNumber(UserDefinedType[str]):
    """The number of a transaction, which never comes again (``xid8``)."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type."""
        return "xid8"


ischema_names["xid8"] = TransactionNumber

INSTANT = TIMESTAMP(timezone=True)
NOW = text("now()")
"""When the transaction began."""
CLOCK = text("clock_timestamp()")
"""When the row is written."""
ME = text("SESSION_USER")
AUTHOR = text("coalesce(nullif(current_setting('oarpy.author', true), ''), SESSION_USER)")
"""The user for whom the transaction acts, as a command says; else the role that is connected."""
LONGEST_REQUEST = 10 * 366 * 86400
"""Seconds that commands let anybody ask for."""
MANY = 1 << 53
"""Up to here every whole number is one of JSON and of floats; counters that never end begin again there."""

_EARLIEST, _LATEST = "TIMESTAMPTZ '1970-01-01 00:00:00+00'", "TIMESTAMPTZ '3000-01-01 00:00:00+00'"
_LONGEST = 1_000_000_000
"""Seconds: the longest shift that a dependency may have. Walltimes that grow stay below it too."""
_SOUND_RANGE = (
    f"isempty({{0}}) OR ((NOT lower_inf({{0}})) AND (lower({{0}}) >= {_EARLIEST})"
    f" AND (upper_inf({{0}}) OR (upper({{0}}) < {_LATEST})))"
)
# The condition that every column of a kind must keep, so that readers can compute with it: NaN comes after all numbers,
# infinity after all instants. The parts of an interval may have different signs, so its length is looked at.
_SOUND: dict[type[Any], str] = {
    TIMESTAMP: f"({{0}} >= {_EARLIEST}) AND ({{0}} < {_LATEST})",
    INTERVAL: f"EXTRACT(epoch FROM {{0}}) BETWEEN -{_LONGEST} AND {_LONGEST}",
    TSTZRANGE: _SOUND_RANGE,
    TSTZMULTIRANGE: _SOUND_RANGE,
    ARRAY: "({0} = '{{}}') OR ((array_ndims({0}) = 1) AND (array_position({0}, NULL) IS NULL))",
    Double: f"{{0}} BETWEEN -{MANY} AND {MANY}",
    Numeric: f"{{0}} BETWEEN -{MANY} AND {MANY}",
}


def table(name: str, meaning: str, *parts: SchemaItem) -> Table:
    """Return a table of ``METADATA`` with its meaning."""
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
    read_by_passes: bool = False,
) -> Column[Any]:
    """Return a column with its meaning; without ``optional`` it is NOT NULL.

    ``default`` is a value, or SQL as ``text``; ``check`` a condition on the column alone, beside the condition of its
    kind; ``key`` says that it belongs to the primary key. A change by hand of a column that is ``read_by_passes`` is
    announced to passes. This concerns jobs, as in other tables any change of a row is announced. The parts of a request
    have that mark in the submission (:attr:`oarpy.model.submission.Field.seen`).
    """
    conditions = [condition for condition in (check, sound(name, kind)) if condition]
    whole = conditions[0] if len(conditions) == 1 else " AND ".join(f"({condition})" for condition in conditions)
    rules = [CheckConstraint(whole, name=name)] if conditions else []
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
        info={"read_by_passes": read_by_passes},
    )


def sound(name: str, kind: type[TypeEngine[Any]] | TypeEngine[Any]) -> str:
    """Return the condition that every column of a kind keeps to, for column ``name``; empty when there is none.

    Instants, intervals and ranges are finite and bounded, arrays flat and without NULL, numbers no NaN.
    """
    own = kind if isinstance(kind, type) else type(kind)
    return _SOUND.get(own, "").format(name)


def rule(name: str, condition: str) -> CheckConstraint:
    """Return a condition on the columns of a row, by the full name of its constraint."""
    return CheckConstraint(condition, name=conv(name))
