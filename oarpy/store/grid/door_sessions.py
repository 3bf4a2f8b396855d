"""Sessions of brokers at one time: each holds the lock of a place as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oarpy.store.database import Connection

_TAKE = "SELECT pg_try_advisory_lock(hashtext(%s), %s)"
_LEAVE = "SELECT pg_advisory_unlock(hashtext(%s), %s)"
_ASKING = "oarpy asks clusters"


def take_place(connection: Connection, broker: str, most: int) -> bool:
    """On a cluster: take one of the broker's ``most`` places until the connection ends; False when none is free."""
    return _taken(connection, f"oarpy door {broker}", most) is not None


@contextmanager
def place_to_ask(connection: Connection, most: int) -> Iterator[bool]:
    """On the broker: yield whether one of ``most`` places was free, which is held meanwhile.

    The holder of a place may have a session on each cluster, besides the sessions of the broker's modules.
    """
    place = _taken(connection, _ASKING, most)
    try:
        yield place is not None
    finally:
        if place is not None:
            connection.execute(_LEAVE, (_ASKING, place))


def _taken(connection: Connection, lock: str, most: int) -> int | None:
    """Take the first of ``most`` places under a lock that is free; None when none is."""
    for place in range(most):
        row = connection.execute(_TAKE, (lock, place)).fetchone()
        assert row is not None
        if row[0]:
            return place
    return None
