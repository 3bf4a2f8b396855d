"""Requests on their way in: they are read as they arrive and never waited for, then queued, the users in turn."""

from __future__ import annotations

import os
import socket
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from oarpy.gateway.listener import peer_uid
from oarpy.model.errors import NotAllowed, OarpyError, Unreachable
from oarpy.wire.frames import HEADER, KNOCK, LARGEST_REQUEST, MESSAGE, SPEAKER, Malformed, read_header
from oarpy.wire.openings import LARGEST_PREFACE, Knock, read_knock, read_speaker, refusal

CONNECTIONS_PER_USER = 512
"""Requests of one user that may be on their way in or queued."""

BYTES_PER_USER = 64 * 2**20
"""Bytes that these may take together."""

TOO_MANY = "too many commands of yours wait for the gateway (try again later)"

_READ = 2**18
_BUSY = Unreachable.exit_status


@dataclass(eq=False, slots=True)
class Client:
    """A connection whose request is read or queued; ``deadline`` is by the monotonic clock.

    ``preface`` names the user for whom a process of the server speaks; empty for other callers.
    """

    socket: socket.socket
    uid: int
    deadline: float
    data: bytearray = field(default_factory=bytearray)
    preface: bytes = b""

    @property
    def request(self) -> memoryview:
        """The text of the request, without its header."""
        return memoryview(self.data)[HEADER.size :]

    def left(self) -> bool:
        """Say whether the other side has closed the connection."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def refuse(self, reason: str, status: int = _BUSY) -> None:
        """Answer with one line, and close."""
        with suppress(OSError):
            self.socket.send(refusal(reason, status))
        self.socket.close()


class Intake:
    """Every connection that no worker has yet."""

    def __init__(self, timeout: float, knocked: Callable[[Knock], None]) -> None:
        self._timeout = timeout
        self._knocked = knocked
        self._trusted = frozenset({0, os.geteuid()})
        self._reading: dict[Client, None] = {}
        self._queues: dict[int, deque[Client]] = {}
        self._connections: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()

    def __len__(self) -> int:
        return self._connections.total()

    @property
    def queued(self) -> bool:
        """True when a request waits for a worker."""
        return bool(self._queues)

    def enter(self, connection: socket.socket, now: float) -> Client | None:
        """Take a new connection, or refuse it (None)."""
        connection.setblocking(False)
        client = Client(connection, peer_uid(connection), now + self._timeout)
        if self._connections[client.uid] >= CONNECTIONS_PER_USER:
            client.refuse(TOO_MANY)
            return None
        self._connections[client.uid] += 1
        self._reading[client] = None
        return client

    def read(self, client: Client) -> bool:
        """Read the bytes that have arrived.

        Return False when the request needs no more: it is whole, wrong, or gone.
        """
        try:
            data = client.socket.recv(_READ)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return False
        client.data += data
        self._bytes[client.uid] += len(data)
        try:
            missing = self._missing(client)
        except OarpyError as error:
            self._drop(client, str(error), error.exit_status)
            return False
        except Malformed as error:
            self._drop(client, f"the gateway does not understand the request: {error}", 1)
            return False
        if self._bytes[client.uid] > BYTES_PER_USER:
            self._drop(client, "your commands that wait for the gateway are too large (try again later)")
            return False
        if missing or client not in self._reading:
            return missing
        del self._reading[client]
        self._queues.setdefault(client.uid, deque()).append(client)
        return False

    def take(self, may_run: Callable[[int], bool]) -> Client | None:
        """Return the next request of a user who ``may_run`` one more, the users in turn."""
        for uid in list(self._queues):
            while may_run(uid) and uid in self._queues:
                client = self._queues[uid].popleft()
                # the next one of this user comes after one of each other user
                rest = self._queues.pop(uid)
                if rest:
                    self._queues[uid] = rest
                self._forget(client)
                if not client.left():
                    return client
                client.socket.close()
        return None

    def waits(self, may_run: Callable[[int], bool]) -> bool:
        """Say whether :meth:`take` may find something."""
        return any(may_run(uid) for uid in self._queues)

    def late(self, now: float) -> Iterator[Client]:
        """Close and yield the connections whose request did not arrive in time."""
        for client in [client for client in self._reading if client.deadline < now]:
            yield client
            self._drop(client, "the gateway got no whole request in time")

    def close(self, reason: str) -> None:
        """Refuse all of it."""
        for client in self.clients():
            client.refuse(reason)

    def forget(self) -> None:
        """Close the copies that a forked process has."""
        for client in self.clients():
            client.socket.close()

    def clients(self) -> list[Client]:
        """Return every connection that is read or queued."""
        return [*self._reading, *(client for queue in self._queues.values() for client in queue)]

    def _missing(self, client: Client) -> bool:
        """Say whether more must come.

        Take the messages of the server's own processes before a request, or in its place.
        """
        while client.data and client.data[0] in (KNOCK, SPEAKER):
            if client.preface or client.uid not in self._trusted:
                raise NotAllowed("only the server's own processes may speak for others")
            preface = _first(client.data)
            if preface is None:
                return True
            if client.data[0] == KNOCK:
                knock = read_knock(preface)
                self._drop(client)
                self._knocked(knock)
                return False
            self._become(client, preface)
        return _missing(client.data)

    def _become(self, client: Client, preface: bytes) -> None:
        """Count the connection for the user it speaks for."""
        uid = read_speaker(preface).uid
        if self._connections[uid] >= CONNECTIONS_PER_USER:
            raise Unreachable(TOO_MANY)
        self._forget(client)
        del client.data[: HEADER.size + len(preface)]
        client.uid, client.preface = uid, preface
        self._connections[uid] += 1
        self._bytes[uid] += len(client.data)

    def _drop(self, client: Client, reason: str = "", status: int = _BUSY) -> None:
        self._reading.pop(client, None)
        self._forget(client)
        if reason:
            client.refuse(reason, status)
        else:
            client.socket.close()

    def _forget(self, client: Client) -> None:
        self._connections[client.uid] -= 1
        self._bytes[client.uid] -= len(client.data)
        if not self._connections[client.uid]:
            del self._connections[client.uid], self._bytes[client.uid]


def _first(data: bytearray) -> bytes | None:
    """Return the first frame's content, None while it is not whole; raise :class:`Malformed` when it is large."""
    if len(data) < HEADER.size:
        return None
    _, length = HEADER.unpack(data[: HEADER.size])
    if length > LARGEST_PREFACE:
        raise Malformed("too long a preface")
    return bytes(data[HEADER.size : HEADER.size + length]) if len(data) >= HEADER.size + length else None


def _missing(data: bytearray) -> bool:
    """Say whether more must come; raise :class:`Malformed` for data that is no request, or more than one."""
    if len(data) < HEADER.size:
        return True
    kind, length = read_header(bytes(data[: HEADER.size]), LARGEST_REQUEST)
    if kind != MESSAGE:
        raise Malformed("it does not begin with a message")
    if len(data) > HEADER.size + length:
        raise Malformed("more than one message")
    return len(data) < HEADER.size + length
