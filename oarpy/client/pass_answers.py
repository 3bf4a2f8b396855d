"""Waiting for the answers of a scheduling pass: they arrive in the database, a notification only hurries them up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from oarpy.client.caller import current
from oarpy.model.errors import Unreachable
from oarpy.store.database import Connection

Answer = TypeVar("Answer")

_POLL = 1.0
"""Seconds between two looks when no notification arrives."""


@contextmanager
def place_to_wait(stays: str) -> Iterator[None]:
    """Count among the commands that wait for an answer; ``stays`` says what happens to the question otherwise.

    Raises :class:`Unreachable` when too many of the caller's commands wait.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(current().waiting())
        except Unreachable as error:
            raise Unreachable(f"the answer is not waited for: {error.message}", hint=stays) from None
        yield


def wait_for(connection: Connection, answer: Callable[[], Answer | None], timeout: float) -> Answer | None:
    """Return the first result of ``answer`` that is not None; None if there is none within ``timeout`` seconds.

    Raises :class:`~oarpy.model.errors.OarpyError` when the caller is gone.
    """
    deadline = time.monotonic() + timeout
    connection.execute("LISTEN oarpy_events")
    try:
        while (result := answer()) is None:
            left = deadline - time.monotonic()
            if not left > 0:
                return None
            current().require_presence()
            for _ in connection.notifies(timeout=min(_POLL, left), stop_after=1):
                pass
        return result
    finally:
        connection.execute("UNLISTEN oarpy_events")
