"""An interactive job on its first node: a small program that waits for the user's shell, a step, and ends with it.

Between the two is a named pipe of the job. The shell's step holds it open for writing and puts the exit code into it.
However that step ends, also by SIGKILL, the kernel closes the pipe, and the job is over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

from oarpy.transport.agent.job.account import AccountRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.statedir import StateDir

SHELL = "/bin/sh"

# $0 is the pipe, $1 the seconds to wait for a shell. Opening the pipe for reading waits for a writer: the step, or the
# timer, which writes nothing. Without an exit code the job ends like a program whose terminal hung up.
_SCRIPT = """\
trap '' HUP INT QUIT USR1 USR2
( sleep "$1"; : > "$0" ) &
exec 3< "$0"
kill "$!"
read -r status <&3
exit "${status:-129}"
"""
_PATIENCE = 10.0
_PAUSE = 0.02


def make_pipe(state: StateDir, key: str, account: Account) -> str:
    """Make the pipe of a job, which its user may read; return its path."""
    path = state.session_pipe(key)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.mkfifo(path, 0o600)
    if os.geteuid() == 0:
        os.chown(path, account.uid, account.gid)
    return path


def arguments(pipe: str, seconds: float) -> list[str]:
    """Return the arguments of :data:`SHELL`; the job ends after ``seconds`` without a user."""
    return ["sh", "-c", _SCRIPT, pipe, f"{seconds:g}"]


class Hold:
    """The hold of an interactive shell on its job."""

    def __init__(self, state: StateDir, key: str) -> None:
        self._pipe = _open(state.session_pipe(key))

    def end(self, code: int) -> None:
        """Let the job end with this exit code."""
        with contextlib.suppress(OSError):  # the job is over already
            os.write(self._pipe, f"{code}\n".encode())


def _open(path: str) -> int:
    """Open the pipe for writing once the job reads it, which it does soon after its start."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.ENXIO, errno.ENOENT):
                raise
            if time.monotonic() > deadline:
                raise AccountRefusal("JOB_OVER", "the job does not wait for an interactive shell (any more)") from error
        time.sleep(_PAUSE)
