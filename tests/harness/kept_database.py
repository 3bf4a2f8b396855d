"""A database that one test after the other uses, with one session: each test finds both as if they were new.

To make a database, to connect, and to plan each query for the first time costs more than what most tests do. A database
is thrown away where emptying it does not make it new: when its schema, rights or statistics changed, when somebody else
is still connected, and when what was in it takes room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from typing import Any, TypeAlias

import psycopg
from psycopg.abc import Query
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Identifier

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_APPLICATION = "oarpy metascheduler"
"""Who is connected, as far as the database can tell: a module of the server."""
_ROOM = 512 * 1024
"""Bytes of all tables together; above, emptied tables are slower to read than new ones."""

_NAMES = """
    SELECT nspname, relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace
     WHERE relkind = %s AND nspname <> 'information_schema' AND nspname NOT LIKE 'pg\\_%%' ORDER BY 1, 2
"""
_OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

_CATALOGS = (
    *("pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension"),
    *("pg_index", "pg_largeobject_metadata", "pg_namespace", "pg_policy", "pg_proc", "pg_rewrite", "pg_statistic"),
    *("pg_trigger", "pg_type"),
)
"""A change of the schema, of rights or of statistics makes or removes rows of one of these."""
_STRUCTURE = SQL(" UNION ALL ").join(
    [
        *(SQL("SELECT sum(hashtext(ctid::text || xmin)) FROM {}").format(Identifier(name)) for name in _CATALOGS),
        SQL("SELECT sum(reltuples)::bigint FROM pg_class"),
        SQL("SELECT hashtext(datacl::text) FROM pg_database WHERE datname = current_database()"),
        SQL(
            "SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase"
            " WHERE d.datname = current_database()"
        ),
    ]
)


Name: TypeAlias = "tuple[str, str]"
"""The schema of a table or sequence, and its name there."""


Prepare: TypeAlias = Callable[[Connection], object]


def _as_it_is(_: Connection) -> None:
    """Leave a new database as it is."""


class KeptDatabase:
    """A database that is fresh when this is made."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._handed_out: list[Connection] = []
        self._session = self._connect()
        tables, sequences = self._names("r"), self._names("S")
        self._with_rows = SQL(" UNION ALL ").join(
            SQL("SELECT {}, {}, pg_relation_size({}) WHERE EXISTS (SELECT FROM {})").format(
                *name, Identifier(*name).as_string(), Identifier(*name)
            )
            for name in tables
        )
        self._counters = SQL(" UNION ALL ").join(
            SQL("SELECT {}, last_value, is_called FROM {}").format(Identifier(*name).as_string(), Identifier(*name))
            for name in sequences
        )
        self._filled = {(schema, name): self._read((schema, name)) for schema, name, _ in self._ask(self._with_rows)}
        self._counted = self._ask(self._counters)
        self._structure = self._ask(_STRUCTURE)

    def connection(self) -> Connection:
        """Return a connection in autocommit mode: a new object, on the session that all tests share."""
        if self._session.closed:
            self._session = self._connect()
        connection = psycopg.Connection(self._session.pgconn)
        connection.autocommit = True
        # one that is forgotten while the session is open warns that nobody closed it
        self._handed_out.append(connection)
        return connection

    def renew(self) -> bool:
        """Make everything as new; return false if it cannot be: then the database is to be thrown away."""
        if self._session.closed:
            self._session = self._connect()
        if self._session.info.transaction_status != TransactionStatus.IDLE:
            return False
        self._session.execute("DISCARD ALL")
        if self._ask(_OTHERS) != [(0,)] or self._ask(_STRUCTURE) != self._structure:
            return False
        found = {(schema, name): size for schema, name, size in self._ask(self._with_rows)}
        if sum(found.values()) > _ROOM:
            return False
        with self._session.transaction():
            # no trigger, no reference
            self._session.execute("SET LOCAL session_replication_role = replica")
            for name in found.keys() - self._filled.keys():
                self._session.execute(SQL("DELETE FROM {}").format(Identifier(*name)))
            for name, rows in self._filled.items():
                if self._read(name) != rows:
                    self._fill(name, rows)
            for counter in set(self._counted) - set(self._ask(self._counters)):
                self._session.execute("SELECT setval(%s::regclass, %s, %s)", counter)
        return True

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _connect(self) -> Connection:
        # what this object would prepare has the names of what others prepare on the same session
        return psycopg.connect(self.dsn, autocommit=True, application_name=_APPLICATION, prepare_threshold=None)

    def _ask(self, query: Query) -> list[tuple[Any, ...]]:
        return self._session.execute(query).fetchall()

    def _names(self, kind: str) -> list[Name]:
        return [(schema, name) for schema, name in self._session.execute(_NAMES, [kind])]

    def _read(self, name: Name) -> bytes:
        with self._session.cursor().copy(SQL("COPY {} TO STDOUT").format(Identifier(*name))) as copy:
            return b"".join(copy)

    def _fill(self, name: Name, rows: bytes) -> None:
        self._session.execute(SQL("DELETE FROM {}").format(Identifier(*name)))
        with self._session.cursor().copy(SQL("COPY {} FROM STDIN").format(Identifier(*name))) as copy:
            copy.write(rows)


class KeptDatabases:
    """For each way to prepare a database the one that is kept, in turn with others where it must be thrown away."""

    def __init__(self, fresh: Callable[[], AbstractContextManager[str]]) -> None:
        self._fresh = fresh
        self._kept: dict[Prepare, tuple[KeptDatabase, ExitStack]] = {}

    @contextmanager
    def lend(self, prepare: Prepare = _as_it_is) -> Iterator[KeptDatabase]:
        """Lend a database that is as new, with what ``prepare`` puts there."""
        if prepare not in self._kept:
            with ExitStack() as stack:
                dsn = stack.enter_context(self._fresh())
                with psycopg.connect(dsn, autocommit=True) as connection:
                    prepare(connection)
                database = stack.enter_context(closing(KeptDatabase(dsn)))
                self._kept[prepare] = database, stack.pop_all()
        database, stack = self._kept[prepare]
        yield database
        renewed = False
        with suppress(psycopg.OperationalError):  # somebody has ended its session
            renewed = database.renew()
        if not renewed:
            del self._kept[prepare]
            stack.close()

    def close(self) -> None:
        """Throw away what is kept."""
        for _, stack in self._kept.values():
            stack.close()
