"""What holds for every plan: no double booking, order respected, quotas kept, same snapshot same plan."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.request import parse_request
from oarpy.scheduler.plan import Placement, Plan, plan
from oarpy.scheduler.resources import matching
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Outage, QuotaRule, Snapshot, WaitingJob
from tests.harness.examples import examples

REQUESTS = [
    "/core=1",
    "/core=3",
    "/core=9",
    "/nodes=1",
    "/nodes=3",
    "/nodes=2/core=2",
    "/nodes=9/core=1",
    "/cpu=3/core=1",
]
requests = st.sampled_from([*REQUESTS, "/cpu=1", "/core=BEST", "/nodes=BESTHALF/core=1", "/core=2+/nodes=1"])
PLATFORM = Platform.build(
    Resource(n + 1, properties={"network_address": n // 4, "cpu": n // 2, "core": n}) for n in range(40)
)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Return a queue of plain jobs on ten nodes of four cores, enough of them for every shortcut to be taken."""
    waiting = []
    for number in range(1, draw(st.integers(1, 40)) + 1):
        ways = [
            Alternative(parse_request(draw(requests)).groups, draw(st.integers(1, 30)))
            for _ in range(draw(st.sampled_from([1, 1, 1, 2])))
        ]
        user = draw(st.sampled_from(["ann", "bob"]))
        waiting.append(WaitingJob(number, user, alternatives=tuple(ways), submitted=number))
    holding = tuple(
        HoldingJob(100 + node, "eve", draw(st.integers(-5, 20)), draw(st.integers(1, 30)), (4 * node + 1, 4 * node + 2))
        for node in range(draw(st.integers(0, 8)))
    )
    return Snapshot(
        now=0, platform=PLATFORM, waiting=tuple(waiting), holding=holding, security_time=draw(st.integers(0, 3))
    )


def _held(snapshot: Snapshot, made: Plan) -> list[tuple[float, float, int]]:
    """Return begin, end and resources of everything in the plan, security time included; ended jobs hold nothing."""
    sets = [(job.start, job.end, PLATFORM.bits_of(job.resources)) for job in snapshot.holding if job.end > snapshot.now]
    sets += [(one.start, one.end, one.bits) for one in made.placements if one.start is not None and one.end is not None]
    return [(start, end + snapshot.security_time, bits) for start, end, bits in sets]


