"""Passes the lines of an application launcher between this process's standard streams and the server."""

from __future__ import annotations

import os
import select

from oarpy.wire.json_values import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

_READ = 1 << 16
_SHUT_WR = 1
_ENDED, _LOST, _NOT_ALLOWED = 0, 1, 5
_CODE_OF_FOREIGN_JOBS = 5


def relay(connection: socket, early: bytes) -> int:
    """Carry lines until either side ends; ``early`` has the server's first bytes. Return the exit status."""
    connection.settimeout(None)
    heard = _Heard()
    heard.write(early)
    reading = True
    while True:
        files: list[int | socket] = [0, connection] if reading else [connection]
        ready = select.select(files, [], [])[0]
        if connection in ready:
            try:
                data = connection.recv(_READ)
            except OSError:
                data = b""
            if not data:
                return heard.status(own_end=not reading)
            heard.write(data)
        if 0 in ready:
            reading = _send(connection)


def _send(connection: socket) -> bool:
    """Pass on standard input; return whether there may be more."""
    try:
        data = os.read(0, _READ)
    except OSError:
        data = b""
    try:
        if data:
            connection.sendall(data)
        else:
            connection.shutdown(_SHUT_WR)
    except OSError:
        return False
    return bool(data)


class _Heard:
    """The server's output, written to standard output, and its end."""

    def __init__(self) -> None:
        self._rest = b""
        self._ended = False
        self._refused = 0

    def write(self, data: bytes) -> None:
        """Write the bytes that came, and note the end if they have it."""
        left = data
        while left:
            left = left[os.write(1, left) :]
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if b'"ended"' in line or b'"refused"' in line or b'"attached"' in line:
                self._note(line)

    def _note(self, line: bytes) -> None:
        message = read_json(line)
        word = message.get("message")
        if word == "ended":
            self._ended = True
        elif word == "refused":
            self._refused = message.get("code", 0)
        elif word == "attached":
            self._refused = 0

    def status(self, *, own_end: bool) -> int:
        """Return the exit status; ``own_end`` tells that standard input ended before."""
        if self._ended:
            return _ENDED
        if self._refused == _CODE_OF_FOREIGN_JOBS:
            return _NOT_ALLOWED
        return _ENDED if own_end else _LOST
