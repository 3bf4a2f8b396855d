"""A statement that somebody typed, run so that it can only read."""

from __future__ import annotations

import re

import psycopg
from psycopg import sql

from oarpy.model.errors import UsageError
from oarpy.store.database import Connection

_COPY = re.compile(r"(\s|--[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*copy\b", re.IGNORECASE)
"""A statement after which the connection is not what it was: it would copy for ever."""


def read_only(connection: Connection, statement: str) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Run ``statement`` in a read-only transaction: (column names, rows). Raises :class:`UsageError` when it fails."""
    if _COPY.match(statement):
        raise UsageError("COPY is no query", hint="SELECT returns the same rows")
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            # prepared, for then it is one statement: of several, a COMMIT could begin, and what follows would write
            cursor = connection.execute(sql.SQL(statement), prepare=True)
            if cursor.description is None:
                raise UsageError("the statement returns no rows", hint="only queries, such as SELECT")
            return tuple(column.name for column in cursor.description), cursor.fetchall()
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError) as error:
        raise UsageError(f"the query failed: {str(error).splitlines()[0]}") from error
