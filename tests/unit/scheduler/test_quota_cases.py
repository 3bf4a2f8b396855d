"""Quotas: who counts, which rule applies, what it limits."""

from __future__ import annotations

from typing import Any

import pytest

from oarpy.scheduler.gantt.demands import CompiledAlternative
from oarpy.scheduler.gantt.gantt import Gantt
from oarpy.scheduler.gantt.search import Search
from oarpy.scheduler.gantt.sharing import Views
from oarpy.scheduler.snapshot import QuotaRule
from tests.harness.scheduling_cases import cluster, job, placed, running, starts, verdicts

FOUR = cluster("n1:4")


def test_a_limit_on_resources_holds_at_every_instant() -> None:
    jobs = [job(number, "/core=1", 20) for number in (1, 2, 3)]
    quotas = (QuotaRule(resources=2),)
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: 0, 3: 20}
    assert verdicts(FOUR, *jobs, quotas=quotas)[3] == "quota"
    assert "at most 2 resources" in str(placed(FOUR, *jobs, quotas=quotas)[3].reason)


def test_the_security_time_counts() -> None:
    jobs = job(1, "/core=1", 20), job(2, "/core=1", 20)
    assert starts(FOUR, *jobs, quotas=(QuotaRule(jobs=1),), security_time=5) == {1: 0, 2: 25}


def test_star_is_all_together_and_slash_each_one() -> None:
    jobs = [job(1, "/core=1", 20), job(2, "/core=1", 20, user="bob"), job(3, "/core=1", 20, user="bob")]
    assert starts(FOUR, *jobs, quotas=(QuotaRule(jobs=1),)) == {1: 0, 2: 20, 3: 40}
    assert starts(FOUR, *jobs, quotas=(QuotaRule(user="/", jobs=1),)) == {1: 0, 2: 0, 3: 20}


def test_the_most_specific_rule_alone_applies() -> None:
    jobs = job(1, "/core=3", 20), job(2, "/core=3", 20, user="bob")
    quotas = (QuotaRule(resources=2), QuotaRule(user="/", resources=3), QuotaRule(user="bob", resources=0))
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: None}
    assert verdicts(FOUR, *jobs, quotas=quotas)[2] == "quota"


def test_specificity_is_compared_by_queue_first_and_user_last() -> None:
    quotas = (QuotaRule(user="ann", jobs=0), QuotaRule(queue="/", jobs=1), QuotaRule(queue="default", jobs=2))
    assert starts(FOUR, *(job(number, "/core=1", 20) for number in (1, 2, 3)), quotas=quotas) == {1: 0, 2: 0, 3: 20}


def test_every_job_that_the_key_matches_counts_even_under_another_rule() -> None:
    quotas = (QuotaRule(jobs=1), QuotaRule(user="bob", jobs=5))
    jobs = job(1, "/core=1", 20, user="bob"), job(2, "/core=1", 20, user="bob"), job(3, "/core=1", 20)
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: 0, 3: 20}


def test_running_jobs_count() -> None:
    jobs = running(9, "1-2", 0, 30), job(1, "/core=1", 10)
    assert starts(FOUR, *jobs, quotas=(QuotaRule(resources=2),)) == {1: 30}


def test_best_effort_jobs_are_invisible_to_the_quotas_of_others() -> None:
    jobs = (
        running(9, "1-2", 0, 30, types="besteffort"),
        job(1, "/core=1", 10),
        job(2, "/core=1", 10, types="besteffort"),
    )
    assert starts(FOUR, *jobs, quotas=(QuotaRule(jobs=1),)) == {1: 0, 2: 30}


def test_a_job_of_several_types_matches_if_any_does() -> None:
    quotas = (QuotaRule(type="a", jobs=1),)
    jobs = job(1, "/core=1", 20, types="a b"), job(2, "/core=1", 20, types="b a"), job(3, "/core=1", 20, types="b")
    assert starts(FOUR, *jobs, quotas=quotas) == {1: 0, 2: 20, 3: 0}


