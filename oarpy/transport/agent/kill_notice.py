"""The notice for the user of a killed job: OAR's line with the reason, in its errors and on its terminals."""

from __future__ import annotations

import _thread
import contextlib
import os
import re
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from oarpy.transport.agent.job.account import Account
    from oarpy.wire.jobs import JobSpec

_TERMINAL = re.compile(r"/dev/pts/[0-9]+", re.ASCII)
_PATIENCE = 1.0
"""Seconds for which the end of a job waits for its file to take the line."""
_MOMENT = 0.1
"""Seconds for which the first signal waits for terminals to take it: a shell that ends closes its own."""


def kill_line(job: int, reason: str, at: float) -> str:
    """Return the line as OAR writes it, with the reason after it; ``at`` is in seconds since the epoch.

    >>> import os, time; os.environ["TZ"] = "UTC"; time.tzset()
    >>> kill_line(7, "its walltime was over", 0.0)
    '## OAR [1970-01-01 00:00:00] Job 7 KILLED ## its walltime was over'
    """
    date = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    return f"## OAR [{date}] Job {job} KILLED ## {' '.join(reason.split()) or 'asked on the node'}"


class KillNotice:
    """Tells the user of a job once that it is killed.

    The file is the file that the job's program got, opened with its user's rights. A thread writes, so that no file
    system or pipe of the user's holds up the end of the job.
    """

    def __init__(self, spec: JobSpec, account: Account) -> None:
        self._job = spec.job
        self._uid = account.uid
        self._has_file = bool(spec.stderr) and not spec.keep
        self._errors = -1
        self._written = _thread.allocate_lock()

    def keep(self, errors: int) -> None:
        """Keep a descriptor of the job's standard error, if that is a file."""
        if self._has_file and self._errors < 0:
            self._errors = os.dup(errors)

    def tell(self, reason: str, processes: Iterable[int]) -> None:
        """Write the line to the job's standard error, and to the terminals of its ``processes``."""
        line = kill_line(self._job, reason, time.time())
        terminals = self._terminals(processes)
        content = {terminal: f"\n{line}\n".encode() for terminal in terminals}
        if self._errors >= 0:
            content[self._errors], self._errors = f"{line}\n".encode(), -1
        if content and self._written.acquire(blocking=False):
            _thread.start_new_thread(self._write, (content,))
            if terminals and self._written.acquire(timeout=_MOMENT):
                self._written.release()

    def close(self) -> None:
        """Wait a little until the line is written, then close the file."""
        self._written.acquire(timeout=_PATIENCE)
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1

    def _write(self, content: dict[int, bytes]) -> None:
        for descriptor, line in content.items():
            with contextlib.suppress(OSError):  # a full disk, a terminal that is gone
                os.write(descriptor, line)
            os.close(descriptor)
        self._written.release()

    def _terminals(self, processes: Iterable[int]) -> list[int]:
        """Open the terminals that are the standard error of these processes and belong to the job's user."""
        terminals: dict[str, int] = {}
        for process in processes:
            with contextlib.suppress(OSError):
                path = os.readlink(f"/proc/{process}/fd/2")
                status = os.stat(path)
                ours = stat.S_ISCHR(status.st_mode) and status.st_uid == self._uid
                if _TERMINAL.fullmatch(path) and ours and path not in terminals:
                    terminals[path] = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        return list(terminals.values())
