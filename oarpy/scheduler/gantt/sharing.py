"""The spaces in which jobs are placed: the whole platform, or the inside of the containers of one name.

A space has one timeline of the resources that no job holds. For each profile of sharing jobs it also keeps the
resources that only partners hold; a job of the profile sees both. A container on cores 1 and 2, with an inner job on
core 1::

    platform      {1 2 3}   {3}                         {1 2 3}
    container               |---------------------------|
    inner job                        |-------|
    inside it     {}        {1 2}    {2}     {1 2}      {}
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol, TypeAlias

from oarpy.scheduler.gantt.shared_search import common, first_fit
from oarpy.scheduler.gantt.sparse_timeline import Pieces
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.gantt.wide_timeline import AnyTimeline, timeline_of
from oarpy.scheduler.job_roles import EXCLUSIVE, Profile
from oarpy.scheduler.resources.matching import RequestMatcher


class View(Protocol):
    """A set of resources that changes at instants."""

    @property
    def begins(self) -> Sequence[float]:
        """The instants, ascending; before the first one there is nothing."""

    def common(self, begin: float, end: float) -> int:
        """Return its resources during the whole of [begin, end); ``begin`` is not before the first instant."""

    def after(self, instant: float) -> float | None:
        """Return the first instant after ``instant`` at which it changes, None when there is none."""


class SharedLine:
    """The resources that jobs of one profile see: those that no job holds, and those that only partners hold."""

    __slots__ = ("alone", "partners")

    def __init__(self, alone: AnyTimeline, partners: Pieces) -> None:
        self.alone, self.partners = alone, partners

    @property
    def begins(self) -> Sequence[float]:
        """The instants at which the line may change: those of the exclusive timeline."""
        return self.alone.begins

    def common(self, begin: float, end: float) -> int:
        """Return the resources free for the profile during the whole of [begin, end)."""
        return common(self.alone, self.partners, begin, end)

    def after(self, instant: float) -> float | None:
        """Return the first instant after ``instant`` at which it may change."""
        return self.alone.after(instant)

    def first_fit(
        self, instant: float, hold: float, matcher: RequestMatcher, latest: float | None = None, within: int = -1
    ) -> tuple[float, int] | None:
        """Find the first date, ``instant`` or later, from which ``matcher`` is served for ``hold`` seconds."""
        if not self.partners.anything:
            return self.alone.first_fit(instant, hold, matcher, latest, within)
        return first_fit(self.alone, self.partners, None, None, matcher, instant, hold, latest, within)


Line: TypeAlias = AnyTimeline | SharedLine
Views: TypeAlias = tuple[Line, *tuple[View, ...]] | tuple[()]
"""The views of a job. The first one changes most and is searched; there is none for a job without a place to go."""

_Concerned: TypeAlias = tuple[Pieces | None, tuple[tuple[Pieces, bool], ...]]


class Space:
    """Free resources over time, for each of the ``profiles`` that jobs to place may have.

    ``narrowed`` holds, by exclusive levels, the resources left for jobs that share with no other job and ask for these
    levels.
    """

    __slots__ = ("_known", "_lines", "_open", "everything", "exclusive", "narrowed")

    def __init__(
        self, origin: float, everything: int, profiles: Iterable[Profile] = (), *, closed: bool = False
    ) -> None:
        self.everything = everything
        self.exclusive = timeline_of(origin, everything)
        self._lines = {profile: SharedLine(self.exclusive, Pieces()) for profile in profiles if profile != EXCLUSIVE}
        self._open = Timeline(origin, 0) if closed else None
        self._known: dict[tuple[Profile, bool], _Concerned] = {}
        self.narrowed: dict[tuple[str, ...], AnyTimeline] = {}

    def copy(self) -> Space:
        """Return an independent space of equal content."""
        twin = Space(0, self.everything)
        twin.exclusive = self.exclusive.copy()
        twin._lines = {
            profile: SharedLine(twin.exclusive, line.partners.copy()) for profile, line in self._lines.items()
        }
        twin._open = self._open and self._open.copy()
        twin.narrowed = {levels: line.copy() for levels, line in self.narrowed.items()}
        return twin

    @property
    def opened(self) -> bool:
        """True when the space has at least one piece."""
        return self._open is not None and len(self._open) > 1

    def emptied(self) -> Space:
        """Return the same space with nothing held in it."""
        twin = Space(self.exclusive.begins[0], self.everything, self._lines, closed=True)
        twin._open = self._open
        return twin

    def views(self, profile: Profile) -> Views:
        """Return the views of a job of this profile; their common resources are free for it."""
        line: Line = self._lines[profile] if profile != EXCLUSIVE and self._lines else self.exclusive
        return (line,) if self._open is None else (line, self._open)

    def take(self, begin: float, end: float, bits: int, profile: Profile, *, all_free: bool) -> None:
        """Let a job of this profile hold ``bits`` during [begin, end); ``all_free`` if its views have them free."""
        self.narrow(begin, end, bits)
        own, others = self._concerned(profile, all_free)
        for partners, sharing in others:
            if sharing:
                self._share(partners, begin, end, bits)
            else:
                partners.remove(begin, end, bits)
        if own is None:
            return self.exclusive.remove(begin, end, bits, all_free=all_free and profile == EXCLUSIVE)
        for left, right, theirs in _merged(own.parts(begin, end), bits):
            self.exclusive.remove(left, right, bits & ~theirs, all_free=True)
        own.add(begin, end, bits)
        return None

    def _concerned(self, profile: Profile, all_free: bool) -> _Concerned:
        """Return the partners of ``profile`` if its jobs share with each other, and the partners of others that change.

        Each of the latter comes with whether its profile shares with ``profile``. A job on free resources changes no
        partners of strangers.
        """
        key = profile, all_free
        if key not in self._known:
            # a placeholder does not share with other placeholders
            among_partners = all_free and profile in self._lines and profile.shares(profile)
            own = self._lines[profile].partners if among_partners else None
            others = [
                (line.partners, other.shares(profile))
                for other, line in self._lines.items()
                if line.partners is not own
                and (other.shares(profile) or not all_free or not _are_strangers(other, profile))
            ]
            self._known[key] = own, tuple(others)
        return self._known[key]

    def _share(self, partners: Pieces, begin: float, end: float, bits: int) -> None:
        """Add to the partners the resources of ``bits`` that no other job holds."""
        begins = self.exclusive.begins
        begin = max(begin, begins[0])
        inner = begins[bisect_right(begins, begin) : bisect_left(begins, end)]
        for left, right in pairwise((begin, *inner, end)):
            if left < right:
                partners.add(left, right, bits & self.exclusive.common(left, right))

    def close(self, begin: float, end: float, bits: int) -> None:
        """Take ``bits`` away from all jobs during [begin, end), whatever their profiles."""
        self.exclusive.remove(begin, end, bits)
        self.narrow(begin, end, bits)
        for line in self._lines.values():
            line.partners.remove(begin, end, bits)

    def narrow(self, begin: float, end: float, bits: int, level: str | None = None) -> None:
        """Take ``bits`` away from jobs that ask for an exclusive ``level`` (None: for any)."""
        for levels, line in self.narrowed.items():
            if level is None or level in levels:
                line.remove(begin, end, bits)

    def open(self, begin: float, end: float, bits: int) -> None:
        """Add a piece: ``bits`` become part of the space during [begin, end)."""
        if self._open is not None:
            self._open.add(begin, end, bits)


def _are_strangers(profile: Profile, other: Profile) -> bool:
    """Tell whether no profile shares with both of two profiles that do not share with each other.

    Then no partner of the one holds resources that the other sees as free.
    """
    return other == EXCLUSIVE or not (profile.placeholders or profile.allowed or other.placeholders or other.allowed)


def _merged(parts: Iterable[tuple[float, float, int]], bits: int) -> Iterator[tuple[float, float, int]]:
    """Yield each part with its share of ``bits``; neighbouring parts with the same share become one."""
    begin, end, theirs = 0.0, 0.0, -1
    for left, right, more in parts:
        if more & bits != theirs:
            if theirs >= 0:
                yield begin, end, theirs
            begin, theirs = left, more & bits
        end = right
    if theirs >= 0:
        yield begin, end, theirs
