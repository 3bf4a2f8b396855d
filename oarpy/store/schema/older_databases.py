"""Bring a database from before the baseline to the description of the schema.

The description is made a second time, empty, in a schema that goes again, so that the server itself says how the tables
should be. Missing parts of the database's tables are added, and different parts are replaced. Parts that the
description does not have stay: they are the site's. In between, each module of ``migrations/older`` changes the rows as
the revision of its number did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeAlias

from psycopg.errors import DuplicateSchema
from psycopg.sql import SQL, Composable, Identifier, Literal
from sqlalchemy import Connection, delete, tuple_
from sqlalchemy.dialects.postgresql import insert

from oarpy.model.errors import OarpyError
from oarpy.store.database import Connection as DriverConnection
from oarpy.store.past.dependent_views import ANEW, DependentViews
from oarpy.store.schema.checks.catalog import ColumnDescription, Relation, describe
from oarpy.store.schema.statements import driver_of, follow, make_all, names
from oarpy.store.schema.tables import LOOKUP_ROWS, TABLES

Change: TypeAlias = Callable[[Connection], None]
"""Changes the rows of older databases; all columns of now are there, constraints and triggers are not."""
Tables: TypeAlias = Mapping[str, Relation]

_WANTED = "oarpy_wanted"
"""The schema of the empty tables."""

# triggers of functions that have a file
_TRIGGERS = """
    SELECT t.tgrelid::regclass::text, t.tgname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
    WHERE NOT t.tgisinternal AND t.tgparentid = 0 AND p.pronamespace = 'public'::regnamespace AND p.proname = ANY (%s)
