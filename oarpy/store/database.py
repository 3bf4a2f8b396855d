"""Connections to PostgreSQL. Nothing in ``store`` commits: the caller opens ``with connection.transaction()``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.array import ListDumper

from oarpy.configuration import Configuration
from oarpy.model.errors import Unreachable

_NUMBERS = ({int}, {float})
_UTF8 = "utf-8"


class PlainListDumper(ListDumper):
    """Writes lists of plain values in one go: value by value they took a tenth of a pass and of a round."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        """Return the text form of an array."""
        kinds = set(map(type, obj))
        if kinds in _NUMBERS:
            return ("{" + ",".join(map(repr, obj)) + "}").encode()
        if kinds == {str} and self._tx.encoding == _UTF8:
            every = "".join(obj)
            if "\0" not in every:  # else psycopg says what is wrong
                escaped = '"' in every or "\\" in every
                texts = [text.replace("\\", "\\\\").replace('"', '\\"') for text in obj] if escaped else obj
                return ('{"' + '","'.join(texts) + '"}').encode()
        return super().dump(obj)


Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

# Over TCP a peer whose host vanished is given up after about 7 seconds, and not after the system's two hours.
_KEEPALIVE = {"keepalives_idle": 3, "keepalives_interval": 1, "keepalives_count": 4, "tcp_user_timeout": 7000}
_SERVER_KEEPALIVE = """
    SELECT set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '1', false),
        set_config('tcp_keepalives_count', '4', false), set_config('tcp_user_timeout', '7000', false)
"""
_NO_RESOURCES = "53"
"""Class of the error codes of PostgreSQL for a full disk, no memory and too many connections."""


def connect(dsn: str, name: str, *, timeout: int = 5) -> Connection:
    """Open a connection in autocommit mode, known to the server as ``oarpy <name>``.

    ``dsn`` may name several hosts; what it says of keepalives wins. Raises :class:`Unreachable` when the server does
    not answer within ``timeout`` seconds.
    """
    try:
        full = make_conninfo(
            dsn, **{key: value for key, value in _KEEPALIVE.items() if key not in conninfo_to_dict(dsn)}
        )
        connection: Connection = psycopg.connect(
            full, autocommit=True, application_name=f"oarpy {name}", connect_timeout=timeout
        )
    except psycopg.OperationalError as error:
        raise Unreachable(f"the database cannot be reached: {_first_line(error)}", hint="is the server up?") from error
    connection.adapters.register_dumper(list, PlainListDumper)
    return connection


def notice_loss(connection: Connection) -> None:
    """Have the server end this session soon after its client's host vanishes, so that its locks are free again."""
    connection.execute(_SERVER_KEEPALIVE)


def database_dsn(configuration: Configuration) -> str:
    """Return where the database is: the configured URL, or the embedded server of the configured folder."""
    if configuration.database.url:
        return configuration.database.url
    from oarpy.postgres.embedded_server import dsn

    return dsn(Path(configuration.database.directory).expanduser())


@contextmanager
def reachable() -> Iterator[None]:
    """Turn a connection lost inside the block, or a database without room to work, into :class:`Unreachable`."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if (error.sqlstate or "").startswith(_NO_RESOURCES):
            hint = "nothing was changed; an admin has to make room for it, then try again"
            raise Unreachable(f"the database has no room to work: {_first_line(error)}", hint=hint) from error
        raise Unreachable(f"the database connection was lost: {_first_line(error)}", hint="try again") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
