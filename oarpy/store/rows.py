"""Rows by name: a selected row becomes a value whose fields have the names of the columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, LiteralString, TypeVar

from psycopg import sql
from psycopg.rows import BaseRowFactory

from oarpy.store.database import Connection

Kind = TypeVar("Kind")


def read(
    connection: Connection,
    statement: LiteralString | sql.SQL | sql.Composed,
    kind: Callable[..., Kind],
    values: Sequence[object] | Mapping[str, object] = (),
    *,
    binary: bool = True,
) -> list[Kind]:
    """Return the rows of ``statement``, each made by ``kind`` of its columns by name; an array is a tuple.

    Raises TypeError when the statement selects a column without a field, or lacks a field without default.
    """
    with connection.cursor(row_factory=_by_name(kind)) as cursor:
        return cursor.execute(statement, values, binary=binary).fetchall()


def _by_name(kind: Callable[..., Kind]) -> BaseRowFactory[Kind]:
    def factory(cursor: Any) -> Callable[[Sequence[object]], Kind]:
        names = [column.name for column in cursor.description or ()]

        def made(row: Sequence[object]) -> Kind:
            plain = [tuple(value) if type(value) is list else value for value in row]
            return kind(**dict(zip(names, plain, strict=True)))

        return made

    return factory
