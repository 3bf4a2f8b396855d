"""A statement that somebody typed, run so that it can only read."""

from __future__ import annotations

import re

import psycopg
from psycopg import sql

from oarpy.model.errors import UsageError
from oarpy.store.database import Connection

_BLANK = " \t\r\n\f\v;"


def read_only(connection: Connection, statement: str) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Run ``statement`` in a read-only transaction: (column names, rows). Raises :class:`UsageError` when it fails."""
    # it would leave the connection copying, or let a superuser run programs
    if _first_word(statement) == "copy":
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


def _first_word(statement: str) -> str:
    """Return the word with which a statement begins, after blanks and comments."""
    text = statement.lstrip(_BLANK)
    while text.startswith(("--", "/*")):
        text = (_after_line(text) if text.startswith("--") else _after_block(text)).lstrip(_BLANK)
    word = re.match(r"\w*", text)
    return word[0].lower() if word else ""


def _after_line(text: str) -> str:
    return re.sub(r"[^\r\n]*", "", text, count=1)


def _after_block(text: str) -> str:
    """Return what follows the comment, which may have others in it; nothing when it does not end."""
    depth = 0
    for edge in re.finditer(r"/\*|\*/", text):
        depth += 1 if edge[0] == "/*" else -1
        if not depth:
            return text[edge.end() :]
    return ""
