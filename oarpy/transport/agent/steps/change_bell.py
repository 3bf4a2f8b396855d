"""Hearing that a job some other agent started has changed: a watch on the bell file of the state directory."""

from __future__ import annotations

import ctypes
import os

_IN_MODIFY = 0x2
_IN_CLOEXEC = os.O_CLOEXEC
_IN_NONBLOCK = os.O_NONBLOCK
_EVENTS = 1 << 16


class Bell:
    """An inotify watch; ``fd`` is -1 where the kernel gives none (then the slow look at the records must do).

    It watches nothing before :meth:`listen`: the end of every job rings, and mostly no process is concerned.
    """

    def __init__(self, path: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._path = os.fsencode(path)
        self._watch = -1
        self.fd: int = self._libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)

    def listen(self, wanted: bool) -> bool:
        """Listen to the bell from now on, or stop; return whether this call began to listen."""
        if wanted == (self._watch >= 0) or self.fd < 0:
            return False
        if wanted:
            self._watch = self._libc.inotify_add_watch(self.fd, self._path, _IN_MODIFY)
            return self._watch >= 0
        self._libc.inotify_rm_watch(self.fd, self._watch)
        self._watch = -1
        return False

    def clear(self) -> None:
        """Forget past changes."""
        try:
            os.read(self.fd, _EVENTS)
        except OSError:
            return
