"""Occupation over time: the one difference between counted hosts and a cluster of real hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from oarpy.negotiation.core.applications import Application, ApplicationView, CountedRequest, NegotiationRules
from oarpy.negotiation.core.ghosts import Ghost
from oarpy.negotiation.profiles import BusyHosts, Time, Visits, earliest

Look = TypeVar("Look")
"""The occupation at one application's turn, in the form of its kind."""


class HostOccupation(Protocol[Look]):
    """The hosts that are occupied at an application's turn. A pass asks it turn by turn."""

    def look(self, application: Application) -> Look:
        """Return the occupation now and later."""
        ...

    def view(self, application: Application, look: Look, behind: Sequence[Application]) -> ApplicationView:
        """Return the view of a look with the applications ``behind`` that started since."""
        ...

    def place(self, application: Application) -> Time:
        """Give the application's request its earliest place, and return when that begins."""
        ...

    def keep(self, ghost: Ghost) -> None:
        """Add the hosts of a ghost up to its latest end."""
        ...

    def give_way(self, unseen: Sequence[Ghost]) -> None:
        """Take from ghosts that were not added yet the hosts that started applications have now, from the first on."""
        ...


@dataclass(slots=True)
class _KnownPlace:
    """The place of ``request`` among the hosts busy ``before`` on its clusters, and the busy hosts ``after``."""

    request: CountedRequest
    before: Sequence[BusyHosts]
    start: Time
    after: Sequence[BusyHosts]


class KnownPlaces:
    """The cache of passes, so that the next pass only looks at changes.

    The place of a request follows from the busy hosts on its clusters. While these are the same, so is the place, up to
    the instant at which it begins. ``occupied`` is the occupation by started applications in the last pass.
    """

    def __init__(self, sizes: Iterable[str]) -> None:
        self.occupied = {cluster: BusyHosts() for cluster in sizes}
        self._places: dict[int, _KnownPlace] = {}

    def find(self, application: Application, before: Sequence[BusyHosts], now: Time) -> _KnownPlace | None:
        """Return the place of the application's request among ``before``, if it is known."""
        known = self._places.get(application.id)
        if known is None or known.request is not application.request or known.start < now:
            return None
        for profile, other in zip(before, known.before, strict=True):
            if profile is not other and not profile.same(other, now):
                return None
        return known

    def note(self, application: Application, place: _KnownPlace) -> None:
        """Remember a place."""
        self._places[application.id] = place

    def forget(self, application: Application) -> None:
        """Forget the place of an application that is over."""
        self._places.pop(application.id, None)


class CountedOccupation:
    """Clusters of which only the number of hosts is known, at an instant ``now``."""

    def __init__(
        self,
        sizes: Mapping[str, int],
        started: Iterable[Application],
        ghosts: Iterable[Ghost],
        rules: NegotiationRules,
        now: Time,
        visits: Visits,
        known: KnownPlaces,
    ) -> None:
        self._sizes, self._rules, self._now, self._visits, self._known = sizes, rules, now, visits, known
        self._held = dict.fromkeys(sizes, 0)
        ends: dict[str, list[tuple[Time, int]]] = {cluster: [] for cluster in sizes}
        for application in started:
            end = application.releases(rules)
            for cluster, hosts in application.asked.hosts.items():
                ends[cluster].append((end, hosts))
                self._held[cluster] += hosts
        for ghost in ghosts:
            for cluster, hosts in ghost.hosts.items():
                self._held[cluster] += hosts
        for cluster, steps in ends.items():
            profile = self._falling(steps)
            if not profile.same(known.occupied[cluster], now):
                known.occupied[cluster] = profile
        self.profiles = dict(known.occupied)

    def _falling(self, steps: list[tuple[Time, int]]) -> BusyHosts:
        """Return the profile of hosts that are all occupied now, each number up to its end."""
        steps.sort()
        ends: list[Time] = []
        busy: list[int] = []
        total = 0
        for end, hosts in reversed(steps):
            total += hosts
            if end <= self._now:
                break
            if ends and ends[-1] == end:
                busy[-1] = total
            else:
                ends.append(end)
                busy.append(total)
        self._visits.steps += len(steps)
        return BusyHosts(tuple(reversed(ends)), tuple(reversed(busy)))

    def look(self, application: Application) -> dict[str, BusyHosts]:
        """Return how many hosts of each of its clusters are occupied now and later."""
        return {cluster: self.profiles[cluster] for cluster in application.clusters}

    def view(
        self, application: Application, look: dict[str, BusyHosts], behind: Sequence[Application]
    ) -> ApplicationView:
        """Return the view of a look with the hosts of the applications ``behind`` that started since."""
        for started in behind:
            for cluster in started.asked.hosts.keys() & look.keys():
                number, end = started.asked.hosts[cluster], started.releases(self._rules)
                look[cluster] = look[cluster].added(self._now, end, number, self._visits)
        return ApplicationView(look)

    def place(self, application: Application) -> Time:
        """Give the application's request its earliest place, and return when that begins."""
        profiles, hosts = self.profiles, application.asked.hosts
        before = [profiles[cluster] for cluster in hosts]
        place = self._known.find(application, before, self._now)
        if place is None:
            place = self._searched(application.asked, before)
            self._known.note(application, place)
        for cluster, profile in zip(hosts, place.after, strict=True):
            profiles[cluster] = profile
        if place.start == self._now:
            for cluster, number in hosts.items():
                self._held[cluster] += number
        return place.start

    def _searched(self, request: CountedRequest, before: Sequence[BusyHosts]) -> _KnownPlace:
        length = request.walltime + self._rules.security
        start = earliest(self.profiles, self._sizes, request.hosts, length, self._now, self._visits)
        numbers = zip(before, request.hosts.values(), strict=True)
        after = [profile.added(start, start + length, number, self._visits) for profile, number in numbers]
        return _KnownPlace(request, before, start, after)

    def keep(self, ghost: Ghost) -> None:
        """Add the hosts of a ghost up to its latest end; with later places of others, at most all hosts are busy."""
        for cluster, number in ghost.hosts.items():
            kept = self.profiles[cluster].added(self._now, ghost.latest_end, number, self._visits)
            self.profiles[cluster] = kept.capped(self._sizes[cluster])

    def give_way(self, unseen: Sequence[Ghost]) -> None:
        """Take from ghosts that were not added yet the hosts that started applications have now, from the first on."""
        for ghost in unseen:
            for cluster, number in list(ghost.hosts.items()):
                lost = min(number, max(0, self._held[cluster] - self._sizes[cluster]))
                self._held[cluster] -= lost
                ghost.hosts[cluster] = number - lost
                if lost == number:
                    del ghost.hosts[cluster]
