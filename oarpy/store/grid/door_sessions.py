"""Sessions of brokers at one time: each holds the lock of a place as long as its connection lives."""

from __future__ import annotations

from oarpy.store.database import Connection

_TAKE = "SELECT pg_try_advisory_lock(hashtext('oarpy door ' || %s), %s)"


def take_place(connection: Connection, broker: str, most: int) -> bool:
    """Take one of the broker's ``most`` places until the connection ends; False when none is free."""
    for place in range(most):
        row = connection.execute(_TAKE, (broker, place)).fetchone()
        assert row is not None
        if row[0]:
            return True
    return False
