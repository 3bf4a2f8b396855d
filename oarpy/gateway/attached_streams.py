"""The caller's standard streams at the other end of the gateway's socket."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from contextlib import suppress

from oarpy.client.caller import Size
from oarpy.wire.frames import CONTENT, ERRORS, MESSAGE, OUTPUT, Channel, Frames, Gone, Malformed, read_message

_READ = 1 << 16
_LARGEST = 1 << 20
_MOST = 1000


class HandedOver(BaseException):
    """Raised in a worker whose command goes on in a session."""


class RemoteStreams:
    """Frames over the connection. ``ended`` is never true, as the end of the caller may always be noticed.

    ``gateway`` is a descriptor that is readable once the gateway has ended.
    """

    ended = False

    def __init__(self, connection: socket.socket, channel: Channel, gateway: int | None = None) -> None:
        self.gateway = gateway
        self._socket = connection
        self._channel = channel
        self._frames = Frames(_LARGEST)
        self._early: list[bytes | Size] = []

    def fileno(self) -> int:
        """The connection."""
        return self._socket.fileno()

    def begin_input(self, *, terminal: bool) -> Size | None:
        """Ask for input; the answer about the terminal comes before any."""
        self._tell("terminal" if terminal else "plain")
        while terminal and not self._early:
            self._early += self.receive()
        if not terminal:
            return None
        size = self._early.pop(0)
        if not isinstance(size, Size):
            raise BrokenPipeError(errno.EPIPE, "the caller sent input before the size of its terminal")
        return size if size.rows else None

    def take_early(self) -> list[bytes | Size]:
        """Return the input that came together with the size of the terminal."""
        early, self._early = self._early, []
        return early

    def end_input(self) -> None:
        """Ask for no more."""
        with suppress(BrokenPipeError):
            self._tell("none")

    def receive(self) -> list[bytes | Size]:
        """Read once; raise :class:`BrokenPipeError` when the caller is gone or does not keep to the protocol."""
        try:
            data = self._socket.recv(_READ)
            if not data:
                raise BrokenPipeError(errno.EPIPE, "the caller is gone")
            return [_piece(kind, payload) for kind, payload in self._frames.feed(data)]
        except (OSError, Malformed) as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None

    def send(self, stream: int, data: bytes) -> None:
        """Send a frame of output."""
        try:
            self._channel.send(OUTPUT if stream == 1 else ERRORS, data)
        except Gone as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None

    def open_shell(self, job: int, node: str) -> None:
        """Have the caller open it."""
        self._send_message({"windows": job, "node": node})

    def _tell(self, wanted: str) -> None:
        self._send_message({"input": wanted})

    def _send_message(self, message: Mapping[str, object]) -> None:
        try:
            self._channel.send_message(message)
        except Gone as error:
            raise BrokenPipeError(errno.EPIPE, str(error)) from None


def _piece(kind: int, payload: bytes) -> bytes | Size:
    if kind == CONTENT:
        return payload
    if kind != MESSAGE:
        raise Malformed("something else than input")
    message = read_message(payload)
    if message.get("interrupt") is True:
        raise KeyboardInterrupt
    rows, columns = message.get("rows"), message.get("columns")
    if type(rows) is int and type(columns) is int and 0 <= rows <= _MOST and 0 <= columns <= _MOST:
        return Size(rows, columns)
    raise Malformed("neither an interrupt nor the size of a terminal")
