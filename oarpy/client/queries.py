"""SQL of an analyst or an admin, run so that nothing can change, and its rows as text."""

from __future__ import annotations

import json
from dataclasses import dataclass

from oarpy.client.rendering import PLAIN, Column, JsonValue, Table
from oarpy.client.session import Session
from oarpy.store.query import read_only


@dataclass(frozen=True, slots=True)
class Rows:
    """The answer to a query."""

    names: tuple[str, ...]
    values: list[tuple[object, ...]]

    def text(self) -> str:
        """Return an aligned table; NULL is empty, arrays and objects are as in JSON."""
        rows = tuple(tuple(map(_shown, row)) for row in self.values)
        return Table(tuple(map(Column, self.names)), rows).text(PLAIN)

    def data(self) -> list[dict[str, JsonValue]]:
        """Return an object for each row; a value that JSON lacks is a string."""
        return [{name: _plain(value) for name, value in zip(self.names, row, strict=True)} for row in self.values]


def query(session: Session, statement: str) -> Rows:
    """Run one query in a read-only transaction. Raises :class:`oarpy.model.errors.UsageError` when it fails."""
    return Rows(*read_only(session.connection, statement))


def _plain(value: object) -> JsonValue:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool | dict) else str(value)


def _shown(value: object) -> str:
    if isinstance(value, list | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return "" if value is None else str(value)
