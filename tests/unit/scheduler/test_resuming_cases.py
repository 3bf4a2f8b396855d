"""Suspended jobs: what others get meanwhile, and when they go on. 9 is the job that is suspended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msgspec import structs

from oarpy.scheduler.decide import decide
from oarpy.scheduler.explain.counterfactuals import counterfactuals
from oarpy.scheduler.plan import plan
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.rules.suspended_jobs import Resumption, held_up_by, resumed
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Snapshot, WaitingJob
from tests.harness.scheduling_cases import cluster, job, running

TWO = cluster("n1:2")
Jobs = tuple[WaitingJob | HoldingJob, ...]


def suspended(number: int, resources: str, rest: int, types: str = "", platform: Platform = TWO) -> HoldingJob:
    """Return a job with ``rest`` seconds of its walltime left that has given its resources back."""
    one = running(number, resources, 0, rest, types=types)
    return structs.replace(one, resources=(), given_back=platform.bits_of(one.resources))


def snapshot_of(jobs: Jobs, **rest: Any) -> Snapshot:
    return Snapshot(
        now=0,
        platform=TWO,
        holding=tuple(one for one in jobs if isinstance(one, HoldingJob)),
        waiting=tuple(one for one in jobs if isinstance(one, WaitingJob)),
        **rest,
    )


def resumptions(*jobs: WaitingJob | HoldingJob, **rest: Any) -> tuple[Resumption, ...]:
    """Return when job 9 goes on."""
    return resumed(snapshot_of(jobs, **rest), {9})[1]


def test_it_goes_on_at_once_when_its_resources_are_free() -> None:
    assert resumptions(suspended(9, "1", 50), running(8, "2", 0, 30), job(1, "/core=2", 10)) == (Resumption(9, 0),)


def test_best_effort_jobs_are_cancelled_for_it() -> None:
    cheap = running(8, "1", 0, 30, types="besteffort")
    assert resumptions(suspended(9, "1-2", 50), cheap) == (Resumption(9, 0, (8,)),)
    assert resumptions(suspended(9, "2", 50), cheap) == (Resumption(9, 0),)
    assert resumptions(suspended(9, "1", 50), cheap, besteffort_minimum_life=10) == (Resumption(9, 10),)
    assert resumptions(suspended(9, "1", 50, types="besteffort"), cheap) == (Resumption(9, 30),)


def test_a_best_effort_job_does_not_go_on_where_another_starts() -> None:
    cheap = structs.replace(suspended(9, "1", 50, types="besteffort"), resuming=True)
    made = decide(snapshot_of((cheap, job(1, "/core=2", 10))))
    assert ([one.job for one in made.starts], made.resumed) == ([1], ())
    made = decide(snapshot_of((cheap, running(8, "1", 0, 30), job(1, "/core=1", 10))))
    assert ([one.job for one in made.starts], made.resumed) == ([1], ())
    made = decide(snapshot_of((cheap, running(8, "2", 0, 30), job(1, "/core=2", 10))))
    assert ([one.job for one in made.starts], made.resumed) == ([], (9,))


def test_a_best_effort_job_does_not_go_on_where_another_goes_on() -> None:
    cheap = structs.replace(suspended(8, "1", 50, types="besteffort"), resuming=True)
    other = structs.replace(suspended(9, "1-2", 50), resuming=True)
    assert decide(snapshot_of((cheap, other))).resumed == (9,)
    other = structs.replace(suspended(9, "2", 50), resuming=True)
    assert decide(snapshot_of((cheap, other))).resumed == (8, 9)


def test_a_best_effort_job_does_not_go_on_in_a_block_that_another_gets() -> None:
    cheap = structs.replace(suspended(9, "2", 50, types="besteffort"), resuming=True, levels=("network_address",))
    other = job(1, "/network_address=1/core=1", 10)
    made = decide(snapshot_of((cheap, other), exclusive_levels=("network_address",)))
    assert ([one.job for one in made.starts], made.resumed) == ([1], ())
    made = decide(snapshot_of((cheap, other)))
    assert ([one.job for one in made.starts], made.resumed) == ([1], (9,))


def test_an_inner_job_goes_on_inside_its_container_or_not_at_all() -> None:
    inner = suspended(9, "1", 50, types="inner=c")
    assert resumptions(inner, running(8, "1-2", 0, 60, types="container=c")) == (Resumption(9, 0),)
    assert resumptions(inner, running(8, "1-2", 0, 40, types="container=c")) == ()
    assert resumptions(inner) == ()


def test_quotas_hold_when_it_goes_on() -> None:
    rules = (QuotaRule(user="/", jobs=1),)
    assert resumptions(suspended(9, "1", 50), running(8, "2", 0, 30), quotas=rules) == (Resumption(9, 30),)


def test_it_keeps_its_memory() -> None:
    memory = (Consumable("memory", "network_address", {"n1": 4}),)
    kept = structs.replace(suspended(9, "1", 50), consumes=job(0, "/core=1,memory=3", 1).alternatives[0].consumes)
    small, large = job(1, "/core=1,memory=1", 10), job(2, "/core=1,memory=2", 10)
    made = plan(snapshot_of((kept, small, large), consumables=memory)).by_job()
    assert (made[1].start, made[2].start) == (0, 50)


def test_a_lost_resource_is_waited_for() -> None:
    broken = cluster("n1:2", {1: "Suspected"})
    snapshot = replace(snapshot_of(()), platform=broken, holding=(suspended(9, "1", 50, platform=broken),))
    assert resumed(snapshot, {9})[1] == ()


def test_who_holds_up_a_resuming_job_and_whom_it_holds_up() -> None:
    jobs: Jobs = (
        suspended(9, "1-2", 50),
        running(7, "1", 0, 30),
        running(8, "2", 0, 20),
        job(1, "/core=2", 10),
    )
    snapshot, (resumption,) = resumed(snapshot_of(jobs), {9})
    assert (resumption.start, held_up_by(snapshot, resumption)) == (30, [7])
    found = counterfactuals(snapshot, 1)
    assert (found.start, [(one.job, one.resources, one.until, one.running) for one in found.holders]) == (
        80,
        [(9, 2, 80, False)],
    )


def test_best_effort_jobs_that_are_cancelled_hold_it_up() -> None:
    snapshot, (resumption,) = resumed(
        snapshot_of((suspended(9, "1-2", 50), running(7, "1", 0, 30, types="besteffort"))), {9}
    )
    assert (resumption.start, held_up_by(snapshot, resumption)) == (0, [7])
