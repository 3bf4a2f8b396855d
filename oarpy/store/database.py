"""Connections to PostgreSQL. Nothing in ``store`` commits: the caller opens ``with connection.transaction()``."""

from __future__ import annotations

import os
import pwd
import re
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.adapt import Buffer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.array import ListDumper

from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed, Unreachable, UsageError

_NUMBERS = ({int}, {float})
_UTF8 = "utf-8"
_NO_ENCODING = "SQL_ASCII"


class PlainListDumper(ListDumper):
    """Writes lists of plain values in one go: value by value they took a tenth of a pass and of a round."""

    def dump(self, obj: list[Any]) -> Buffer | None:
        """Return the text form of an array."""
        kinds = set(map(type, obj))
        if kinds in _NUMBERS:
            return ("{" + ",".join(map(repr, obj)) + "}").encode()
        if kinds == {str} and self._tx.encoding == _UTF8:
            every = "".join(obj)
            if "\0" not in every:  # otherwise psycopg reports the error
                escaped = '"' in every or "\\" in every
                texts = [text.replace("\\", "\\\\").replace('"', '\\"') for text in obj] if escaped else obj
                return ('{"' + '","'.join(texts) + '"}').encode()
        return super().dump(obj)


Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

# Over TCP a peer whose host vanished is given up after about 7 seconds instead of the system's two hours.
_KEEPALIVE = {"keepalives_idle": 3, "keepalives_interval": 1, "keepalives_count": 4, "tcp_user_timeout": 7000}
_SERVER_KEEPALIVE = """
    SELECT set_config('tcp_keepalives_idle', '3', false), set_config('tcp_keepalives_interval', '1', false),
        set_config('tcp_keepalives_count', '4', false), set_config('tcp_user_timeout', '7000', false)
"""
_RESET = "CLOSE ALL; UNLISTEN *; RESET ALL; DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_advisory_unlock_all()"
_LIMITS = """
    SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false)
"""
_GATEWAY_SECONDS = 3.0
_REFUSED = re.compile(
    r"FATAL:.*(authentication failed|role \".*\" does not exist|no pg_hba.conf entry|permission denied for database)"
)
"""The messages with which PostgreSQL refuses a connection: the errors of connecting have no codes."""
_PEER = re.compile(r"FATAL:.*Peer authentication failed for user \"(.*)\"")
"""How it says that a role on its own machine is for the account of the same name."""
_NO_RESOURCES = "53"
"""Class of the error codes of PostgreSQL for a full disk, no memory and too many connections."""


def connect(dsn: str, name: str, *, timeout: int = 5) -> Connection:
    """Open a connection in autocommit mode, known to the server as ``oarpy <name>``.

    ``dsn`` may name several hosts; its own keepalive settings win. Raises :class:`Unreachable` when the server does not
    answer within ``timeout`` seconds, and :class:`UsageError` for a database that does not know its characters.
    """
    try:
        full = make_conninfo(
            dsn,
            **{key: value for key, value in _KEEPALIVE.items() if key not in conninfo_to_dict(dsn)},
            application_name=f"oarpy {name}",
            connect_timeout=timeout,
        )
        connection = _open(full)
    except psycopg.OperationalError as error:
        if _REFUSED.search(str(error)):
            raise Unreachable(
                f"the database does not let you in: {_first_line(error)}",
                hint="who owns it, or the server's account, runs this; who only reads has a role (oarpy db analyst)",
            ) from error
        raise Unreachable(f"the database cannot be reached: {_first_line(error)}", hint="is the server up?") from error
    if connection.info.parameter_status("server_encoding") == _NO_ENCODING:
        name = connection.info.dbname
        connection.close()
        raise UsageError(
            f"the database '{name}' has the encoding {_NO_ENCODING}: nobody knows what its bytes mean",
            hint="make one with another: createdb --encoding UTF8 --locale C.UTF-8 --template template0",
        )
    connection.adapters.register_dumper(list, PlainListDumper)
    return connection