@given(snapshots())
@settings(max_examples=examples(80), deadline=None)
def test_no_resource_is_held_twice_and_every_job_that_can_be_placed_is(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    for (begin, end, bits), (other_begin, other_end, other_bits) in combinations(_held(snapshot, made), 2):
        assert not (bits & other_bits and begin < other_end and other_begin < end)
    assert all(one.start is not None for one in made.placements)


@given(snapshots())
@settings(max_examples=examples(80), deadline=None)
def test_nobody_is_delayed_by_jobs_behind_it(snapshot: Snapshot) -> None:
    made = plan(snapshot)
    half = len(snapshot.waiting) // 2
    shorter = plan(replace(snapshot, waiting=snapshot.waiting[:half]))
    assert shorter.placements == made.placements[:half]


@given(snapshots(), st.randoms(use_true_random=False))
@settings(max_examples=examples(40), deadline=None)
def test_the_order_of_the_lists_changes_nothing(snapshot: Snapshot, draw: object) -> None:
    shuffled = list(snapshot.waiting)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert plan(replace(snapshot, waiting=tuple(shuffled))).by_job() == plan(snapshot).by_job()


@pytest.mark.long
@given(snapshots())
@settings(max_examples=examples(80), deadline=None)
def test_shortcuts_change_nothing(snapshot: Snapshot) -> None:
    """Blocks counted one by one, and every job looked for from now on, give the same plan."""
    made = plan(snapshot)
    few = matching._FEW_BLOCKS
    matching._FEW_BLOCKS = 10_000
    try:
        alone = [
            plan(
                replace(
                    snapshot,
                    waiting=(job,),
                    holding=(*snapshot.holding, *_as_holding(made.placements[:rank])),
                )
            ).placements[0]
            for rank, job in enumerate(snapshot.waiting)
        ]
    finally:
        matching._FEW_BLOCKS = few
    assert [(one.start, one.end, one.bits) for one in alone] == [
        (one.start, one.end, one.bits) for one in made.placements
    ]


def _as_holding(placements: tuple[Placement, ...]) -> list[HoldingJob]:
    held = []
    for one in placements:
        assert one.start is not None
        assert one.end is not None
        held.append(HoldingJob(one.job, "ann", one.start, one.end - one.start, bits=one.bits))
    return held


@given(snapshots(), st.integers(4, 30), st.integers(1, 6), st.sampled_from(["*", "/"]))
@settings(max_examples=examples(80), deadline=None)
def test_quotas_hold_at_every_instant(snapshot: Snapshot, resources: int, jobs: int, users: str) -> None:
    snapshot = replace(snapshot, holding=(), quotas=(QuotaRule(user=users, resources=resources, jobs=jobs),))
    made = plan(snapshot).by_job()
    held = [(job.user, made[job.id]) for job in snapshot.waiting if made[job.id].start is not None]
    for _, at in held:
        now = [
            (user, one)
            for user, one in held
            if one.start is not None and one.end is not None and at.start is not None
            if one.start <= at.start < one.end + snapshot.security_time
        ]
        for user in ("ann", "bob") if users == "/" else ("",):
            counted = [one for owner, one in now if not user or owner == user]
            assert len(counted) <= jobs
            assert sum(one.bits.bit_count() for one in counted) <= resources


@st.composite
def calendars(draw: st.DrawFn) -> tuple[QuotaRule, ...]:
    """Return limits of one kind that change at some instants; between some of them there is none."""
    instants = sorted(draw(st.lists(st.integers(0, 120), min_size=2, max_size=9, unique=True)))
    users = draw(st.sampled_from(["*", "/"]))
    limits = [
        QuotaRule(user=users, resources=draw(st.integers(3, 30)), jobs=draw(st.integers(-1, 5)), valid=(span,))
        for span in pairwise(instants)
        if draw(st.booleans())
    ]
    always = [QuotaRule(user=users, resources=draw(st.integers(3, 40)))] if draw(st.booleans()) else []
    return (*always, *limits)


@given(snapshots(), calendars())
@settings(max_examples=examples(120), deadline=None)
def test_each_part_of_a_job_keeps_the_quota_of_its_period(snapshot: Snapshot, rules: tuple[QuotaRule, ...]) -> None:
    """Looked at whenever a job or a period begins, with a rule chosen in the plainest way."""
    snapshot = replace(snapshot, holding=(), quotas=rules)
    made = plan(snapshot).by_job()
    held = [
        (job.user, one.start, one.end + snapshot.security_time, one.bits.bit_count())
        for job in snapshot.waiting
        if (one := made[job.id]).start is not None and one.end is not None
    ]
    begins = [rule.valid[0][0] for rule in rules if rule.valid]
    for instant in sorted({start for _, start, _, _ in held if start is not None} | set(begins)):
        valid = [rule for rule in rules if rule.valid and rule.valid[0][0] <= instant < rule.valid[0][1]]
        always = [rule for rule in rules if rule.valid is None]
        for rule in (valid or always)[:1]:
            now = [(user, size) for user, start, end, size in held if start is not None and start <= instant < end]
            for group in ("ann", "bob") if rule.user == "/" else ("",):
                sizes = [size for user, size in now if not group or user == group]
                assert sum(sizes) <= rule.resources
                assert rule.jobs < 0 or len(sizes) <= rule.jobs


outages = st.builds(
    lambda begin, bits, length: Outage(begin, bits, begin + length, "maintenance"),
    st.integers(-20, 60),
    st.integers(1, 2**40 - 1),
    st.sampled_from([1, 10, 40, inf]),
)


@given(snapshots(), st.lists(outages, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_is_placed_where_and_when_there_is_an_outage(snapshot: Snapshot, found: list[Outage]) -> None:
    snapshot = replace(snapshot, outages=tuple(found))
    for placement in plan(snapshot).placements:
        if placement.start is not None and placement.end is not None:
            assert not placement.bits & snapshot.out(placement.start, placement.end + snapshot.security_time)
