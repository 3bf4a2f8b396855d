"""Quotas that are valid at certain times: each part of a job keeps the rule of its period."""

from __future__ import annotations

from math import inf

from oarpy.scheduler.order.quotas import regimes
from oarpy.scheduler.snapshot import QuotaRule
from tests.harness.scheduling_cases import cluster, job, placed, running, starts, verdicts

FOUR = cluster("n1:4")
DAY = QuotaRule(resources=1, valid=((0, 40), (60, 100)), period="day")


def test_a_running_job_counts_in_the_period_that_begins() -> None:
    quotas = (QuotaRule(jobs=1, valid=((30, 80),)),)
    assert starts(FOUR, running(9, "1", 0, 60), job(1, "/core=1", 20), job(2, "/core=1", 40), quotas=quotas) == {
        1: 0,
        2: 60,
    }


def test_of_equal_patterns_that_of_the_period_applies() -> None:
    quotas = (QuotaRule(jobs=1), QuotaRule(jobs=3, valid=((20, 60),)))
    jobs = [job(number, "/core=1", 20) for number in (1, 2, 3, 4)]
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: 20, 3: 20, 4: 20}


def test_the_most_specific_of_the_valid_rules_applies() -> None:
    quotas = (QuotaRule(user="ann", jobs=1), QuotaRule(jobs=3, valid=((0, 60),)))
    jobs = job(1, "/core=1", 20), job(2, "/core=1", 20), job(3, "/core=1", 20, user="bob")
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: 20, 3: 0}


def test_a_job_that_no_period_leaves_room_for_has_no_prediction() -> None:
    quotas = (QuotaRule(resources=1, valid=tuple((start, start + 50) for start in range(0, 1000, 100))),)
    jobs = job(1, "/core=2", 60), job(2, "/core=2", 50)
    assert starts(FOUR, *jobs, quotas=quotas, quota_horizon=1000) == {1: None, 2: 50}
    assert verdicts(FOUR, *jobs, quotas=quotas, quota_horizon=1000)[1] == "quota"


def test_nothing_limited_is_placed_beyond_what_is_known() -> None:
    quotas = (QuotaRule(user="ann", resources=1, valid=((0, 50),)),)
    late = running(9, "1-4", 0, 990)
    found = placed(
        FOUR, late, job(1, "/core=2", 20), job(2, "/core=2", 20, user="bob"), quotas=quotas, quota_horizon=1000
    )
    assert (found[1].start, found[2].start) == (None, 990)
    assert str(found[1].reason) == "it would end beyond 1000, until when quotas are known"


def test_the_reason_names_the_period_that_ends_last_and_until_when() -> None:
    found = placed(FOUR, job(1, "/core=2", 70), quotas=(DAY,))[1]
    assert (found.verdict, found.start) == ("quota", 100)
    assert str(found.reason) == "quota *,*,*,* (day, valid until 100): at most 1 resource, reached until 100"


def test_a_reservation_keeps_the_rule_of_its_date() -> None:
    jobs = job(1, "/core=2", 20, reservation=40), job(2, "/core=2", 20, reservation=70)
    found = placed(FOUR, *jobs, quotas=(DAY,))
    assert (found[1].verdict, found[2].verdict) == ("reserved", "reservation")
    assert str(found[2].reason) == "refused: quota *,*,*,* (day, valid until 100): at most 1 resource, possible at 100"


def test_easy_and_fcfs_keep_calendars_too() -> None:
    jobs = job(1, "/core=2", 20), job(2, "/core=1", 20)
    assert starts(FOUR, *jobs, quotas=(DAY,), policy="easy") == {1: 40, 2: 0}
    assert starts(FOUR, *jobs, quotas=(DAY,), policy="fcfs") == {1: 40, 2: 40}


def test_time_is_cut_where_the_valid_rules_change() -> None:
    always = QuotaRule(jobs=5)
    cut = regimes([always, DAY])
    assert [(one.begin, one.end, len(one.rules)) for one in cut] == [
        (-inf, 0, 1),
        (0, 40, 2),
        (40, 60, 1),
        (60, 100, 2),
        (100, inf, 1),
    ]
