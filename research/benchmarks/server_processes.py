"""The processes of a running cluster by kind, and what each holds: memory, descriptors, threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

SUPERVISOR = "supervisor"
LAUNCHER = "launcher"
AGENT = "agent"


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """The memory of a process or of several together, in KiB. ``shared_out`` divides shared pages by their users."""

    processes: int = 0
    resident: int = 0
    shared_out: int = 0
    descriptors: int = 0
    threads: int = 0

    def __add__(self, other: ProcessUsage) -> ProcessUsage:
        return ProcessUsage(
            self.processes + other.processes,
            self.resident + other.resident,
            self.shared_out + other.shared_out,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
        )


def server_processes(supervisor: int) -> dict[str, list[int]]:
    """Return the processes by kind: the supervisor, each module, the gateway, the agents of local nodes."""
    by_kind: dict[str, list[int]] = {SUPERVISOR: [supervisor]}
    for pid in children_of(supervisor):
        words = arguments_of(pid)
        if "oarpy.modules" in words or "oarpy.grid.modules" in words:
            by_kind.setdefault(words[-1], []).append(pid)
        elif "oarpy.gateway" in words:
            by_kind.setdefault("gateway", []).append(pid)
    by_kind[AGENT] = children_of(*by_kind.get(LAUNCHER, []))
    return by_kind


def holdings(processes: Mapping[str, list[int]]) -> dict[str, ProcessUsage]:
    """Return what the processes of each kind hold together; what ended meanwhile counts nothing."""
    return {kind: sum(map(holding, pids), ProcessUsage()) for kind, pids in processes.items()}


def holding(pid: int) -> ProcessUsage:
    """Return what one process holds (nothing, if it has ended)."""
    folder = Path(f"/proc/{pid}")
    try:
        status = _numbers((folder / "status").read_text())
        rollup = _numbers((folder / "smaps_rollup").read_text())
        descriptors = len(os.listdir(folder / "fd"))
    except OSError:
        return ProcessUsage()
    return ProcessUsage(1, status.get("VmRSS", 0), rollup.get("Pss", 0), descriptors, status.get("Threads", 0))


def node_of(agent: int) -> str:
    """Return the node of a local agent, by the folder of its log; empty while it has none."""
    try:
        return Path(os.readlink(f"/proc/{agent}/fd/2")).parent.name
    except OSError:
        return ""


def _numbers(text: str) -> dict[str, int]:
    numbers = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            numbers[name] = int(words[0])
    return numbers


def all_pids() -> list[int]:
    """Return the ids of all processes of this machine."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def children_of(*parents: int) -> list[int]:
    """Return the children of some processes that are no zombies, by parent and then by number."""
    by_parent: dict[int, list[int]] = {parent: [] for parent in parents}
    for pid in sorted(all_pids()):
        state, parent = _state_and_parent(pid)
        if parent in by_parent and state != "Z":
            by_parent[parent].append(pid)
    return [pid for parent in parents for pid in by_parent[parent]]


def parent_of(pid: int) -> int:
    """Return the parent of a process, 0 when it is gone."""
    return _state_and_parent(pid)[1]


def is_running(pid: int) -> bool:
    """Tell whether a process is there and no zombie."""
    return _state_and_parent(pid)[0] not in ("", "Z", "X")


def name_of(pid: int) -> str:
    """Return the name of the program that a process runs."""
    return _read(pid, "comm").decode(errors="replace").strip()


def arguments_of(pid: int) -> list[str]:
    """Return what a process was started with."""
    return _read(pid, "cmdline").decode(errors="replace").rstrip("\0").split("\0")


def environment_of(pid: int) -> bytes:
    """Return the environment of a process, entries ended by zero bytes."""
    return _read(pid, "environ")


def pids_with(carries: Callable[[bytes], bool]) -> list[int]:
    """Return the processes that have such an entry (``NAME=value``) in their environment."""
    return [pid for pid in all_pids() if any(map(carries, environment_of(pid).split(b"\0")))]


def _state_and_parent(pid: int) -> tuple[str, int]:
    fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
    return (fields[0], int(fields[1])) if fields else ("", 0)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
