"""One clock for Python and PostgreSQL that moves only when it is told to, and sessions whose statements are watched.

::

    time.time, time.monotonic, datetime.now --> Clock <-- now(), clock_timestamp(), defaults, views, triggers

A database of this kind is made from the schema with functions of the clock that come before the server's own. What is
read of the clock inside a transaction is as in a real server: ``now()`` stands still, ``clock_timestamp()`` goes on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any, Protocol
from unittest.mock import patch

import psycopg
from psycopg import generators, sql
from psycopg._preparing import PrepareManager
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, TransactionStatus, abc

from oarpy.modules.launcher import restored_database
from oarpy.store.database import PlainListDumper
from oarpy.store.schema import migrations

SECOND = 1_000_000
"""In microseconds, as all instants and durations of the clock."""
BEGIN = int(datetime(2030, 1, 1, 9, 0, tzinfo=UTC).timestamp()) * SECOND

_UNDO = b"ROLLBACK; UNLISTEN *; RESET ALL; DISCARD TEMP; SELECT pg_advisory_unlock_all()"
_NOWHERE = b"-"
"""What libpq cannot connect to."""

_OPTIONS = (
    "-c search_path=public,sim,pg_catalog -c timezone=UTC -c synchronous_commit=off -c deadlock_timeout=1h"
    " -c max_parallel_workers_per_gather=0 -c plan_cache_mode=force_generic_plan"
)
_FUNCTIONS = """
CREATE SCHEMA sim;
CREATE SEQUENCE sim.clock;
CREATE FUNCTION sim.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT pg_catalog.to_timestamp(0) + last_value * interval '1 microsecond' FROM sim.clock $$;
CREATE FUNCTION sim.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT pg_catalog.to_timestamp(0) + last_value * interval '1 microsecond' FROM sim.clock $$;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE
    AS $$ SELECT coalesce(nullif(pg_catalog.current_setting('sim.begun', true), '')::timestamptz, pg_catalog.now()) $$;
"""


class Clock:
    """What time it is. ``jumped`` is by how much the wall clock was set forward, which no monotonic clock saw."""

    def __init__(self) -> None:
        self.now = BEGIN
        self.jumped = 0

    def time(self) -> float:
        """Return seconds since the epoch."""
        return self.now / SECOND

    def monotonic(self) -> float:
        """Return seconds that have really passed since some instant."""
        return (self.now - self.jumped - BEGIN) / SECOND + 1000.0

    def datetime(self) -> datetime:
        """Return the instant as modules are told."""
        return datetime.fromtimestamp(self.now / SECOND, UTC)

    def advance(self, duration: int) -> None:
        """Let time pass."""
        self.now += duration

    def jump(self, duration: int) -> None:
        """Set the wall clock forward."""
        self.now += duration
        self.jumped += duration

    @contextmanager
    def rules(self) -> Iterator[None]:
        """Let Python read this clock inside the block."""

        class Dates(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.fromtimestamp(clock.now / SECOND, tz)

        clock = self
        with (
            patch.object(time, "time", self.time),
            patch.object(time, "monotonic", self.monotonic),
            patch.object(restored_database, "datetime", Dates),
        ):
            yield


# Tables that are not empty files.
_FILLED = """
    SELECT relname FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND pg_relation_size(oid) > 0 ORDER BY relname
"""
_UNTRIED = "SET LOCAL session_replication_role = replica; SET LOCAL client_min_messages = error"
_RESTART = """
    SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false) FROM pg_sequences
    WHERE schemaname = 'public' AND last_value IS NOT NULL
