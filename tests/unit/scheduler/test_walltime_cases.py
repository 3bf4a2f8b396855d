"""Running jobs that get more time, or less; 9 is the job that asks."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from oarpy.model.dependency import Dependency
from oarpy.scheduler.plan import plan
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.rules.walltime_changes import WalltimeChange, grants
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Snapshot, WaitingJob
from tests.harness.scheduling_cases import cluster, job, running

TWO = cluster("n1:2")
Jobs = tuple[WaitingJob | HoldingJob, ...]
DELAYING = {"delay_next_jobs": True}


def granted(jobs: Jobs, asked: int, options: dict[str, bool] | None = None, **rest: Any) -> int:
    """Return what job 9 gets of ``asked`` seconds."""
    snapshot = Snapshot(
        now=rest.pop("now", 0),
        platform=TWO,
        holding=tuple(one for one in jobs if isinstance(one, HoldingJob)),
        waiting=tuple(one for one in jobs if isinstance(one, WaitingJob)),
        **rest,
    )
    return grants(snapshot, plan(snapshot), [WalltimeChange(9, asked, **(options or {}))], plan).get(9, 0)


def test_a_job_grows_up_to_the_next_one_on_its_resources() -> None:
    jobs = running(9, "1", 0, 20), running(8, "2", 0, 50), job(1, "/core=2", 20)
    assert granted(jobs, 100, {"whole": True}) == 0
    assert granted(jobs, 30, {"whole": True}) == 30
    assert granted(jobs, 100, security_time=5) == 30


def test_next_jobs_may_be_delayed_when_that_is_asked() -> None:
    jobs = running(9, "1", 0, 20), running(8, "2", 0, 20), job(1, "/core=2", 20)
    assert granted(jobs, 30) == 0
    assert granted(jobs, 30, DELAYING) == 30


def test_what_starts_in_the_same_pass_is_not_delayed() -> None:
    jobs = running(9, "1", 0, 20), job(1, "/core=1", 20, after=(Dependency(8),))
    assert granted(jobs, 30, DELAYING, outcomes={8: "ok"}) == 30
    new = running(9, "1", 0, 20), job(1, "/core=2", 20, reservation=40)
    assert granted(new, 30, DELAYING) == 20


def test_a_shorter_job_does_not_end_in_the_past() -> None:
    old = running(9, "1-2", -50, 60), job(1, "/core=2", 20)
    assert granted(old, -30) == -10


def test_best_effort_jobs_give_way_and_grow_no_further_than_others_let_them() -> None:
    cheap = running(9, "1", 0, 20), job(1, "/core=1", 20, types="besteffort"), running(8, "2", 0, 90)
    assert granted(cheap, 50) == 50
    guest = running(9, "1", 0, 20, types="besteffort"), running(8, "2", 0, 40), job(1, "/core=2", 20)
    assert granted(guest, 50) == 20


def test_an_inner_job_ends_with_its_container() -> None:
    inside = running(8, "1-2", 0, 60, types="container=c"), running(9, "1", 0, 20, types="inner=c")
    assert granted(inside, 90) == 40
    container = running(9, "1-2", 0, 60, types="container=c"), running(8, "1", 0, 20, types="inner=c")
    assert granted(container, 90) == 90


def test_jobs_that_share_do_not_stop_each_other() -> None:
    shared = "timesharing=*,*"
    jobs = running(9, "1", 0, 20, types=shared), job(1, "/core=2", 20, types=shared), running(8, "2", 0, 20)
    assert granted(jobs, 50) == 50


def test_quotas_count_the_longer_job_and_whom_it_would_keep_waiting() -> None:
    jobs = running(9, "1", 0, 20), job(1, "/core=1", 20)
    one_each = (QuotaRule(user="/", jobs=1),)
    assert granted(jobs, 50) == 50
    assert granted(jobs, 50, quotas=one_each) == 0
    others = running(9, "1", 0, 20), job(1, "/core=1", 20, user="bob")
    assert granted(others, 50, quotas=one_each) == 50
    hours = (QuotaRule(user="/", resource_hours=0.01),)
    assert granted((running(9, "1", 0, 20),), 50, quotas=hours) == 16


def test_who_waits_for_the_end_of_the_job_counts_unless_it_is_ones_own() -> None:
    theirs = running(9, "1", 0, 20), job(1, "/core=1", 20, after=(9,), user="bob")
    assert granted(theirs, 50) == 0
    own = running(9, "1", 0, 20), job(1, "/core=1", 20, after=(9,))
    assert granted(own, 50) == 50


def test_amounts_bound_a_job_on_resources_that_nobody_wants() -> None:
    memory = (Consumable("memory", "network_address", {"n1": 4}),)
    first = structs.replace(running(9, "1", 0, 20), consumes=job(0, "/core=1,memory=3", 1).alternatives[0].consumes)
    jobs = first, running(8, "2", 0, 40), job(1, "/core=1,memory=2", 20)
    assert granted(jobs, 50, consumables=memory) == 0
    later = first, running(8, "2", 0, 40), job(1, "/core=2,memory=2", 20)
    assert granted(later, 50, consumables=memory) == 20


def test_a_deadline_bounds_its_own_job() -> None:
    jobs: Jobs = (structs.replace(running(9, "1", 1_800_000_000, 20), types=("deadline=1800000050",)),)
    assert granted(jobs, 90, now=1_800_000_000) == 30
