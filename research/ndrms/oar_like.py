"""The system that the source compares with: OAR's scheduler, which is sent all that an application could use.

Every application submits each configuration: a number of hosts on a cluster, and a walltime. A pass places the waiting
ones in order, each where it ends first; of equal ends the first configuration wins. A pass follows submissions, ends
and planned starts, at most one per timer. There are no ghosts, and applications are not asked again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from time import process_time

from oarpy.negotiation.profiles import BusyHosts, Time, Visits, earliest
from oarpy.negotiation.run_times import Cluster
from research.ndrms.workloads import DrawnApplication

BYTES = 8
"""The bytes of a configuration that is sent."""


@dataclass(frozen=True, slots=True)
class OfferedConfiguration:
    """A number of hosts of a cluster, for a walltime, that an application may get."""

    cluster: str
    hosts: int
    walltime: Time
    run: Time


@dataclass(frozen=True, slots=True)
class Replayed:
    """The cost of a run of the OAR-like system. ``seconds`` are of the processor."""

    configurations: int
    operations: int
    seconds: float
    ends: Mapping[int, Time]


@dataclass(frozen=True, slots=True)
class _Held:
    """Hosts of a running application, up to the end of its walltime."""

    configuration: OfferedConfiguration
    until: Time


def configurations(application: DrawnApplication, clusters: Sequence[Cluster]) -> list[OfferedConfiguration]:
    """Return all configurations of an application, cluster by cluster."""
    time = application.time
    runs = [
        (cluster.name, hosts, time.on(cluster, hosts))
        for cluster in clusters
        for hosts in range(application.least, min(application.most, cluster.hosts) + 1)
    ]
    return [OfferedConfiguration(name, hosts, time.rounded(run * application.margin), run) for name, hosts, run in runs]


class OarLikeRun:
    """A run of ``applications``, one of which arrives every ``interval``."""

    def __init__(
        self, clusters: Sequence[Cluster], applications: Sequence[DrawnApplication], interval: Time, timer: Time
    ) -> None:
        self._sizes = {cluster.name: cluster.hosts for cluster in clusters}
        self._timer = timer
        self._visits = Visits()
        self._coming = [
            (index * interval, configurations(application, clusters)) for index, application in enumerate(applications)
        ]
        self._waiting: dict[int, list[OfferedConfiguration]] = {}
        self._running: dict[int, _Held] = {}
        self._due: list[tuple[Time, int]] = []
        self._ends: dict[int, Time] = {}

    def run(self) -> Replayed:
        """Run until all have ended."""
        began = process_time()
        for index, (arrives, _) in enumerate(self._coming):
            heappush(self._due, (arrives, index))
        next_pass: Time | None = None
        last: Time | None = None
        while self._due or next_pass is not None:
            if next_pass is None or (self._due and self._due[0][0] <= next_pass):
                noted = self._hear()
                wanted = noted if last is None else max(noted, last + self._timer)
                next_pass = wanted if next_pass is None else min(next_pass, max(wanted, noted))
                continue
            last, planned = next_pass, self._pass(next_pass)
            next_pass = None if planned is None else max(planned, last + self._timer)
        return Replayed(
            sum(len(offered) for _, offered in self._coming), self._visits.steps, process_time() - began, self._ends
        )

    def _hear(self) -> Time:
        """Take the next submission or end, and return when it comes."""
        instant, index = heappop(self._due)
        if index in self._running:
            del self._running[index]
            self._ends[index] = instant
        else:
            self._waiting[index] = self._coming[index][1]
        return instant

    def _pass(self, now: Time) -> Time | None:
        """Place those that wait and start who can; return the first planned start."""
        profiles = {name: BusyHosts() for name in self._sizes}
        for held in self._running.values():
            taken = held.configuration
            profiles[taken.cluster] = profiles[taken.cluster].added(now, held.until, taken.hosts, self._visits)
        planned: list[Time] = []
        for index, offered in list(self._waiting.items()):
            start, chosen = self._place(offered, profiles, now)
            until = start + chosen.walltime
            profiles[chosen.cluster] = profiles[chosen.cluster].added(start, until, chosen.hosts, self._visits)
            if start > now:
                planned.append(start)
                continue
            del self._waiting[index]
            self._running[index] = _Held(chosen, until)
            heappush(self._due, (now + chosen.run, index))
        return min(planned, default=None)

    def _place(
        self, offered: Iterable[OfferedConfiguration], profiles: Mapping[str, BusyHosts], now: Time
    ) -> tuple[Time, OfferedConfiguration]:
        """Return where an application ends first, and with which configuration."""
        places = (
            (
                earliest(
                    profiles,
                    self._sizes,
                    {configuration.cluster: configuration.hosts},
                    configuration.walltime,
                    now,
                    self._visits,
                ),
                configuration,
            )
            for configuration in offered
        )
        return min(places, key=lambda place: place[0] + place[1].walltime)
