"""Messages between the processes of a step: tuples and dictionaries of plain values, each behind its length.

``marshal`` packs them: it is built in, and all who talk are of one user and one job.
"""

from __future__ import annotations

import marshal
import os
import sys

try:
    # `socket` takes longer to load than all of this
    from _socket import SO_PEERCRED, SOL_SOCKET
except ImportError:
    from socket import SO_PEERCRED, SOL_SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from typing import Any

_VERSION = 2
"""Of ``marshal``: every Python reads it."""
_LENGTH = 4
_CHUNK = 1 << 18
_MOST_WAITING = 1 << 20
"""Bytes that wait to be written, above which no more output is to be brought."""


def packed(*message: Any) -> bytes:
    """Return a message as bytes."""
    content = marshal.dumps(message, _VERSION)
    return len(content).to_bytes(_LENGTH, "big") + content


def user_of(connection: socket) -> int:
    """Return the user of the process at the other end, as the kernel recorded it."""
    credentials = connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


class Unpacker:
    """Cuts arriving bytes into messages."""

    def __init__(self) -> None:
        self._waiting = b""

    def feed(self, data: bytes) -> list[tuple[Any, ...]]:
        """Return the messages that are complete with ``data``."""
        waiting = self._waiting + data if self._waiting else data
        complete, start = [], 0
        while len(waiting) - start >= _LENGTH:
            end = start + _LENGTH + int.from_bytes(waiting[start : start + _LENGTH], "big")
            if len(waiting) < end:
                break
            complete.append(marshal.loads(waiting[start + _LENGTH : end]))
            start = end
        self._waiting = waiting[start:]
        return complete


class Link:
    """A way for messages in both directions that never waits, over a socket or a pair of pipes."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self._unpacker = Unpacker()
        self._waiting = bytearray()
        for fd in (source, sink):
            os.set_blocking(fd, False)

    def send(self, message: bytes) -> None:
        """Write what can be written now; the rest waits for :meth:`flush`."""
        self._waiting += message
        if len(self._waiting) == len(message):
            self.flush()

    def flush(self) -> None:
        """Write more of what waits."""
        try:
            while self._waiting:
                del self._waiting[: os.write(self.sink, self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()  # why it is gone is there to be read

    @property
    def is_behind(self) -> bool:
        """Whether there is anything to be flushed."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more output is to be brought."""
        return len(self._waiting) > _MOST_WAITING

    def receive(self) -> list[tuple[Any, ...]] | None:
        """Return the messages that have come, None at the end."""
        try:
            data = os.read(self.source, _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._unpacker.feed(data) if data else None

    def close(self) -> None:
        """Close both directions."""
        for fd in {self.source, self.sink}:
            os.close(fd)
