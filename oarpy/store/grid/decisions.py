"""What the broker decided and from what, so that it can be decided again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridDecisionRow:
    """A decision: the state before, what was told in order, what was asked for. ``at`` in epoch seconds."""

    id: int
    module: str
    at: float
    state: Any
    events: Sequence[Any]
    actions: Sequence[Any]


_ADD = """
    INSERT INTO grid_decisions (module, at, state, events, actions) VALUES (%s, to_timestamp(%s), %s, %s, %s)
    RETURNING id
"""
_SOME = """
    SELECT id, module, extract(epoch FROM at)::float8, state, events, actions
    FROM grid_decisions WHERE id > %s ORDER BY id LIMIT %s
"""
_FORGET = "DELETE FROM grid_decisions WHERE at < clock_timestamp() - make_interval(secs => %s)"


def add(
    connection: Connection, module: str, at: float, state: Any, events: Sequence[Any], actions: Sequence[Any]
) -> int:
    """Store a decision; return its number. Values are those of JSON."""
    values = [module, at, Jsonb(state), Jsonb(list(events)), Jsonb(list(actions))]
    row = connection.execute(_ADD, values).fetchone()
    assert row is not None
    return int(row[0])


def every(connection: Connection, after: int = 0, batch: int = 100) -> Iterator[GridDecisionRow]:
    """Yield the decisions after a number, in order; so many are read at a time."""
    while rows := connection.execute(_SOME, [after, batch]).fetchall():
        for row in rows:
            yield GridDecisionRow(*row)
        after = rows[-1][0]


def forget(connection: Connection, age: float) -> int:
    """Forget decisions older than ``age`` seconds; return how many."""
    return connection.execute(_FORGET, [age]).rowcount
