"""The confinement of a job to its processors: a control group of its own, or the affinity of its processes.

Version 2 of control groups where it is there (also beside version 1), else cpuset, freezer, memory and pids of version
1. Means that the node does not allow are left out. At the least, jobs are found by their parents and by their mark.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
import zlib

from oarpy.transport.agent.job import device_walls
from oarpy.transport.agent.job.devices import devices_of
from oarpy.transport.agent.usage import MeasuredUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from oarpy.transport.agent.job.devices import Device, Devices

AUTO, CGROUP, AFFINITY, NONE = "auto", "cgroup", "affinity", "none"

_PAUSE = 0.005
_REMOVAL_PATIENCE = 2.0
_CONTROLLERS = ("cpuset", "memory", "pids")
_LIMIT_1, _LIMIT_2 = "memory.limit_in_bytes", "memory.max"
_SWAP_1, _SWAP_2 = "memory.memsw.limit_in_bytes", "memory.swap.max"
_PEAK_1, _PEAK_2 = "memory.max_usage_in_bytes", "memory.peak"
_PROCESSES = "pids.max"
_TRIAL = "trial"
"""Begins the name of a group in which it is tried whether this node has walls."""


class Isolation:
    """The control groups of one node's jobs; ``root`` is where the kernel's file systems of them are mounted.

    ``pids_limit`` is the number of processes and threads that each job may have, 0 for no limit. ``devices`` are the
    devices of which a job may open its own only; without ``devices`` it may open all. ``limit_swap``: a job's limit of
    memory is that of memory and swap together.
    """

    def __init__(
        self,
        mode: str,
        root: str,
        state: str,
        pids_limit: int = 0,
        devices: Devices | None = None,
        *,
        limit_swap: bool = False,
    ) -> None:
        self._processors = sorted(os.sched_getaffinity(0))
        self._affinity = mode != NONE
        self._name = ""
        self._unified = ""
        self._cpuset = ""
        self._freezer = ""
        self._memory = ""
        self._pids = ""
        self._pids_limit = pids_limit
        self._devices = devices
        self._limits_swap = limit_swap
        self._lists = ""
        self._by_program: bool | None = None
        self._homes: list[str] = []
        if mode not in (AUTO, CGROUP):
            return
        name = self._name = os.path.join("oarpy", f"{zlib.crc32(os.fsencode(os.path.abspath(state))):08x}")
        unified = next((path for path in (root, os.path.join(root, "unified")) if _has(path, "cgroup.controllers")), "")
        with contextlib.suppress(OSError):
            self._unified = _make_unified(unified, name) if unified else ""
        if not _has(self._unified, "cpuset.cpus"):
            with contextlib.suppress(OSError):
                self._cpuset = _make_cpuset(os.path.join(root, "cpuset"), name)
        if not _has(self._unified, _LIMIT_2):
            with contextlib.suppress(OSError):
                self._memory = _make(os.path.join(root, "memory"), name)
        if not _has(self._unified, _PROCESSES):
            with contextlib.suppress(OSError):
                self._pids = _make(os.path.join(root, "pids"), name)
        if not self._unified:
            with contextlib.suppress(OSError):
                self._freezer = _make(os.path.join(root, "freezer"), name)
        if devices is not None and devices.rules:
            with contextlib.suppress(OSError):
                self._lists = _make(os.path.join(root, "devices"), name)
        bases = {"": self._unified, "cpuset": self._cpuset, "freezer": self._freezer, "devices": self._lists}
        self._homes = _homes({**bases, "memory": self._memory, "pids": self._pids}, name)

    @property
    def groups(self) -> bool:
        """Whether jobs have groups here."""
        return bool(self._unified or self._freezer)

    @property
    def limits_processes(self) -> bool:
        """Tell whether groups of jobs here have a limit of processes and threads."""
        return bool(self._pids_limit and (self._pids or _has(self._unified, _PROCESSES)))

    def enter(self, key: str, processors: Sequence[int], memory: int = 0, gpus: Collection[int] | None = None) -> bool:
        """Put this process into the group of a job, which is made when it is missing; children then are in it.

        The group is confined to ``processors`` only when this machine has all of them. ``memory`` is the most bytes
        that the job may have in use, 0 for no limit. It may open the devices of ``gpus`` only, None for all. A failing
        means is left out, except the wall around devices on a node that has such walls: then ``OSError`` is raised.
        Returns whether :meth:`leave` has anything to undo.
        """
        walled = self._wall(key, gpus)
        limited = self._limit_memory(key, memory) if memory else False
        if self._limit_processes(key):
            limited = _join(os.path.join(self._pids, key)) or limited
        joined = [base for base in (self._unified, self._freezer) if base and _join(os.path.join(base, key))]
        confined = self._confinement(processors)
        if confined and not self._confine(key, confined):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, confined)
        return bool(joined or confined or limited or walled)

    def walls(self, gpus: Collection[int] | None) -> bool:
        """Tell whether a job with these GPUs has a wall here, even if it has all GPUs now. Raises ``OSError``."""
        return gpus is not None and bool(self._denied(()))

    def _denied(self, gpus: Collection[int] | None) -> list[Device]:
        """Return the devices that a job with these GPUs is kept from here. Raises ``OSError``."""
        denied = self._devices.denied(gpus) if self._devices is not None else []
        return denied if denied and (self._lists or self._is_program_taken()) else []

    def variables(self, gpus: Collection[int] | None) -> dict[str, str]:
        """Return the variables that show programs these GPUs alone; empty for a job that may see all.

        Raises ``OSError``.
        """
        return {} if self._devices is None else self._devices.variables(gpus, walled=bool(self._denied(gpus)))

    def change_devices(self, key: str, gpus: Collection[int] | None) -> None:
        """Have the group of a job, if it has one here, allow the devices of other GPUs. Raises ``OSError``."""
        governed, denied = self._denied(()), self._denied(gpus)
        if not governed:
            return
        if self._is_program_taken() and os.path.isdir(os.path.join(self._unified, key)):
            device_walls.refuse(os.path.join(self._unified, key), denied, anew=True)
        elif self._lists and os.path.isdir(os.path.join(self._lists, key)):
            device_walls.refuse_by_list(os.path.join(self._lists, key), denied, governed)

    def _wall(self, key: str, gpus: Collection[int] | None) -> bool:
        """Join a group that denies a job devices, if the job needs one; return whether it does. Raises ``OSError``."""
        if not self.walls(gpus):
            return False
        by_program = self._is_program_taken()
        group = os.path.join(self._unified if by_program else self._lists, key)
        os.makedirs(group, exist_ok=True)
        (device_walls.refuse if by_program else device_walls.refuse_by_list)(group, self._denied(gpus))
        _write(os.path.join(group, "cgroup.procs"), "0")
        return True

    def _is_program_taken(self) -> bool:
        """Tell whether groups of version 2 take programs here: tried once.

        Raises ``OSError`` if that is not known yet.
        """
        if self._by_program is None:
            self._by_program = bool(self._unified) and self._try_program()
        return self._by_program

    def _try_program(self) -> bool:
        """Try a program on a group of its own. Raises ``OSError`` where that may succeed another time."""
        group = os.path.join(self._unified, f"{_TRIAL}.{os.getpid()}")
        try:
            device_walls.try_program()
            os.makedirs(group, exist_ok=True)
            device_walls.refuse(group, ())
        except OSError as error:  # EPERM also means that a group above has a program that admits none beside it
            if error.errno not in device_walls.NO_WALLS:
                raise
            return False
        finally:
            _remove(group)
        return True

    def bring(self, key: str, pid: int) -> None:
        """Put another process into the groups of a job, which this process has entered. Raises ``OSError``."""
        for base in (self._unified, self._freezer, self._memory, self._pids, self._lists):
            if base and os.path.isdir(os.path.join(base, key)):
                _write(os.path.join(base, key, "cgroup.procs"), str(pid))
        with contextlib.suppress(OSError):
            if self._cpuset and os.path.isdir(os.path.join(self._cpuset, key)):
                _write(os.path.join(self._cpuset, key, "cgroup.procs"), str(pid))
        os.sched_setaffinity(pid, os.sched_getaffinity(0))

    def gather(self, key: str, pid: int) -> None:
        """Put a process of an unconfined job into its group; a failing means is left out."""
        limited = self._limit_processes(key)
        for base in (self._unified, self._freezer, self._pids if limited else ""):
            if base:
                with contextlib.suppress(OSError):
                    group = os.path.join(base, key)
                    os.makedirs(group, exist_ok=True)
                    _write(os.path.join(group, "cgroup.procs"), str(pid))

    def _limit_memory(self, key: str, memory: int) -> bool:
        """Limit the memory of a job's group; return whether a group was joined for it."""
        base, limit = self._memory_place()
        old = base == self._memory
        swap, most = (_SWAP_1, memory) if old else (_SWAP_2, 0)
        if self._limits_swap:
            _limit(base, key, swap, most)  # version 1 refuses it below the limit of memory, or that above it
        limited = _limit(base, key, limit, memory)
        if self._limits_swap:
            _limit(base, key, swap, most)
        return limited and old and _join(os.path.join(base, key))

    def _limit_processes(self, key: str) -> bool:
        """Limit the processes of a job's group; return whether that is one of its own, to be joined."""
        if not self.limits_processes:
            return False
        return _limit(self._pids or self._unified, key, _PROCESSES, self._pids_limit) and bool(self._pids)

    def _memory_place(self) -> tuple[str, str]:
        """Return where groups have a limit of memory, and the name of its file."""
        return (self._memory, _LIMIT_1) if self._memory else (self._unified, _LIMIT_2)

    def memory_kills(self, key: str) -> int:
        """Return how many processes of a job the kernel killed because the group was out of its memory."""
        base, limit = self._memory_place()
        name = "memory.oom_control" if limit == _LIMIT_1 else "memory.events"
        try:
            with open(os.path.join(base, key, name), encoding="ascii") as file:
                counts = dict(line.split() for line in file)
            return int(counts["oom_kill"])
        except (OSError, ValueError, KeyError):
            return 0  # no such group, or a kernel before 4.13, which does not count them

    def usage(self, key: str) -> MeasuredUse:
        """Return the kernel's counts for the group of a job, including processes that no process waited for."""
        base, limit = self._memory_place()
        peak = _PEAK_1 if limit == _LIMIT_1 else _PEAK_2
        cpu = _number(os.path.join(self._unified, key, "cpu.stat"), "usage_usec") if self._unified else None
        memory = _number(os.path.join(base, key, peak)) if base else None
        return MeasuredUse(None if cpu is None else cpu / 1e6, memory)

    def keeps_peak(self, key: str) -> bool:
        """Tell whether the kernel keeps the most memory that the group of a job had."""
        base, limit = self._memory_place()
        return bool(base) and _has(os.path.join(base, key), _PEAK_1 if limit == _LIMIT_1 else _PEAK_2)

    def _confinement(self, processors: Sequence[int]) -> list[int]:
        here = [number for number in processors if number in self._processors]
        return here if self._affinity and len(here) == len(processors) else []

    def _confine(self, key: str, processors: list[int]) -> bool:
        """Confine the group of a job by a cpuset; False where there is none."""
        base = self._cpuset or (self._unified if _has(self._unified, "cpuset.cpus") else "")
        if not base:
            return False
        group = os.path.join(base, key)
        try:
            os.makedirs(group, exist_ok=True)
            if base == self._cpuset:
                _copy(os.path.join(base, "cpuset.mems"), os.path.join(group, "cpuset.mems"))
            _write(os.path.join(group, "cpuset.cpus"), ",".join(map(str, processors)))
        except OSError:
            return False
        return _join(group)

    def name_of(self, key: str) -> str:
        """Return the path of a job's control group below the mount point; empty where jobs have none."""
        base = self._unified or self._cpuset or self._freezer
        return f"/{self._name}/{key}" if base else ""

    def leave(self) -> None:
        """Move this process back to the groups that it was in before it entered a job's."""
        for home in self._homes:
            with contextlib.suppress(OSError):
                _write(os.path.join(home, "cgroup.procs"), "0")
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._processors)

    def freezers(self, key: str) -> list[str]:
        """Return the groups of a job whose processes can be stopped together."""
        return [os.path.join(base, key) for base in (self._unified, self._freezer) if base]

    def end(self, key: str, patience: float) -> int:
        """Kill all that is in the group of a job and remove it; return how many processes resist."""
        left = 0
        for base in (self._unified, self._freezer, self._cpuset, self._memory, self._pids, self._lists):
            group = os.path.join(base, key)
            if base and os.path.isdir(group):
                left = max(left, _kill(group, patience))
                if not left:
                    _remove(group)
        return left


