"""Connections of launchers, many in one process: each a socket to the gateway, as ``oarnegotiate`` opens it."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oarpy.negotiation.messages import line_of
from oarpy.wire.frames import LARGEST_FRAME, MESSAGE, VERSION, Channel, Malformed, pack_message, read_message

_READ = 1 << 20
_TIMEOUT = 60.0

Heard = dict[str, Any]
"""A message."""


@dataclass(eq=False, slots=True)
class LauncherConnection:
    """One connection; ``job`` is what it speaks for, ``heard`` what arrived, each with its instant (epoch seconds)."""

    socket: socket.socket
    job: int = 0
    heard: list[tuple[float, bytes]] = field(default_factory=list)
    _rest: bytes = b""

    def say(self, word: str, **fields: object) -> None:
        """Send a message."""
        self.socket.setblocking(True)
        self.socket.sendall(line_of({"message": word, **fields}))

    def read(self) -> int:
        """Take in what has arrived; return how many lines were ended by that."""
        *lines, self._rest = (self._rest + self.socket.recv(_READ)).split(b"\n")
        now = time.time()
        self.heard += [(now, line) for line in lines]
        if any(b'"message":"ping"' in line for line in lines):
            with suppress(OSError):  # the server has left meanwhile
                self.say("pong")
        return len(lines)

    def take(self, word: str) -> list[tuple[float, Heard]]:
        """Return the messages of this word that were heard since the last look, which forgets all."""
        messages = [(at, json.loads(line)) for at, line in self.heard if f'"message":"{word}"'.encode() in line]
        self.heard.clear()
        return messages

    def messages(self) -> Iterator[Heard]:
        """Yield what was heard, oldest first; each is forgotten with that."""
        while self.heard:
            yield json.loads(self.heard.pop(0)[1])

    def early(self, data: bytes) -> None:
        """Take in what arrived before the lines were read."""
        self._rest += data


class LauncherCrowd:
    """Connections of many launchers of the caller, read together; their jobs run in ``directory``."""

    def __init__(self, path: str, variables: Mapping[str, str], directory: Path) -> None:
        self._path, self._variables, self._directory = path, dict(variables), str(directory)
        self._selector = selectors.DefaultSelector()
        self.all: list[LauncherConnection] = []

    def open(self) -> LauncherConnection:
        """Open a connection, which the gateway hands on to the negotiator."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_TIMEOUT)
        connection.connect(self._path)
        channel = Channel(connection)
        connection.sendall(pack_message(_request(self._variables, self._directory)))
        kind, payload = channel.receive(LARGEST_FRAME)
        if kind != MESSAGE or "relayed" not in read_message(payload):
            raise Malformed(f"the gateway does not hand over: {payload[:200]!r}")
        launcher = LauncherConnection(connection)
        launcher.early(channel.received())
        self.all.append(launcher)
        self._selector.register(connection, selectors.EVENT_READ, launcher)
        return launcher

    def listen(self, seconds: float) -> int:
        """Read what arrives within some seconds, at least what is there; return how many lines the first look found."""
        return sum(key.data.read() for key, _ in self._selector.select(max(0.0, seconds)))

    def close(self) -> None:
        """Leave."""
        for launcher in self.all[:]:
            self.leave(launcher)

    def leave(self, connection: LauncherConnection) -> None:
        """Close one connection."""
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self.all.remove(connection)


def _request(variables: Mapping[str, str], directory: str) -> dict[str, object]:
    """Return how ``oarnegotiate`` is called."""
    return {
        "version": VERSION,
        "command": "oarnegotiate",
        "arguments": [],
        "directory": directory,
        "environment": dict(variables),
        "terminal": {"input": False, "output": False, "errors": False, "columns": 80},
    }
