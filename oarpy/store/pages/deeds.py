"""What was done over the web, the newest first, a page at a time by key."""

from __future__ import annotations

from dataclasses import dataclass

from oarpy.store.database import Connection

_ACTIONS = """
    SELECT action_id, extract(epoch FROM at)::float8, user_name, source, token_id, address, method, path, detail, status
    FROM web_actions WHERE action_id < %s ORDER BY action_id DESC LIMIT %s
"""
_NONE_BEFORE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class WebAction:
    """A request that may have changed something; ``at`` in epoch seconds, ``status`` None: never answered."""

    action_id: int
    at: float
    user_name: str
    source: str
    token_id: int | None
    address: str
    method: str
    path: str
    detail: str
    status: int | None


def actions(connection: Connection, limit: int, before: int | None = None) -> tuple[WebAction, ...]:
    """Return the ``limit`` newest, or those before the one of that number."""
    rows = connection.execute(_ACTIONS, [_NONE_BEFORE if before is None else before, limit]).fetchall()
    return tuple(WebAction(*row) for row in rows)
