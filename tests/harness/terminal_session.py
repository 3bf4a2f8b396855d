"""A command at a terminal of its own, as a user sits before it: type, wait for a text, resize, hang up."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

DEADLINE = 60.0


class TerminalSession:
    """A process whose standard streams are a terminal; ``text`` is all that it has shown so far."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        *,
        rows: int = 30,
        columns: int = 90,
        directory: str | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        self.resize(rows, columns)
        self.text = ""
        self._seen = 0
        self.process = subprocess.Popen(
            words,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "vt100"},
            start_new_session=True,
            cwd=directory,
            preexec_fn=_sit_down,
        )
        os.close(slave)

    def __enter__(self) -> TerminalSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def expect(self, wanted: str) -> None:
        """Wait until a text is shown, after the one that was waited for before."""
        end = time.monotonic() + DEADLINE
        while (place := self.text.find(wanted, self._seen)) < 0:
            assert time.monotonic() < end, f"{wanted!r} is not in {self.text[self._seen :]!r}"
            if not self._read(0.2) and self.process.poll() is not None and not self._read(0):
                raise AssertionError(f"ended with {self.process.returncode} before {wanted!r}: {self.text!r}")
        self._seen = place + len(wanted)

    def modes(self) -> object:
        """The settings of the terminal."""
        return termios.tcgetattr(self._master)

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self._master)
        self._master = -1

    def wait(self) -> int:
        """Wait for the end of the process; return its exit status."""
        end = time.monotonic() + DEADLINE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it goes on: {self.text!r}"
            if self._master >= 0:
                self._read(0.1)
        while self._master >= 0 and self._read(0):
            continue
        return self.process.returncode

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            content = os.read(self._master, 1 << 16)
        except OSError:
            return False  # nobody has the other end open
        self.text += content.decode(errors="replace")
        return bool(content)


def _sit_down() -> None:
    """Make the terminal that of this process, and heed its keys even where the tests ignore them (``nohup``, ``&``)."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
