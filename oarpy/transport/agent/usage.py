"""The use that processes of a job have made of one node: CPU time and memory, from the kernel."""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from resource import struct_rusage

    from oarpy.transport.agent.statedir import StateDir

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KIB = 1024
_MANY = 1 << 53
_FIRST_SAMPLE = 1.0
_LONGEST_PAUSE = 30.0
"""Seconds between two looks at the memory of a job, at most; they begin with one and double."""


class MeasuredUse:
    """CPU seconds (user and system) of all processes, and the most bytes of memory that they had together.

    None stands for an unmeasured value. ``note`` and ``read_notes`` carry the use of steps, which end before their job.
    """

    __slots__ = ("cpu", "memory")

    def __init__(self, cpu: float | None = None, memory: int | None = None) -> None:
        self.cpu = cpu
        self.memory = memory

    def add(self, cpu: float | None, memory: int | None) -> None:
        """Add the time of other processes; memory counts when it is more."""
        if cpu is not None:
            self.cpu = cpu + (self.cpu or 0.0)
        if memory is not None:
            self.memory = max(memory, self.memory or 0)

    def add_reaped(self, use: struct_rusage) -> None:
        """Add the use of a child that ended, with the use of all children that it waited for."""
        self.add(use.ru_utime + use.ru_stime, use.ru_maxrss * _KIB)

    def at_least(self, other: MeasuredUse) -> None:
        """Take the greater values of another measure of the same processes."""
        for name in self.__slots__:
            seen = getattr(other, name)
            if seen is not None:
                setattr(self, name, max(seen, getattr(self, name) or 0))

    def note(self, state: StateDir, key: str) -> None:
        """Leave the use of a step for the end of its job; without effect when the job is over."""
        with contextlib.suppress(OSError):
            descriptor = os.open(state.step_note(key), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
            try:
                os.write(descriptor, f"{self.cpu or 0.0} {self.memory or 0}\n".encode())
            finally:
                os.close(descriptor)

    def read_notes(self, state: StateDir, key: str) -> None:
        """Add the notes that the steps of a job on this node left."""
        try:
            with open(state.step_note(key), encoding="ascii") as file:
                for line in file:
                    cpu, memory = map(float, line.split())
                    if 0 <= cpu < _MANY and 0 <= memory < _MANY:
                        self.add(cpu, int(memory))
        except (OSError, ValueError):
            return  # no steps, or a line that a full disk has cut

    def entry(self) -> dict[str, float | int | None]:
        """Return it by the names of the messages."""
        return {"cpu_seconds": self.cpu, "memory_peak": self.memory}


class MemorySampling:
    """When to look at the memory of a job whose group does not keep its peak: seldom, and ever more seldom."""

    __slots__ = ("_pause", "at")

    def __init__(self, now: float) -> None:
        self._pause = _FIRST_SAMPLE
        self.at = now + self._pause

    def sample(self, now: float, pids: Iterable[int], usage: MeasuredUse) -> None:
        """Take a sample: the memory that each process has alone, and once the memory that most share with files."""
        alone = shared = 0
        for pid in pids:
            try:
                with open(f"/proc/{pid}/statm", "rb") as file:
                    resident, common = map(int, file.read().split()[1:3])
            except (OSError, ValueError):
                continue  # gone meanwhile
            alone += resident - common
            shared = max(shared, common)
        usage.add(None, (alone + shared) * _PAGE)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self.at = now + self._pause
