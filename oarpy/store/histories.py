"""Histories stay: the author that triggers write into them, and how their owner may change them."""

from __future__ import annotations

from oarpy.store.database import Connection

_SIGN = "SELECT set_config('oarpy.author', %s, true)"
_REWRITE = "SELECT set_config('oarpy.rewrite_history', 'on', true)"


def sign(connection: Connection, author: str) -> None:
    """Have all changes until the end of the transaction be by ``author``: triggers know only the connected role."""
    connection.execute(_SIGN, [author])


def rewrite(connection: Connection) -> None:
    """Let the owner of the tables change the histories, until the end of the transaction."""
    connection.execute(_REWRITE)
