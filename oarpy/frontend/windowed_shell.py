"""The shell of an interactive job as ``oarsub -I -X`` has it: ``ssh -X`` to its first node, which carries windows, too.

The job lasts as long as a step of it that waits for a line: the exit status of the shell.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

from oarpy.frontend.job_key import oarsh_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

WAIT_FOR_STATUS = "exec sh -c 'read status && exit \"$status\"'"
"""What the step does meanwhile: without a line it fails, as the caller is gone."""

_ASKED = re.compile("-[A-Za-z]*X[A-Za-z]*|--x11", re.ASCII)


def was_asked_for(arguments: Sequence[str]) -> bool:
    """Tell whether the arguments of ``oarsub`` have ``-X``, alone or with other letters, or ``--x11``."""
    return any(_ASKED.fullmatch(word) for word in arguments)


class WindowedShell:
    """A running ``oarsh -X``, on the streams of this process."""

    def __init__(self, job: int, node: str) -> None:
        sys.stdout.flush()
        self._process = subprocess.Popen([oarsh_path(), "-X", "-t", "-j", str(job), "--", node])
        self._ended = os.pidfd_open(self._process.pid)

    def fileno(self) -> int:
        """Return a descriptor that is readable when the shell has ended."""
        return self._ended

    def status_line(self) -> bytes:
        """Return the exit status of the shell, once it has ended, as the line that its job waits for."""
        status = self._process.wait()
        return b"%d\n" % (status if status >= 0 else 128 - status)

    def close(self) -> None:
        """End the shell if it still runs: its job is over. ssh then gives the terminal back."""
        self._process.terminate()
        self._process.wait()
        os.close(self._ended)
