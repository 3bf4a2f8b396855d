"""Verdicts: why a job does not start now; one that cannot be handled stops nobody else."""

from __future__ import annotations

import pytest

from oarpy.scheduler.order.queue_orders import ORDERS, Candidate
from oarpy.scheduler.plan import plan
from oarpy.scheduler.snapshot import PassShare, Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job, placed, planned, running, verdicts

FOUR = cluster("n1:2 n2:2")


def test_each_reason_for_not_starting() -> None:
    found = placed(
        cluster("n1:2 n2:2", states={4: "Absent"}),
        running(90, "1", -10, 40),
        job(1, "/core=1", 30),
        job(2, "/core=3", 30),
        job(3, "/core=1", 30),
        job(4, "/core=4", 30),
        job(5, "/core=5", 30),
        job(6, "/core=1", 30, after=(90,)),
        job(7, "/core=1", 30, held=True),
        job(8, "/core=1", 30, after=(7,)),
        job(9, "/core=1", 30, reservation=90),
    )
    assert {number: str(one.verdict) for number, one in found.items()} == {
        1: "starts",
        2: "resources_busy",
        3: "starts",
        4: "resources_down",
        5: "never",
        6: "dependency",
        7: "held",
        8: "dependency",
        9: "reserved",
    }
    assert "4 of 5 core" in str(found[5].reason)
    assert "job 90" in str(found[2].reason)


def test_a_reservation_that_is_refused_for_nodes_that_are_down_says_so() -> None:
    platform = cluster("n1:2", states={2: "Absent"})
    found = placed(platform, job(1, "/core=2", 10, reservation=0), job(2, "/core=2", 10, reservation=5))
    assert (found[1].verdict, found[2].verdict) == ("reservation", "reserved")
    assert str(found[1].reason) == "refused: too few resources are Alive: 1 of 2 core"


def test_a_container_that_only_best_effort_jobs_see_is_told() -> None:
    container = running(9, "1-2", -10, 100, types="besteffort container")
    jobs = job(1, "/core=1", 10, types="inner=9"), job(2, "/core=1", 10, types="inner=9 besteffort")
    found = placed(FOUR, container, *jobs, job(3, "/core=1", 10, types="inner=8"))
    assert str(found[1].reason) == "no container '9' runs or is planned, but for best-effort jobs"
    assert (found[1].verdict, found[2].verdict, found[3].verdict) == ("never", "starts", "never")
    assert str(found[3].reason) == "no container '8' runs or is planned"


def test_jobs_that_wait_for_each_other_and_whoever_waits_for_them_are_set_aside() -> None:
    jobs = job(1, "/core=1", 10, after=(2,)), job(2, "/core=1", 10, after=(1,)), job(3, "/core=1", 10, after=(2,))
    found = placed(FOUR, *jobs, job(4, "/core=1", 10))
    assert {number: str(one.verdict) for number, one in found.items()} == {
        1: "dependency",
        2: "dependency",
        3: "dependency",
        4: "starts",
    }
    assert str(found[3].reason) == "it waits for job 2, which cannot come first: jobs wait for each other in a circle"


def test_jobs_ahead_and_running_jobs_are_told_apart() -> None:
    jobs = running(9, "1", 0, 10), job(1, "/core=2", 10), job(2, "/core=2", 10), job(3, "/core=4", 10)
    assert verdicts(FOUR, *jobs) == {1: "starts", 2: "behind_higher_priority", 3: "resources_busy"}


def test_the_reason_is_about_the_alternative_that_was_chosen() -> None:
    """Its second alternative could start now, and would end later."""
    found = placed(FOUR, running(1, "1-2", 0, 30), job(2, "/nodes=2", 60, "/nodes=1", 100))[2]
    assert (found.verdict, found.start) == ("resources_busy", 30)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/rack=1", "'rack' is not a level"),
        ("{mem > 4}/core=1", "the condition 'mem > 4'"),
        ("/nodes=3", "2 of 3 nodes"),
        ("/nodes=1/core=3", "0 of 1 nodes that hold /core=3"),
        ("/core=2+/core=3", "its groups together"),
    ],
)
def test_what_can_never_be_served_says_what_is_missing(text: str, reason: str) -> None:
    found = placed(FOUR, job(1, text, 10), job(2, "/core=1", 10))
    assert found[1].verdict == "never"
    assert reason in str(found[1].reason)
    assert found[2].verdict == "starts"


