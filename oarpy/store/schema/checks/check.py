"""Whether a database is as this version of oarpy expects: for ``oarpy db check``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, select, text
from sqlalchemy.dialects.postgresql import ExcludeConstraint

from oarpy.store.past import structure
from oarpy.store.schema import migrations, statements
from oarpy.store.schema.checks.contradictions import contradictions
from oarpy.store.schema.columns import METADATA
from oarpy.store.schema.platform import NO_PROPERTIES
from oarpy.store.schema.tables import LOOKUP_ROWS, TABLES

OLDEST_SERVER = 15

# every constraint that is in force, by table and name
_CONSTRAINTS = """
SELECT c.relname, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
WHERE c.relnamespace = 'public'::regnamespace AND k.convalidated
"""
# every trigger of ours that fires
_TRIGGERS = """
SELECT c.relname, t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND t.tgenabled IN ('O', 'A') AND c.relnamespace = 'public'::regnamespace
"""
# the views for analysts, and the views for programs that know OAR 2.5
_VIEWS = "SELECT schemaname, viewname FROM pg_views WHERE schemaname IN ('oar_report', 'oar_compat')"
# properties without a column, and columns that are no property
_PROPERTIES = """
SELECT p.name, a.attname FROM resource_properties p
FULL JOIN (SELECT attname FROM pg_attribute
           WHERE attrelid = 'resources'::regclass AND attnum > 0 AND NOT attisdropped
             AND attname <> ALL (:others)) a ON a.attname = p.name
WHERE p.name IS NULL OR a.attname IS NULL
"""


def check(dsn: str) -> tuple[str, ...]:
    """Return the faults of the database, one line each; empty when all is well."""
    with migrations.connected(dsn) as connection:
        revision, head = migrations.revision_of(connection), migrations.head()
        if revision is None:
            return ("there is no oarpy schema in this database: run 'oarpy db upgrade'",)
        if revision != head:
            return (f"the schema is at revision {revision}, this oarpy needs {head}: run 'oarpy db upgrade'",)
        return tuple(_problems(connection))


def _problems(connection: Connection) -> Iterator[str]:
    version = int(_rows(connection, "SHOW server_version_num")[0][0]) // 10000
    if version < OLDEST_SERVER:
        yield f"the server is PostgreSQL {version}, the oldest that serves is {OLDEST_SERVER}"
    if not _rows(connection, "SELECT FROM pg_extension WHERE extname = 'btree_gist'"):
        yield "extension btree_gist is missing"
    differing = [*_differences(connection), *_missing(connection)]
    yield from differing
    yield from _lookup_rows(connection)
    for table in structure.lagging(statements.driver_of(connection)):
        yield f"the past of table {table} does not have its columns: run 'oarpy db upgrade'"
    for table in structure.unprotected(statements.driver_of(connection)):
        yield f"trigger history_stays of table oar_past.{table} is missing or disabled"
    for property_name, column in _rows(connection, _PROPERTIES, others=sorted(NO_PROPERTIES)):
        if property_name is None:
            yield f"column resources.{column} is not listed in resource_properties"
        else:
            hint = f"oarproperty -d {property_name} takes it off the list"
            yield f"property {property_name} has no column in resources ({hint})"
    if not differing:
        yield from contradictions(connection)


def _differences(connection: Connection) -> Iterator[str]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "include_object": _is_ours})
    for difference in compare_metadata(context, METADATA):
        steps: list[Any] = difference if isinstance(difference, list) else [difference]
        for step in steps:
            if "comment" not in step[0]:
                yield f"difference from the schema of this version: {_named(step)}"


def _is_ours(thing: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:
    """Tell Alembic what to compare: everything except an admin's own additions, which are not faults of the schema.

    These are columns of ``resources`` (properties), indexes, and tables of the site's own.
    """
    if not reflected or compare_to is not None:
        return True
    if kind == "column":
        return str(thing.table.name) != "resources"
    return kind not in ("index", "table")


def _named(step: tuple[Any, ...]) -> str:
    """Return a difference in words: ``("add_column", None, "jobs", Column("state"))`` as ``add_column jobs state``."""
    words = (getattr(part, "name", part) for part in step if not isinstance(part, dict))
    return " ".join(str(word) for word in words if word is not None)


def _missing(connection: Connection) -> Iterator[str]:
    present = set(_rows(connection, _CONSTRAINTS))
    for table, name in sorted(expected_constraints() - present):
        yield f"constraint {name} of table {table} is missing or not valid"
    firing = set(_rows(connection, _TRIGGERS))
    for table, name in sorted(statements.triggers() - firing):
        yield f"trigger {name} of table {table} is missing or disabled"
    expected = {("oar_report", view) for view in statements.names("views")}
    expected |= {("oar_compat", view) for view in statements.names("compat")}
    for schema, view in sorted(expected - set(_rows(connection, _VIEWS))):
        yield f"view {schema}.{view} is missing"


def expected_constraints() -> set[tuple[str, str]]:
    """Return table and name of the CHECK and exclusion constraints, which Alembic does not compare."""
    return {
        (table.name, str(constraint.name))
        for table in TABLES
        for owner in (table, *table.columns)
        for constraint in owner.constraints
        if isinstance(constraint, CheckConstraint | ExcludeConstraint)
    }


def _lookup_rows(connection: Connection) -> Iterator[str]:
    for table, rows in LOOKUP_ROWS.items():
        expected = {_row(row.values()) for row in rows}
        present = {_row(row) for row in connection.execute(select(table))}
        for missing in sorted(expected - present):
            yield f"{table.name} lacks the row {missing}"
        for unknown in sorted(present - expected):
            yield f"{table.name} has the unknown row {unknown}"


def _row(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(" ".join(value) if isinstance(value, list) else value for value in values)


def _rows(connection: Connection, query: str, **values: list[str]) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(text(query), values)]
