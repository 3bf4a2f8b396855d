"""Properties of resources: real columns of ``resources``, described by ``resource_properties``."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg.errors import LockNotAvailable
from psycopg.sql import SQL, Composed, Identifier

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection
from oarpy.store.past.dependent_views import DependentViews

KINDS = ("integer", "text", "boolean", "timestamptz")


@dataclass(frozen=True, slots=True)
class Property:
    """A column of ``resources``. A ``protected`` one is part of oarpy and stays."""

    name: str
    kind: str
    protected: bool


_PROPERTIES = "SELECT name, kind, protected FROM resource_properties ORDER BY protected DESC, name"

_ADD_COLUMN = "ALTER TABLE resources ADD COLUMN {} {}"
# As the instants of all tables: infinity is none that a pass could compute with.
_BOUND = "ALTER TABLE resources ADD CHECK ({0} >= '1970-01-01 00:00:00+00' AND {0} < '3000-01-01 00:00:00+00')"
_ADD_ROW = "INSERT INTO resource_properties (name, kind) VALUES (%s, %s)"
# An admin may have dropped the column by hand: the rest of the property goes all the same.
_DROP_COLUMN = "ALTER TABLE resources DROP COLUMN IF EXISTS {}"
_DROP_ROW = "DELETE FROM resource_properties WHERE name = %s"
_RENAME_COLUMN = "ALTER TABLE resources RENAME COLUMN {} TO {}"
_RENAME_ROW = "UPDATE resource_properties SET name = %s WHERE name = %s"

# Changing the table needs it for itself: give up rather than make every reader queue behind a long transaction.
_PATIENCE = "SET LOCAL lock_timeout = '10s'"

# The view for programs that know OAR 2.5 has the properties of the site.
_SHOW = "SELECT make_compat_resources()"

_COLUMN_EXISTS = """
    SELECT EXISTS (SELECT FROM pg_attribute
                   WHERE attrelid = 'resources'::regclass AND attname = %s AND NOT attisdropped)
"""

# A live job that asks for the property as a level, or names it as a word of a filter.
_USER = """
    SELECT j.job_id FROM jobs j
    WHERE is_live(j.state)
      AND (j.properties ~* %(word)s
           OR EXISTS (SELECT FROM moldable_descriptions m JOIN resource_groups g USING (moldable_id)
                      WHERE m.submission_id = j.submission_id AND g.filter ~* %(word)s)
           OR EXISTS (SELECT FROM moldable_descriptions m JOIN resource_groups g USING (moldable_id)
                          JOIN resource_descriptions d USING (group_id)
                      WHERE m.submission_id = j.submission_id AND lower(d.level) = %(name)s))
    ORDER BY j.job_id LIMIT 1
"""


def properties(connection: Connection) -> tuple[Property, ...]:
    """Return every property, oarpy's own properties first."""
    return tuple(Property(*row) for row in connection.execute(_PROPERTIES).fetchall())


def column_exists(connection: Connection, name: str) -> bool:
    """Tell whether ``resources`` has a column ``name``, system columns included."""
    row = connection.execute(_COLUMN_EXISTS, (name,)).fetchone()
    assert row is not None
    return bool(row[0])


def live_user(connection: Connection, name: str) -> int | None:
    """Return a live job whose request names the property, None if no job does."""
    row = connection.execute(_USER, {"word": rf"\m{name}\M", "name": name}).fetchone()
    return None if row is None else int(row[0])


def add(connection: Connection, name: str, kind: str) -> None:
    """Add a column of one of :data:`KINDS`, NULL in every row."""
    _alter(connection, SQL(_ADD_COLUMN).format(Identifier(name), SQL(kind)))
    if kind == "timestamptz":
        _alter(connection, SQL(_BOUND).format(Identifier(name)))
    connection.execute(_ADD_ROW, (name, kind))
    _show(connection)


def delete(connection: Connection, name: str) -> None:
    """Drop the column with all its values."""
    _alter(connection, SQL(_DROP_COLUMN).format(Identifier(name)))
    connection.execute(_DROP_ROW, (name,))
    _show(connection)


def rename(connection: Connection, old: str, new: str) -> None:
    """Give the column another name."""
    _alter(connection, SQL(_RENAME_COLUMN).format(Identifier(old), Identifier(new)))
    connection.execute(_RENAME_ROW, (new, old))
    _show(connection)


def _show(connection: Connection) -> None:
    """Make the view for programs that know OAR 2.5 again.

    The site's changes of it and objects on it stay, or are named.
    """
    views = DependentViews(connection, "oar_compat.resources")
    views.put_away()
    connection.execute(_SHOW)
    views.put_back()


def _alter(connection: Connection, statement: Composed) -> None:
    connection.execute(_PATIENCE)
    try:
        connection.execute(statement)
    except LockNotAvailable as error:
        raise OarpyError("the table of resources is in use", hint="try again when nothing reads it for long") from error
