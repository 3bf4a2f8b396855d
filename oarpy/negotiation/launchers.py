"""The choice of hosts and a walltime from a view: launchers of moldable, rigid and complex applications.

A launcher tries the instants at which a profile changes, in ascending order, as long as they can still give an earlier
end. At each it takes the hosts that are free then. If hosts become busy before the application would end, it tries
again with the hosts that stay free, on which it runs longer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import count, groupby, repeat
from math import inf
from operator import itemgetter
from typing import NamedTuple

from oarpy.negotiation.profiles import BusyHosts, Time, Visits
from oarpy.negotiation.run_times import AmdahlTime, Cluster, IterativeTime

View = Mapping[str, BusyHosts]
"""The profile of each cluster, by its name."""


class Choice(NamedTuple):
    """The request of a launcher: hosts of each cluster, and a walltime."""

    hosts: dict[str, int]
    walltime: Time


class ApplicationLauncher:
    """The common part of launchers: their clusters, computed run times, and the number of steps looked at."""

    def __init__(self, clusters: Sequence[Cluster], margin: Time = 1) -> None:
        self.clusters = tuple(clusters)
        self.margin = margin
        self.visits = Visits()

    @property
    def configurations(self) -> int:
        """The number of different configurations whose run time it computed."""
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
        self._walltimes: list[dict[int, Time]] = [{} for _ in self.clusters]

    @property
    def configurations(self) -> int:
        """The number of pairs of a cluster and a number of hosts whose run time it computed."""
        return sum(map(len, self._walltimes))

    def run_time(self, hosts: Mapping[str, int]) -> Time:
        """Return how long the application runs on the hosts of its one cluster."""
        ((name, number),) = hosts.items()
        return self.time.on(next(cluster for cluster in self.clusters if cluster.name == name), number)

    def choose(self, view: View, now: Time) -> Choice | None:
        """Return the choice that ends first when computed at ``now``, None when nothing fits."""
        profiles = [view[cluster.name] for cluster in self.clusters]
        least, most, visits = self.least, self.most, 0
        best: Time = inf
        chosen: tuple[int, int] | None = None
        for start, index, step in _change_points(profiles, now):
            if best < start:
                break
            visits += 1
            busy, size = profiles[index].busy, self.clusters[index].hosts
            number = size - busy[step] if step < len(busy) else size
            if number > most:
                number = most
            while number >= least:
                end = start + (self._walltimes[index].get(number) or self._walltime(index, number))
                within = busy[step : bisect_left(profiles[index].ends, end, step) + 1]
                visits += len(within)
                left = size - max(within) if within else size
                if left >= number:
                    if end < best:
                        best, chosen = end, (index, number)
                    break
                number = left
        self.visits.steps += visits
        if chosen is None:
            return None
        index, number = chosen
        return Choice({self.clusters[index].name: number}, self._walltimes[index][number])

    def _walltime(self, index: int, number: int) -> Time:
        """Compute the walltime on hosts of a cluster."""
        walltime = self.time.rounded(self.time.on(self.clusters[index], number) * self.margin)
        self._walltimes[index][number] = walltime
        return walltime


def _change_points(profiles: Sequence[BusyHosts], now: Time) -> Iterable[tuple[Time, int, int]]:
    """Return instants, each with the cluster and the step that begins there, in ascending order."""
    points: list[tuple[Time, int, int]] = []
    for index, profile in enumerate(profiles):
        step = bisect_right(profile.ends, now)
        points.append((now, index, step))
        points += zip(profile.ends[step:], repeat(index), count(step + 1))
    if len(profiles) > 1:
        points.sort()
    return points


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
        """The number of different counts of free hosts, over all clusters, whose run time it computed."""
        return len(self._best)

    def run_time(self, hosts: Mapping[str, int]) -> Time:
        """Return how long the application runs on these hosts."""
        return self.time.on(hosts)

    def choose(self, view: View, now: Time) -> Choice | None:
        """Return the choice that ends first when computed at ``now``, None when nothing fits."""
        profiles = [view[cluster.name] for cluster in self.clusters]
        best: Time = inf
        choice: Choice | None = None
        free, steps = [0] * len(profiles), [0] * len(profiles)
        for start, changes in groupby(_change_points(profiles, now), key=itemgetter(0)):
            if best < start:
                break
            for _, index, step in changes:
                busy, steps[index] = profiles[index].busy, step
                free[index] = max(0, self.clusters[index].hosts - (busy[step] if step < len(busy) else 0))
                self.visits.steps += 1
            selected = self._hosts_from(start, profiles, steps, tuple(free))
            if selected and start + selected[1] < best:
                taken, walltime = selected
                best, choice = start + walltime, Choice({self.clusters[i].name: n for i, n in taken.items()}, walltime)
        return choice

    def _hosts_from(
        self, start: Time, profiles: Sequence[BusyHosts], steps: Sequence[int], free: tuple[int, ...]
    ) -> tuple[dict[int, int], Time] | None:
        """Return the part of ``free`` hosts usable from ``start`` on, where ``steps`` begin, and the walltime."""
        while any(free):
            chosen, walltime = self._best.get(free) or self._selected(free)
            left = list(free)
            for index in chosen:
                profile, step = profiles[index], steps[index]
                within = profile.busy[step : bisect_left(profile.ends, start + walltime, step) + 1]
                self.visits.steps += len(within)
                unused = self.clusters[index].hosts - max(within, default=0)
                if unused < left[index]:
                    left[index] = unused
            fitting = tuple(left)
            if fitting == free:
                return {index: free[index] for index in chosen}, walltime
            free = fitting
        return None

    def _selected(self, free: tuple[int, ...]) -> tuple[Sequence[int], Time]:
        """Compute the set of clusters with the least run time on the free hosts, and the walltime on it."""
        chosen, time = self.time.best(free)
        selected = self._best[free] = chosen, self.time.rounded(time * self.margin)
        return selected
