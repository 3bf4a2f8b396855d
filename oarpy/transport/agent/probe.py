"""What a machine is made of and how it is: one JSON object on standard output, for ``oarpy doctor`` and ``--probe``."""

from __future__ import annotations

import json
import os
import sys
import time

_GPU_VENDORS = ("0x10de", "0x1002")
_DISPLAY_CLASSES = ("0x0300", "0x0302", "0x0380")


def main(settings: dict[str, object]) -> None:
    """Print the report: its clock, its Python, the room in its state directory, its processors, memory and GPUs."""
    json.dump(
        {
            "clock": time.time(),
            "python": list(sys.version_info[:3]),
            "disk": disk(str(settings["state"])),
            "cores": cores("/"),
            "gpus": gpus("/"),
            "memory": memory("/"),
        },
        sys.stdout,
    )


def disk(state: str) -> dict[str, object]:
    """Return the room (bytes) where the state directory is or will be, and whether it may be written."""
    path = state
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    found = os.statvfs(path)
    return {
        "path": path,
        "free": found.f_bavail * found.f_frsize,
        "size": found.f_blocks * found.f_frsize,
        "writable": os.access(path, os.W_OK | os.X_OK),
    }


def cores(root: str) -> list[dict[str, object]]:
    """Return each core that is online: its socket, and the numbers of its threads in ascending order."""
    base = os.path.join(root, "sys/devices/system/cpu")
    found: dict[tuple[int, tuple[int, ...]], None] = {}
    for cpu in numbers(_read(os.path.join(base, "online"))):
        topology = os.path.join(base, f"cpu{cpu}", "topology")
        siblings = numbers(_read(os.path.join(topology, "thread_siblings_list"))) or [cpu]
        found[int(_read(os.path.join(topology, "physical_package_id")) or 0), tuple(siblings)] = None
    return [{"socket": max(socket, 0), "threads": list(threads)} for socket, threads in sorted(found)]


def gpus(root: str) -> list[dict[str, object]]:
    """Return the graphics processors that compute, in the order of their addresses, with the threads close to them."""
    base = os.path.join(root, "sys/bus/pci/devices")
    found: list[dict[str, object]] = []
    for device in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        path = os.path.join(base, device)
        kind, vendor = _read(os.path.join(path, "class")), _read(os.path.join(path, "vendor"))
        if vendor in _GPU_VENDORS and kind[:6] in _DISPLAY_CLASSES:
            found.append({"address": device, "near": numbers(_read(os.path.join(path, "local_cpulist")))})
    return found


def memory(root: str) -> int:
    """Return the memory of the machine in MiB, 0 if it does not tell."""
    for line in _read(os.path.join(root, "proc/meminfo")).splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) // 1024
    return 0


def numbers(text: str) -> list[int]:
    """Return the numbers of a list such as ``0-3,8``."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.strip():
            found += range(int(first), int(last or first) + 1)
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
