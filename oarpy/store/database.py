"""Connections to PostgreSQL. Nothing in ``store`` commits: the caller opens ``with connection.transaction()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import psycopg

from oarpy.configuration import Configuration
from oarpy.model.errors import Unreachable

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


def connect(dsn: str, name: str, *, timeout: int = 5) -> Connection:
    """Open a connection in autocommit mode, known to the server as ``oarpy <name>``.

    Raises :class:`Unreachable` when the server does not answer within ``timeout`` seconds.
    """
    try:
        return psycopg.connect(dsn, autocommit=True, application_name=f"oarpy {name}", connect_timeout=timeout)
    except psycopg.OperationalError as error:
        raise Unreachable(f"the database cannot be reached: {_first_line(error)}", hint="is the server up?") from error


def database_dsn(configuration: Configuration) -> str:
    """Return where the database is: the configured URL, or the embedded server of the configured folder."""
    if configuration.database.url:
        return configuration.database.url
    from oarpy.store.embedded import dsn

    return dsn(Path(configuration.database.directory).expanduser())


@contextmanager
def reachable() -> Iterator[None]:
    """Turn a connection lost inside the block into :class:`Unreachable`."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unreachable(f"the database connection was lost: {_first_line(error)}", hint="try again") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