def isolation_of(settings: dict[str, Any]) -> Isolation:
    """Return the control groups that the settings of an agent ask for."""
    mode, root, state = settings["isolation"], settings["cgroup_root"], settings["state"]
    devices, limit_swap = devices_of(settings), settings["limit_swap"]
    return Isolation(mode, root, state, settings["pids_limit"], devices, limit_swap=limit_swap)


def lack_of_walls(settings: dict[str, Any]) -> str:
    """Return why jobs are not kept from devices on this node, empty where they are; nothing is changed for that."""
    if settings["isolation"] not in (AUTO, CGROUP):
        return f"nodes.isolation is '{settings['isolation']}'"
    root = settings["cgroup_root"]
    if os.access(os.path.join(root, "devices", "cgroup.procs"), os.W_OK):
        return ""
    unified = next((path for path in (root, os.path.join(root, "unified")) if _has(path, "cgroup.controllers")), "")
    if not unified:
        return f"there are no control groups at {root} that know devices"
    if not os.access(os.path.join(unified, "cgroup.procs"), os.W_OK):
        return f"{unified} cannot be written by the log-in of the server"
    refused = device_walls.takes_programs()
    return f"the kernel takes no program of bpf(2): {refused}" if refused else ""


def lack_of_swap_limits(settings: dict[str, Any]) -> str:
    """Return why the swap of jobs cannot be limited on this node; empty where it can, or where there is no swap."""
    try:
        with open(os.path.join(settings["machine_root"], "proc/swaps"), encoding="utf-8") as lines:
            devices = lines.readlines()[1:]
    except FileNotFoundError:  # a kernel without swap
        devices = []
    if not devices:
        return ""
    if settings["isolation"] not in (AUTO, CGROUP):
        return f"nodes.isolation is '{settings['isolation']}'"
    root = settings["cgroup_root"]
    if os.access(os.path.join(root, "memory", _SWAP_1), os.W_OK):
        return ""
    for unified in (root, os.path.join(root, "unified")):
        if _has(unified, "cgroup.controllers") and any(
            _has(os.path.join(unified, name), _SWAP_2) for name in os.listdir(unified)
        ):
            return ""
    return f"the control groups at {root} know no swap"


