"""The decisions of the broker with their inputs, so that they can be taken again."""

from __future__ import annotations

import json
import lzma
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oarpy.store.database import Connection


@dataclass(frozen=True, slots=True)
class GridDecisionRow:
    """A decision: the state before, the events in order, and the actions. ``at`` in epoch seconds.

    A decision that was too large is not ``replayable``: only the kinds of its events are kept.
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
"""A decision with more bytes is stored without its inputs."""
PACKED_BYTES = 64_000
"""Events of more bytes, as JSON, are packed."""
_READ_BYTES = 100_000_000
"""A decision with more, as JSON, is not packed either: that takes too long."""
_PACKED = "lzma"
"""The key of the only event if all events are packed in it, in letters of base 64."""
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

    A pass that looks at all jobs after each move has long events that repeat much: they are packed. A decision with
    more than :data:`MOST_BYTES` even so is stored as not replayable, without numbers of clusters and states.
    """
    texts = [json.dumps(value) for value in (state, list(events), list(actions))]
    size = sum(map(len, texts))
    if len(texts[1]) > PACKED_BYTES and size <= _READ_BYTES:
        texts[1] = json.dumps([{_PACKED: b64encode(lzma.compress(texts[1].encode(), preset=1)).decode()}])
    if sum(map(len, texts)) > MOST_BYTES:
        kinds = [{"now": event["now"], "event": {"is": event["event"]["is"]}} for event in events]
        texts = [json.dumps({_TOO_LARGE: size}), json.dumps(kinds[:_MOST_KINDS]), "[]"]
    row = connection.execute(_ADD, [module, at, *texts]).fetchone()
    assert row is not None
    return int(row[0])


def every(connection: Connection, after: int = 0, batch: int = 100) -> Iterator[GridDecisionRow]:
    """Yield the decisions after a number, in order; ``batch`` of them are read at a time."""
    while rows := connection.execute(_SOME, [after, batch]).fetchall():
        for number, module, at, state, events, actions in rows:
            yield GridDecisionRow(number, module, at, state, _unpacked(events), actions)
        after = rows[-1][0]


def _unpacked(events: list[Any]) -> list[Any]:
    """Return the events as they came, unpacked."""
    if len(events) != 1 or _PACKED not in events[0]:
        return events
    unpacked: list[Any] = json.loads(lzma.decompress(b64decode(events[0][_PACKED])))
    return unpacked


def forget(connection: Connection, age: float) -> int:
    """Forget decisions older than ``age`` seconds; return how many."""
    return connection.execute(_FORGET, [age]).rowcount
