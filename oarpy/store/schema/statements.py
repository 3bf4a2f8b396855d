"""Functions with their triggers, and views: one SQL file each below ``migrations/schema``, of the same name.

Views for analysts (``oar_report``) are in ``views``, views for programs of OAR 2.5 (``oar_compat``) in ``compat``.

A file says CREATE OR REPLACE throughout: running it again brings the existing object to its text. In it,
``:read_by_passes`` stands for the columns of jobs that are described so.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias

from sqlalchemy import Connection

from oarpy.store.database import Connection as DriverConnection
from oarpy.store.past import structure
from oarpy.store.schema.jobs import READ_BY_PASSES

Kind: TypeAlias = Literal["functions", "views", "compat"]

_SCHEMAS: dict[Kind, tuple[str, str]] = {
    "views": ("oar_report", "stable views over jobs, nodes and accounting; grant USAGE on it and SELECT on its views"),
    "compat": ("oar_compat", "tables of OAR 2.5, as views; names, types and values are those of OAR"),
}
_FOLDER = Path(str(resources.files("oarpy.migrations"))) / "schema"
_TRIGGER = re.compile(r"^CREATE OR REPLACE TRIGGER (\w+)\s.*?\sON (\w+)\s", re.MULTILINE | re.DOTALL)


def names(kind: Kind) -> tuple[str, ...]:
    """Return the names that have a file, in alphabetical order."""
    return tuple(sorted(path.stem for path in (_FOLDER / kind).glob("*.sql")))


def triggers() -> frozenset[tuple[str, str]]:
    """Return table and name of every trigger: the triggers are the rules that constraints cannot say."""
    texts = (_text("functions", name) for name in names("functions"))
    return frozenset((match[2], match[1]) for text in texts for match in _TRIGGER.finditer(text))


def make(connection: Connection, kind: Kind, *wanted: str) -> None:
    """Create these functions or views, or replace the existing ones.

    Views read live tables and past together, so the tables of the past are made to follow first.
    """
    if kind == "views":
        follow(connection)
    for name in wanted:
        # without parameters: % signs belong to PL/pgSQL
        connection.exec_driver_sql(_text(kind, name), execution_options={"no_parameters": True})


def make_all(connection: Connection) -> None:
    """Create all of them, or replace the existing ones."""
    make(connection, "functions", *names("functions"))
    for kind, (schema, meaning) in _SCHEMAS.items():
        connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {schema}; COMMENT ON SCHEMA {schema} IS '{meaning}'")
        make(connection, kind, *names(kind))


def follow(connection: Connection) -> None:
    """Make the past follow the live tables. Views that had to go meanwhile are made again."""
    if structure.follow(driver_of(connection)):
        make(connection, "views", *names("views"))


def driver_of(connection: Connection) -> DriverConnection:
    """Return the connection of psycopg below, in the same transaction."""
    driver: DriverConnection | None = connection.connection.driver_connection
    assert driver is not None
    return driver


def _text(kind: Kind, name: str) -> str:
    text = (_FOLDER / kind / f"{name}.sql").read_text(encoding="utf-8")
    return text.replace(":read_by_passes", ", ".join(READ_BY_PASSES))
