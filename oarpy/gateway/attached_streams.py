"""The caller's standard streams at the other end of the gateway's socket."""

from __future__ import annotations

import errno
import socket

from oarpy.frontend.frames import CONTENT, ERRORS, OUTPUT, Channel, Frames, Gone, Malformed

_READ = 1 << 16
_LARGEST = 1 << 20


class HandedOver(BaseException):
    """Raised in a worker whose command goes on in a session."""


class RemoteStreams:
    """Frames over the connection. ``ended`` is never true: that the caller is gone may always be heard."""

    ended = False

    def __init__(self, connection: socket.socket, channel: Channel) -> None:
        self._socket = connection
        self._channel = channel
        self._frames = Frames(_LARGEST)
        self._early = channel.received()

    def fileno(self) -> int:
        """The connection."""
        return self._socket.fileno()

    def receive(self) -> list[bytes]:
        """Read once; raise :class:`BrokenPipeError` when the caller is gone or does not keep to the protocol."""
        data, self._early = self._early, b""
        try:
            data += self._socket.recv(_READ)
            if not data:
                raise BrokenPipeError(errno.EPIPE, "the caller is gone")
            arrived = self._frames.feed(data)
        except (OSError, Malformed) as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None
        if any(kind != CONTENT for kind, _ in arrived):
            raise BrokenPipeError(errno.EPIPE, "the caller sent something else than input")
        return [payload for _, payload in arrived]

    def send(self, stream: int, data: bytes) -> None:
        """Send a frame of output."""
        try:
            self._channel.send(OUTPUT if stream == 1 else ERRORS, data)
        except Gone as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None