"""
_FIRST_WORDS = ("PRIMARY", "UNIQUE", "EXCLUDE", "CHECK", "FOREIGN")
"""The first words of definitions of constraints, in the order in which they are added."""


def changes_since(revision: str) -> tuple[Change, ...]:
    """Return the changes to rows of the revisions after this one, up to the baseline, in order."""
    package = import_module("oarpy.migrations.older")
    names = sorted(module.name for module in iter_modules(package.__path__) if module.name[:4] > revision)
    return tuple(import_module(f"{package.__name__}.{name}").rows for name in names)


def bring(connection: Connection, views: DependentViews, changes: Iterable[Change]) -> None:
    """Give a database the schema of this version; ``changes`` are made to its rows."""
    driver = driver_of(connection)
    views.put_away()
    wanted = _wanted(connection)
    _drop_triggers(driver)
    for table in TABLES:
        table.create(connection, checkfirst=True)
    _loosen(driver, wanted)
    # changes of rows find the tables of the past with the present columns, too
    follow(connection)
    views.put_away()
    for change in changes:
        change(connection)
    _settle(driver, wanted)
    _renew_lookups(connection)
    make_all(connection)
    views.put_back()


def _wanted(connection: Connection) -> Tables:
    """Return the tables that the server makes of the description."""
    driver = driver_of(connection)
    schema = Identifier(_WANTED)
    try:
        driver.execute(SQL("CREATE SCHEMA {0}; SET LOCAL search_path TO {0}, public").format(schema))
    except DuplicateSchema:
        raise OarpyError(f"schema {_WANTED} is there, whose name the upgrade needs for itself", hint=ANEW) from None
    for table in TABLES:
        table.create(connection, checkfirst=False)
    wanted = {relation.name: relation for relation in describe(driver, _WANTED)}
    driver.execute(SQL("DROP SCHEMA {} CASCADE; SET LOCAL search_path TO DEFAULT").format(schema))
    return wanted


def _present(driver: DriverConnection) -> Tables:
    return {relation.name: relation for relation in describe(driver)}


def _drop_triggers(driver: DriverConnection) -> None:
    for table, name in driver.execute(_TRIGGERS, [list(names("functions"))]).fetchall():
        driver.execute(SQL("DROP TRIGGER {} ON {}").format(Identifier(name), SQL(table)))


def _loosen(driver: DriverConnection, wanted: Tables) -> None:
    """Add the columns that are lacking, renew defaults, and take away the rules that are others now."""
    present = _present(driver)
    for name, relation in wanted.items():
        there = present[name]
        known = {column.name: column for column in there.columns}
        for column in relation.columns:
            if column.name not in known:
                _alter(driver, name, _added(column))
            else:
                _loosen_column(driver, name, column, known[column.name])
        rules, indexes = dict(relation.constraints), _indexes(relation)
        for rule, text in there.constraints:
            if rules.get(rule, text) != text:
                _alter(driver, name, SQL("DROP CONSTRAINT {}").format(Identifier(rule)))
        for index, text in _indexes(there).items():
            if indexes.get(index, text) != text:
                driver.execute(SQL("DROP INDEX {}").format(Identifier(index)))


def _loosen_column(driver: DriverConnection, table: str, column: ColumnDescription, there: ColumnDescription) -> None:
    name = Identifier(column.name)
    if column.default != there.default:
        change = SQL(f"SET DEFAULT {column.default}" if column.default else "DROP DEFAULT")
        _alter(driver, table, SQL("ALTER COLUMN {} {}").format(name, change))
    if column.nullable and not there.nullable:
        _alter(driver, table, SQL("ALTER COLUMN {} DROP NOT NULL").format(name))


def _added(column: ColumnDescription) -> Composable:
    """Return the SQL that adds a column; a column without a default gets its values from the changes of rows."""
    default = SQL(f" DEFAULT {column.default}{'' if column.nullable else ' NOT NULL'}" if column.default else "")
    return SQL("ADD COLUMN {} {}{}").format(Identifier(column.name), SQL(column.type), default)


def _settle(driver: DriverConnection, wanted: Tables) -> None:
    """Give tables their comments, rules and indexes."""
    present = _present(driver)
    for name, relation in wanted.items():
        if relation.comment != present[name].comment:
            driver.execute(SQL("COMMENT ON TABLE {} IS {}").format(Identifier(name), Literal(relation.comment)))
        known = {column.name: column for column in present[name].columns}
        for column in relation.columns:
            _settle_column(driver, name, column, known[column.name])
    for first in _FIRST_WORDS:
        for name, relation in wanted.items():
            there = dict(present[name].constraints)
            for rule, text in relation.constraints:
                if rule not in there and text.startswith(first):
                    _alter(driver, name, SQL("ADD CONSTRAINT {} {}").format(Identifier(rule), SQL(text)))
    for name, relation in wanted.items():
        for index, text in _indexes(relation).items():
            if index not in _indexes(present[name]):
                driver.execute(SQL(text))


def _settle_column(driver: DriverConnection, table: str, column: ColumnDescription, there: ColumnDescription) -> None:
    name = Identifier(column.name)
    if there.nullable and not column.nullable:
        _alter(driver, table, SQL("ALTER COLUMN {} SET NOT NULL").format(name))
    if column.comment != there.comment:
        text = SQL("COMMENT ON COLUMN {}.{} IS {}")
        driver.execute(text.format(Identifier(table), name, Literal(column.comment)))


def _alter(driver: DriverConnection, table: str, change: Composable) -> None:
    driver.execute(SQL("ALTER TABLE {} {}").format(Identifier(table), change))


def _indexes(relation: Relation) -> dict[str, str]:
    """Return the indexes that are no constraint's, as they are made among the tables."""
    rules = {name for name, _ in relation.constraints}
    return {
        name: text.replace(f" ON {_WANTED}.", " ON public.") for name, text in relation.indexes if name not in rules
    }


def _renew_lookups(connection: Connection) -> None:
    """Leave the rows that are part of this version, and no others."""
    for table, rows in LOOKUP_ROWS.items():
        key = list(table.primary_key.columns)
        statement = insert(table).values(rows)
        others = {column.name: statement.excluded[column.name] for column in table.columns if column not in key}
        if others:
            connection.execute(statement.on_conflict_do_update(index_elements=key, set_=others))
        else:
            connection.execute(statement.on_conflict_do_nothing())
        kept = [tuple(row[column.name] for column in key) for row in rows]
        connection.execute(delete(table).where(tuple_(*key).not_in(kept)))
