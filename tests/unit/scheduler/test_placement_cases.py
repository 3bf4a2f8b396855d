"""Where jobs go: backfilling, requests, moldable jobs, queues, dependencies, reservations. Each case is an example."""

from __future__ import annotations

import pytest

from oarpy.model.dependency import Dependency
from oarpy.scheduler.snapshot import Queue
from tests.harness.scheduling_cases import cluster, job, placed, planned, running, starts

FOUR = cluster("n1:2 n2:2")


def test_the_alternative_that_ends_first_wins() -> None:
    found = placed(
        FOUR,
        running(1, "1-2", -10, 40),
        job(2, "/network_address=2", 60, "/network_address=1", 100),
        job(3, "/core=1", 30),
    )
    assert (found[2].alternative, found[2].start, found[2].end, found[2].resources) == (0, 30, 90, [1, 2, 3, 4])
    assert (found[3].start, found[3].end, found[3].resources) == (0, 30, [3])


def test_the_first_alternative_wins_ties() -> None:
    assert placed(FOUR, job(1, "/core=3", 30, "/core=1", 30))[1].alternative == 0


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("/nodes=1", [1, 2]),
        ("/nodes=2/core=1", [1, 3]),
        ("/nodes=1/core=2", [1, 2]),
        ("/core=3", [1, 2, 3]),
        ("/resource_id=1", [1]),
        ("/core=ALL", [1, 2, 3, 4]),
        ("/core=BEST", [1, 2, 3, 4]),
        ("/core=BESTHALF", [1, 2]),
        ("/nodes=BESTHALF", [1, 2]),
        ("/nodes=ALL/core=1", [1, 3]),
        ("/core=1+/core=1", [1, 2]),
        ("/nodes=1+/core=1", [1, 2, 3]),
    ],
)
def test_what_requests_take_on_an_empty_cluster(request_text: str, expected: list[int]) -> None:
    assert placed(FOUR, job(1, request_text, 10))[1].resources == expected


@pytest.mark.parametrize(
    ("request_text", "start", "expected"),
    [
        ("/nodes=1", 0, [3, 4]),  # n1 is not wholly free
        ("/nodes=2/core=1", 0, [2, 3]),  # an upper block need only contain what is below
        ("/core=BEST", 0, [2, 3, 4]),
        ("/core=BESTHALF", 0, [2]),
        ("/core=ALL", 30, [1, 2, 3, 4]),
        ("/nodes=ALL", 30, [1, 2, 3, 4]),
    ],
)
def test_what_requests_take_beside_a_running_job(request_text: str, start: int, expected: list[int]) -> None:
    found = placed(FOUR, running(9, "1", -10, 40), job(1, request_text, 10))[1]
    assert (found.start, found.resources) == (start, expected)


def test_blocks_are_counted_among_what_the_filter_and_the_states_leave() -> None:
    platform = cluster("n1:2 n2:2", states={1: "Dead"}, mem={2: 8, 3: 8, 4: 4})
    assert placed(platform, job(1, "/nodes=1", 10))[1].resources == [2]
    big = platform.bits_of([2, 3])
    found = placed(platform, job(1, "{mem > 4}/nodes=2", 10), filters={"mem > 4": big})[1]
    assert found.resources == [2, 3]


def test_a_resource_without_a_value_belongs_to_no_block() -> None:
    platform = cluster("n1:2 n2:2", switch={3: "s1", 4: "s1"})
    assert placed(platform, job(1, "/switch=1", 10))[1].resources == [3, 4]
    assert placed(platform, job(1, "/switch=2", 10))[1].verdict == "never"


def test_groups_find_an_assignment_even_if_the_first_could_take_what_the_second_needs() -> None:
    platform = cluster("n1:2", gpu={1: 1})
    found = placed(platform, job(1, "/core=1+{gpu = 1}/core=1", 10), filters={"gpu = 1": 0b01})[1]
    assert found.resources == [1, 2]


def test_queues_by_decreasing_priority() -> None:
    queues = (Queue("slow", 1), Queue("fast", 9))
    found = starts(FOUR, job(1, "/core=4", 10, queue="slow"), job(2, "/core=4", 10, queue="fast"), queues=queues)
    assert found == {1: 10, 2: 0}


def test_queues_of_equal_priority_are_merged() -> None:
    queues = (Queue("a", 1), Queue("b", 1))
    jobs = [job(number, "/core=4", 10, queue=queue) for number, queue in ((1, "b"), (2, "a"), (3, "b"))]
    assert starts(FOUR, *jobs, queues=queues) == {1: 0, 2: 10, 3: 20}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("fifo", {1: 10, 2: 0, 3: 20}), ("smallest", {1: 10, 2: 20, 3: 0}), ("largest", {1: 10, 2: 0, 3: 20})],
)
def test_orders(policy: str, expected: dict[int, float]) -> None:
    """Jobs of 3, 4 and 2 cores that cannot run together, submitted as 2, 1, 3."""
    jobs = (
        job(1, "/core=3", 10, submitted=5),
        job(2, "/nodes=2", 10, submitted=1),
        job(3, "/nodes=2/core=1", 10, submitted=7),
    )
    assert starts(cluster("n1:2 n2:2"), *jobs, queues=(Queue("default", 1, policy),)) == expected


