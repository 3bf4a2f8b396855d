"""Hearing that a job some other agent started has changed: a watch on the bell file of the state directory."""

from __future__ import annotations

import ctypes
import os

_IN_MODIFY = 0x2
_IN_CLOEXEC = os.O_CLOEXEC
_IN_NONBLOCK = os.O_NONBLOCK
_EVENTS = 1 << 16


class Bell:
    """An inotify watch; ``fd`` is -1 where the kernel gives none (then the slow look at the records must do)."""

    def __init__(self, path: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = libc.inotify_init1(_IN_NONBLOCK | _IN_CLOEXEC)
        if self.fd >= 0:
            libc.inotify_add_watch(self.fd, os.fsencode(path), _IN_MODIFY)

    def clear(self) -> None:
        """Forget what rang."""
        try:
            os.read(self.fd, _EVENTS)
        except OSError:
            return