def _homes(bases: dict[str, str], name: str) -> list[str]:
    """Return the groups that this process is in now, of each hierarchy that is used."""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        present = {line.split(":", 2)[1]: line.rstrip("\n").split(":", 2)[2] for line in file}
    homes = []
    for controller, base in bases.items():
        if base:
            root = base[: -len(name) - 1]
            home = root + present.get(controller, "/").rstrip("/")
            homes.append(home if _has(home, "cgroup.procs") else root)
    return homes


def _number(path: str, word: str = "") -> int | None:
    """Return the number in a file, of the line that begins with ``word``; None where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.split() for line in file]
        return next(int(line[-1]) for line in lines if not word or line[0] == word)
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _has(directory: str, name: str) -> bool:
    return bool(directory) and os.path.exists(os.path.join(directory, name))


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _copy(source: str, target: str) -> None:
    with open(source, encoding="ascii") as file:
        _write(target, file.read().strip())


def _make(root: str, name: str) -> str:
    """Make the folder of a node's groups; raise ``OSError`` where the node does not allow it."""
    if not _has(root, "cgroup.procs"):
        raise FileNotFoundError(root)
    path = os.path.join(root, name)
    os.makedirs(path, exist_ok=True)
    return path


def _make_unified(root: str, name: str) -> str:
    path = _make(root, name)
    for directory in (root, os.path.dirname(path), path):
        for controller in _CONTROLLERS:
            with contextlib.suppress(OSError):  # not there, or not delegated
                _write(os.path.join(directory, "cgroup.subtree_control"), f"+{controller}")
    return path


