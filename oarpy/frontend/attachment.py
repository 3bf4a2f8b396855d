"""The streams of this process as those of a program far away, through the gateway."""

from __future__ import annotations

import os
import select
import socket
import sys

from oarpy.frontend.frames import (
    CONTENT,
    ERRORS,
    MESSAGE,
    OUTPUT,
    Channel,
    Frames,
    Gone,
    Malformed,
    pack,
    read_message,
)

_CHUNK = 1 << 16


def attach(connection: socket.socket, channel: Channel) -> object:
    """Carry input there and output here until the exit status comes, and return it.

    Raises :class:`Gone` and :class:`Malformed`. Sending never waits: the other side may be waiting for us to read.
    """
    frames = Frames()
    connection.setblocking(False)
    status = _print(frames.feed(channel.received()))
    outgoing = b""
    poll = select.poll()
    input_open = True
    while status is None:
        poll.register(connection, select.POLLIN | (select.POLLOUT if outgoing else 0))
        if input_open and not outgoing:
            poll.register(0, select.POLLIN)
        ready = dict(poll.poll())
        if input_open and not outgoing:
            poll.unregister(0)
        if 0 in ready:
            data = _read_input()
            input_open = bool(data)
            outgoing = pack(CONTENT, data)
        if outgoing:
            outgoing = _send(connection, outgoing)
        if ready.get(connection.fileno(), 0) & ~select.POLLOUT:
            status = _print(frames.feed(_receive(connection)))
    return status


def _read_input() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError:
        return b""


def _send(connection: socket.socket, data: bytes) -> bytes:
    try:
        return data[connection.send(data) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""  # why it is gone is there to be read


def _receive(connection: socket.socket) -> bytes:
    try:
        data = connection.recv(_CHUNK)
    except BlockingIOError:
        return b""
    except OSError as error:
        raise Gone(str(error)) from None
    if not data:
        raise Gone("the connection was closed")
    return data


def _print(arrived: list[tuple[int, bytes]]) -> object:
    """Write output; return the exit status when it is there."""
    for kind, payload in arrived:
        if kind in (OUTPUT, ERRORS):
            _write(1 if kind == OUTPUT else 2, payload)
        elif kind == MESSAGE:
            message = read_message(payload)
            if "exit" in message:
                return message["exit"]
        else:
            raise Malformed("content that nobody asked for")
    return None


def _write(descriptor: int, data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(descriptor, data) :]
