"""Signs of life: a process that was stopped, or hangs, is killed and started again.

::

    process  --WATCHDOG=1, four times in the time allowed-->  NOTIFY_SOCKET: systemd's, or that of oarpy server

The protocol is ``sd_notify(3)``, so a process need not know which supervisor watches it. A module gives its signs by a
thread: however long a pass takes, it is at work. A process that forks gives them in its loop instead.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_SOCKET, _MICROSECONDS = "NOTIFY_SOCKET", "WATCHDOG_USEC"
_ALIVE = b"WATCHDOG=1"
_SIGNS = 4
"""Signs that are given in the time that is allowed between two of them."""
_LARGEST = 4096
_CREDENTIALS = struct.Struct("iII")


class SignsOfLife:
    """The signs of life that this process owes to its watcher; none without a watcher."""

    def __init__(self) -> None:
        """Read the variables and remove them from the environment: child processes are not watched."""
        place, allowed = os.environ.pop(_SOCKET, ""), os.environ.pop(_MICROSECONDS, "")
        os.environ.pop("WATCHDOG_PID", None)
        self._place = f"\0{place[1:]}" if place.startswith("@") else place
        self.period = int(allowed) / 1e6 / _SIGNS if place and allowed.isdigit() else 0.0
        """Seconds between two signs, 0 without a watcher."""
        self._due = 0.0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if self.period else None

    def give(self) -> None:
        """Give a sign if one is due."""
        if self.period and time.monotonic() >= self._due:
            self._due = time.monotonic() + self.period
            self._send()

    def give_always(self) -> None:
        """Send signs of life from a thread until this process ends."""
        self._begin(threading.Event())

    @contextmanager
    def given_meanwhile(self) -> Iterator[None]:
        """Send signs of life from a thread that ends with the block: whoever forks has no other thread."""
        done = threading.Event()
        thread = self._begin(done)
        try:
            yield
        finally:
            done.set()
            if thread is not None:
                thread.join()

    def _begin(self, done: threading.Event) -> threading.Thread | None:
        if not self.period:
            return None
        thread = threading.Thread(target=self._repeat, args=(done,), name="signs of life", daemon=True)
        thread.start()
        return thread

    def _repeat(self, done: threading.Event) -> None:
        self._send()
        while not done.wait(self.period):
            self._send()

    def _send(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # the watcher may be away for a moment
                self._socket.sendto(_ALIVE, socket.MSG_DONTWAIT, self._place)


class Watch:
    """The socket on which started processes give their signs of life. ``limit``: seconds allowed between two signs."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind("")  # a name that the kernel makes up, in no folder
        self._looked = time.monotonic()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a sign is there."""
        return self._socket.fileno()

    def environment(self) -> dict[str, str]:
        """Return the variables that tell a process where to give its signs, and how often."""
        name = os.fsdecode(self._socket.getsockname()[1:])
        return {_SOCKET: f"@{name}", _MICROSECONDS: str(int(self._limit * 1e6))}

    def signs(self) -> Iterator[int]:
        """Yield the ids of processes that gave a sign, as the kernel knows them."""
        space = socket.CMSG_SPACE(_CREDENTIALS.size)
        while True:
            try:
                text, data, _flags, _address = self._socket.recvmsg(_LARGEST, space)
            except BlockingIOError:
                return
            for level, kind, content in data:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and text == _ALIVE:
                    yield _CREDENTIALS.unpack(content)[0]

    def overslept(self, now: float) -> bool:
        """Tell whether the watcher itself was away for so long that the silence of processes means nothing."""
        gap, self._looked = now - self._looked, now
        return gap > self._limit / 2

    def close(self) -> None:
        """Take no more signs."""
        self._socket.close()
