"""The parts and the state of a machine: one JSON object on standard output, for ``oarpy doctor`` and ``--probe``."""

from __future__ import annotations

import json
import os
import sys
import time

from oarpy.transport.agent.gpus import gpus, numbers, read_line
from oarpy.transport.agent.job.isolation import lack_of_swap_limits, lack_of_walls
from oarpy.transport.agent.job.private_directories import lack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(settings: dict[str, Any]) -> None:
    """Print the report: its clock, its Python, the room in its state directory, its processors, memory, GPUs, walls."""
    json.dump(
        {
            "clock": time.time(),
            "python": list(sys.version_info[:3]),
            "disk": disk(settings["state"]),
            "cores": cores("/"),
            "gpus": [{"address": gpu.address, "near": gpu.near, "uuid": gpu.uuid} for gpu in gpus("/")],
            "memory": memory("/"),
            "lack_of_walls": lack_of_walls(settings),
            "lack_of_swap_limits": lack_of_swap_limits(settings),
            "lack_of_privacy": lack(settings["private_directories"]),
        },
        sys.stdout,
    )


def disk(state: str) -> dict[str, object]:
    """Return the room (bytes) where the state directory is or will be, and whether it may be written."""
    path = state
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    room = os.statvfs(path)
    return {
        "path": path,
        "free": room.f_bavail * room.f_frsize,
        "size": room.f_blocks * room.f_frsize,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


def cores(root: str) -> list[dict[str, object]]:
    """Return each core that is online: its socket, and the numbers of its threads in ascending order."""
    base = os.path.join(root, "sys/devices/system/cpu")
    online: dict[tuple[int, tuple[int, ...]], None] = {}
    for cpu in numbers(read_line(os.path.join(base, "online"))):
        topology = os.path.join(base, f"cpu{cpu}", "topology")
        siblings = numbers(read_line(os.path.join(topology, "thread_siblings_list"))) or [cpu]
        online[int(read_line(os.path.join(topology, "physical_package_id")) or 0), tuple(siblings)] = None
    return [{"socket": max(socket, 0), "threads": list(threads)} for socket, threads in sorted(online)]


def memory(root: str) -> int:
    """Return the memory of the machine in MiB, 0 if it does not tell."""
    for line in read_line(os.path.join(root, "proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) // 1024
    return 0
