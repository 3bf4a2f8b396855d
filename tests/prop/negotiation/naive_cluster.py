"""A naive pass over real hosts: sets of numbers and spans, looked through one by one. Written apart from the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

Hosts = frozenset[int]


@dataclass(slots=True)
class NaiveJob:
    """A job in line: a batch job if ``clusters`` is None. ``view`` is what it was shown, by cluster, as flat lists."""

    id: int
    hosts: Mapping[str, int]
    walltime: float
    rank: tuple[float, int, float]
    clusters: Sequence[str] | None = None
    view: Mapping[str, Sequence[float]] = field(default_factory=dict)
    serial: int = 0
    told: float | None = None
    start: float = inf
    got: Hosts = frozenset()


@dataclass(slots=True)
class NaiveGhost:
    """Hosts kept back."""

    of: int
    hosts: set[int]
    made: float
    latest: float
    viewers: dict[int, int]


class NaivePass:
    """One pass at ``now``; ``held`` are spans by host. It decides ``jobs`` and ``ghosts``; what is told is ``sent``."""

    def __init__(
        self, now: float, clusters: Mapping[str, Sequence[int]], held: Mapping[int, list[tuple[float, float]]]
    ) -> None:
        self.now, self.clusters = now, clusters
        self.busy = {host: list(held.get(host, ())) for hosts in clusters.values() for host in hosts}
        self.jobs: list[NaiveJob] = []
        self.ghosts: list[NaiveGhost] = []
        self.sent: dict[int, tuple[int, dict[str, list[float]]]] = {}
        self.estimates: dict[int, float] = {}

    def run(self, jobs: Sequence[NaiveJob], ghosts: Sequence[NaiveGhost], *, always: bool) -> None:
        """Serve jobs and applications by rank."""
        self.jobs = sorted(jobs, key=lambda job: job.rank)
        self.ghosts = [one for one in ghosts if one.hosts and self.now < one.latest and (always or one.viewers)]
        unseen = sorted(self.ghosts, key=lambda one: (one.made, one.of))
        looks: list[tuple[NaiveJob, dict[int, list[tuple[float, float]]], int]] = []
        order: list[NaiveJob] = []
        if always:
            unseen = self._show(unseen, unseen)
        for job in self.jobs:
            if job.clusters is not None:
                unseen = self._show(unseen, [one for one in unseen if job.id in one.viewers])
                looks.append((job, {host: list(spans) for host, spans in self.busy.items()}, len(order)))
            self._place(job)
            if job.start == self.now:
                order.append(job)
                self._give_way(unseen)
        for job, busy, before in looks:
            if job.start != self.now:
                for other in order[before:]:
                    for host in other.got:
                        busy[host].append((self.now, self.now + other.walltime))
                self._tell(job, busy)
        waiting = {job.id for job, _, _ in looks if job.start != self.now}
        for ghost in self.ghosts:
            ghost.viewers = {one: serial for one, serial in ghost.viewers.items() if serial and one in waiting}
        self.ghosts = [one for one in self.ghosts if one.hosts]

    def _show(self, unseen: list[NaiveGhost], some: list[NaiveGhost]) -> list[NaiveGhost]:
        for ghost in some:
            for host in ghost.hosts:
                self.busy[host].append((self.now, ghost.latest))
        return [one for one in unseen if one not in some]

    def _free(self, host: int, begin: float, end: float) -> bool:
        return all(left >= end or right <= begin for left, right in self.busy[host])

    def _place(self, job: NaiveJob) -> None:
        """Give a job the first hosts that are free throughout, at the first instant at which there are enough."""
        instants = {self.now} | {end for spans in self.busy.values() for _, end in spans if end > self.now}
        for start in sorted(instants):
            free = {
                name: [host for host in self.clusters[name] if self._free(host, start, start + job.walltime)]
                for name in job.hosts
            }
            if all(len(free[name]) >= number for name, number in job.hosts.items()):
                job.start = start
                job.got = frozenset(host for name, number in job.hosts.items() for host in free[name][:number])
                for host in job.got:
                    self.busy[host].append((start, start + job.walltime))
                return

    def _give_way(self, unseen: Sequence[NaiveGhost]) -> None:
        """Leave ghosts that nobody saw as many hosts as nobody else has: their own, or others of the cluster."""
        started = {host for job in self.jobs if job.start == self.now for host in job.got}
        for ghost in unseen:
            if not ghost.hosts & started:
                continue
            before, ghost.hosts = ghost.hosts, ghost.hosts - started
            others = {host for one in self.ghosts if one is not ghost for host in one.hosts}
            for hosts in self.clusters.values():
                missing = len(before & set(hosts)) - len(ghost.hosts & set(hosts))
                spare = [
                    host
                    for host in hosts
                    if host not in others | ghost.hosts and not any(a <= self.now < b for a, b in self.busy[host])
                ]
                ghost.hosts |= set(spare[:missing])

    def _tell(self, job: NaiveJob, busy: Mapping[int, Sequence[tuple[float, float]]]) -> None:
        """Send an application what is not as it was shown, and its start."""
        assert job.clusters is not None
        changes = {}
        for name in job.clusters:
            profile = self._profile([busy[host] for host in self.clusters[name]])
            if not same(profile, job.view.get(name), self.now):
                changes[name] = profile
        if changes:
            job.serial += 1
            self.sent[job.id] = job.serial, changes
            for ghost in self.ghosts:
                named = {name for name, hosts in self.clusters.items() if ghost.hosts & set(hosts)}
                if ghost.viewers.get(job.id) == 0 and named & changes.keys():
                    ghost.viewers[job.id] = job.serial
        if job.start != job.told:
            self.estimates[job.id] = job.start

    def _profile(self, hosts: Sequence[Sequence[tuple[float, float]]]) -> list[float]:
        instants = sorted({self.now} | {one for spans in hosts for span in spans for one in span if one > self.now})
        flat: list[float] = [self.now]
        for begin, end in pairwise((*instants, inf)):
            number = sum(1 for spans in hosts if any(left <= begin < right for left, right in spans))
            if len(flat) > 1 and flat[-1] == number:
                flat[-2] += end - begin
            else:
                flat += [end - begin, number]
        return flat[:-2] if flat[-1] == 0 else flat


def at(flat: Sequence[float], instant: float) -> float:
    """Return how many hosts are busy at an instant."""
    end = flat[0]
    for duration, number in zip(flat[1::2], flat[2::2], strict=True):
        end += duration
        if instant < end:
            return number
    return 0


def same(one: Sequence[float], other: Sequence[float] | None, now: float) -> bool:
    """Tell whether two profiles say the same from ``now`` on."""
    if other is None:
        return False
    instants = {now}
    for flat in (one, other):
        end = flat[0]
        for duration in flat[1::2]:
            end += duration
            instants.add(max(now, end))
    return all(at(one, instant) == at(other, instant) for instant in instants)