def _make_cpuset(root: str, name: str) -> str:
    """Do the same for cpusets of version 1, in which each level needs its processors and memory nodes."""
    path = _make(root, name)
    above = root
    for directory in (os.path.dirname(path), path):
        for file in ("cpuset.cpus", "cpuset.mems"):
            _copy(os.path.join(above, file), os.path.join(directory, file))
        above = directory
    return path


def _limit(base: str, key: str, name: str, most: int) -> bool:
    """Write a limit of a job's group, made when it is not there; False where there is none."""
    if not base:
        return False
    try:
        os.makedirs(os.path.join(base, key), exist_ok=True)
        _write(os.path.join(base, key, name), str(most))
    except OSError:
        return False
    return True


def _join(group: str) -> bool:
    try:
        os.makedirs(group, exist_ok=True)
        _write(os.path.join(group, "cgroup.procs"), "0")
    except OSError:
        return False
    return True


def _remove(group: str) -> None:
    """Remove an empty group; killed processes keep it busy until they are reaped, for which there is some patience."""
    deadline = time.monotonic() + _REMOVAL_PATIENCE
    while True:
        try:
            os.rmdir(group)
        except OSError as error:
            if error.errno == errno.EBUSY and time.monotonic() < deadline:
                time.sleep(_PAUSE)
                continue
        return


def _kill(group: str, patience: float) -> int:
    deadline = time.monotonic() + patience
    while True:
        try:
            with open(os.path.join(group, "cgroup.procs"), encoding="ascii") as file:
                pids = [int(line) for line in file]
        except OSError:
            return 0
        if not pids or time.monotonic() > deadline:
            return len(pids)
        try:
            _write(os.path.join(group, "cgroup.kill"), "1")
        except OSError:  # before version 2, or a kernel before 5.14
            for pid in pids:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)
