"""What a worker keeps of the database from request to request: a connection, and the platform that it read."""

from __future__ import annotations

import os
import select
from contextlib import suppress

import psycopg
from psycopg.pq import TransactionStatus

from oarpy.configuration import Configuration
from oarpy.modules.metascheduler.existing_resources import ExistingReader
from oarpy.modules.metascheduler.snapshot_reader import SnapshotReader
from oarpy.store.database import Connection, connect, database_dsn

_RESET = "CLOSE ALL; UNLISTEN *; RESET ALL; DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_advisory_unlock_all()"


class KeptConnection:
    """At most one connection; what a request did to its session is undone by :meth:`clean`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._connection: Connection | None = None

    def get(self) -> Connection:
        """Return a connection that was alive a moment ago; raise :class:`oarpy.model.errors.Unreachable`."""
        if self._connection is None or _lost(self._connection):
            self.drop()
            settings = self._configuration
            timeout = settings.database.connect_timeout
            self._connection = connect(database_dsn(settings), "gateway", timeout=timeout)
            self._limit_statements(self._connection)
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
        """Let no statement go on when its worker was ended for having taken too long."""
        milliseconds = str(int(self._configuration.gateway.time_limit * 1000))
        connection.execute("SELECT set_config('statement_timeout', %s, false)", (milliseconds,))


class KeptReader:
    """Made when it is first asked for: settings that it cannot use are the affair of the commands that need it."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._reader: SnapshotReader | None = None
        self.existing = ExistingReader()
        """Reads which resources exist, whatever the settings."""

    def get(self) -> SnapshotReader:
        """Return the reader; raise :class:`oarpy.model.errors.UsageError` when the settings are wrong."""
        if self._reader is None:
            self._reader = SnapshotReader(self._configuration)
        return self._reader


def _lost(connection: Connection) -> bool:
    """Say whether the server has closed the connection: what is readable on an idle one is its end, or a notice."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    try:
        if poll.poll(0):
            connection.pgconn.consume_input()
    except psycopg.Error:
        return True
    return connection.closed
