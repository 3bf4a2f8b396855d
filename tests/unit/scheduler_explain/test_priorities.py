"""Karma and multifactor priorities as worked examples, and their bounds on any numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.scheduler.explain.queue_position import standing
from oarpy.scheduler.order.priorities import clamped, factors, karma, karma_parts, multifactor_priority
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.order.usage_shares import FactorRules, KarmaRules, Priorities, Usage
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from tests.harness.examples import examples
from tests.harness.scheduling_cases import cluster, job

HOUR = 3600
# ann used three quarters of all, bob a quarter; both asked for as much
PAST = Usage({"ann": 300.0, "bob": 100.0}, {"ann": 500.0, "bob": 500.0}, {"sea": 400.0})
FOUR = cluster("n1:4")


def factor(one: WaitingJob, name: str, known: Priorities, size: int = 1, now: float = 0) -> float:
    return {term.name: term.value for term in factors(one, size, now, known)}[name]


def ranked(policy: str, *jobs: WaitingJob, known: Priorities, now: float = 0) -> list[int]:
    snapshot = Snapshot(now=now, platform=FOUR, queues=(Queue("default", 3, policy),), waiting=jobs, priorities=known)
    places = {}
    for one in jobs:
        found = standing(snapshot, one.id)
        assert found is not None
        places[found.place] = one.id
    return [places[place] for place in sorted(places, key=lambda place: place or 0)]


def test_karma_is_what_was_had_beyond_the_target() -> None:
    rules = KarmaRules(project=0.5, user_targets={"ann": 0.4}, other_users=0.1, project_targets={"sea": 0.6})
    known = Priorities(PAST, rules)
    ann, bob = job(1, "/core=1", HOUR, project="sea"), job(2, "/core=1", HOUR, user="bob", project="air")
    assert [part.contribution for part in karma_parts(ann, known)] == pytest.approx(
        [0.5 * (1.0 - 0.6), 2 * (0.75 - 0.4), 1 * (0.5 - 0.4)]
    )
    assert karma(bob, known) == pytest.approx(0.5 * (0 - 0) + 2 * (0.25 - 0.1) + 1 * (0.5 - 0.1))


def test_fairshare_puts_who_used_least_first_then_first_come() -> None:
    jobs = (
        job(1, "/core=1", HOUR, user="ann", submitted=1),
        job(2, "/core=1", HOUR, user="bob", submitted=2),
        job(3, "/core=1", HOUR, user="cyd", submitted=3),
        job(4, "/core=1", HOUR, user="bob", submitted=1),
    )
    assert ranked("fairshare", *jobs, known=Priorities(PAST)) == [3, 4, 2, 1]
    assert ranked("fairshare", *jobs, known=Priorities()) == [1, 4, 2, 3]
    assert ranked("fairshare", *jobs, known=Priorities(PAST, KarmaRules(user_targets={"ann": 1.0}))) == [1, 3, 4, 2]


def test_the_plan_follows() -> None:
    jobs = (job(1, "/core=4", 60, user="ann"), job(2, "/core=4", 60, user="bob"))
    snapshot = Snapshot(
        now=0,
        platform=FOUR,
        queues=(Queue("default", 3, "fairshare"),),
        waiting=jobs,
        priorities=Priorities(PAST),
    )
    assert [(one.job, one.start) for one in plan(snapshot).placements] == [(1, 60), (2, 0)]


def test_age_is_full_after_a_week() -> None:
    waiting = job(1, "/core=1", HOUR, submitted=0)
    week = 7 * 86400
    assert [factor(waiting, "age", Priorities(), now=now) for now in (0, week / 2, week, 10 * week)] == [0, 0.5, 1, 1]
    # a clock that was set back makes nobody worse than new
    early = factors(waiting, 1, -5, Priorities())[0]
    assert (early.name, early.value, early.measured) == ("age", 0, 0)


def test_few_hours_and_few_resources_come_first_unless_told_otherwise() -> None:
    large = FactorRules(large_work=True, large_size=True)
    for hours, work in ((0.5, 1.0), (1, 1.0), (4, 0.25), (100, 0.01)):
        one = job(1, "/core=1", int(hours * HOUR))
        assert factor(one, "work", Priorities()) == pytest.approx(work)
        assert factor(one, "work", Priorities(factors=large)) == pytest.approx(1 - work)
    for size, value in ((1, 0.75), (4, 0.0), (9, 0.0)):
        one = job(1, "/core=1", HOUR)
        assert factor(one, "size", Priorities(resources=4), size=size) == value
        assert factor(one, "size", Priorities(factors=large, resources=4), size=size) == 1 - value


def test_queue_karma_qos_and_nice() -> None:
    known = Priorities(PAST, factors=FactorRules(queues={"night": 0.5, "wild": 7.0}))
    assert factor(job(1, "/core=1", HOUR, queue="night"), "queue", known) == 0.5
    assert factor(job(1, "/core=1", HOUR, queue="wild"), "queue", known) == 1
    assert factor(job(1, "/core=1", HOUR), "queue", known) == 0
    assert factor(job(1, "/core=1", HOUR, user="ann"), "karma", known) == pytest.approx(1 / (1 + 2 * 0.75 + 0.5))
    assert factor(job(1, "/core=1", HOUR, user="cyd"), "karma", known) == 1
    indebted = Priorities(karma=KarmaRules(user=9, other_users=1.0))
    assert factor(job(1, "/core=1", HOUR), "karma", indebted) == 1
    assert factor(job(1, "/core=1", HOUR, types="qos=0.7 nice=0.2"), "qos", known) == 0.7
    assert factor(job(1, "/core=1", HOUR, types="qos=0.7 nice=0.2"), "nice", known) == 0.8
    assert [factor(job(1, "/core=1", HOUR, types=f"qos={word}"), "qos", known) for word in ("9", "-1", "x", "nan")] == [
        1,
        0,
        0,
        0,
    ]


def test_multifactor_weighs_them() -> None:
    rules = FactorRules(age=1, karma=0, size=3)
    known = Priorities(factors=rules, resources=4)
    jobs = (
        job(1, "/core=4", HOUR, submitted=0),  # age 1, size 0
        job(2, "/core=2", HOUR, submitted=600_000),  # age 0.008, size 0.5: 1.508
        job(3, "/core=3", HOUR, submitted=302_400),  # age 0.5, size 0.25: 1.25
    )
    assert ranked("multifactor", *jobs, known=known, now=604_800) == [2, 3, 1]
    assert multifactor_priority(jobs[2], 3, 604_800, known) == pytest.approx(1.25)


amounts = st.one_of(st.floats(0, 1e18), st.just(0.0))
shares = st.dictionaries(st.sampled_from(["ann", "bob", "default"]), amounts)
weights = st.floats(-10, 10)
targets = st.dictionaries(st.sampled_from(["ann", "bob", "default"]), st.floats(0, 1))


@given(
    usage=st.builds(Usage, shares, shares, shares),
    karma_rules=st.builds(KarmaRules, weights, weights, weights, targets, st.floats(0, 1), targets, st.floats(0, 1)),
    full_age=st.floats(0, 1e9),
    large=st.booleans(),
    resources=st.integers(0, 10**6),
    size=st.integers(0, 10**6),
    walltime=st.integers(0, 10**9),
    now=st.integers(-(10**10), 10**10),
    word=st.text(max_size=5),
)
@settings(max_examples=examples(300), deadline=None)
def test_every_number_shown_lies_between_0_and_1(
    usage: Usage,
    karma_rules: KarmaRules,
    full_age: float,
    large: bool,
    resources: int,
    size: int,
    walltime: int,
    now: int,
    word: str,
) -> None:
    rules = FactorRules(full_age=full_age, large_work=large, large_size=large, queues={"default": 0.3})
    known = Priorities(usage, karma_rules, rules, resources)
    one = WaitingJob(1, "ann", types=(f"qos={word}", f"nice={word}"), alternatives=())
    one = job(1, "/core=1", walltime, types="") if word == "" else one
    assert all(0 <= term.value <= 1 for term in factors(one, size, now, known))
    parts = karma_parts(one, known)
    assert all(0 <= part.share <= 1 and 0 <= part.target <= 1 for part in parts)
    assert karma(one, known) == sum(part.contribution for part in parts)
    assert math.isfinite(multifactor_priority(one, size, now, known))


def test_clamping() -> None:
    assert [clamped(value) for value in (-1, 0, 0.5, 2, math.inf, -math.inf, math.nan)] == [0, 0, 0.5, 1, 1, 0, 0]


def test_where_a_job_stands() -> None:
    jobs = (
        job(1, "/core=2", HOUR, submitted=1),
        job(2, "/core=1", HOUR, submitted=2),
        job(3, "/core=4", 2 * HOUR, submitted=3, queue="other"),
        job(4, "/core=4", HOUR, submitted=4),
        job(5, "/core=1", HOUR, submitted=0, held=True),
        job(6, "/core=1", HOUR, submitted=0, reservation=50),
    )
    queues = (Queue("default", 3), Queue("other", 3, "largest"), Queue("low", 1))
    snapshot = Snapshot(now=10, platform=FOUR, queues=queues, waiting=jobs)
    found = standing(snapshot, 4)
    assert found is not None
    assert (found.policy, found.place, found.among) == ("fifo", 4, 4)
    assert found.ahead is not None
    assert (found.ahead.jobs, found.ahead.resources, found.ahead.resource_hours, found.ahead.nearest) == (3, 7, 11, 3)
    assert found.value is None
    held, reserved = standing(snapshot, 5), standing(snapshot, 6)
    assert held is not None
    assert (held.place, held.among) == (1, 5)
    assert reserved is not None
    assert reserved.place is None
    assert standing(snapshot, 99) is None


def test_a_policy_that_fails_gives_no_rank() -> None:
    snapshot = Snapshot(now=0, platform=FOUR, queues=(Queue("default", 3, "odd"),), waiting=(job(1, "/core=1", 9),))
    found = standing(snapshot, 1, ORDERS)
    assert found is not None
    assert (found.place, found.failure) == (None, "policy 'odd' of queue 'default' does not exist")
    assert plan(snapshot).broken == {"default": "policy 'odd' of queue 'default' does not exist"}
