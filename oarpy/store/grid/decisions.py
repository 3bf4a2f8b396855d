"""What the broker decided and from what, so that it can be decided again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridDecisionRow:
    """A decision: the state before, what was told in order, what was asked for. ``at`` in epoch seconds.

    One that was too large is not ``replayable``: of what was told it has the kinds alone.
    """

    id: int
    module: str
    at: float
    state: Any
    events: Sequence[Any]
    actions: Sequence[Any]

    @property
    def replayable(self) -> bool:
        """Whether it can be decided again."""
        return _TOO_LARGE not in self.state


MOST_BYTES = 8_000_000
"""A decision with more, as JSON, is stored without what it was decided from."""
_TOO_LARGE = "too_large"
"""Says in place of the state how many bytes it was."""
_MOST_KINDS = 10_000
_ADD = """
    INSERT INTO grid_decisions (module, at, state, events, actions) VALUES (
        %s, to_timestamp(%s), %s::text::jsonb, %s::text::jsonb, %s::text::jsonb)
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
    """Store a decision; return its number. Values are those of JSON.

    Above :data:`MOST_BYTES` it is stored as not replayable, without numbers of clusters and states.
    """
    texts = [json.dumps(value) for value in (state, list(events), list(actions))]
    size = sum(map(len, texts))
    if size > MOST_BYTES:
        kinds = [{"now": one["now"], "event": {"is": one["event"]["is"]}} for one in events]
        texts = [json.dumps({_TOO_LARGE: size}), json.dumps(kinds[:_MOST_KINDS]), "[]"]
    row = connection.execute(_ADD, [module, at, *texts]).fetchone()
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
