"""Where jobs are placed: the whole platform, or the inside of the containers of one name.

A space keeps one timeline per way of looking at it: a job that shares with nobody sees everything that is held as
taken; a job that shares sees what its partners hold as free.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from oarpy.scheduler.roles import EXCLUSIVE, Profile
from oarpy.scheduler.timeline import Timeline


class Space:
    """Free resources over time, for each of the ``profiles`` that jobs to place may have."""

    __slots__ = ("_held_alone", "_held_by_others", "_open", "everything", "exclusive")

    def __init__(
        self, origin: float, everything: int, profiles: Iterable[Profile] = (), *, closed: bool = False
    ) -> None:
        self.everything = everything
        self.exclusive = Timeline(origin, everything)
        self._held_by_others = {profile: Timeline(origin, everything) for profile in profiles if profile != EXCLUSIVE}
        self._held_alone = Timeline(origin, everything) if self._held_by_others else None
        self._open = Timeline(origin, 0) if closed else None

    def copy(self) -> Space:
        """Return an independent space of equal content."""
        twin = Space(0, self.everything)
        twin.exclusive = self.exclusive.copy()
        twin._held_by_others = {profile: line.copy() for profile, line in self._held_by_others.items()}
        twin._held_alone = self._held_alone and self._held_alone.copy()
        twin._open = self._open and self._open.copy()
        return twin

    @property
    def opened(self) -> bool:
        """True when the space has at least one piece."""
        return self._open is not None and len(self._open) > 1

    def emptied(self) -> Space:
        """Return the same space with nothing held in it."""
        twin = Space(self.exclusive.begins[0], self.everything, self._held_by_others, closed=True)
        twin._open = self._open
        return twin

    def views(self, profile: Profile) -> tuple[Timeline, ...]:
        """Return the timelines whose common content is free for a job of this profile, the busiest one first."""
        seen: tuple[Timeline, ...] = (self.exclusive,)
        if profile != EXCLUSIVE and self._held_alone is not None:
            seen = (self._held_alone, self._held_by_others[profile])
        return seen if self._open is None else (*seen, self._open)

    def take(self, begin: float, end: float, bits: int, profile: Profile, *, found: bool) -> None:
        """Let a job of this profile hold ``bits`` during [begin, end); ``found`` in what its views say is free."""
        alone = found and profile == EXCLUSIVE
        self.exclusive.remove(begin, end, bits, all_free=alone)
        if self._held_alone is None:
            return
        if profile == EXCLUSIVE:
            self._held_alone.remove(begin, end, bits, all_free=alone)
            return
        for other, line in self._held_by_others.items():
            if not other.shares(profile):
                line.remove(begin, end, bits)

    def close(self, begin: float, bits: int) -> None:
        """Take ``bits`` away for ever from ``begin`` on, whoever shares with whom."""
        for line in (self.exclusive, self._held_alone, *self._held_by_others.values()):
            if line is not None:
                line.remove(begin, inf, bits)

    def open(self, begin: float, end: float, bits: int) -> None:
        """Add a piece: ``bits`` become part of the space during [begin, end)."""
        if self._open is not None:
            self._open.add(begin, end, bits)
