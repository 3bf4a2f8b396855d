"""Carrying the conversation of a command on this node, which listens, to the gateway at the far end of the channel.

The token under which the command listens arrives first. The first answer is the listener's user by the kernel's word,
or why there is none. After that bytes go both ways as they are.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import select
import socket
import stat
import struct
import sys
import threading
import time

from oarpy.frontend.call import CALLS
from oarpy.wire.fields import is_token
from oarpy.wire.frames import HEADER, MESSAGE, Malformed, pack_message, read_header, read_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CHUNK = 1 << 16
_TIMEOUT = 5.0
_SETTLE = 60.0
"""Seconds for a command to take the bytes it was sent and to leave when the server has."""
_CREDENTIALS = struct.Struct("iII")


class NoCall(Exception):
    """No command listens that may be connected; the text says why."""


def connect(state: str, token: str) -> tuple[socket.socket, str]:
    """Return a connection to the command that listens under ``token``, and the name of its user.

    Raises :class:`NoCall`. Everybody may put things into the folder. So the connection goes to the very file that was
    checked, and the file belongs to the listener. Nobody can make another user's socket take part in a conversation.
    """
    try:
        file = os.open(os.path.join(state, CALLS, token), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NoCall(f"nobody listens: {error.strerror}") from None
    try:
        status = os.fstat(file)
        if not stat.S_ISSOCK(status.st_mode) or status.st_nlink != 1:
            raise NoCall("what is there is not a command's own socket")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(_TIMEOUT)
            connection.connect(f"/proc/self/fd/{file}")
            uid = _listener(connection)
            if uid != status.st_uid:
                raise NoCall("the socket is not that of who listens")
            name = pwd.getpwuid(uid).pw_name
        except BaseException:
            connection.close()
            raise
    except OSError as error:
        raise NoCall(f"nobody listens: {error.strerror or error}") from None
    except KeyError:
        raise NoCall("the user has no account on the node") from None
    finally:
        os.close(file)
    connection.settimeout(None)
    return connection, name


def _listener(connection: socket.socket) -> int:
    """Return the user of the process that listens, as the kernel recorded it when it began to listen."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def carry(connection: socket.socket, source: int, sink: int) -> None:
    """Copy both ways until both sides have ended, or the server's has and the command does not follow."""
    ended, ending = os.pipe()

    def run(copy: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            copy()
        with contextlib.suppress(OSError):
            os.write(ending, b"!")

    # a thread each: neither direction may wait for the other
    for copy in (lambda: _copy_in(source, connection), lambda: _copy_out(connection, sink)):
        threading.Thread(target=run, args=(copy,), daemon=True).start()
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(source, 0)  # the end is reported also while there are bytes to be read
    running, until = 2, 0.0
    while running:
        ready = dict(poll.poll(max(0.0, until - time.monotonic()) * 1000 if until else None))
        if not ready:
            break
        if ended in ready:
            running -= len(os.read(ended, running))
        if source in ready:
            poll.unregister(source)
            until = time.monotonic() + _SETTLE
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _copy_in(source: int, connection: socket.socket) -> None:
    while content := os.read(source, _CHUNK):
        connection.sendall(content)
    connection.shutdown(socket.SHUT_WR)


def _copy_out(connection: socket.socket, sink: int) -> None:
    while content := connection.recv(_CHUNK):
        _write(sink, content)
    # an SSH server may give one socket for input and output
    if stat.S_ISSOCK(os.fstat(sink).st_mode):
        with socket.socket(fileno=os.dup(sink)) as both:
            both.shutdown(socket.SHUT_WR)
    os.close(sink)


def _write(sink: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(sink, view) :]


def _read_token(source: int) -> str:
    kind, length = read_header(_take(source, HEADER.size), _CHUNK)
    token = read_message(_take(source, length)).get("token")
    if kind != MESSAGE or not is_token(token):
        raise Malformed("a call begins with its token")
    return str(token)


def _take(source: int, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = os.read(source, size - len(content))
        if not part:
            raise Malformed("the channel ended")
        content += part
    return content


def main(settings: dict[str, Any]) -> None:
    """Entry point on the node: one call, on standard input and output."""
    try:
        connection, user = connect(settings["state"], _read_token(0))
    except (NoCall, Malformed, OSError) as error:
        _write(1, pack_message({"refused": str(error)[:500]}))
        sys.exit(0)
    with connection, contextlib.suppress(OSError):
        _write(1, pack_message({"user": user}))
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)  # an SSH server tells of the end of output when that of errors is there too
        carry(connection, 0, 1)
    sys.exit(0)