def test_containers_do_not_count_and_their_inner_jobs_do() -> None:
    jobs = (
        running(9, "1-3", 0, 100, types="container"),
        job(1, "/core=1", 20, types="inner=9"),
        job(2, "/core=1", 20),
        job(3, "/core=1", 20, types="container"),
    )
    assert starts(FOUR, *jobs, quotas=(QuotaRule(jobs=1),)) == {1: 0, 2: 20, 3: 0}


def test_no_quotas_is_exempt() -> None:
    jobs = job(1, "/core=1", 20), job(2, "/core=1", 20, types="no_quotas"), job(3, "/core=1", 20)
    assert starts(FOUR, *jobs, quotas=(QuotaRule(jobs=1),)) == {1: 0, 2: 0, 3: 20}


@pytest.mark.parametrize(
    ("hours", "expected"), [(0.1, {1: 0, 2: 0}), (0.09, {1: 0, 2: 90}), (0.04, {1: None, 2: None})]
)
def test_resource_hours_are_summed_over_the_jobs_that_hold(hours: float, expected: dict[int, float | None]) -> None:
    """Each job here is worth 180 resource-seconds: 0.05 h."""
    jobs = job(1, "/core=2", 90), job(2, "/core=3", 60)
    assert starts(cluster("n1:8"), *jobs, quotas=(QuotaRule(resource_hours=hours),)) == expected


def test_a_reservation_over_quota_is_refused() -> None:
    jobs = running(9, "1", 0, 90), job(1, "/core=1", 20, reservation=50)
    found = placed(FOUR, *jobs, quotas=(QuotaRule(jobs=1),))[1]
    assert (found.verdict, found.start) == ("reservation", None)


def test_no_limit_is_minus_one() -> None:
    assert starts(FOUR, job(1, "/core=4", 20), quotas=(QuotaRule(), QuotaRule(user="ann", jobs=-1))) == {1: 0}


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collects the dates from which places are looked for."""
    dates: list[float] = []
    search = Search._next

    def noted(
        self: Search, gantt: Gantt, views: Views, option: CompiledAlternative, start: float, latest: float | None
    ) -> Any:
        dates.append(start)
        return search(self, gantt, views, option, start, latest)

    monkeypatch.setattr(Search, "_next", noted)
    return dates


@pytest.mark.parametrize("hosts", ["n1:2 n2:2", "n1:2 n2:3"])
def test_whole_nodes_that_no_quota_ever_admits_are_not_looked_for_at_every_date(
    hosts: str, looked_at: list[float]
) -> None:
    """Whether all nodes are of one size, so that any will break the quota, or their least size does."""
    busy = [running(100 + n, "1", 10 * n, 10) for n in range(20)]
    found = placed(cluster(hosts), *busy, job(1, "/nodes=1", 5), quotas=(QuotaRule(jobs=0),))
    assert (found[1].verdict, found[1].start) == ("quota", None)
    assert looked_at == [0]


@pytest.mark.parametrize("request_text", ["/core=BEST", "/core=BESTHALF", "/nodes=BEST", "/nodes=BEST/core=1"])
def test_what_is_free_is_not_counted_at_every_date_when_it_always_breaks_the_quota(
    request_text: str, looked_at: list[float]
) -> None:
    busy = [running(100 + n, "1", 10 * n, 5) for n in range(500)]
    best = job(1, request_text, 7, user="bob")
    found = placed(cluster("n1:4 n2:4 n3:4"), *busy, best, quotas=(QuotaRule(user="bob", resources=1),))
    assert (found[1].verdict, found[1].start) == ("quota", None)
    assert len(looked_at) < 20


def test_a_node_of_which_more_and_more_is_free_serves_where_little_of_it_is() -> None:
    """The other node breaks the quota all the time, but is taken only while nothing of the first one is free."""
    busy = [running(100 + n, "1-4", 4 * n, 4) for n in range(16)]
    fewer = running(200, "1-3", 64, 20)
    one = job(1, "/nodes=1/core=BEST", 5, user="bob")
    found = placed(cluster("n1:4 n2:4"), *busy, fewer, one, quotas=(QuotaRule(user="bob", resources=2),))
    assert (found[1].start, found[1].resources) == (64, [4])
