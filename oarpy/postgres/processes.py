"""The processes of an embedded server, found by the kernel's word and not by a stale file."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from oarpy.model.errors import OarpyError
from oarpy.postgres.account import ServerAccount

_PAUSE = 0.01
_ORPHAN_PATIENCE = 10.0
_SPAWN = '"$@" </dev/null >&2 & echo $!'


def postmaster(data: Path) -> int | None:
    """Return the process id of the live main server process of ``data``, None if there is none.

    ``postmaster.pid`` survives a crash, and its number may since belong to any process. So that process must also work
    in ``data``: a server changes to its data directory before it writes the file.
    """
    try:
        pid = int((data / "postmaster.pid").read_text(encoding="ascii").split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if _serves(pid, data) else None


def alive(pid: int) -> bool:
    """Tell whether the process runs (a zombie does not)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in ("Z", "X")


def spawn(command: list[str], owner: ServerAccount, log: Path) -> int:
    """Start ``command`` as ``owner``, in a session of its own and as nobody's child, writing to ``log``.

    Return its process id. As nobody's child, it neither dies with its starter nor stays behind as its zombie.
    """
    with log.open("ab") as output:
        done = owner.run(["/bin/sh", "-c", _SPAWN, "sh", *command], errors=output)
    if done.returncode != 0:
        raise OarpyError(f"{command[0]} cannot be started")
    return int(done.stdout)


def end_orphans(data: Path) -> None:
    """Wait for processes that a killed server left on ``data`` (sessions notice by themselves); then kill the rest."""
    deadline = time.monotonic() + _ORPHAN_PATIENCE
    while rest := [pid for pid in _processes() if _serves(pid, data)]:
        if time.monotonic() > deadline:
            for pid in rest:
                send(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal; a process that is gone is not an error."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise OarpyError(f"process {pid} belongs to another user", hint="act as its owner") from error


def wait_until_gone(data: Path, pid: int, seconds: float) -> bool:
    """Tell whether the main process of ``data`` ended within ``seconds``."""
    deadline = time.monotonic() + seconds
    while _serves(pid, data):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _serves(pid: int, data: Path) -> bool:
    """Tell whether the process is a PostgreSQL server's (not, say, a shell) and works in ``data``."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
        return name == "postgres" and os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(data)
    except OSError:
        return False
