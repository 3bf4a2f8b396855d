"""A statement that somebody typed, run so that it can only read."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from oarpy.model.errors import UsageError
from oarpy.store.database import Connection

_SKIPPED = ("SQL_COMMENT", "C_COMMENT", "ASCII_59")
"""The tokens that PostgreSQL's scanner finds before the first word of a statement; the last is a semicolon."""


def read_only(
    connection: Connection, statement: str, values: Sequence[object] = (), *, seconds: float | None = None
) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Run ``statement`` in a read-only transaction: (column names, rows).

    It names its ``values`` $1, $2, and may take ``seconds``. Raises :class:`UsageError` when it fails.
    """
    # it would leave the connection copying, or let a superuser run programs
    if _is_copy(statement):
        raise UsageError("COPY is no query", hint="SELECT returns the same rows")
    try:
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")
            if seconds is not None:
                connection.execute("SELECT set_config('statement_timeout', %s, true)", [str(int(seconds * 1000))])
            # prepared, for then it is one statement: several statements could begin with a COMMIT, and the rest would
            # write
            cursor = psycopg.RawCursor(connection)
            cursor.execute(sql.SQL(statement), values, prepare=True)
            if cursor.description is None:
                raise UsageError("the statement returns no rows", hint="only queries, such as SELECT")
            return tuple(column.name for column in cursor.description), cursor.fetchall()
    except (psycopg.ProgrammingError, psycopg.DataError, psycopg.InternalError) as error:
        raise UsageError(f"the query failed: {str(error).splitlines()[0]}") from error


def _is_copy(statement: str) -> bool:
    from pglast import parser  # takes a while to load

    try:
        words = [token.name for token in parser.scan(statement) if token.name not in _SKIPPED]
    except (parser.ParseError, ValueError):
        return False  # the server reports what is wrong with it
    return words[:1] == ["COPY"]
