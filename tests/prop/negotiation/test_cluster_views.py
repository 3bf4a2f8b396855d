"""What an application on a cluster is shown is what the planner goes by: a launcher that computes with it is right."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.model.request import Group, Level
from oarpy.negotiation.core.cluster_pass import Negotiation, negotiated_by
from oarpy.negotiation.core.clusters import QUOTAS, clusters_of, counted_at
from oarpy.negotiation.core.events import ViewChange
from oarpy.negotiation.core.host_counts import FAR
from oarpy.negotiation.core.line import NegotiatingJob
from oarpy.negotiation.free_groups import FreeGroups, earliest_exact
from oarpy.negotiation.profiles import BusyHosts, Visits, earliest
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Outage, QuotaRule, Snapshot, WaitingJob
from tests.harness.examples import examples

NOW = 1000
RANDOMS = st.randoms(use_true_random=False)
LEVELS = {"host": "network_address", "core": "core"}


class Case:
    """A random cluster with jobs that hold, jobs that wait, and applications in line; all at one instant."""

    def __init__(self, random: Random, *, limited: bool = False) -> None:
        self.random = random
        self.platform = _platform(random, alike=limited)
        self.clusters = clusters_of(self.platform, "colour", random.choice((1.0, 1.0, 0.7)))
        self.filters = {f"cluster {one.name}": one.bits for one in self.clusters}
        self.security = random.choice((0, 0, 3))
        self.quotas = _quotas(random, len(self.platform.ids)) if limited else ()
        self.outages = tuple(self._outage() for _ in range(random.choice((0, 0, 1, 2))))
        self.holding = self._holding()
        self.waiting = [self._batch(number) for number in range(20, 20 + random.randint(0, 4))]
        self.line = [self._application(number) for number in range(40, 40 + random.randint(1, 4))]

    def _outage(self) -> Outage:
        begin = NOW + self.random.randint(-5, 20)
        bits = 1 << self.random.randrange(len(self.platform.ids))
        return Outage(begin, bits, begin + self.random.randint(1, 30))

    def _holding(self) -> list[HoldingJob]:
        free = list(self.platform.ids)
        self.random.shuffle(free)
        found: list[HoldingJob] = []
        while free and self.random.random() < 0.8:
            ids = tuple(free.pop() for _ in range(self.random.randint(1, len(free))))
            end = NOW + self.random.randint(1, 20)
            found.append(HoldingJob(len(found) + 1, self.random.choice(("ann", "bob")), 0, end, ids))
        return found

    def _batch(self, number: int) -> WaitingJob:
        level, counted = "core", len(self.platform.ids)
        way = Alternative((Group((Level(level, self.random.randint(1, counted)),)),), self.random.randint(1, 20))
        user = self.random.choice(("ann", "bob"))
        return WaitingJob(number, user, submitted=self.random.randint(0, 9), alternatives=(way,))

    def _application(self, number: int) -> NegotiatingJob:
        level = self.random.choice(("host", "host", "core"))
        names = tuple(one.name for one in self.clusters)
        hosts, walltime = self.request(level)
        return NegotiatingJob(
            number, "RequestSent", self.random.randint(0, 9), names, hosts, walltime, 1, level=level, exact=True
        )

    def request(self, level: str) -> tuple[dict[str, int], int]:
        """Return numbers of hosts on some clusters, and a walltime."""
        clusters = counted_at(self.platform, self.clusters, level)
        some = self.random.sample(clusters, self.random.randint(1, len(clusters)))
        return {one.name: self.random.randint(1, one.most) for one in some}, self.random.randint(1, 20)

    def decide(self) -> Decisions:
        """Return what a pass decides."""
        return decide(
            Snapshot(
                NOW,
                self.platform,
                quotas=self.quotas,
                holding=tuple(self.holding),
                waiting=(*self.waiting, *(self._job(one) for one in self.line)),
                security_time=self.security,
                filters=self.filters,
                outages=self.outages,
                step=Negotiation(tuple(self.line), self.clusters),
            )
        )

    def _job(self, one: NegotiatingJob) -> WaitingJob:
        groups = tuple(
            Group((Level(LEVELS[one.level], number),), f"cluster {name}") for name, number in one.hosts.items()
        )
        way = Alternative(groups, one.walltime)
        return WaitingJob(one.id, "ann", types=("negotiated",), alternatives=(way,), ranked=one.ranked)

    def let_start(self, made: Decisions) -> None:
        """Let the jobs run that were decided to start."""
        gone = {one.job: one for one in made.starts}
        users = {job.id: job.user for job in self.waiting}
        self.waiting = [job for job in self.waiting if job.id not in gone]
        self.line = [one for one in self.line if one.id not in gone]
        self.holding += [
            HoldingJob(one.job, users.get(one.job, "ann"), NOW, one.walltime, bits=one.bits) for one in gone.values()
        ]


def _platform(random: Random, *, alike: bool) -> Platform:
    rows: list[Resource] = []
    cores = random.randint(1, 2)
    for host in range(random.randint(2, 6)):
        size = cores if alike else random.randint(1, 2)
        colour = random.choice(("red", "blue"))
        for _ in range(size):
            core = len(rows) + 1
            rows.append(Resource(core, properties={"network_address": f"n{host}", "core": core, "colour": colour}))
    return Platform.build(rows, hierarchy=("core", "colour"))


def _quotas(random: Random, resources: int) -> tuple[QuotaRule, ...]:
    limit = random.randint(1, resources)
    valid = random.choice((None, ((0.0, NOW + 7.0),), ((NOW + 3.0, NOW + 11.0), (NOW + 20.0, NOW + 40.0))))
    jobs = random.choice((-1, -1, 1, 2))
    return (QuotaRule(user=random.choice(("/", "ann", "*")), resources=limit, jobs=jobs, valid=valid),)


def views(made: Decisions) -> dict[int, ViewChange]:
    return {event.application: event for event in negotiated_by(made).events if isinstance(event, ViewChange)}


def sizes(case: Case, level: str, names: tuple[str, ...]) -> dict[str, int]:
    """Return what the launcher knows of clusters, and how many hosts they have together."""
    found = {one.name: one.size for one in counted_at(case.platform, case.clusters, level)}
    return {**found, QUOTAS: sum(found[name] for name in names)}


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOMS, st.booleans())
def test_with_exact_the_start_that_a_launcher_computes_is_the_planned_one(random: Random, limited: bool) -> None:
    case = Case(random, limited=limited)
    first = case.decide()
    case.let_start(first)
    seen = views(first)
    if not case.line:
        return
    one = random.choice(case.line)
    view = seen[one.id]
    hosts, walltime = case.request(one.level)
    computed = earliest_exact(
        {name: FreeGroups.of(groups.flat(NOW)) for name, groups in view.groups.items()},
        {name: BusyHosts.of(profile.flat(NOW)) for name, profile in view.changes.items()},
        sizes(case, one.level, one.clusters),
        hosts,
        walltime + case.security,
        NOW,
    )
    case.line = [replace(other, hosts=hosts, walltime=walltime) if other is one else other for other in case.line]
    planned = case.decide().plan.by_job()[one.id].start
    assert (None if computed is None or computed >= FAR else computed) == planned


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RANDOMS)
def test_by_counts_no_place_is_computed_that_is_later_than_the_planned_one(random: Random) -> None:
    case = Case(random)
    first = case.decide()
    case.let_start(first)
    for one in case.line:
        computed = earliest(
            views(first)[one.id].changes,
            sizes(case, one.level, one.clusters),
            one.hosts,
            one.walltime + case.security,
            NOW,
            Visits(),
        )
        planned = first.plan.by_job()[one.id].start
        assert planned is None or computed <= planned
