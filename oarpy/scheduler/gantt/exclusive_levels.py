"""Exclusive levels: at any time, each block of such a level goes to only one of the jobs that ask for the level.

A job asks for a level that a group of its request names. While it holds any resource of a block, no other job that asks
for the level gets a resource of that block. Jobs that do not ask for the level may. Here job 1 asked for
``/gpu=1/core=1``::

    gpu       1 1 2 2
    core 1    1 . . .        /gpu=1/core=1 gets core 3, of GPU 2
                             /core=1 gets core 2

Jobs whose types let them share resources may also share blocks: timesharing jobs, placeholders, and inner jobs with the
containers around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oarpy.model.request import Group
from oarpy.scheduler.gantt.wide_timeline import AnyTimeline, timeline_of
from oarpy.scheduler.job_roles import Profile, Roles
from oarpy.scheduler.resources.platform import Platform


class Blocks:
    """The blocks of the exclusive levels of a platform, by the property of each level."""

    def __init__(self, platform: Platform, levels: Iterable[str]) -> None:
        self._platform, self._aliases = platform, platform.aliases
        names = dict.fromkeys(self._aliases.get(level, level) for level in levels)
        self._of = {name: tuple(block.bits for block in platform.blocks(name)) for name in names}

    @property
    def levels(self) -> tuple[str, ...]:
        """The exclusive levels."""
        return tuple(self._of)

    @property
    def names(self) -> dict[str, str]:
        """The exclusive levels by all their names: the names of properties, and their aliases."""
        others = {name: level for name, level in self._aliases.items() if level in self._of}
        return {**others, **{level: level for level in self._of}}

    def asked(self, groups: Iterable[Group]) -> tuple[str, ...]:
        """Return the exclusive levels that a request asks for."""
        return self.known(level.name for group in groups for level in group.levels) if self._of else ()

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the exclusive levels among ``names``."""
        if not self._of:
            return ()
        levels = {self._aliases.get(name, name) for name in names}
        return tuple(name for name in self._of if name in levels)

    def touched(self, level: str, bits: int) -> int:
        """Return the resources of all blocks of ``level`` that have some of ``bits``."""
        return self._platform.touched(level, bits)

    def number(self, level: str, bits: int) -> int:
        """Count the blocks of ``level`` that have some of ``bits``."""
        return sum(bool(block & bits) for block in self._of[level])

    def common(self, levels: Iterable[str], bits: int, others: Iterable[str], held: int) -> int:
        """Return the resources of ``bits`` that share a block with ``held``, at a level that both jobs ask for."""
        shared = 0
        for level in self.known(set(levels) & set(self.known(others))):
            shared |= bits & self.touched(level, held)
        return shared


class ExclusiveLevel:
    """The free blocks of one level over time, for each kind of job that asks for it."""

    def __init__(self, origin: float, everything: int) -> None:
        self._origin, self._everything = origin, everything
        self._holds: list[tuple[float, float, int, Roles]] = []
        self._lines: dict[tuple[Profile, frozenset[str]], AnyTimeline] = {}

    def copy(self) -> ExclusiveLevel:
        """Return an independent level of equal content."""
        twin = self.emptied()
        twin._holds = self._holds.copy()
        twin._lines = {key: line.copy() for key, line in self._lines.items()}
        return twin

    def emptied(self) -> ExclusiveLevel:
        """Return the same level with nothing held."""
        return ExclusiveLevel(self._origin, self._everything)

    def line(self, profile: Profile, around: frozenset[str]) -> AnyTimeline:
        """Return the timeline for a job of this profile: the resources in no block of another job.

        The job lies in the containers ``around`` it, one inside the other.
        """
        key = profile, around
        if key not in self._lines:
            line = self._lines[key] = timeline_of(self._origin, self._everything)
            for begin, end, bits, holder in self._holds:
                if not _admits(holder, *key):
                    line.remove(begin, end, bits)
        return self._lines[key]

    def holds(self) -> Iterator[tuple[float, float, int]]:
        """Yield the begin, end and resources of each hold on blocks."""
        for begin, end, bits, _ in self._holds:
            yield begin, end, bits

    def take(self, begin: float, end: float, bits: int, roles: Roles) -> None:
        """Let a job of these roles have the blocks ``bits`` during [begin, end)."""
        self._holds.append((begin, end, bits, roles))
        for key, line in self._lines.items():
            if not _admits(roles, *key):
                line.remove(begin, end, bits)

    def give_back(self, begin: float, end: float, bits: int, roles: Roles) -> None:
        """Take back :meth:`take`."""
        self._holds.remove((begin, end, bits, roles))
        self._lines.clear()


def _admits(holder: Roles, profile: Profile, around: frozenset[str]) -> bool:
    """Tell whether a holder lets a job use its blocks: it shares with the job, or contains it."""
    return holder.profile.shares(profile) or not around.isdisjoint(holder.containers)
