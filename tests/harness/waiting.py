"""Waiting for a condition with a deadline, for tests of processes that take their own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

DEADLINE = 90.0
"""Seconds, many times what anything takes on an idle machine."""


def until(condition: Callable[[], Any], what: Callable[[], str] | str, deadline: float = DEADLINE) -> Any:
    """Wait for something true, and return it."""
    end = time.monotonic() + deadline
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.01)
    return found


def waiting_for_locks(connection: psycopg.Connection[tuple[Any, ...]]) -> int:
    """Return how many sessions of a database wait for locks; ``connection`` is in no transaction."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ((sessions,),) = connection.execute(query).fetchall()
    return int(sessions)
