"""This installation, as its database knows it."""

from __future__ import annotations

from oarpy.store.database import Connection


def instance(connection: Connection) -> str:
    """Return the id that tells this installation's jobs from those of any other on the same nodes."""
    row = connection.execute("SELECT instance FROM site").fetchone()
    assert row is not None
    return str(row[0])
