"""Wake-ups of a process: descriptors that can be read, whatever their numbers, and one that a thread rings."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress

_LONGEST = 2**31 - 1
"""Milliseconds that poll takes."""


class WakeupBell:
    """A descriptor that can be read after a ring, until it is quieted. The owner closes it when done."""

    _event = -1

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """Return the descriptor, for :func:`readable`."""
        return self._event

    def ring(self) -> None:
        """Make it readable; any thread may."""
        os.eventfd_write(self._event, 1)

    def quiet(self) -> None:
        """Make it wait for the next ring."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._event)

    def close(self) -> None:
        """Give the descriptor back."""
        event, self._event = self._event, -1
        if event >= 0:
            os.close(event)

    def __del__(self) -> None:
        self.close()


def readable(files: Iterable[int], seconds: float | None = None) -> list[int]:
    """Wait until one of ``files`` can be read (or has failed), at most ``seconds``; return the readable files."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(None if seconds is None else min(max(seconds, 0) * 1000, _LONGEST))]