def _open(dsn: str) -> Connection:
    """Open a connection; root is taken for the account of a role which the server gives to that account alone."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        # an effective user id is that of all threads: modules run as the account from the beginning
        if (account := _peer_account(str(error))) is None or threading.active_count() > 1:
            raise
    os.seteuid(account)
    try:
        return psycopg.connect(dsn, autocommit=True)
    finally:
        os.seteuid(0)


def peer_account(dsn: str) -> int | None:
    """Return the account that a program which root starts has to be to connect; None: it needs to be no other."""
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError as error:
        return _peer_account(str(error))
    return None


def _peer_account(refusal: str) -> int | None:
    if os.geteuid() != 0 or (role := _PEER.search(refusal)) is None:
        return None
    try:
        return pwd.getpwnam(role[1]).pw_uid or None
    except KeyError:
        return None


def notice_loss(connection: Connection) -> None:
    """Have the server end this session soon after its client's host vanishes, so that its locks are free again."""
    connection.execute(_SERVER_KEEPALIVE)


def database_dsn(configuration: Configuration) -> str:
    """Return where the database is: the configured URL, or the embedded server of the configured folder."""
    if configuration.database.url:
        return configuration.database.url
    from oarpy.postgres.embedded_server import dsn

    try:
        return dsn(configuration.database.directory)
    except NotAllowed:
        path = configuration.gateway.socket
        if not path or _answers(path):
            raise
        what = f"no gateway answers, and its database in {configuration.database.directory} is for the server alone"
        raise Unreachable(f"the server is away: {what}", hint="try again in a moment") from None


def _answers(path: str) -> bool:
    """Tell whether a process accepts connections on the gateway's socket."""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.settimeout(_GATEWAY_SECONDS)
        connection.connect(path)
        return True
    return False


class KeptConnection:
    """At most one connection for requests, one after the other.

    :meth:`clean` undoes a request's changes of its session. The database shows it as ``oarpy <name>``. A statement, and
    a pause inside a transaction, may take ``time_limit`` seconds.
    """

    def __init__(self, configuration: Configuration, name: str, time_limit: float) -> None:
        self._configuration = configuration
        self._name = name
        self._time_limit = time_limit
        self._connection: Connection | None = None

    def get(self, *, read_only: bool = False) -> Connection:
        """Return a connection that was alive a moment ago; raise :class:`oarpy.model.errors.Unreachable`.

        With ``read_only`` the database refuses every change until :meth:`clean`.
        """
        if self._connection is None or _lost(self._connection):
            self.drop()
            settings = self._configuration
            timeout = settings.database.connect_timeout
            self._connection = connect(database_dsn(settings), self._name, timeout=timeout)
            self._limit_statements(self._connection)
        if read_only:
            self._connection.execute("SET default_transaction_read_only = on")
        return self._connection

    def clean(self) -> None:
        """Make sure that the next request finds a fresh session; called when the caller has its answer."""
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.info.transaction_status is not TransactionStatus.IDLE:
                self.drop()
                return
            connection.isolation_level = connection.read_only = connection.deferrable = None
            connection.execute(_RESET, prepare=False)
            self._limit_statements(connection)
        except psycopg.Error:
            self.drop()

    def abandon(self) -> None:
        """Called in a process forked from the worker: the connection is the worker's, and is never used here."""
        if self._connection is not None:
            # Closed under the library's feet: it must neither say good-bye to the server nor keep it from seeing the
            # end of the worker. The object stays, so that it is not tidied up; the number is taken, so that it cannot
            # become another file's.
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), self._connection.fileno(), inheritable=False)

    def drop(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    def _limit_statements(self, connection: Connection) -> None:
        """Let no statement go on when its caller was ended or has left, and no transaction keep its locks."""
        connection.execute(_LIMITS, [str(int(self._time_limit * 1000))] * 2)


@contextmanager
def reachable() -> Iterator[None]:
    """Turn a connection lost inside the block, or a database without room to work, into :class:`Unreachable`."""
    try:
        yield
    except psycopg.errors.QueryCanceled as error:
        raise Unreachable(
            "the database took too long and was interrupted", hint="ask for less, or try again"
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        if (error.sqlstate or "").startswith(_NO_RESOURCES):
            hint = "nothing was changed; an admin has to make room for it, then try again"
            raise Unreachable(f"the database has no room to work: {_first_line(error)}", hint=hint) from error
        raise Unreachable(f"the database connection was lost: {_first_line(error)}", hint="try again") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _lost(connection: Connection) -> bool:
    """Say whether the server has closed the connection: an idle one is readable at its end, or at a notice.

    A server that is stopped sends a message before it closes. The message is not the end, and yet no answer will come.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    try:
        if poll.poll(0):
            connection.execute("")
    except psycopg.Error:
        return True
    return connection.closed
