"""A launcher's connection for campaigns: lines over the gateway's socket, or through ``oarnegotiate``."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from oarpy.wire.frames import HEADER, LARGEST_FRAME, MESSAGE, first_frame, pack_message, read_message
from tests.harness.gateway_process import request

Message = dict[str, Any]

_READ = 1 << 16
_OPENING = 30.0


class LauncherLines:
    """Messages both ways. What raises ``ConnectionError`` is over: the other side is gone, or refused to begin."""

    def __init__(self, connection: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.socket = connection
        self.process = process
        self._data = b""

    def say(self, word: str, **fields: object) -> None:
        """Send a message."""
        self.send(json.dumps({"message": word, **fields}).encode() + b"\n")

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise ConnectionError(str(error)) from None

    def hear(self, timeout: float) -> Message | None:
        """Return the next message; None when none came within ``timeout`` seconds."""
        until = time.monotonic() + timeout
        while b"\n" not in self._data:
            if not select.select([self.socket], [], [], max(0, until - time.monotonic()))[0]:
                return None
            self._receive()
        line, _, self._data = self._data.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Leave, without a word; a command that carried the lines ends."""
        self.socket.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def begin(self) -> None:
        """Take what the gateway says before the first line."""
        self.socket.settimeout(_OPENING)
        said = b""
        while True:
            while (frame := first_frame(self._data, LARGEST_FRAME)) is None:
                self._receive()
            kind, payload = frame
            self._data = self._data[HEADER.size + len(payload) :]
            if kind == MESSAGE and "relayed" in read_message(payload):
                self.socket.settimeout(None)
                return
            said += payload
            if kind == MESSAGE:
                raise ConnectionError(said.decode())

    def _receive(self) -> None:
        try:
            data = self.socket.recv(_READ)
        except OSError as error:
            raise ConnectionError(str(error)) from None
        if not data:
            raise ConnectionError("the other side is gone")
        self._data += data


def over_socket(path: str, directory: str = "/") -> LauncherLines:
    """Return a connection as ``oarnegotiate`` makes it in a directory. Raises :class:`ConnectionError`."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_OPENING)
    try:
        connection.connect(path)
        connection.sendall(pack_message({**request("oarnegotiate"), "directory": directory}))
    except OSError as error:
        connection.close()
        raise ConnectionError(str(error)) from None
    lines = LauncherLines(connection)
    try:
        lines.begin()
    except ConnectionError:
        connection.close()
        raise
    return lines


def through_command(words: Sequence[str], environment: Mapping[str, str], directory: str = "/") -> LauncherLines:
    """Return a connection that the command ``oarnegotiate`` carries, started in a directory."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            words,
            cwd=directory,
            env=dict(environment),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.DEVNULL,
        )
    return LauncherLines(ours, process)
