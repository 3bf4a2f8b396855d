"""Which processes belong to a running server, by kind: for campaigns that break them."""

from __future__ import annotations

import os
from pathlib import Path

from oarpy.store import embedded

MODULES = ("automaton", "metascheduler", "launcher", "canceller", "monitor", "accounting")
SERVER_KINDS = (*MODULES, "gateway", "supervisor")


def server_pids(kind: str, supervisor: int, database: Path) -> list[int]:
    """The processes of ``kind`` below the supervisor, or of the database in a folder with its sessions."""
    if kind == "supervisor":
        return [supervisor]
    if kind == "database":
        return postmaster(database)
    below = children(supervisor)
    if kind == "gateway":
        return [pid for pid in below if "oarpy.gateway" in arguments_of(pid)]
    return [pid for pid in below if "oarpy.modules" in arguments_of(pid) and arguments_of(pid)[-1] == kind]


def agents(pids: list[int]) -> list[int]:
    """Those of a node's processes that are agents: Python that a log-in started."""
    return [pid for pid in pids if _is_python(pid) and _name(parent_of(pid)).startswith(("sshd", "sh", "dash", "bash"))]


def job_supervisors(pids: list[int]) -> list[int]:
    """Those of a node's processes that look after jobs: Python that an agent started, also when that agent is gone."""
    return [pid for pid in pids if _is_python(pid) and pid not in agents(pids)]


def postmaster(directory: Path) -> list[int]:
    """The main process of the embedded database in a folder, if it runs."""
    data = embedded.data_directory(directory)
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0]) if data else 0
    except (OSError, ValueError, IndexError):
        return []
    return [pid] if pid and Path(f"/proc/{pid}").exists() else []


def all_pids() -> list[int]:
    """Every process of this machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children(parent: int) -> list[int]:
    """The children of a process that are no zombies."""
    return sorted(pid for pid in all_pids() if _status(pid)[1:] == [str(parent)] and _status(pid)[0] != "Z")


def parent_of(pid: int) -> int:
    """The parent of a process, 0 when it is gone."""
    status = _status(pid)
    return int(status[1]) if status else 0


def arguments_of(pid: int) -> list[str]:
    """What a process was started with."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return [""]


def environment_of(pid: int) -> bytes:
    """The environment of a process, entries ended by zero bytes."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _status(pid: int) -> list[str]:
    """State and parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return []


def _is_python(pid: int) -> bool:
    return _name(pid).startswith("python")


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
