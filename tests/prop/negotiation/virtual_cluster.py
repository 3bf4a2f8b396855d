"""A cluster in virtual time whose passes are those of ``decide()``: batch jobs, applications, launchers that answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from random import Random
from typing import Any

from oarpy.model.request import Group, Level
from oarpy.model.setting_values import GhostRule
from oarpy.negotiation.core.cluster_pass import Negotiation, negotiated_by
from oarpy.negotiation.core.clusters import clusters_of
from oarpy.negotiation.core.events import EstimatedStart, ViewChange
from oarpy.negotiation.core.line import FreedHosts, KeptHosts, NegotiatingJob
from oarpy.negotiation.profiles import BusyHosts, Visits, earliest
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.resources.bit_sets import positions
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from tests.prop.negotiation.naive_cluster import NaiveGhost, NaiveJob, NaivePass

TAG = 1


@dataclass(slots=True)
class Launcher:
    """Asks for the hosts of one cluster on which ``work`` ends first; ``lasts`` is the part of its walltime it runs."""

    job: NegotiatingJob
    work: int
    lasts: float
    answers_late: bool
    owing: list[ViewChange] = field(default_factory=list)


@dataclass(slots=True)
class Ahead:
    """What comes at an instant: a batch job or a launcher; jobs on hosts have the instant of their end."""

    at: float
    job: WaitingJob | Launcher


class VirtualCluster:
    """The cluster; with ``delays`` some launchers answer late."""

    def __init__(self, random: Random, *, delays: bool) -> None:
        self.random, self.now, self.delays = random, 100.0, delays
        colours = [random.choice(("red", "red", "blue")) for _ in range(random.randint(2, 6))]
        rows = [Resource(n, properties={"network_address": f"n{n}", "colour": one}) for n, one in enumerate(colours, 1)]
        self.platform = Platform.build(rows)
        self.clusters = clusters_of(self.platform, "colour")
        self.names = tuple(one.name for one in self.clusters)
        self.hosts = {one.name: [bits.bit_length() - 1 for bits in one.sets] for one in self.clusters}
        self.rule: GhostRule = random.choice(("needed", "needed", "always"))
        self.fair_start, self.security = random.choice((0, 3, 8)), random.choice((0, 0, 2))
        self.holding: dict[int, HoldingJob] = {}
        self.ends: dict[int, float] = {}
        self.waiting: list[WaitingJob] = []
        self.line: list[Launcher] = []
        self.ghosts: list[KeptHosts] = []
        self.freed: list[FreedHosts] = []
        self.coming = [self._coming(number) for number in range(1, random.randint(3, 9))]

    def _coming(self, number: int) -> Ahead:
        instant = self.now + self.random.randint(0, 15)
        hosts, walltime = self._request(), self.random.randint(2, 20)
        if self.random.random() < 0.5:
            return Ahead(instant, self._job(number, hosts, walltime, submitted=instant))
        clusters = self.names if self.random.random() < 0.8 else tuple(hosts)
        asked = NegotiatingJob(number, "RequestSent", instant, clusters, hosts, walltime, TAG)
        late = self.delays and self.random.random() < 0.5
        return Ahead(instant, Launcher(asked, self.random.randint(2, 30), self.random.random(), late))

    def _request(self) -> dict[str, int]:
        name = self.random.choice(self.names)
        return {name: self.random.randint(1, len(self.hosts[name]))}

    def _job(
        self, number: int, hosts: dict[str, int], walltime: float, submitted: float = 0, ranked: float | None = None
    ) -> WaitingJob:
        groups = tuple(Group((Level("network_address", count),), name) for name, count in hosts.items())
        return WaitingJob(
            number, "ann", submitted=submitted, alternatives=(Alternative(groups, walltime),), ranked=ranked
        )

    def run(self) -> Iterator[tuple[Decisions, bool]]:
        """Yield every pass, and whether anything but answers has happened before it; apply it then."""
        due, wake = False, None
        while True:
            happened = self._happen()
            if happened or due or self._unowed():
                made = decide(self.snapshot())
                yield made, happened
                self._apply(made)
                due, wake = self._answer(), made.wake_at
                continue
            late = any(one.owing for one in self.line)
            instants = [*(one.at for one in self.coming), *self.ends.values(), *(one.latest_end for one in self.ghosts)]
            instants += [self.now + 1] if late else [] if wake is None else [wake]
            later = [one for one in instants if one > self.now]
            if not later:
                return
            self.now, due = min(later), True
            self._answer()

    def _unowed(self) -> bool:
        return self.rule == "needed" and any(not one.viewers for one in self.ghosts)

    def _happen(self) -> bool:
        """Let arrive what is due, and end what has lasted."""
        come = [one for one in self.coming if one.at <= self.now]
        self.coming = [one for one in self.coming if one.at > self.now]
        for one in come:
            if isinstance(one.job, Launcher):
                self.line.append(one.job)
            else:
                self.waiting.append(one.job)
        over = sorted(job for job, end in self.ends.items() if end <= self.now)
        for number in over:
            held = self.holding.pop(number)
            del self.ends[number]
            self.freed.append(FreedHosts(number, held.bits or 0, held.end + self.security))
        return bool(come or over)

    def snapshot(self) -> Snapshot:
        """Return what a pass sees now."""
        jobs = [
            self._job(one.job.id, dict(one.job.hosts), one.job.walltime, ranked=one.job.ranked) for one in self.line
        ]
        line = tuple(sorted((one.job for one in self.line), key=lambda job: (job.ranked, job.id)))
        negotiation = Negotiation(
            line, self.clusters, 1000, tuple(self.ghosts), tuple(self.freed), self.rule, self.fair_start
        )
        return Snapshot(
            self.now,
            self.platform,
            holding=tuple(self.holding.values()),
            waiting=(*self.waiting, *jobs),
            security_time=self.security,
            filters={one.name: one.bits for one in self.clusters},
            step=negotiation,
        )

    def _apply(self, made: Decisions) -> None:
        """Let start what was decided to start; note what launchers were told."""
        lasting = {one.job.id: one.lasts for one in self.line}
        for start in made.starts:
            held = reduce(or_, (job.bits or 0 for job in self.holding.values()), 0)
            assert not held & start.bits, f"job {start.job} gets what is held"
            self.holding[start.job] = HoldingJob(start.job, "ann", self.now, start.walltime, bits=start.bits)
            share = lasting.get(start.job, self.random.random())
            self.ends[start.job] = self.now + max(1, int(start.walltime * share))
        gone = {one.job for one in made.starts}
        self.waiting = [job for job in self.waiting if job.id not in gone]
        self.line = [one for one in self.line if one.job.id not in gone]
        self.ghosts, self.freed = list(negotiated_by(made).ghosts), []
        launchers = {one.job.id: one for one in self.line}
        for event in negotiated_by(made).events:
            one = launchers.get(getattr(event, "application", 0))
            if one is not None and isinstance(event, ViewChange):
                changes: Any = {name: some.flat(self.now) for name, some in event.changes.items()}
                shown = {**one.job.shown, **changes}
                one.job = replace(one.job, shown=shown, serial=event.serial, state="Waiting")
                one.owing.append(event)
            elif one is not None and isinstance(event, EstimatedStart):
                one.job = replace(one.job, told=(event.tag, float(event.start)), state="Waiting")

    def _answer(self) -> bool:
        """Let launchers answer; return whether any asks for something else."""
        changed = False
        for one in self.line:
            if not one.owing or (one.answers_late and self.random.random() < 0.5):
                continue
            one.owing.clear()
            for place, ghost in enumerate(self.ghosts):
                left = {who: serial for who, serial in ghost.viewers.items() if who != one.job.id}
                self.ghosts[place] = replace(ghost, viewers=left)
            asked = self._best(one)
            if asked != (one.job.hosts, one.job.walltime):
                one.job = replace(one.job, hosts=asked[0], walltime=asked[1], state="RequestSent")
                changed = True
        return changed

    def _best(self, one: Launcher) -> tuple[dict[str, int], float]:
        """Return the request that ends first by the view that the launcher has."""
        found: tuple[float, dict[str, int], float] | None = None
        for name in one.job.clusters:
            profile, size = BusyHosts.of(one.job.shown[name]), len(self.hosts[name])
            for hosts in range(1, size + 1):
                walltime = -(-one.work // hosts)
                start = earliest(
                    {name: profile}, {name: size}, {name: hosts}, walltime + self.security, self.now, Visits()
                )
                if found is None or start + walltime < found[0]:
                    found = float(start) + walltime, {name: hosts}, walltime
        assert found is not None
        return found[1], found[2]

    def naive(self) -> NaivePass:
        """Return what a naive pass makes of the same."""
        held: dict[int, list[tuple[float, float]]] = {}
        for job in self.holding.values():
            for host in positions(job.bits or 0):
                held.setdefault(host, []).append((self.now, job.end + self.security))
        found = NaivePass(self.now, self.hosts, held)
        jobs = [
            NaiveJob(
                job.id, self._counts(job), job.alternatives[0].walltime + self.security, (job.submitted, 1, job.id)
            )
            for job in self.waiting
        ]
        jobs += [
            NaiveJob(
                one.job.id,
                one.job.hosts,
                one.job.walltime + self.security,
                (one.job.ranked, 0, one.job.id),
                one.job.clusters,
                one.job.shown,
                one.job.serial,
                one.job.told[1] if one.job.told else None,
            )
            for one in self.line
        ]
        found.run(jobs, self._naive_ghosts(held), always=self.rule == "always")
        return found

    @staticmethod
    def _counts(job: WaitingJob) -> dict[str, int]:
        return {group.filter: group.levels[0].count for group in job.alternatives[0].groups}

    def _naive_ghosts(self, held: dict[int, list[tuple[float, float]]]) -> list[NaiveGhost]:
        found = [
            NaiveGhost(one.of, set(positions(one.bits)), one.made, one.latest_end, dict(one.viewers))
            for one in self.ghosts
        ]
        for freed in self.freed:
            hosts = set(positions(freed.bits)) - held.keys()
            latest = self.now + self.fair_start
            latest = min(latest, freed.end) if self.rule == "needed" else latest
            names = {name for name, some in self.hosts.items() if hosts & set(some)}
            viewers = {one.job.id: 0 for one in self.line if names & set(one.job.clusters)}
            found.append(NaiveGhost(freed.of, hosts, self.now, latest, viewers))
        return found