def test_security_time_is_not_added_to_an_anterior_end() -> None:
    found = placed(FOUR, job(1, "/core=1", 30), job(2, "/core=1", 10, after=(1,)), security_time=5)
    assert (found[2].start, found[2].resources) == (30, [2])


def test_an_anterior_later_in_the_order_is_awaited() -> None:
    found = starts(FOUR, job(1, "/core=1", 10, after=(2,)), job(2, "/core=1", 30), job(3, "/core=4", 10))
    assert found == {1: 30, 2: 0, 3: 40}


def test_a_chain_in_reverse_order_is_as_long_as_it_likes() -> None:
    jobs = [job(number, "/core=1", 1, after=(number + 1,)) for number in range(1, 3000)]
    assert starts(FOUR, *jobs, job(3000, "/core=1", 1))[1] == 2999


def test_outcomes_that_were_asked_for() -> None:
    jobs = [
        job(1, "/core=1", 10, after=(Dependency(7, "ok"),)),
        job(2, "/core=1", 10, after=(Dependency(7, "notok"),)),
        job(3, "/core=1", 10, after=(Dependency(8, "notok"),)),
        job(4, "/core=1", 10, after=(Dependency(8, "ok"),)),
        job(5, "/core=1", 10, after=(7, 8)),
    ]
    found = placed(FOUR, *jobs, outcomes={8: "notok"})
    assert [str(one.verdict) for one in found.values()] == ["starts", "dependency", "starts", "dependency", "starts"]


def test_a_reservation_that_does_not_fit_is_refused_with_the_next_date() -> None:
    found = placed(FOUR, running(9, "1", 0, 50), job(2, "/core=4", 20, reservation=20))[2]
    assert (found.verdict, found.start) == ("reservation", None)
    assert "possible at 50" in str(found.reason)


def test_a_reservation_in_the_past_means_now_unless_its_end_is_past() -> None:
    found = placed(FOUR, job(1, "/core=1", 20, reservation=-10), job(2, "/core=1", 20, reservation=-30))
    assert (found[1].verdict, found[1].start, found[1].end) == ("starts", 0, 20)
    assert (found[2].verdict, found[2].start) == ("reservation", None)


def test_a_reservation_uses_its_first_alternative_only() -> None:
    found = placed(FOUR, running(9, "1", 0, 50), job(2, "/core=4", 20, "/core=1", 20, reservation=20))[2]
    assert found.verdict == "reservation"


def test_future_reservations_may_get_resources_that_are_not_alive() -> None:
    platform = cluster("n1:4", states={1: "Absent", 2: "Suspected", 3: "Dead"})
    asked = placed(platform, job(1, "/core=3", 10, reservation=50), job(2, "/core=3", 10), job(3, "/core=4", 10))
    assert (asked[1].verdict, asked[1].resources) == ("reserved", [1, 2, 4])
    assert [str(asked[number].verdict) for number in (2, 3)] == ["resources_down", "never"]


def test_best_effort_jobs_are_planned_last_and_cancelled_for_others() -> None:
    made = planned(
        FOUR,
        running(8, "1-2", -10, 100, queue="besteffort"),
        running(9, "3-4", -10, 100, types="besteffort"),
        job(1, "/core=2", 20, types="besteffort"),
        job(2, "/nodes=1", 20),
    )
    found = made.by_job()
    assert made.kill == (8,)
    assert (found[2].verdict, found[2].start, found[2].resources) == ("resources_busy", 0, [1, 2])
    assert (found[1].verdict, found[1].start) == ("resources_busy", 90)


def test_a_best_effort_job_is_not_cancelled_for_a_start_in_the_future() -> None:
    made = planned(
        FOUR, running(8, "1", -10, 100, queue="besteffort"), running(9, "2-4", -10, 20), job(2, "/core=4", 9)
    )
    assert made.kill == ()
    assert made.by_job()[2].start == 10


def test_a_best_effort_job_has_a_minimum_life() -> None:
    jobs = running(9, "1-2", -20, 90, types="besteffort"), job(1, "/nodes=1", 30), job(2, "/nodes=1", 30)
    platform = cluster("n1:2")
    made = planned(platform, *jobs, besteffort_minimum_life=50)
    assert made.kill == ()
    assert [(one.start, one.verdict) for one in made.placements] == [(30, "resources_busy"), (60, "resources_busy")]
    assert planned(platform, *jobs, besteffort_minimum_life=20).kill == (9,)
    # one that ends before that is waited for no longer than its end
    short = running(9, "1-2", -20, 30, types="besteffort")
    assert starts(platform, short, *jobs[1:], besteffort_minimum_life=50, security_time=5) == {1: 15, 2: 50}


def test_one_whose_end_has_passed_holds_nothing() -> None:
    assert starts(FOUR, running(9, "1-4", -30, 30), job(1, "/core=4", 5), security_time=60) == {1: 0}


def test_easy_promises_no_date_to_what_would_delay_the_head() -> None:
    jobs = (
        running(1, "1-2", -10, 40),
        job(2, "/core=3", 40),
        job(3, "/core=1", 90),
        job(4, "/core=1", 30),
        job(5, "/core=1", 30),
    )
    assert starts(cluster("n1:4"), *jobs, policy="easy")[5] is None


def test_easy_keeps_one_promise_only() -> None:
    jobs = running(1, "1-4", -10, 40), job(2, "/core=4", 40), job(3, "/core=4", 10)
    assert starts(FOUR, *jobs, policy="easy") == {2: 30, 3: None}
