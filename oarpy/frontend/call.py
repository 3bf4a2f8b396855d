"""Being connected to the gateway from a node: the command listens, tells the node's agent, and the server comes.

::

    command: listens under a token --pipe--> agent --channel--> launcher --> gateway
       ^---- call.py on the node <---- a connection of its own <---- process of the call

A node has no way to the server. The command leaves there, and the agent passes on, only where it listens.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from contextlib import suppress

CALLS, KNOCKS = "calls", "knock"
"""In the node's state directory: the folder where commands listen, and the pipe to the agent."""

PATIENCE = 15.0
"""Seconds for the server to come."""

_RETRY = 0.2


class NotReached(Exception):
    """No gateway came; the text says what was tried."""


def be_called(state: str, patience: float = PATIENCE) -> socket.socket:
    """Return a connection that the server made to this process; raise :class:`NotReached`."""
    token = os.urandom(16).hex()
    try:
        # by a descriptor: the names of sockets must be short, the names of directories need not be
        folder = os.open(os.path.join(state, CALLS), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise NotReached(f"{state} takes no calls: {error.strerror}") from None
    path = f"/proc/self/fd/{folder}/{token}"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            _listen(listening, path)
            try:
                return _wait(listening, os.path.join(state, KNOCKS), token, time.monotonic() + patience)
            finally:
                with suppress(OSError):
                    os.unlink(path)
    except OSError as error:
        raise NotReached(f"{state} takes no calls: {error.strerror}") from None
    finally:
        os.close(folder)


def _listen(listening: socket.socket, path: str) -> None:
    mask = os.umask(0o177)
    try:
        listening.bind(path)
    finally:
        os.umask(mask)
    listening.listen(1)


def _wait(listening: socket.socket, pipe: str, token: str, until: float) -> socket.socket:
    knocked = False
    while (left := until - time.monotonic()) > 0:
        knocked = knocked or _knock(pipe, token)
        ready, _, _ = select.select([listening], [], [], left if knocked else min(left, _RETRY))
        if ready:
            return listening.accept()[0]
    raise NotReached("the server did not answer" if knocked else "no agent of the server is on this node")


def _knock(pipe: str, token: str) -> bool:
    """Send a call request to the agent; return False if no agent listens, or if there are too many requests."""
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        # whole or not at all, it is short; on a line of its own, whatever somebody wrote before
        os.write(descriptor, f"\n{token}\n".encode("ascii"))
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
