"""Stopping all that a job has on this node, and letting it go on: its control group, and each process outside it."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from oarpy.transport.agent.job import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Find = Callable[[], list[int]]

_PAUSE = 0.005
_PATIENCE = 2.0
_PASSES = 20

# (file for orders, word to stop, word to go on, file with the state, its content once stopped): version 2, then 1
_FREEZERS = (
    ("cgroup.freeze", "1", "0", "cgroup.events", "frozen 1"),
    ("freezer.state", "FROZEN", "THAWED", "freezer.state", "FROZEN"),
)


def stop(groups: Iterable[str], find: Find, root: int = 0) -> None:
    """Stop a job: the ``groups`` it has here, and each process outside them.

    The processes are the descendants of ``root`` and those that ``find`` returns, looked for until nothing new is
    found.
    """
    frozen = [group for group in groups if _freeze(group)]
    stopped: set[int] = set()
    for _ in range(_PASSES):
        inside = {int(line) for group in frozen for line in _read(os.path.join(group, "cgroup.procs")).split()}
        alive = {*(processes.descendants(root) if root else ()), *find()}
        new = alive - inside - stopped
        if not new:
            return
        processes.send(list(new), signal.SIGSTOP)
        stopped |= new


def go_on(groups: Iterable[str], find: Find, root: int = 0) -> None:
    """Continue a job, whether its group or its processes were stopped."""
    thaw(groups)
    tree = processes.descendants(root) if root else []
    processes.send([*tree, *find()], signal.SIGCONT)


def thaw(groups: Iterable[str]) -> None:
    """Let the processes of groups run: in version 1 a frozen process does not even die."""
    for group in groups:
        for order, _, word, _, _ in _FREEZERS:
            path = os.path.join(group, order)
            if os.path.exists(path):
                with contextlib.suppress(OSError):
                    _write(path, word)


def is_frozen(group: str) -> bool:
    """Tell whether a group is frozen or about to be."""
    return any(_read(os.path.join(group, order)).strip() in (word, "FREEZING") for order, word, *_ in _FREEZERS)


def _freeze(group: str) -> bool:
    """Freeze a group; return False where that is impossible, the group is empty, or does not stand still in time."""
    for order, word, back, state, wanted in _FREEZERS:
        path = os.path.join(group, order)
        if not os.path.exists(path) or not _read(os.path.join(group, "cgroup.procs")):
            continue
        try:
            _write(path, word)
        except OSError:
            continue
        deadline = time.monotonic() + _PATIENCE
        while wanted not in _read(os.path.join(group, state)):
            if time.monotonic() > deadline:
                with contextlib.suppress(OSError):
                    _write(path, back)
                return False
            time.sleep(_PAUSE)
        return True
    return False


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, word: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(word)
