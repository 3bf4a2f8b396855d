"""A longer walltime delays nobody who was placed, unless that is asked for; reservations never move."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.dependency import Dependency, Shift
from oarpy.model.request import Consumption, parse_request
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.walltime_changes import WalltimeChange, grants
from oarpy.scheduler.snapshot import Alternative, HoldingJob, QuotaRule, Snapshot, WaitingJob
from tests.harness.examples import examples

CORES, NODES = 3, 3
PLATFORM = Platform.build(Resource(n + 1, properties={"network_address": n // CORES}) for n in range(CORES * NODES))
requests = st.sampled_from(
    ["/core=2", "/core=5", "/nodes=1", "/nodes=2", "/nodes=3/core=1", "/nodes=1/core=1,memory=3"]
)
dependencies = st.sampled_from(
    [
        (),
        (Dependency(100),),
        (Dependency(101, earliest=Shift("end", 5)),),
        (Dependency(100, earliest=Shift("start", 9)),),
    ]
)
kinds = st.sampled_from([(), (), (), ("besteffort",), ("timesharing=*,*",)])


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Return running jobs, each on part of a node, and a queue of all kinds."""
    holding = [
        HoldingJob(
            100 + node,
            draw(st.sampled_from(["ann", "eve"])),
            draw(st.integers(-9, 0)),
            draw(st.integers(10, 20)),
            tuple(range(CORES * node + 1, CORES * node + 1 + draw(st.sampled_from([1, CORES, CORES])))),
            types=draw(kinds),
            consumes=draw(st.sampled_from([(), (Consumption("memory", 2),)])),
        )
        for node in range(NODES)
    ]
    holding += [
        HoldingJob(200 + node, "bob", draw(st.integers(40, 60)), 10, tuple(range(CORES * node + 1, CORES * node + 3)))
        for node in draw(st.frozensets(st.integers(0, NODES - 1), max_size=2))
    ]
    waiting = []
    for number in range(1, draw(st.integers(4, 12)) + 1):
        request = parse_request(draw(requests))
        way = Alternative(request.groups, draw(st.integers(1, 20)), request.consumes)
        user = draw(st.sampled_from(["ann", "bob"]))
        depends_on = draw(dependencies) if draw(st.booleans()) else ()
        waiting.append(
            WaitingJob(number, user, alternatives=(way,), types=draw(kinds), submitted=number, depends_on=depends_on)
        )
    quotas = draw(
        st.sampled_from(
            [(), (QuotaRule(user="/", resources=6),), (QuotaRule(jobs=4),), (QuotaRule(user="/", resource_hours=0.02),)]
        )
    )
    memory = Consumable("memory", "network_address", {str(node): 4 for node in range(NODES)})
    return Snapshot(
        now=0,
        platform=PLATFORM,
        waiting=tuple(waiting),
        holding=tuple(holding),
        security_time=draw(st.integers(0, 2)),
        quotas=quotas,
        consumables=(memory,),
    )


changes = st.builds(
    WalltimeChange,
    job=st.integers(100, 100 + NODES - 1),
    seconds=st.integers(-40, 60).filter(bool),
    whole=st.sampled_from([False, False, True]),
    delay_next_jobs=st.just(False),
)


def with_walltimes(snapshot: Snapshot, granted: dict[int, int]) -> Snapshot:
    return replace(
        snapshot,
        holding=tuple(structs.replace(one, walltime=one.walltime + granted.get(one.id, 0)) for one in snapshot.holding),
    )


def starts(made: Plan, left_out: set[int]) -> dict[int, float]:
    return {one.job: one.start for one in made.placements if one.start is not None and one.job not in left_out}


def waiting_for(snapshot: Snapshot, changed: set[int]) -> set[int]:
    """Return the jobs that wait for one of their user's that was changed, and those that wait for them."""
    users = {one.id: one.user for one in snapshot.holding if one.id in changed}
    found = {
        one.id
        for one in snapshot.waiting
        if any(users.get(dependency.job) == one.user for dependency in one.depends_on)
    }
    for _ in snapshot.waiting:
        found |= {one.id for one in snapshot.waiting if any(dependency.job in found for dependency in one.depends_on)}
    return found


@given(snapshots(), st.lists(changes, min_size=1, max_size=4, unique_by=lambda change: change.job))
@settings(max_examples=examples(150), deadline=None)
def test_nobody_starts_later_but_who_waits_for_that_very_job(snapshot: Snapshot, asked: list[WalltimeChange]) -> None:
    made = plan(snapshot)
    granted = grants(snapshot, made, asked, plan)
    longer = {job: more for job, more in granted.items() if more > 0}
    after = starts(plan(with_walltimes(snapshot, longer)), set())
    spared = waiting_for(snapshot, set(longer))
    if any(one.id in longer and not one.besteffort for one in snapshot.holding):
        spared |= {one.id for one in snapshot.waiting if one.besteffort}
    for job, start in starts(made, spared).items():
        # jobs that end sooner make room, into which others may grow that would else have delayed somebody
        if len(longer) == len(granted):
            assert after[job] <= start
    for change in asked:
        given_now = granted.get(change.job, 0)
        assert min(change.seconds, 0) <= given_now <= max(change.seconds, 0)
        assert not change.whole or change.seconds < 0 or given_now in (0, change.seconds)


def test_a_second_change_sees_where_the_first_one_moved_its_dependants() -> None:
    node, pair, nodes = (
        Alternative(parse_request(text).groups, walltime)
        for text, walltime in (("/nodes=1", 1), ("/core=2", 1), ("/nodes=2", 4))
    )
    waiting = [WaitingJob(1, "ann", alternatives=(node,), submitted=1, depends_on=(Dependency(100),))]
    waiting += [WaitingJob(number, "ann", alternatives=(pair,), submitted=number) for number in range(2, 7)]
    waiting.append(WaitingJob(7, "ann", alternatives=(nodes,), submitted=7))
    snapshot = Snapshot(
        now=0,
        platform=PLATFORM,
        waiting=tuple(waiting),
        holding=(
            HoldingJob(100, "ann", 0, 10, (1,), types=("besteffort",)),
            HoldingJob(101, "ann", 0, 12, (4,)),
            HoldingJob(102, "ann", -5, 10, (7,)),
        ),
        security_time=1,
    )
    made = plan(snapshot)
    granted = grants(snapshot, made, [WalltimeChange(100, 1), WalltimeChange(102, 1)], plan)
    after = starts(plan(with_walltimes(snapshot, granted)), {1})
    assert all(after[job] <= start for job, start in starts(made, {1}).items())


@given(snapshots(), changes, st.integers(0, 60))
@settings(max_examples=examples(100), deadline=None)
def test_reservations_and_running_jobs_keep_what_they_have(
    snapshot: Snapshot, change: WalltimeChange, more: int
) -> None:
    asked = replace(change, delay_next_jobs=True, seconds=more + 1)
    made = plan(snapshot)
    after = with_walltimes(snapshot, grants(snapshot, made, [asked], plan))
    for one in after.holding:
        for other in after.holding:
            if one.id < other.id and set(one.resources) & set(other.resources) and not one.besteffort:
                before = {held.id: held for held in snapshot.holding}
                clash = before[one.id].end + snapshot.security_time > before[other.id].start
                assert clash or one.end + snapshot.security_time <= other.start
