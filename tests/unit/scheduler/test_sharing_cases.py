"""Timesharing, placeholders, containers."""

from __future__ import annotations

from tests.harness.scheduling_cases import cluster, job, placed, planned, running, starts, verdicts

TWO = cluster("n1:2")


def test_timesharing_jobs_share_when_they_agree_word_by_word() -> None:
    any_, user, name = "timesharing=*,*", "timesharing=user,*", "timesharing=*,name"
    jobs = [
        job(1, "/core=2", 30, types=any_),
        job(2, "/core=2", 30, types=any_, user="bob"),
        job(3, "/core=2", 10, types=user),
        job(4, "/core=2", 10, types=user, user="bob"),
        job(5, "/core=2", 10, types=user),
        job(6, "/core=2", 10, types=name, name="x"),
        job(7, "/core=2", 10, types=name, name="y"),
        job(8, "/core=2", 10, types=name, name="x", user="bob"),
    ]
    assert starts(TWO, *jobs) == {1: 0, 2: 0, 3: 30, 4: 40, 5: 30, 6: 50, 7: 60, 8: 50}


def test_the_two_words_of_timesharing_come_in_any_order() -> None:
    jobs = job(1, "/core=2", 30, types="timesharing=name,user"), job(2, "/core=2", 30, types="timesharing=user,name")
    assert starts(TWO, *jobs) == {1: 0, 2: 0}


def test_a_user_called_star_is_not_everybody() -> None:
    jobs = job(1, "/core=2", 30, types="timesharing=user,*", user="*"), job(2, "/core=2", 30, types="timesharing=*,*")
    assert starts(TWO, *jobs) == {1: 0, 2: 30}


def test_timesharing_shares_with_nobody_else() -> None:
    jobs = running(9, "1", 0, 20), job(1, "/core=2", 10, types="timesharing=*,*"), job(2, "/core=1", 10)
    assert starts(TWO, *jobs) == {1: 20, 2: 0}


def test_a_compatible_best_effort_job_is_not_cancelled() -> None:
    shared = "timesharing=*,*"
    made = planned(
        TWO,
        running(8, "1-2", 0, 50, types=f"besteffort {shared}"),
        running(9, "1-2", 0, 50, types=f"besteffort {shared}"),
        job(1, "/core=1", 10, types=shared),
        job(2, "/core=1", 10),
    )
    assert made.kill == (8, 9)
    assert made.by_job()[1].verdict == "starts"
    assert (made.by_job()[2].verdict, made.by_job()[2].resources) == ("resources_busy", [2])


def test_placeholder_holds_resources_for_allowed_jobs_which_may_lie_outside() -> None:
    jobs = (
        job(1, "/core=1", 50, types="placeholder=p"),
        job(2, "/core=1", 20),
        job(3, "/core=2", 20, types="allowed=p"),
        job(4, "/core=2", 20, types="allowed=q"),
    )
    assert starts(TWO, *jobs) == {1: 0, 2: 0, 3: 20, 4: 50}


def test_allowed_jobs_exclude_one_another() -> None:
    jobs = job(1, "/core=2", 10, types="allowed=p"), job(2, "/core=2", 10, types="allowed=p")
    assert starts(TWO, running(9, "1-2", 0, 50, types="placeholder=p"), *jobs) == {1: 0, 2: 10}


def test_inner_jobs_lie_inside_their_container_and_exclude_one_another() -> None:
    platform = cluster("n1:4")
    jobs = (
        running(1, "2-3", -10, 60, types="container"),
        job(2, "/core=2", 20, types="inner=1"),
        job(3, "/core=1", 20, types="inner=1"),
        job(4, "/core=1", 40, types="inner=1"),
        job(5, "/core=2", 10),
    )
    assert starts(platform, *jobs) == {2: 0, 3: 20, 4: None, 5: 0}
    assert placed(platform, *jobs)[5].resources == [1, 4]
    assert verdicts(platform, *jobs)[4] == "resources_busy"


def test_the_security_time_of_an_inner_job_lies_inside_too() -> None:
    jobs = running(1, "1-2", 0, 60, types="container"), job(2, "/core=1", 50, types="inner=1")
    assert starts(TWO, *jobs, security_time=10) == {2: 0}
    assert verdicts(TWO, *jobs, security_time=11) == {2: "never"}


def test_containers_of_one_name_are_pieces_of_one() -> None:
    platform = cluster("n1:4")
    jobs = (
        running(1, "1", 0, 60, types="container=box"),
        running(2, "3", 0, 30, types="container=box"),
        job(3, "/core=2", 30, types="inner=box"),
        job(4, "/core=1", 60, types="inner=box"),
    )
    found = placed(platform, *jobs)
    assert found[3].resources == [1, 3]
    assert found[4].start is None


def test_pieces_one_after_the_other_carry_an_inner_job() -> None:
    jobs = (
        running(1, "1", 0, 30, types="container=box"),
        running(2, "1", 30, 30, types="container=box"),
        job(3, "/core=1", 50, types="inner=box"),
    )
    assert starts(TWO, *jobs) == {3: 0}


def test_nested_containers() -> None:
    platform = cluster("n1:4")
    jobs = (
        running(1, "1-3", 0, 90, types="container=outer"),
        job(2, "/core=2", 50, types="inner=outer container=nest"),
        job(3, "/core=2", 50, types="inner=nest"),
        job(4, "/core=2", 10, types="inner=outer"),
    )
    found = placed(platform, *jobs)
    assert (found[2].start, found[2].resources) == (0, [1, 2])
    assert (found[3].start, found[3].resources) == (0, [1, 2])
    assert (found[4].start, found[4].resources) == (50, [1, 2])


def test_an_inner_job_awaits_a_container_that_comes_later_in_the_order() -> None:
    jobs = job(1, "/core=1", 10, types="inner=2"), job(2, "/core=2", 40, types="container"), running(9, "1", 0, 20)
    assert starts(TWO, *jobs) == {1: 20, 2: 20}


def test_a_container_that_nobody_opens_does_not_stop_the_pass() -> None:
    assert verdicts(TWO, job(1, "/core=1", 10, types="inner=7"), job(2, "/core=1", 10)) == {1: "never", 2: "starts"}


def test_a_whole_node_that_lies_partly_outside_its_container_does_not_fit() -> None:
    jobs = running(1, "1", 0, 60, types="container"), job(2, "/nodes=1", 20, types="inner=1")
    assert verdicts(TWO, *jobs) == {2: "never"}