"""


def _rows_of(connection: psycopg.Connection[Any], tables: Iterable[str]) -> dict[str, bytes]:
    """Return what tables have in them."""
    found = {}
    for name in tables:
        with connection.cursor().copy(sql.SQL("COPY {} TO STDOUT").format(sql.Identifier(name))) as copy:
            found[name] = b"".join(bytes(part) for part in copy)
    return found


class Watch(Protocol):
    """What a session asks around all it does; any of these may raise, and the session is as a real one then."""

    def begins(self, *, transaction: bool) -> int:
        """A transaction begins, or a statement outside of one; return the instant."""

    def before(self, what: str) -> None:
        """A statement, or COMMIT, is about to be sent."""

    def returned(self) -> None:
        """The server answered, or something was raised."""

    def after(self, what: str) -> None:
        """It was done."""


class _Cursor(psycopg.Cursor[tuple[Any, ...]]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> _Cursor:
        session = self.connection
        assert isinstance(session, Session)
        text = query if isinstance(query, str) else query.as_string(None)
        with session.watched(text):
            super().execute(query, params, **options)
        return self


class Session(psycopg.Connection[tuple[Any, ...]]):
    """A connection to a :class:`Database`; ``watch`` sees each of its statements."""

    database: Database
    watch: Watch | None = None
    _heard = 0
    """The time that the server was last told here."""

    @contextmanager
    def watched(self, text: str) -> Iterator[None]:
        """Tell of a statement."""
        if self.watch is None:
            yield
            return
        if self.info.transaction_status is TransactionStatus.IDLE:
            self._hear_clock(self.watch.begins(transaction=False))
        self.watch.before(text)
        try:
            yield
        finally:
            self.watch.returned()
        self.watch.after(text)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Open a transaction, and tell of its COMMIT if it is no part of another."""
        watch = self.watch if self.info.transaction_status is TransactionStatus.IDLE else None
        try:
            with super().transaction(savepoint_name, force_rollback) as opened:
                yield opened
                if watch is not None:
                    watch.before("COMMIT")
        finally:
            if watch is not None:
                watch.returned()
        if watch is not None:
            watch.after("COMMIT")

    def _exec_command(self, command: Any, *options: Any, **more: Any) -> Any:
        """Run a command of psycopg's own; BEGIN comes behind the time that it is then, in one message.

        COMMIT between the two lets the transaction begin with BEGIN: its isolation can still be chosen.
        """
        if self.watch is None or not command.startswith(b"BEGIN"):
            return (yield from super()._exec_command(command, *options, **more))
        self.pgconn.send_query(self._clock_at(self.watch.begins(transaction=True)) + b"; COMMIT; " + command)
        return (yield from generators.execute(self.pgconn))[-1]

    def break_off(self) -> None:
        """End as when the client is killed. What the server undoes then is undone when this returns."""
        if not self.closed:
            self.database.take_back(self)

    def _hear_clock(self, instant: int) -> None:
        if instant != self._heard:
            self.pgconn.exec_(self._clock_at(instant))

    def _clock_at(self, instant: int) -> bytes:
        self._heard = instant
        begun = datetime.fromtimestamp(instant / SECOND, UTC).isoformat()
        return f"SELECT set_config('sim.begun', '{begun}', false), setval('sim.clock', {instant})".encode()


class Database:
    """A database with the clock. Its server's processes outlive sessions: what they have read and planned is kept."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._idle: list[tuple[abc.PGconn, PrepareManager]] = []
        with psycopg.connect(dsn) as connection:
            self._first = _rows_of(connection, [name for (name,) in connection.execute(_FILLED)])

    def renew(self) -> None:
        """Put everything back as it was when this object was made; nobody may have a session."""
        with psycopg.connect(self.dsn) as connection:
            present = _rows_of(connection, self._first)
            filled = [name for (name,) in connection.execute(_FILLED)]
            changed = [name for name in filled if present.get(name, b"") != self._first.get(name)]
            if changed:
                connection.execute(_UNTRIED)
                names = sql.SQL(", ").join(map(sql.Identifier, changed))
                connection.execute(sql.SQL("TRUNCATE {} CASCADE").format(names))
            for name, rows in self._first.items():
                if not _rows_of(connection, [name])[name]:
                    with connection.cursor().copy(sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))) as copy:
                        copy.write(rows)
            connection.execute(_RESTART)

    def connect(self, watch: Watch | None = None, name: str = "oarpy") -> Session:
        """Open a session as modules do, known to the server by a name."""
        if self._idle:
            pgconn, prepared = self._idle.pop()
            session = Session(pgconn)
            session._prepared = prepared
            session._autocommit = True
            session.cursor_factory = _Cursor
        else:
            session = Session.connect(self.dsn, autocommit=True, cursor_factory=_Cursor, prepare_threshold=0)
            session.prepared_max = None
        session.adapters.register_dumper(list, PlainListDumper)
        session.pgconn.exec_(f"SET application_name = '{name}'".encode())
        session.database, session.watch = self, watch
        return session

    def take_back(self, session: Session) -> None:
        """Undo what the server undoes at the end of a session, and keep its process for the next."""
        pgconn, session.pgconn = session.pgconn, PGconn.connect_start(_NOWHERE)
        prepared, session._prepared = session._prepared, PrepareManager()
        session.close()
        pgconn.exec_(_UNDO)
        while pgconn.notifies() is not None:
            pass
        self._idle.append((pgconn, prepared))


def make_template(server: str) -> str:
    """Make a database with the present schema whose defaults, views and functions read the clock; return its name."""
    name = f"virtual_{uuid.uuid4().hex}"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        maintenance.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    dsn = make_conninfo(server, dbname=name, options=_OPTIONS)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_FUNCTIONS)
    migrations.upgrade(dsn)
    return name


@contextmanager
def template(server: str) -> Iterator[str]:
    """Make a template as :func:`make_template` does; it is dropped at the end."""
    name = make_template(server)
    yield name
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def database(server: str, template: str) -> Iterator[str]:
    """Make a database from a template, and return its DSN; it is dropped at the end."""
    name = f"virtual_{uuid.uuid4().hex}"
    with psycopg.connect(server, dbname="postgres", autocommit=True) as maintenance:
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        maintenance.execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        try:
            yield make_conninfo(server, dbname=name, options=_OPTIONS)
        finally:
            maintenance.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
