"""Standard output and standard error of a command that runs for somebody else."""

from __future__ import annotations

import errno
import io
from contextlib import suppress
from typing import TYPE_CHECKING

from oarpy.wire.frames import Channel, Gone

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_BUFFER = 2**16
_LARGEST_WRITE = 2**18


class _Frames(io.RawIOBase):
    """Each write is a frame."""

    def __init__(self, channel: Channel, kind: int, terminal: bool) -> None:
        super().__init__()
        self._channel = channel
        self._kind = kind
        self._terminal = terminal
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._terminal

    def write(self, data: ReadableBuffer, /) -> int:
        # what is left of a larger write comes again
        payload = bytes(memoryview(data)[:_LARGEST_WRITE])
        if not self.abandoned:
            try:
                self._channel.send(self._kind, payload)
            except Gone as error:
                raise BrokenPipeError(errno.EPIPE, str(error)) from None
        return len(payload)


class Output:
    """A text stream whose bytes arrive on a stream of the caller; ``terminal`` says what the caller's stream is."""

    def __init__(self, channel: Channel, kind: int, *, terminal: bool, errors: str) -> None:
        self._frames = _Frames(channel, kind, terminal)
        buffer = io.BufferedWriter(self._frames, _BUFFER)
        self.stream = io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=terminal)

    def close(self) -> None:
        """Send what is left, to a caller who may be gone."""
        with suppress(BrokenPipeError):
            self.stream.flush()
        self._frames.abandoned = True
        self.stream.close()
