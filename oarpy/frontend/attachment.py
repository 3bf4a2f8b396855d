"""The streams of this process as the streams of a program far away, through the gateway.

The gateway says which input it wants, at first ``none``. The answer to ``terminal`` is the size of the terminal, again
at each change. Without a terminal it is the same as ``plain``, and the size is none. Instead of input it may want a
shell with windows, if that was asked for: ssh then has our streams, and its exit status is all that goes there.
"""

from __future__ import annotations

import os
import select
import signal
import sys

from oarpy.wire.frames import (
    CONTENT,
    ERRORS,
    MESSAGE,
    OUTPUT,
    Channel,
    Frames,
    Gone,
    Malformed,
    pack,
    pack_message,
    read_message,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping, Sequence

    from oarpy.frontend.terminal import RawTerminal
    from oarpy.frontend.windowed_shell import WindowedShell

_CHUNK = 1 << 16


def attach(connection: socket, channel: Channel, command: str, arguments: Sequence[str]) -> object:
    """Carry input there and output here until the exit status of ``command`` comes, and return it.

    Raises :class:`Gone` and :class:`Malformed`. Sending never waits: the other side may be waiting for us to read.
    """
    connection.setblocking(False)
    # The program far away gets these by itself where they are meant for a whole job; here they would end it.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    attachment = _Attachment(connection, command, arguments)
    try:
        return attachment.carry(channel.received())
    finally:
        attachment.release()


class _Attachment:
    """The kind of standard input that is wanted, and the bytes on their way."""

    def __init__(self, connection: socket, command: str, arguments: Sequence[str]) -> None:
        self._connection = connection
        self._command = command
        self._arguments = arguments
        self._frames = Frames()
        self._outgoing = b""
        self._reading = False
        self._interrupted = False
        self._terminal: RawTerminal | None = None
        self._shell: WindowedShell | None = None

    def carry(self, received: bytes) -> object:
        """See :func:`attach`."""
        status = self._take(received)
        while status is None:
            try:
                status = self._turn(self._wait())
            except KeyboardInterrupt:
                self._interrupt()
        return status

    def release(self) -> None:
        """Give the terminal back, and end a shell whose job is over."""
        if self._shell is not None:
            shell, self._shell = self._shell, None
            shell.close()
        if self._terminal is not None:
            terminal, self._terminal = self._terminal, None
            terminal.leave()

    def _turn(self, ready: dict[int, int]) -> object:
        """Carry the bytes that wait, once; return the exit status when it is there."""
        if self._terminal is not None and self._terminal.fileno() in ready:
            self._send_size()
        if 0 in ready:
            data = _read_input()
            self._reading = bool(data)
            self._outgoing += pack(CONTENT, data)
        if self._shell is not None and self._shell.fileno() in ready:
            self._outgoing += pack(CONTENT, self._shell.status_line()) + pack(CONTENT, b"")
            self.release()
        if self._outgoing:
            self._outgoing = _send(self._connection, self._outgoing)
        if ready.get(self._connection.fileno(), 0) & ~select.POLLOUT:
            return self._take(_receive(self._connection))
        return None

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._connection, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
        if not self._outgoing:
            if self._reading:
                poll.register(0, select.POLLIN)
            if self._terminal is not None:
                poll.register(self._terminal, select.POLLIN)
            if self._shell is not None:
                poll.register(self._shell, select.POLLIN)
        return dict(poll.poll())

    def _interrupt(self) -> None:
        """Interrupt the other side, which may have to tidy up, unless that was done or a program has our input."""
        if self._reading or self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._outgoing += pack_message({"interrupt": True})

    def _take(self, data: bytes) -> object:
        """Act on the bytes that arrived; return the exit status when it is there."""
        for kind, payload in self._frames.feed(data):
            if kind in (OUTPUT, ERRORS):
                _write(1 if kind == OUTPUT else 2, payload)
            elif kind == MESSAGE:
                message = read_message(payload)
                if "exit" in message:
                    self.release()
                    return message["exit"]
                if "windows" in message:
                    self._open_shell(message)
                else:
                    self._change_input(message)
            else:
                raise Malformed("content that nobody asked for")
        return None

    def _change_input(self, message: Mapping[str, object]) -> None:
        wanted = message.get("input")
        if wanted not in ("none", "plain", "terminal"):
            raise Malformed("a message that is not understood")
        self.release()
        self._reading = wanted != "none"
        if wanted == "terminal":
            if os.isatty(0):
                from oarpy.frontend.terminal import RawTerminal

                self._terminal = RawTerminal()
            self._send_size()

    def _open_shell(self, message: Mapping[str, object]) -> None:
        from oarpy.frontend.windowed_shell import WindowedShell, was_asked_for

        job, node = message["windows"], message.get("node")
        if type(job) is not int or type(node) is not str:
            raise Malformed("a message that is not understood")
        if self._command != "oarsub" or not was_asked_for(self._arguments):
            raise Malformed("a shell with windows was to be opened, which was not asked for")
        self._shell = WindowedShell(job, node)

    def _send_size(self) -> None:
        rows, columns = (0, 0) if self._terminal is None else self._terminal.size()
        self._outgoing += pack_message({"rows": rows, "columns": columns})


def _read_input() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError:
        return b""


def _send(connection: socket, data: bytes) -> bytes:
    try:
        return data[connection.send(data) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""  # why it is gone is there to be read


def _receive(connection: socket) -> bytes:
    try:
        data = connection.recv(_CHUNK)
    except BlockingIOError:
        return b""
    except OSError as error:
        raise Gone(str(error)) from None
    if not data:
        raise Gone("the connection was closed")
    return data


def _write(descriptor: int, data: bytes) -> None:
    sys.stdout.flush()
    while data:
        data = data[os.write(descriptor, data) :]
