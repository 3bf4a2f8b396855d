"""The processes of this machine as /proc shows them; of a process that has ended everything is empty."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def all_pids() -> list[int]:
    """Every process of this machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(*parents: int) -> list[int]:
    """The children of some processes that are no zombies, by parent and then by number."""
    found: dict[int, list[int]] = {parent: [] for parent in parents}
    for pid in sorted(all_pids()):
        state, parent = _state_and_parent(pid)
        if parent in found and state != "Z":
            found[parent].append(pid)
    return [pid for parent in parents for pid in found[parent]]


def parent_of(pid: int) -> int:
    """The parent of a process, 0 when it is gone."""
    return _state_and_parent(pid)[1]


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return _state_and_parent(pid)[0] not in ("", "Z", "X")


def name_of(pid: int) -> str:
    """The name of the program that a process runs."""
    return _read(pid, "comm").decode(errors="replace").strip()


def arguments_of(pid: int) -> list[str]:
    """What a process was started with."""
    return _read(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0")


def environment_of(pid: int) -> bytes:
    """The environment of a process, entries ended by zero bytes."""
    return _read(pid, "environ")


def pids_with(carries: Callable[[bytes], bool]) -> list[int]:
    """The processes that have such an entry (``NAME=value``) in their environment."""
    return [pid for pid in all_pids() if any(map(carries, environment_of(pid).split(b"\0")))]


def _state_and_parent(pid: int) -> tuple[str, int]:
    fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return (fields[0], int(fields[1])) if fields else ("", 0)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