def test_an_alternative_that_cannot_be_read_leaves_the_other() -> None:
    found = placed(FOUR, job(1, "{mem > 4}/core=1", 10, "/core=1", 20))[1]
    assert (found.alternative, found.start) == (1, 0)


def test_jobs_that_wait_for_themselves_are_set_aside() -> None:
    jobs = job(1, "/core=1", 10, after=(2,)), job(2, "/core=1", 10, after=(1,)), job(3, "/core=1", 10, after=(3,))
    assert verdicts(FOUR, *jobs, job(4, "/core=1", 10)) == {
        1: "dependency",
        2: "dependency",
        3: "dependency",
        4: "starts",
    }


def test_a_job_of_an_unknown_queue_is_set_aside_and_so_is_its_dependant() -> None:
    jobs = job(1, "/core=1", 10, queue="gone"), job(2, "/core=1", 10, after=(1,))
    assert verdicts(FOUR, *jobs) == {1: "never", 2: "dependency"}


class Explosive(str):
    """A filter that cannot even be looked at."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("boom")


def test_a_job_that_raises_is_set_aside() -> None:
    broken = job(1, "/core=1", 10, properties=Explosive("x"))
    found = placed(FOUR, broken, job(2, "/core=1", 10), job(3, "/core=1", 10, after=(1,)))
    assert [str(one.verdict) for one in found.values()] == ["never", "starts", "dependency"]
    assert "boom" in str(found[1].reason)


def test_a_held_anterior_and_the_security_time_are_named() -> None:
    found = placed(
        FOUR,
        running(90, "1-4", -10, 40),
        job(1, "/core=1", 10, held=True),
        job(2, "/core=1", 10, after=(1,)),
        job(3, "/core=1", 10),
        security_time=5,
    )
    assert str(found[2].reason) == "job 1, which it depends on, is held"
    assert str(found[3].reason).endswith("when job 90 should be over, 5 s of security time included")


def test_the_security_time_is_named_behind_jobs_that_have_not_started_too() -> None:
    found = placed(FOUR, running(90, "1-2", -10, 40), job(1, "/core=4", 10), job(2, "/core=2", 100), security_time=5)
    assert str(found[2].verdict) == "behind_higher_priority"
    assert str(found[2].reason).endswith(", 5 s of security time included")


def test_a_job_whose_anterior_is_not_looked_at_is_told_so() -> None:
    queues = (Queue("fast", 5), Queue("default", 0, "missing"))
    found = placed(FOUR, job(1, "/core=1", 10, after=(2,), queue="fast"), job(2, "/core=1", 10), queues=queues)
    assert found[1].verdict is Verdict.DEPENDENCY
    assert str(found[1].reason) == "job 2, which it depends on, has no predicted end"
    jobs = job(1, "/core=1", 10, after=(3,)), job(2, "/core=1", 10), job(3, "/core=1", 10)
    bounded = placed(FOUR, *jobs, ration=PassShare(jobs=2))
    assert bounded[3].verdict is Verdict.BEHIND_HIGHER_PRIORITY
    assert bounded[1].verdict is Verdict.DEPENDENCY


def test_a_broken_policy_stops_its_queue_only() -> None:
    def broken(candidate: Candidate) -> tuple[float, ...]:
        raise ZeroDivisionError("no karma")

    queues = (Queue("a", 5, "broken"), Queue("b", 5), Queue("c", 1, "missing"), Queue("default", 0))
    names = ("a", "b", "c", "default")
    waiting: tuple[WaitingJob, ...] = tuple(job(rank, "/core=1", 10, queue=name) for rank, name in enumerate(names, 1))
    snapshot = Snapshot(now=0, platform=FOUR, queues=queues, waiting=waiting)
    found = plan(snapshot, orders={**ORDERS, "broken": broken}).by_job()
    assert {number: str(one.verdict) for number, one in found.items()} == {
        1: "never",
        2: "starts",
        3: "never",
        4: "starts",
    }
    assert "policy 'broken' of queue 'a' failed: ZeroDivisionError: no karma" in str(found[1].reason)
    assert "policy 'missing' of queue 'c' does not exist" in str(found[3].reason)


def test_an_empty_platform_and_an_empty_queue() -> None:
    assert verdicts(cluster(""), job(1, "/core=1", 10)) == {1: "never"}
    assert planned(FOUR).placements == ()
