"""Exclusive levels: at any time, each block of such a level goes to only one of the jobs that ask for the level.

A job asks for a level that a group of its request names. While it holds any resource of a block, no other job that asks
for the level gets a resource of that block. Jobs that do not ask for the level may. Here job 1 asked for
``/gpu=1/core=1``::

    gpu       1 1 2 2
    core 1    1 . . .        /gpu=1/core=1 gets core 3, of GPU 2
                             /core=1 gets core 2

Jobs whose types let them share resources may also share blocks: timesharing jobs, placeholders, and inner jobs with the
containers around them.

A consumable may lie in the blocks of such a level. A job that asks for an amount of it asks for the level too, and
shares the blocks with other such jobs, as far as the amounts reach. Job 1 asked for ``/core=1,gpu_share=25``::

    gpu       1 1 2 2
    core 1    1 . . .        /core=1,gpu_share=75 gets core 2, of GPU 1
                             /gpu=1/core=1 gets core 3, of GPU 2
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from oarpy.model.billing import CORE, GPU, GPU_SHARE, Kind, part_of_gpus
from oarpy.model.request import Consumption, Group
from oarpy.scheduler.gantt.wide_timeline import AnyTimeline, timeline_of
from oarpy.scheduler.job_roles import Profile, Roles
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import HoldingJob, Snapshot


class AskedLevel(NamedTuple):
    """An exclusive level that a job asks for, by its property; ``shared`` if the job divides its blocks with others."""

    name: str
    shared: bool = False

    def excludes(self, other: AskedLevel) -> bool:
        """Tell whether two jobs that ask for the one and the other cannot have a block at one time."""
        return self.name == other.name and not (self.shared and other.shared)


class Blocks:
    """The blocks of the exclusive levels of a platform, by the property of each level.

    ``divided`` are the levels of consumables, by the name of the consumable.
    """

    def __init__(self, platform: Platform, levels: Iterable[str], divided: Mapping[str, str]) -> None:
        self._platform, self._aliases = platform, platform.aliases
        names = dict.fromkeys(self._aliases.get(level, level) for level in levels)
        self._of = {name: tuple(block.bits for block in platform.blocks(name)) for name in names}
        self._divided = {name: self._aliases.get(level, level) for name, level in divided.items()}

    @classmethod
    def of(cls, snapshot: Snapshot) -> Blocks:
        """Return the blocks of a state."""
        divided = {consumable.name: consumable.level for consumable in snapshot.consumables}
        return cls(snapshot.platform, snapshot.exclusive_levels, divided)

    @property
    def levels(self) -> tuple[str, ...]:
        """The exclusive levels."""
        return tuple(self._of)

    @property
    def names(self) -> dict[str, str]:
        """The exclusive levels by all their names: the names of properties, and their aliases."""
        others = {name: level for name, level in self._aliases.items() if level in self._of}
        return {**others, **{level: level for level in self._of}}

    def asked(self, groups: Iterable[Group], consumes: Iterable[Consumption]) -> tuple[AskedLevel, ...]:
        """Return the exclusive levels that a request asks for."""
        return self.known((level.name for group in groups for level in group.levels), consumes) if self._of else ()

    def known(self, names: Iterable[str], consumes: Iterable[Consumption]) -> tuple[AskedLevel, ...]:
        """Return the exclusive levels among ``names``, and those that the amounts lie in."""
        if not self._of:
            return ()
        shared = {self._divided.get(consumption.name) for consumption in consumes}
        levels = {self._aliases.get(name, name) for name in names} | shared
        return tuple(AskedLevel(name, name in shared) for name in self._of if name in levels)

    def of_holder(self, job: HoldingJob) -> tuple[AskedLevel, ...]:
        """Return the exclusive levels that a job which holds resources asked for."""
        return self.known(job.levels, job.amounts)

    def outside(self, consumes: Iterable[Consumption]) -> int:
        """Return the resources of type ``default`` in no block of an exclusive level that the amounts lie in."""
        bits = 0
        for level in self.known((), consumes):
            bits |= self._platform.default_type & ~self.touched(level.name, self._platform.default_type)
        return bits

    def touched(self, level: str, bits: int) -> int:
        """Return the resources of all blocks of ``level`` that have some of ``bits``."""
        return self._platform.touched(level, bits)

    def number(self, level: str, bits: int) -> int:
        """Count the blocks of ``level`` that have some of ``bits``."""
        return sum(bool(block & bits) for block in self._of[level])

    def billed(
        self, bits: int, levels: Collection[AskedLevel], consumes: Iterable[Consumption], weights: Container[Kind]
    ) -> dict[Kind, float]:
        """Return how much a job with these resources has of each kind that has a weight."""
        held: dict[Kind, float] = {CORE: (bits & self._platform.default_type).bit_count()}
        if GPU in weights:
            alone = AskedLevel(GPU) in levels
            share = 0 if self._divided.get(GPU_SHARE) != GPU else part_of_gpus(consumes)
            held[GPU] = self.number(GPU, bits) if alone else share and share * self._divided_by(GPU_SHARE, bits)
        for consumption in consumes:
            if consumption.name in weights and consumption.name in self._divided:
                held[consumption.name] = consumption.amount * self._divided_by(consumption.name, bits)
        return held

    def _divided_by(self, consumable: str, bits: int) -> int:
        """Count the blocks of a consumable that have some of ``bits``."""
        return sum(bool(block.bits & bits) for block in self._platform.blocks(self._divided[consumable]))

    def common(self, levels: Iterable[AskedLevel], bits: int, others: Iterable[AskedLevel], held: int) -> int:
        """Return the resources of ``bits`` in blocks of ``held`` that two jobs asking for these levels cannot share."""
        others, common = tuple(others), 0
        for level in levels:
            if any(level.excludes(other) for other in others):
                common |= bits & self.touched(level.name, held)
        return common


class ExclusiveLevel:
    """The free blocks of one level over time, for each kind of job that asks for it."""

    def __init__(self, origin: float, everything: int) -> None:
        self._origin, self._everything = origin, everything
        self._holds: list[_Hold] = []
        self._lines: dict[_Asking, AnyTimeline] = {}

    def copy(self) -> ExclusiveLevel:
        """Return an independent level of equal content."""
        twin = self.emptied()
        twin._holds = self._holds.copy()
        twin._lines = {key: line.copy() for key, line in self._lines.items()}
        return twin

    def emptied(self) -> ExclusiveLevel:
        """Return the same level with nothing held."""
        return ExclusiveLevel(self._origin, self._everything)

    def line(self, profile: Profile, around: frozenset[str], *, shared: bool) -> AnyTimeline:
        """Return the timeline for a job of this profile: the resources in no block of a job that excludes it.

        The job lies in the containers ``around`` it, one inside the other. It divides its blocks if ``shared``.
        """
        asking = _Asking(profile, around, shared)
        if asking not in self._lines:
            line = self._lines[asking] = timeline_of(self._origin, self._everything)
            for hold in self._holds:
                if not hold.admits(asking):
                    line.remove(hold.begin, hold.end, hold.bits)
        return self._lines[asking]

    def holds(self) -> Iterator[tuple[float, float, int]]:
        """Yield the begin, end and resources of each hold on blocks."""
        for hold in self._holds:
            yield hold.begin, hold.end, hold.bits

    def take(self, begin: float, end: float, bits: int, roles: Roles, *, shared: bool) -> None:
        """Let a job of these roles have the blocks ``bits`` during [begin, end), divided with others if ``shared``."""
        hold = _Hold(begin, end, bits, roles, shared)
        self._holds.append(hold)
        for asking, line in self._lines.items():
            if not hold.admits(asking):
                line.remove(begin, end, bits)

    def give_back(self, begin: float, end: float, bits: int, roles: Roles, *, shared: bool) -> None:
        """Take back :meth:`take`."""
        self._holds.remove(_Hold(begin, end, bits, roles, shared))
        self._lines.clear()


class _Asking(NamedTuple):
    """A kind of job that asks for a level."""

    profile: Profile
    around: frozenset[str]
    shared: bool


class _Hold(NamedTuple):
    """Blocks that a job has for a time."""

    begin: float
    end: float
    bits: int
    roles: Roles
    shared: bool

    def admits(self, asking: _Asking) -> bool:
        """Tell whether a job may use the blocks, too: both divide them, or the holder shares with it or contains it."""
        if self.shared and asking.shared:
            return True
        return self.roles.profile.shares(asking.profile) or not asking.around.isdisjoint(self.roles.containers)
