"""Bring a database to the current schema. Imports SQLAlchemy and Alembic: for ``oarpy db`` and tests alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, create_engine, text

from oarpy.store.database import connect

_LOCK = 0x6F61727079
"""Advisory lock of a migration: the letters of oarpy."""


def upgrade(dsn: str, revision: str = "head") -> tuple[str, ...]:
    """Migrate forward, and return the revisions that were applied, the first first.

    All of it is one transaction, and two callers at once take turns: the second finds nothing left to do.
    """
    with _migrating(dsn) as (connection, config):
        before = revision_of(connection)
        command.upgrade(config, revision)
        after = revision_of(connection)
        return _between(before, after)


def downgrade(dsn: str, revision: str = "base") -> tuple[str, ...]:
    """Migrate back, destroying what the later revisions added; return the revisions that were undone."""
    with _migrating(dsn) as (connection, config):
        before = revision_of(connection)
        command.downgrade(config, revision)
        after = revision_of(connection)
        return tuple(reversed(_between(after, before)))


def current(dsn: str) -> str | None:
    """The revision of the database, ``None`` when it holds no schema of ours."""
    with connected(dsn) as connection:
        return revision_of(connection)


def head() -> str:
    """The revision that this version of oarpy needs."""
    return ScriptDirectory.from_config(_config()).get_current_head() or ""


@contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """An SQLAlchemy connection with a transaction that ends with the block."""

    def creator() -> psycopg.Connection:
        opened = connect(dsn, "migrations")
        opened.autocommit = False
        return opened

    engine = create_engine("postgresql+psycopg://", creator=creator, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection


@contextmanager
def _migrating(dsn: str) -> Iterator[tuple[Connection, Config]]:
    with connected(dsn) as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        config = _config()
        config.attributes["connection"] = connection
        yield connection, config


def _config() -> Config:
    config = Config()
    place = str(resources.files("oarpy.migrations"))
    config.set_main_option("script_location", place.replace("%", "%%"))
    return config


def revision_of(connection: Connection) -> str | None:
    """The revision of the connected database, ``None`` when it holds no schema of ours."""
    return MigrationContext.configure(connection).get_current_revision()


def _between(lower: str | None, upper: str | None) -> tuple[str, ...]:
    if upper is None or lower == upper:
        return ()
    script = ScriptDirectory.from_config(_config())
    found = [step.revision for step in script.iterate_revisions(upper, lower or "base")]
    return tuple(reversed(found))
