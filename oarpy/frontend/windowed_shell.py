"""The shell of an interactive job as ``oarsub -I -X`` has it: ``ssh -X`` to its first node, which carries windows, too.

The job lasts as long as a step of it that waits for a line: the exit status of the shell.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

from oarpy.frontend.job_key import oarsh_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

WAIT_FOR_STATUS = "exec sh -c 'read status && exit \"$status\"'"
"""What the step does meanwhile: without a line it fails, as the caller is gone."""

_ASKED = re.compile("-[A-Za-z]*X.*|--x11", re.ASCII | re.DOTALL)
_PATIENCE = 5.0
"""Seconds that a shell has to end by itself."""


def was_asked_for(arguments: Sequence[str]) -> bool:
    """Tell whether arguments of ``oarsub`` have ``-X``, alone or with other letters (``-IXl/core=2``), or ``--x11``."""
    return any(_ASKED.fullmatch(word) for word in arguments)


class WindowedShell:
    """A running ``oarsh -X``, on the streams of this process. SIGTERM ends it with this process."""

    def __init__(self, job: int, node: str) -> None:
        """Start it. Raises :class:`OSError`, and then it does not run."""
        sys.stdout.flush()
        self._process = subprocess.Popen([oarsh_path(), "-X", "-t", "-j", str(job), "--", node])
        self._handler = signal.signal(signal.SIGTERM, self._terminate)
        try:
            self._ended = os.pidfd_open(self._process.pid)
        except ProcessLookupError:  # it has ended, and somebody who ignores SIGCHLD started this process
            self._ended, other_end = os.pipe2(os.O_CLOEXEC)
            os.close(other_end)
        except OSError:
            self._end()
            raise

    def fileno(self) -> int:
        """Return a descriptor that is readable when the shell has ended."""
        return self._ended

    def status_line(self) -> bytes:
        """Return the exit status of the shell, once it has ended, as the line that its job waits for."""
        status = self._process.wait()
        return b"%d\n" % (status if status >= 0 else 128 - status)

    def close(self) -> None:
        """End the shell if it still runs: its job is over. ssh then gives the terminal back."""
        self._end()
        os.close(self._ended)

    def _end(self) -> None:
        self._ask()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        signal.signal(signal.SIGTERM, self._handler)

    def _ask(self) -> None:
        """Ask the shell to end: one that is stopped hears it when it goes on."""
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self._ask()
        signal.signal(number, self._handler)
        os.kill(os.getpid(), number)
