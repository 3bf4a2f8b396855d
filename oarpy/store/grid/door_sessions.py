"""Sessions of brokers at one time: each holds the lock of a place as long as it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oarpy.store.database import Connection

_TAKE = "SELECT pg_try_advisory_lock(hashtext('oarpy door ' || %s), %s)"
_TAKE_ASKING = "SELECT pg_try_advisory_lock(hashtext('oarpy asks clusters'), %s)"
_LEAVE_ASKING = "SELECT pg_advisory_unlock(hashtext('oarpy asks clusters'), %s)"


def take_place(connection: Connection, broker: str, most: int) -> bool:
    """On a cluster: take one of the broker's ``most`` places until the connection ends; False when none is free."""
    for place in range(most):
        row = connection.execute(_TAKE, (broker, place)).fetchone()
        assert row is not None
        if row[0]:
            return True
    return False


@contextmanager
def place_to_ask(connection: Connection, most: int) -> Iterator[bool]:
    """On the broker: give whether one of ``most`` places was free, which is held meanwhile.

    Who holds one may have a session on each cluster, besides those of the broker's modules.
    """
    for place in range(most):
        row = connection.execute(_TAKE_ASKING, (place,)).fetchone()
        assert row is not None
        if row[0]:
            try:
                yield True
            finally:
                connection.execute(_LEAVE_ASKING, (place,))
            return
    yield False
