"""A module ends when the supervisor that started it ends, even if the supervisor is killed."""

from __future__ import annotations

import ctypes
import os
import signal

PARENT_VARIABLE = "OARPY_SUPERVISOR"
"""Set for the modules: the process id of their supervisor, with which they end."""

_PR_SET_PDEATHSIG = 1


def die_with_supervisor() -> None:
    """Have the kernel end this process when its supervisor dies; a module calls it at its start."""
    parent = os.environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    end_with(int(parent))


def end_with(parent: int) -> None:
    """Have the kernel send SIGTERM to this process when its parent, the process ``parent``, dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit(0)
