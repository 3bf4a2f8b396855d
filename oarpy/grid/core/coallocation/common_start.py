"""The earliest common start of a parallel job on one cluster, or on several, where it takes longer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from math import inf, isclose
from typing import Generic, TypeVar

from oarpy.model.plugins import COALLOCATIONS, PluginFailed, looking_at, plugin
from oarpy.profiles.timeline import Processors

Hold = TypeVar("Hold")
Parts = Mapping[str, int]
"""Processors by the name of the cluster."""


@dataclass(frozen=True, slots=True)
class CoProvider(Generic[Hold]):
    """A cluster, and its free processors."""

    name: str
    speed: float
    timeline: Processors[Hold]


@dataclass(frozen=True, slots=True)
class ParallelRequest:
    """Processors for ``time`` seconds at speed 1; on several clusters the ``overhead``, a share of it, comes on top.

    ``at_most`` limits the parts of single clusters, ``end_by`` the end.
    """

    procs: int
    time: float
    overhead: float = 0
    at_most: Parts = field(default_factory=dict)
    end_by: float = inf

    def alone(self, speed: float) -> float:
        """Return how long it takes on one cluster."""
        return self.time / speed

    def spread(self, slowest: float) -> float:
        """Return how long it takes on several clusters."""
        return self.time * (1 + self.overhead) / slowest


@dataclass(frozen=True, slots=True)
class CommonPlace:
    """The clusters and the time of a parallel job; parts are in the order in which clusters were asked."""

    start: float
    end: float
    parts: Parts


def in_turn(names: Sequence[str], first: str) -> list[str]:
    """Return the clusters in a circle, beginning with ``first``."""
    at = names.index(first)
    return [*names[at:], *names[:at]]


def instants_from(providers: Iterable[CoProvider[Hold]], lo: float) -> Iterator[float]:
    """Yield an instant, and the later instants at which a cluster may get more room, rising."""
    yield lo
    last = lo
    for instant in merge(*(provider.timeline.ends(lo) for provider in providers)):
        if instant > last:
            yield instant
            last = instant


EARLIEST = "earliest"
"""The name of the co-allocation that is no plug-in."""


def common_place(
    providers: Sequence[CoProvider[Hold]], request: ParallelRequest, instants: Iterable[float]
) -> CommonPlace | None:
    """Return the place at the first of the rising instants at which clusters, asked in turn, have room.

    One cluster with room for all comes before several. On several, each gives as much as it has free for the run time
    on the slowest of all clusters: it is not known yet which clusters get a part.
    """
    search = _Search(providers, request)
    for start in instants:
        place = search.on_one(start) or search.on_several(start)
        if place is not None:
            return place
    return None


def placed_by(
    name: str, providers: Sequence[CoProvider[Hold]], request: ParallelRequest, instants: Iterable[float]
) -> CommonPlace | None:
    """Return the place that a plug-in finds, or the result of :func:`common_place` for the name :data:`EARLIEST`."""
    if name == EARLIEST:
        return common_place(providers, request, instants)
    later = iter(instants)
    first = next(later)
    place: CommonPlace | None = plugin(COALLOCATIONS, name)(providers, request, chain([first], later))
    if place is None:
        return None
    with looking_at(name):
        return _whole(name, place, providers, request, first)


def _whole(
    name: str, place: CommonPlace, providers: Sequence[CoProvider[Hold]], request: ParallelRequest, first: float
) -> CommonPlace:
    """Return the place that a plug-in gives, with its exact end. Raises :class:`PluginFailed` if it cannot be."""
    by_name = {provider.name: provider for provider in providers}
    if not place.parts.keys() <= by_name.keys() or not all(
        isinstance(procs, int) and 1 <= procs <= request.at_most.get(part, procs) for part, procs in place.parts.items()
    ):
        raise PluginFailed(f"plug-in '{name}' gives parts that cannot be: {dict(place.parts)}")
    if not isinstance(place.start, int | float) or not first <= place.start < inf:
        raise PluginFailed(f"plug-in '{name}' gives a start that is not from {first:.10g} on: {place.start}")
    if sum(place.parts.values()) == request.procs:
        slowest = min(by_name[part].speed for part in place.parts)
        time = request.alone(slowest) if len(place.parts) == 1 else request.spread(slowest)
        end = place.start + time
        if not isclose(place.end, end) or end > request.end_by:
            raise PluginFailed(f"plug-in '{name}' gives an end that is not that of {time:.10g} seconds: {place.end}")
        if all(by_name[part].timeline.fits(procs, place.start, time) for part, procs in place.parts.items()):
            return CommonPlace(place.start, end, dict(place.parts))
    raise PluginFailed(f"plug-in '{name}' gives a place that is not free or not whole: {dict(place.parts)}")


@dataclass(slots=True)
class _Room(Generic[Hold]):
    """How many processors a cluster has free for ``time`` seconds, of which a job may use ``most``.

    It had ``free`` when it was seen, and has no more before ``until``.
    """

    provider: CoProvider[Hold]
    time: float
    most: int
    free: int = 0
    seen: float = -inf
    until: float = -inf

    def see(self, start: float) -> None:
        """See how many processors are free at an instant."""
        if self.seen != start:
            self.free = max(min(self.provider.timeline.free(start, self.time), self.most), 0)
            self.seen = self.until = start

    def more_at(self) -> float:
        """Return the instant from which on more processors are free than were seen."""
        if self.until == self.seen:
            self.until = inf
            if self.free < self.most:
                self.until = self.provider.timeline.earliest(self.free + 1, self.time, self.seen)
        return self.until


class _Search(Generic[Hold]):
    """A search for room at rising instants, which passes over those at which no cluster has more than it had before."""

    def __init__(self, providers: Sequence[CoProvider[Hold]], request: ParallelRequest) -> None:
        slowest = request.spread(min(provider.speed for provider in providers))
        limits = [(provider, request.at_most.get(provider.name, request.procs)) for provider in providers]
        self._request = request
        self._alone = [(one, request.alone(one.speed)) for one, most in limits if most >= request.procs]
        self._rooms = [_Room(one, slowest, min(most, request.procs)) for one, most in limits if most]
        self._one_from = self._several_from = -inf
        """Before these instants no cluster has room for all, and all together have not."""

    def on_one(self, start: float) -> CommonPlace | None:
        """Return the place at an instant on the first cluster that has room for all."""
        if start < self._one_from:
            return None
        procs, end_by = self._request.procs, self._request.end_by
        for provider, time in self._alone:
            if start + time <= end_by and provider.timeline.fits(procs, start, time):
                return CommonPlace(start, start + time, {provider.name: procs})
        found = [
            (one.timeline.earliest(procs, time, start), time) for one, time in self._alone if start + time <= end_by
        ]
        self._one_from = min((instant for instant, time in found if instant + time <= end_by), default=inf)
        return None

    def on_several(self, start: float) -> CommonPlace | None:
        """Return the place at an instant on several clusters, each of which gives as much as it has."""
        if start < self._several_from or not self._enough(start):
            return None
        left, parts, speeds = self._request.procs, {}, []
        for room in self._rooms:
            if here := min(left, room.free):
                parts[room.provider.name] = here
                speeds.append(room.provider.speed)
                left -= here
        end = start + self._request.spread(min(speeds))
        return CommonPlace(start, end, parts) if end <= self._request.end_by else None

    def _enough(self, start: float) -> bool:
        """Tell whether all clusters together have room at an instant; then all are seen at it."""
        for room in self._rooms:
            if room.until <= start:
                room.see(start)
        for room in self._rooms:
            if self._free() >= self._request.procs:
                room.see(start)
        if self._free() >= self._request.procs:
            return True
        self._several_from = min((room.more_at() for room in self._rooms), default=inf)
        return False

    def _free(self) -> int:
        return sum(room.free for room in self._rooms)
