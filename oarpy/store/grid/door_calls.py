"""Calls of brokers that were carried out: a key that is asked again gets the same answer."""

from __future__ import annotations

import json
from datetime import datetime
from typing import NamedTuple

from oarpy.store.database import Connection

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('oarpy door call ' || %s || ' ' || %s, 0))"
_FIND = "SELECT call, answer FROM door_calls WHERE broker = %s AND key = %s"
_KEEP = "INSERT INTO door_calls (broker, key, call, answer) VALUES (%s, %s, %s, %s::jsonb)"
_PRUNE = "DELETE FROM door_calls WHERE at < %s"
_PRUNE_TRANSACTIONS = """
    DELETE FROM door_transactions t WHERE at < %s AND state = 'Aborted' AND NOT EXISTS
        (SELECT FROM door_parts p WHERE (p.broker, p.transaction) = (t.broker, t.transaction))
"""


class KeptCall(NamedTuple):
    """A call that was carried out: its name with a digest, and its answer as JSON."""

    call: str
    answer: bytes


def find(connection: Connection, broker: str, key: str) -> KeptCall | None:
    """Return the answer under this key; until the transaction ends, no other session answers under it."""
    connection.execute(_LOCK, (broker, key))
    row = connection.execute(_FIND, (broker, key)).fetchone()
    return None if row is None else KeptCall(row[0], json.dumps(row[1]).encode())


def keep(connection: Connection, broker: str, key: str, call: KeptCall) -> None:
    """Keep the answer to a call that is carried out in the same transaction."""
    connection.execute(_KEEP, (broker, key, call.call, call.answer.decode()))


def prune(connection: Connection, before: datetime) -> None:
    """Forget calls that were carried out before, and transactions that were aborted and made nothing."""
    connection.execute(_PRUNE, [before])
    connection.execute(_PRUNE_TRANSACTIONS, [before])
