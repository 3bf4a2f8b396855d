"""Lines of a caller's standard input, none longer than allowed, and no more in a second than allowed."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from math import inf

from oarpy.client.caller import Streams


def lines_of(streams: Streams, longest: int, patience: float = inf) -> Iterator[bytes | None]:
    """Yield each line that ends in a newline, without it, until the input ends; None for a line that is too long.

    No input for ``patience`` seconds is an end, too, and so is the end of the gateway. Raises
    :class:`BrokenPipeError` when the caller is gone.
    """
    rest, skipping = bytearray(), False
    while _has_input(streams, patience):
        for piece in streams.receive():
            if not isinstance(piece, bytes):
                continue  # the size of a terminal
            if not piece:
                return
            *whole, last = piece.split(b"\n")
            for part in whole:
                rest += part
                too_long = skipping or len(rest) > longest
                line, skipping = bytes(rest), False
                rest.clear()
                yield None if too_long else line
            rest += last
            if len(rest) > longest:
                rest.clear()
                skipping = True


def _has_input(streams: Streams, patience: float) -> bool:
    """Wait for input; return False when there was none for ``patience`` seconds, or the gateway has ended."""
    poll = select.poll()
    poll.register(streams.fileno(), select.POLLIN)
    if streams.gateway is not None:
        poll.register(streams.gateway, select.POLLIN)
    ready = [file for file, _ in poll.poll(None if patience == inf else patience * 1000)]
    return bool(ready) and streams.gateway not in ready


class Pace:
    """Lets ``most`` calls a second through."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._began = time.monotonic()
        self._calls = 0

    def keep(self) -> None:
        """Wait until one more call may be made."""
        if self._calls >= self._most:
            time.sleep(max(0.0, self._began + 1 - time.monotonic()))
        now = time.monotonic()
        if now - self._began >= 1:
            self._began, self._calls = now, 0
        self._calls += 1
