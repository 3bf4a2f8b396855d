"""Figures of a cluster for its brokers."""

from __future__ import annotations

from oarpy.store.database import Connection

_PROCESSORS = """
    SELECT (SELECT count(*) FROM resources WHERE type = 'default' AND state <> 'Dead'),
           extract(epoch FROM clock_timestamp())
"""


def processors(connection: Connection) -> tuple[int, float]:
    """Return the number of processors, without dead ones, and the time in epoch seconds."""
    row = connection.execute(_PROCESSORS).fetchone()
    assert row is not None
    return int(row[0]), float(row[1])


def see_one_state(connection: Connection) -> None:
    """Make a transaction that has just begun read one state of the database and write nothing."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
