"""The streams for the lines of a launcher: an ``oarnegotiate`` of its own, or its given standard streams."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

LAUNCHER = "OAR_LAUNCHER"
"""The variable that marks a program whose standard streams carry the lines, set by ``oarsub --launcher``."""

_READ = 1 << 16
_TIMEOUT = 5.0
_LONGEST_POLL = 2**31 - 1
"""Milliseconds that poll takes."""


class LineStreams:
    """Bytes in both directions, by two descriptors. ``lasting`` streams cannot be replaced when they end."""

    lasting = False

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink

    def read(self, seconds: float) -> bytes | None:
        """Return the received bytes, empty at the end; None if nothing comes within ``seconds``."""
        try:
            return os.read(self._source, _READ) if _readable(self._source, seconds) else None
        except (OSError, ValueError):
            return b""

    def write(self, line: bytes) -> None:
        """Send a line. If the other side is gone, :meth:`read` will tell."""
        with suppress(OSError):
            while line:
                line = line[os.write(self._sink, line) :]

    def hang_up(self) -> None:
        """Send no more; messages of the other side can still be read."""
        sink, self._sink = self._sink, -1
        if sink >= 0:
            os.close(sink)

    def end(self) -> int:
        """Close the streams, and return the exit status of ``oarnegotiate``, 1 if it is not known."""
        self.hang_up()
        source, self._source = self._source, -1
        if source >= 0:
            os.close(source)
        return 1


class CommandStreams(LineStreams):
    """A child process that carries the lines, ``oarnegotiate`` if nothing else is named."""

    def __init__(
        self, command: Sequence[str] = ("oarnegotiate",), environment: Mapping[str, str] | None = None
    ) -> None:
        # in a session of its own: an interrupted launcher can still send its last messages
        self._child = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        super().__init__(os.dup(self._child.stdout.fileno()), os.dup(self._child.stdin.fileno()))
        self._child.stdin.close()
        self._child.stdout.close()

    @property
    def pid(self) -> int:
        """The process id of the child."""
        return self._child.pid

    def end(self) -> int:
        """End the child, which leaves when its input ends, and return its exit status."""
        super().end()
        try:
            return self._child.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()


class StandardStreams(LineStreams):
    """The lines that ``oarsub --launcher`` put on standard input and output.

    Prints of the program go to standard error from then on, and its standard input is empty.
    """

    lasting = True

    def __init__(self) -> None:
        super().__init__(os.dup(0), os.dup(1))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        os.environ.pop(LAUNCHER, None)


def usual_streams() -> LineStreams:
    """Return the standard streams if they carry the lines, else those of an ``oarnegotiate``."""
    return StandardStreams() if os.environ.get(LAUNCHER) else CommandStreams()


def _readable(source: int, seconds: float) -> bool:
    """Tell whether a descriptor can be read within ``seconds``. Its number may be too large for select."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(min(max(seconds, 0) * 1000, _LONGEST_POLL)))
