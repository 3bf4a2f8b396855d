"""Who is in the way of a job, and which of its filters may be dropped."""

from __future__ import annotations

from oarpy.scheduler.explain.counterfactuals import counterfactuals
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Queue, Snapshot
from tests.harness.scheduling_cases import cluster, job, running

QUEUES = (Queue("default", 3, "fifo"),)


def test_who_shares_is_not_in_the_way() -> None:
    snapshot = Snapshot(
        now=0,
        platform=cluster("n1:4"),
        queues=QUEUES,
        holding=(
            running(1, "1-2", -10, 40, types="placeholder=course"),
            running(2, "1-4", -10, 40, types="allowed=course"),
        ),
        waiting=(job(3, "/core=3", 20, types="allowed=course"),),
    )
    assert [holder.job for holder in counterfactuals(snapshot, 3).holders] == [2]


def test_the_container_of_an_inner_job_is_not_in_its_way() -> None:
    snapshot = Snapshot(
        now=0,
        platform=cluster("n1:4"),
        queues=QUEUES,
        holding=(
            running(1, "1-2", -10, 40, types="container=c"),
            running(2, "3-4", -10, 90, types="container=c"),
            running(3, "3", -10, 40, types="inner=c"),
        ),
        waiting=(job(4, "/core=2", 20, types="inner=c"), job(5, "/core=2", 20, types="inner=c")),
    )
    assert [holder.job for holder in counterfactuals(snapshot, 5).holders] == [3]


def test_a_licence_is_not_replaced_by_a_core() -> None:
    cores = [Resource(number, properties={"network_address": "n1"}) for number in (1, 2)]
    platform = Platform.build([*cores, Resource(3, type="licence")], ())
    want = "/resource_id=1+{type = 'licence'}/resource_id=1"
    waiting = job(2, want, 20)
    snapshot = Snapshot(
        now=0,
        platform=platform,
        queues=QUEUES,
        holding=(running(1, "3", -10, 40),),
        waiting=(waiting,),
        filters={"type = 'licence'": platform.bits_of((3,))},
    )
    found = counterfactuals(snapshot, 2)
    assert found.start == 30
    assert found.unfiltered == ()
