"""The processes of a running cluster by kind, and what each holds: memory, descriptors, threads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .process_table import arguments_of, children_of

SUPERVISOR = "supervisor"
LAUNCHER = "launcher"
AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Holding:
    """What one process, or several together, hold. ``resident`` and ``shared_out`` (shared pages divided) in KiB."""

    processes: int = 0
    resident: int = 0
    shared_out: int = 0
    descriptors: int = 0
    threads: int = 0

    def __add__(self, other: Holding) -> Holding:
        return Holding(
            self.processes + other.processes,
            self.resident + other.resident,
            self.shared_out + other.shared_out,
            self.descriptors + other.descriptors,
            self.threads + other.threads,
        )


def server_processes(supervisor: int) -> dict[str, list[int]]:
    """Return the processes by kind: the supervisor, each module, the gateway, the agents of local nodes."""
    found: dict[str, list[int]] = {SUPERVISOR: [supervisor]}
    for pid in children_of(supervisor):
        words = arguments_of(pid)
        if "oarpy.modules" in words:
            found.setdefault(words[-1], []).append(pid)
        elif "oarpy.gateway" in words:
            found.setdefault("gateway", []).append(pid)
    found[AGENT] = children_of(*found.get(LAUNCHER, []))
    return found


def holdings(processes: Mapping[str, list[int]]) -> dict[str, Holding]:
    """Return what the processes of each kind hold together; what ended meanwhile counts nothing."""
    return {kind: sum(map(holding, pids), Holding()) for kind, pids in processes.items()}


def holding(pid: int) -> Holding:
    """Return what one process holds (nothing, if it has ended)."""
    folder = Path(f"/proc/{pid}")
    try:
        status = _numbers((folder / "status").read_text())
        rollup = _numbers((folder / "smaps_rollup").read_text())
        descriptors = len(os.listdir(folder / "fd"))
    except OSError:
        return Holding()
    return Holding(1, status.get("VmRSS", 0), rollup.get("Pss", 0), descriptors, status.get("Threads", 0))


def node_of(agent: int) -> str:
    """Return the node of a local agent, by the folder of its log; empty while it has none."""
    try:
        return Path(os.readlink(f"/proc/{agent}/fd/2")).parent.name
    except OSError:
        return ""


def _numbers(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdigit():
            found[name] = int(words[0])
    return found
