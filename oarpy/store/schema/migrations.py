"""Bring a database to the schema of this version, and back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.errors import DependentObjectsStillExist, FeatureNotSupported
from sqlalchemy import Connection, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError

from oarpy.model.errors import NotFound, OarpyError
from oarpy.store.database import connect
from oarpy.store.past.dependent_views import ANEW, DependentViews
from oarpy.store.schema import older_databases
from oarpy.store.schema.statements import driver_of

FOLDER = Path(str(resources.files("oarpy.migrations")))
VERSIONS = (FOLDER / "versions",)
"""Where revisions are looked for."""

_LOCK = 0x6F61727079
"""Advisory lock of a migration: the letters of oarpy."""


def upgrade(dsn: str) -> tuple[str, ...]:
    """Migrate to the schema of this version, and return the revisions that the database went through, the first first.

    All of it is one transaction, and two callers at once take turns: the second finds nothing left to do.
    """
    with _migrating(dsn) as (connection, config):
        before = revision_of(connection)
        if before is None:
            # the baseline has the changes of later revisions already
            command.upgrade(config, baseline())
            command.stamp(config, "head")
        elif before in older():
            # the schema of this version has it, too; the changes of rows are done
            older_databases.bring(connection, config.attributes["views"], _changes_since(before))
            command.stamp(config, "head", purge=True)
            before = None
        else:
            _must_know(before)
            if before != head():
                command.upgrade(config, head())
        return _between(before, head())


def downgrade(dsn: str, revision: str) -> tuple[str, ...]:
    """Migrate back, destroying the additions of later revisions; return the revisions that were undone, the last first.

    All of it is one transaction. Raises :class:`OarpyError` for a revision that the database cannot go back to.
    """
    with _migrating(dsn) as (connection, config):
        before = revision_of(connection)
        if before is None:
            raise OarpyError("there is no oarpy schema in this database", hint="run 'oarpy db upgrade'")
        _must_know(before)
        if before in older() or revision in older():
            raise OarpyError(
                f"the schema does not go back to revisions before {baseline()}",
                hint="restore a dump that was made before the upgrade",
            )
        passed = _between(None, before)
        if revision not in passed:
            raise NotFound(
                f"the database cannot go back to revision '{revision[:80]}'",
                hint=f"one of {', '.join(passed)}; {passed[0]} is the whole schema: drop the database to be rid of it",
            )
        command.downgrade(config, revision)
        after = revision_of(connection)
        return tuple(reversed(_between(after, before)))


def current(dsn: str) -> str | None:
    """Return the revision of the database, ``None`` when it holds no schema of ours."""
    with connected(dsn) as connection:
        return revision_of(connection)


def head() -> str:
    """Return the revision that this version of oarpy needs."""
    return _script().get_current_head() or ""


def known() -> tuple[str, ...]:
    """Return the revisions that this version of oarpy knows."""
    return older() + tuple(step.revision for step in _script().walk_revisions())


def older() -> tuple[str, ...]:
    """Return the revisions before the baseline, from which databases still come to it."""
    replaced: tuple[str, ...] = _script().get_revision(baseline()).module.replaces
    return replaced


def baseline() -> str:
    """Return the revision that a new database is made by; nothing goes back from there."""
    return _script().get_base() or ""


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
    with connected(dsn) as connection, _naming_what_depends():
        _take_turn(connection)
        # until the end of the transaction, rows that are part of a version may change
        connection.execute(text("SELECT set_config('oarpy.migrating', 'yes', true)"))
        connection.execute(text("SELECT set_config('oarpy.rewrite_history', 'on', true)"))
        config = _config(VERSIONS)
        config.attributes["connection"] = connection
        config.attributes["views"] = DependentViews(driver_of(connection))
        yield connection, config


@contextmanager
def _naming_what_depends() -> Iterator[None]:
    """Name in one line the site's object that keeps the server from dropping or changing another object."""
    try:
        yield
    except (psycopg.Error, DBAPIError) as error:
        refused = error.orig if isinstance(error, DBAPIError) else error
        named = refused.diag.message_detail if isinstance(refused, psycopg.Error) else None
        if isinstance(refused, DependentObjectsStillExist):
            named = named or refused.diag.message_primary
        # the server has no other name for a column that a view reads and whose type is to change
        elif not isinstance(refused, FeatureNotSupported):
            raise
        if not named:
            raise
        raise OarpyError(named.splitlines()[0], hint=ANEW) from error


def _take_turn(connection: Connection) -> None:
    """Wait for others that change the schema: by a lock of its table, which a role that may only read cannot take.

    Without a schema there is no table, and no such role either.
    """
    if connection.execute(text("SELECT to_regclass('public.alembic_version') IS NULL")).scalar():
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    else:
        connection.execute(text("LOCK TABLE public.alembic_version IN SHARE ROW EXCLUSIVE MODE"))


def _config(folders: tuple[Path, ...]) -> Config:
    config = Config()
    config.set_main_option("script_location", _escaped(FOLDER))
    config.set_main_option("path_separator", "newline")
    config.set_main_option("version_locations", "\n".join(_escaped(folder) for folder in folders))
    return config


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _script() -> ScriptDirectory:
    return _script_of(VERSIONS)


@cache
def _script_of(folders: tuple[Path, ...]) -> ScriptDirectory:
    """Return the revisions of these folders, which are read once."""
    return ScriptDirectory.from_config(_config(folders))


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the connected database, ``None`` when it holds no schema of ours."""
    return MigrationContext.configure(connection).get_current_revision()


def _changes_since(revision: str) -> tuple[older_databases.Change, ...]:
    """Return the changes to rows of all revisions after this one, in order."""
    later = [step.module for step in _script().iterate_revisions("head", baseline())]
    return older_databases.changes_since(revision) + tuple(
        module.rows for module in reversed(later) if hasattr(module, "rows")
    )


def _must_know(revision: str) -> None:
    if revision not in known():
        raise OarpyError(
            f"the schema is at revision {revision}, which this oarpy does not know",
            hint="it belongs to another version: upgrade with that one first",
        )


def _between(lower: str | None, upper: str | None) -> tuple[str, ...]:
    if upper is None or lower == upper:
        return ()
    revisions = [step.revision for step in _script().iterate_revisions(upper, lower or "base")]
    return tuple(reversed(revisions))
