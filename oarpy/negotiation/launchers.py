"""Choosing hosts and a walltime from a view: the launchers of moldable, rigid and complex applications.

A launcher tries the instants at which a profile changes, in ascending order, as long as they can still give an earlier
end. At each it takes what is free then. Where hosts become busy before the application would end, it tries again with
those that stay free, on which it runs longer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby, repeat
from operator import itemgetter
from typing import NamedTuple

from oarpy.negotiation.profiles import BusyHosts, Time, Visits
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime

View = Mapping[str, BusyHosts]
"""The profile of each cluster, by its name."""


class Choice(NamedTuple):
    """What a launcher asks for: hosts of each cluster, and a walltime."""

    hosts: dict[str, int]
    walltime: Time


class ApplicationLauncher:
    """What all launchers have: their clusters, the run times that they computed, and the steps that they looked at."""

    def __init__(self, clusters: Sequence[Cluster], margin: Time = 1) -> None:
        self.clusters = tuple(clusters)
        self.margin = margin
        self.visits = Visits()

    @property
    def configurations(self) -> int:
        """How many different configurations it computed a run time for."""
        raise NotImplementedError

    def choose(self, view: View, now: Time) -> Choice | None:
        """Return the choice that ends first when computed at ``now``, None when nothing fits."""
        raise NotImplementedError

    def run_time(self, hosts: Mapping[str, int]) -> Time:
        """Return how long the application runs on these hosts."""
        raise NotImplementedError


class Moldable(ApplicationLauncher):
    """Runs on ``least`` to ``most`` hosts of one cluster."""

    def __init__(self, clusters: Sequence[Cluster], time: AmdahlTime, least: int, most: int, margin: Time = 1) -> None:
        super().__init__(clusters, margin)
        self.time = time
        self.least = least
        self.most = most
        self._walltimes: dict[tuple[int, int], Time] = {}

    @property
    def configurations(self) -> int:
        """How many pairs of a cluster and a number of hosts it computed a run time for."""
        return len(self._walltimes)

    def run_time(self, hosts: Mapping[str, int]) -> Time:
        """Return how long the application runs on the hosts of its one cluster."""
        ((name, number),) = hosts.items()
        return self.time.on(next(cluster for cluster in self.clusters if cluster.name == name), number)

    def choose(self, view: View, now: Time) -> Choice | None:
        """Return the choice that ends first when computed at ``now``, None when nothing fits."""
        profiles = [view[cluster.name] for cluster in self.clusters]
        best: Time | None = None
        chosen = 0, 0
        for start, index, step in _change_points(profiles, now):
            if best is not None and best < start:
                break
            self.visits.steps += 1
            busy, size = profiles[index].busy, self.clusters[index].hosts
            number = size - busy[step] if step < len(busy) else size
            if number < self.least:
                continue
            number = self._hosts_from(start, index, profiles[index], step, min(number, self.most))
            if number:
                end = start + self._walltimes[index, number]
                if best is None or end < best:
                    best, chosen = end, (index, number)
        return None if best is None else Choice({self.clusters[chosen[0]].name: chosen[1]}, self._walltimes[chosen])

    def _hosts_from(self, start: Time, index: int, profile: BusyHosts, step: int, number: int) -> int:
        """Return how many of ``number`` hosts it can have from ``start``, where a step begins, to its end; or 0."""
        ends, busy, size = profile.ends, profile.busy, self.clusters[index].hosts
        while number >= self.least:
            walltime = self._walltimes.get((index, number))
            if walltime is None:
                walltime = self.time.rounded(self.time.on(self.clusters[index], number) * self.margin)
                self._walltimes[index, number] = walltime
            within = busy[step : bisect_left(ends, start + walltime, step) + 1]
            self.visits.steps += len(within)
            left = size - max(within, default=0)
            if left >= number:
                return number
            number = left
        return 0


def _change_points(profiles: Sequence[BusyHosts], now: Time) -> Iterator[tuple[Time, int, int]]:
    """Return instants, each with the cluster and the step that begins there, in ascending order."""
    of_clusters = []
    for index, profile in enumerate(profiles):
        step = bisect_right(profile.ends, now)
        starts = (now, *profile.ends[step:])
        of_clusters.append(zip(starts, repeat(index), range(step, step + len(starts))))
    return of_clusters[0] if len(of_clusters) == 1 else merge(*of_clusters)


def rigid(clusters: Sequence[Cluster], hosts: int, duration: Time, margin: Time = 1) -> Moldable:
    """Return the launcher of an application that runs ``duration`` on ``hosts`` of a cluster of speed 1."""
    return Moldable(clusters, AmdahlTime(1, duration * hosts), hosts, hosts, margin)


class Complex(ApplicationLauncher):
    """Runs on several clusters at once."""

    def __init__(self, time: IterativeTime, margin: Time = 1) -> None:
        super().__init__(time.clusters, margin)
        self.time = time
        self._best: dict[tuple[int, ...], tuple[Sequence[int], Time]] = {}

    @property
    def configurations(self) -> int:
        """How many numbers of free hosts of all clusters it computed a run time for."""
        return len(self._best)

    def run_time(self, hosts: Mapping[str, int]) -> Time:
        """Return how long the application runs on these hosts."""
        return self.time.on(hosts)

    def choose(self, view: View, now: Time) -> Choice | None:
        """Return the choice that ends first when computed at ``now``, None when nothing fits."""
        profiles = [view[cluster.name] for cluster in self.clusters]
        best: Time | None = None
        choice: Choice | None = None
        free = [0] * len(profiles)
        for start, changes in groupby(_change_points(profiles, now), key=itemgetter(0)):
            if best is not None and best < start:
                break
            for _, index, step in changes:
                busy = profiles[index].busy
                free[index] = max(0, self.clusters[index].hosts - (busy[step] if step < len(busy) else 0))
                self.visits.steps += 1
            found = self._hosts_from(start, profiles, list(free))
            if found and (best is None or start + found.walltime < best):
                best, choice = start + found.walltime, found
        return choice

    def _hosts_from(self, start: Time, profiles: Sequence[BusyHosts], free: list[int]) -> Choice | None:
        """Return what it can have of ``free`` hosts from ``start`` to its end, and its walltime on that."""
        while any(free):
            chosen, walltime = self._selected(tuple(free))
            fits = True
            for index in chosen:
                left = self.clusters[index].hosts - profiles[index].most(start, start + walltime, self.visits)
                if left < free[index]:
                    free[index], fits = left, False
            if fits:
                return Choice({self.clusters[index].name: free[index] for index in chosen}, walltime)
        return None

    def _selected(self, free: tuple[int, ...]) -> tuple[Sequence[int], Time]:
        """Return the set of clusters with the least run time on the free hosts, and the walltime on it."""
        found = self._best.get(free)
        if found is None:
            chosen, time = self.time.best(free)
            found = self._best[free] = chosen, self.time.rounded(time * self.margin)
        return found
