"""Connections on their way from a worker of the gateway to the negotiator, each with the identity of its other end."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from oarpy.configuration import Configuration
from oarpy.model.errors import Unreachable
from oarpy.wire.frames import Malformed
from oarpy.wire.openings import Request, Speaker, read_speaker

_LARGEST = 1024
_OWN_FILES = 64
"""Open files of the negotiator beside connections and calls."""
_TIMEOUT = 10.0
_CREDENTIALS = struct.Struct("iII")


@dataclass(frozen=True, slots=True)
class Speaking:
    """The identity of a speaker: a user known from the kernel, here or on ``node``, and the first call."""

    uid: int
    node: str
    request: Request


def socket_of(configuration: Configuration) -> str:
    """Return the path at which the negotiator takes connections, beside the gateway's socket."""
    return os.path.join(os.path.dirname(configuration.gateway.socket), "negotiator.sock")


def pass_on(configuration: Configuration, connection: socket.socket, speaking: Speaking) -> None:
    """Give a connection to the negotiator; raise :class:`Unreachable` when it does not take it."""
    text = os.memfd_create("request")
    try:
        with open(text, "wb", closefd=False) as file:
            file.write(json.dumps(speaking.request.entry(), default=vars).encode("ascii"))
        preface = json.dumps(Speaker(speaking.uid, speaking.node).entry()).encode("ascii")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as negotiator:
            negotiator.settimeout(_TIMEOUT)
            with _short(socket_of(configuration)) as address:
                negotiator.connect(address)
            socket.send_fds(negotiator, [preface], [connection.fileno(), text])
            if not negotiator.recv(1):
                raise OSError(0, "it is being stopped")
    except OSError as error:
        raise Unreachable(f"the negotiator does not answer: {error.strerror}", hint="try again later") from None
    finally:
        os.close(text)


def listen(configuration: Configuration) -> socket.socket:
    """Return the socket at which connections arrive; it replaces the socket of another negotiator."""
    path = socket_of(configuration)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):  # the gateway makes it too, and may start later
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)
    fresh = f"{path}.new"
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    if os.path.lexists(fresh):
        os.unlink(fresh)
    with _short(fresh) as address:
        listening.bind(address)
    os.chmod(fresh, 0o600)
    listening.listen(256)
    os.rename(fresh, path)
    return listening


def room(connections: int) -> int:
    """Raise the limit of open files for ``connections`` connections, each with a call; return how many have room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + _OWN_FILES
    if soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
    return min(connections, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_FILES) // 2)


@contextmanager
def _short(path: str) -> Iterator[str]:
    """Yield another name of a socket, by its open folder: addresses of sockets have at most 107 bytes."""
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def receive(listening: socket.socket) -> tuple[socket.socket, Speaking] | None:
    """Return the next connection and its speaker; None if there is none, or it comes from another user.

    Raises ``OSError`` when no more files can be opened.
    """
    giver, _ = listening.accept()
    with giver:
        giver.settimeout(_TIMEOUT)
        credentials = giver.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        if _CREDENTIALS.unpack(credentials)[1] not in (0, os.geteuid()):
            return None
        try:
            preface, descriptors, _, _ = socket.recv_fds(giver, _LARGEST, 2)
        except OSError:
            return None
        if len(descriptors) != 2:
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        connection = socket.socket(fileno=descriptors[0])
        try:
            with open(descriptors[1], "rb") as text:
                text.seek(0)
                request = Request.read(json.loads(text.read()))
            speaker = read_speaker(preface)
            giver.send(b"T")
        except (Malformed, OSError, ValueError):
            connection.close()
            return None
    connection.setblocking(False)
    return connection, Speaking(speaker.uid, speaker.node, request)
