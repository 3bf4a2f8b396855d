"""What would let a job start: cases to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from oarpy.scheduler.explain.counterfactuals import Counterfactuals, Shorter, Unfiltered, counterfactuals
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.rules.energy import Waking
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Snapshot, WaitingJob
from tests.harness.scheduling_cases import cluster, job, running

FOUR = cluster("n1:4")


def snapshot(platform: Platform, *jobs: WaitingJob | HoldingJob, **rest: Any) -> Snapshot:
    return Snapshot(
        now=rest.pop("now", 0),
        platform=platform,
        waiting=tuple(one for one in jobs if isinstance(one, WaitingJob)),
        holding=tuple(one for one in jobs if isinstance(one, HoldingJob)),
        **rest,
    )


def ask(platform: Platform, number: int, *jobs: WaitingJob | HoldingJob, **rest: Any) -> Counterfactuals:
    return counterfactuals(snapshot(platform, *jobs, **rest), number)


def test_a_job_that_starts_needs_no_advice() -> None:
    answer = ask(FOUR, 1, job(1, "/core=4", 60))
    assert (answer.verdict, answer.start, answer.resources) == ("starts", 0, 4)
    assert (answer.fewer, answer.shorter_now, answer.shorter, answer.unfiltered) == (None, None, None, ())


def test_fewer_cores_start_now() -> None:
    answer = ask(FOUR, 1, running(9, "1", 0, 100), job(1, "/core=4", 60))
    assert (answer.verdict, answer.start) == ("resources_busy", 100)
    assert answer.fewer is not None
    assert (answer.fewer.level, answer.fewer.count) == ("core", 3)
    assert str(answer.fewer.request) == "/core=3"
    assert [(holder.job, holder.resources, holder.until, holder.running) for holder in answer.holders] == [
        (9, 1, 100, True)
    ]


def test_the_outermost_count_that_can_be_reduced_is() -> None:
    platform = cluster("n1:4 n2:4")
    answer = ask(platform, 1, running(9, "1-2,5-6", 0, 100), job(1, "/nodes=1/core=4", 60))
    assert answer.fewer is not None
    assert (answer.fewer.level, answer.fewer.count) == ("core", 2)


def test_a_shorter_job_fits_before_the_one_ahead() -> None:
    """Core 1 is free until job 1 gets all four at 100: 100 s would fit, 101 would not."""
    answer = ask(FOUR, 2, running(9, "2-4", 0, 100), job(1, "/core=4", 50), job(2, "/core=1", 200))
    assert (answer.verdict, answer.start) == ("behind_higher_priority", 150)
    assert answer.shorter_now == answer.shorter == Shorter(100, 0)
    assert [(holder.job, holder.running) for holder in answer.holders] == [(1, False)]
    assert answer.rank is not None
    assert (answer.rank.place, answer.rank.among) == (2, 2)


def test_the_security_time_counts() -> None:
    jobs = (running(9, "2-4", 0, 100), job(1, "/core=4", 50), job(2, "/core=1", 200))
    answer = ask(FOUR, 2, *jobs, security_time=10)
    assert answer.shorter_now == Shorter(100, 0)


def test_earlier_but_not_now() -> None:
    """Nothing is free before 20. From then on core 1 is, until job 1 needs all at 100."""
    jobs = (running(8, "1", 0, 20), running(9, "2-4", 0, 100), job(1, "/core=4", 50), job(2, "/core=1", 200))
    answer = ask(FOUR, 2, *jobs)
    assert (answer.start, answer.shorter_now, answer.shorter) == (150, None, Shorter(80, 20))


def test_without_a_filter() -> None:
    platform = cluster("n1:4", gpu={1: 1, 2: 1, 3: 0, 4: 0})
    asked = job(1, "/core=2", 60, properties="gpu = 1")
    answer = ask(platform, 1, running(9, "1", 0, 100), asked, filters={"gpu = 1": 0b0011})
    assert answer.unfiltered == (Unfiltered("gpu = 1", None, 0),)
    group = job(1, "{gpu = 1}/core=2+{gpu = 0}/core=1", 60)
    filters = {"gpu = 1": 0b0011, "gpu = 0": 0b1100}
    answer = ask(platform, 1, running(9, "1", 0, 100), group, filters=filters)
    # the second group would still take core 3 or 4, and two of the other three are free
    assert answer.unfiltered == (Unfiltered("gpu = 1", 0, 0),)


def test_two_filters_are_dropped_one_at_a_time() -> None:
    platform = cluster("n1:4", gpu={1: 1, 2: 1}, mem={2: 8, 3: 8})
    asked = job(1, "{gpu = 1}/core=1", 60, properties="mem = 8")
    filters = {"(mem = 8) AND (gpu = 1)": 0b0010, "gpu = 1": 0b0011, "mem = 8": 0b0110}
    answer = ask(platform, 1, running(9, "2", 0, 100), asked, filters=filters)
    assert answer.unfiltered == (Unfiltered("mem = 8", None, 0), Unfiltered("gpu = 1", 0, 0))
    # what nobody has looked up is not tried
    assert ask(platform, 1, running(9, "2", 0, 100), asked, filters=dict(list(filters.items())[:1])).unfiltered == ()


def test_a_quota_and_who_fills_it() -> None:
    rule = QuotaRule(user="/", resources=3)
    jobs = (running(7, "1", 0, 100), running(8, "2", 0, 100, user="bob"), job(1, "/core=1", 50), job(2, "/core=2", 50))
    answer = ask(cluster("n1:8"), 2, *jobs, quotas=(rule,))
    assert answer.verdict == "quota"
    assert answer.quota is not None
    assert (answer.quota.rule, answer.quota.resources, answer.quota.jobs) == (rule, 2, (1, 7))
    assert answer.quota.resource_hours == pytest.approx((100 + 50) / 3600)
    assert answer.fewer is not None
    assert answer.fewer.count == 1


def test_fewer_nodes_with_the_amounts_that_were_asked_for() -> None:
    memory = (Consumable("memory", "network_address", {"n1": 8, "n2": 8}),)
    jobs = (running(7, "1", 0, 100), job(1, "/nodes=2,memory=8", 50))
    answer = ask(cluster("n1:2 n2:2"), 1, *jobs, consumables=memory)
    assert answer.fewer is not None
    assert str(answer.fewer.request) == "/nodes=1,memory=8"


def test_best_effort_jobs_fill_no_quota_of_others() -> None:
    rule = QuotaRule(resources=2)
    jobs = (running(7, "1", 0, 100), running(8, "2", 0, 100, queue="besteffort"), job(1, "/core=2", 50))
    answer = ask(FOUR, 1, *jobs, quotas=(rule,))
    assert answer.quota is not None
    assert answer.quota.jobs == (7,)


def test_what_the_platform_lacks() -> None:
    platform = cluster("n1:4 n2:2")
    answer = ask(platform, 1, job(1, "/nodes=2/core=4", 60))
    assert answer.verdict == "never"
    (shortage,) = answer.shortages
    assert shortage.counts == (("nodes", 2, 1), ("core", 4, 2))
    assert (shortage.group, shortage.condition, shortage.admitted) == (0, "", 6)
    assert answer.fewer is not None
    assert answer.fewer.count == 1


def test_a_condition_that_nothing_meets() -> None:
    answer = ask(FOUR, 1, job(1, "/core=1", 60, properties="gpu = 9"), filters={"gpu = 9": 0})
    (shortage,) = answer.shortages
    assert (shortage.condition, shortage.admitted, shortage.counts) == ("gpu = 9", 0, (("core", 1, 0),))
    assert answer.unfiltered == (Unfiltered("gpu = 9", None, 0),)


def test_what_is_not_alive() -> None:
    platform = cluster("n1:4", {1: "Absent", 2: "Dead"})
    answer = ask(platform, 1, job(1, "/core=3", 60))
    assert answer.verdict == "resources_down"
    assert answer.shortages[0].counts == (("core", 3, 2),)
    assert answer.shortages[0].admitted == 3


def test_best_effort_jobs_that_must_go_first() -> None:
    answer = ask(FOUR, 1, running(9, "1-4", -10, 100, queue="besteffort"), job(1, "/core=2", 60))
    assert (answer.verdict, answer.start) == ("resources_busy", 0)
    assert [holder.job for holder in answer.holders] == [9]


def test_of_several_alternatives_the_predicted_one_is_changed() -> None:
    moldable = job(1, "/core=4", 60, "/core=3", 40)
    answer = ask(FOUR, 1, running(9, "1-2", 0, 100), moldable)
    assert (answer.alternative, answer.start) == (1, 100)
    assert answer.fewer is not None
    assert answer.fewer.count == 2


def test_held() -> None:
    answer = ask(FOUR, 1, running(9, "1-4", 0, 100), job(1, "/core=2", 60, held=True))
    assert (answer.verdict, answer.resumed, answer.rank) == ("held", 100, None)


def test_reservations_have_no_counterfactuals() -> None:
    answer = ask(FOUR, 1, running(9, "1-4", 0, 100), job(1, "/core=2", 60, reservation=50))
    assert answer.verdict == "reservation"
    assert (answer.fewer, answer.shorter, answer.rank) == (None, None, None)


def test_jobs_that_do_not_wait_are_not_known() -> None:
    with pytest.raises(KeyError):
        ask(FOUR, 9, running(9, "1-4", 0, 100))


def test_a_job_that_waits_for_itself() -> None:
    answer = ask(FOUR, 1, job(1, "/core=1", 60, after=(2,)), job(2, "/core=1", 60, after=(1,)))
    assert (answer.verdict, answer.start, answer.fewer) == ("dependency", None, None)


def test_what_is_foreseen_is_taken_as_it_stands() -> None:
    jobs = (running(9, "1-4", 0, 100), job(1, "/core=2", 60), job(2, "/core=4", 60))
    known = snapshot(FOUR, *jobs)
    # the last pass put job 1 later than a search would: it is not searched for
    late = {1: Claim(200, 60, 0b0011)}
    assert counterfactuals(known, 2, foreseen=late).start == 100
    assert counterfactuals(known, 2).start == 160


@pytest.mark.parametrize(
    "foreseen",
    [
        pytest.param({1: Claim(50, 60, 0b0011)}, id="taken"),
        pytest.param({1: Claim(-10, 60, 0b0011)}, id="past"),
        pytest.param({1: Claim(200, 60, 0b0011), 2: Claim(160, 60, 0b1111)}, id="its own start is another"),
    ],
)
def test_what_cannot_be_any_more_is_planned_again(foreseen: dict[int, Claim]) -> None:
    jobs = (running(9, "1-4", 0, 100), job(1, "/core=2", 60), job(2, "/core=4", 60))
    known = snapshot(FOUR, *jobs)
    assert counterfactuals(known, 2, foreseen=foreseen) == counterfactuals(known, 2)


def test_a_start_may_have_drifted_by_two_seconds() -> None:
    jobs = (running(9, "1-4", 1, 100), job(1, "/core=2", 60), job(2, "/core=4", 60))
    known = snapshot(FOUR, *jobs, now=1)
    drifted = {1: Claim(100, 60, 0b0011), 2: Claim(160, 60, 0b1111)}
    assert counterfactuals(known, 2, foreseen=drifted) == counterfactuals(known, 2)
    assert replace(counterfactuals(known, 2), start=161).start == counterfactuals(known, 2, foreseen=drifted).start


def test_sleeping_nodes_take_their_time() -> None:
    """Cores 3 and 4 sleep: whoever gets one of them at once starts 30 s later."""
    waking = Waking(asleep=0b1100, seconds=30)
    jobs = snapshot(FOUR, job(1, "/core=4", 60))
    answer = counterfactuals(jobs, 1, waking=waking)
    assert (answer.start, answer.resources) == (30, 4)
    assert answer.fewer is not None
    assert answer.fewer.count == 2
    # however short, all four are needed
    assert (answer.shorter_now, answer.shorter) == (None, None)
    held = counterfactuals(snapshot(FOUR, job(1, "/core=4", 60, held=True)), 1, waking=waking)
    assert held.resumed == 30


def test_awake_resources_later_or_sleeping_ones_at_once() -> None:
    platform = cluster("n1:4", gpu={1: 1, 2: 1})
    jobs = snapshot(
        platform,
        running(9, "1-2", 0, 100),
        job(1, "/core=2", 60, properties="gpu = 1"),
        filters={"gpu = 1": 0b0011},
    )
    assert counterfactuals(jobs, 1, waking=Waking(0b1100, 30)).unfiltered == (Unfiltered("gpu = 1", None, 30),)
    assert counterfactuals(jobs, 1, waking=Waking(0b1100, 200)).unfiltered == ()
