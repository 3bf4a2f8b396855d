"""When a plan is made from the last one, and when anew. That both are equal is shown by properties."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job, running

PLATFORM = cluster("n1:2 n2:2")
QUEUE = (job(1, "/nodes=2", 50), job(2, "/nodes=1", 50), job(3, "/core=1", 50))


def planned_once(*jobs: WaitingJob, **rest: object) -> tuple[Planning, Snapshot, Plan]:
    snapshot = replace(Snapshot(now=0, platform=PLATFORM, waiting=jobs or QUEUE), **rest)  # type: ignore[arg-type]
    planning = Planning()
    return planning, snapshot, planning.plan(snapshot)


def begun(snapshot: Snapshot, made: Plan) -> Snapshot:
    """Let what starts hold its resources."""
    starts = {one.job: one for one in made.placements if one.verdict is Verdict.STARTS}
    holding = tuple(
        HoldingJob(one.job, "ann", one.start or 0, (one.end or 0) - (one.start or 0), tuple(one.resources))
        for one in starts.values()
    )
    waiting = tuple(job for job in snapshot.waiting if job.id not in starts)
    return replace(snapshot, holding=(*snapshot.holding, *holding), waiting=waiting)


def passes(planning: Planning, snapshot: Snapshot) -> int:
    """Plan ``snapshot`` and return how many full passes that took."""
    before = planning.full_passes
    assert planning.plan(snapshot) == plan(snapshot)
    return planning.full_passes - before


def test_one_more_job_takes_no_full_pass() -> None:
    planning, snapshot, _ = planned_once()
    assert passes(planning, replace(snapshot, waiting=(*QUEUE, job(4, "/core=1", 10)))) == 0


def test_a_refused_reservation_takes_one_and_its_end_none() -> None:
    planning, snapshot, _ = planned_once()
    asking = structs.replace(job(4, "/nodes=2", 10), reservation=20)
    assert passes(planning, replace(snapshot, waiting=(*QUEUE, asking), holding=(running(9, "1-4", 0, 30),))) == 1
    more = replace(snapshot, waiting=(*QUEUE, job(5, "/core=1", 10)), holding=(running(9, "1-4", 0, 30),))
    assert passes(planning, more) == 0
    assert passes(planning, replace(more, waiting=(*QUEUE[:2], more.waiting[-1]))) == 1


def test_a_job_with_a_condition_of_its_own_is_explained_as_by_a_full_pass() -> None:
    platform = cluster("n1:2 n2:2", states={4: "Absent"})
    planning, snapshot, _ = planned_once(platform=platform)
    new = job(4, "{core > 2}/core=2", 10), job(5, "{core > 4}/core=1", 10)
    filters = {"core > 2": platform.bits_of((3, 4)), "core > 4": 0}
    assert passes(planning, replace(snapshot, waiting=(*QUEUE, *new), filters=filters)) == 0
    found = planning.plan(replace(snapshot, waiting=(*QUEUE, *new), filters=filters)).by_job()
    assert (found[4].verdict, found[5].verdict) == (Verdict.RESOURCES_DOWN, Verdict.NEVER)
    assert str(found[5].reason) == "no resource where core > 4"


def test_jobs_that_started_as_planned_take_none_nor_does_a_clock_that_moves_on() -> None:
    planning, snapshot, made = planned_once()
    started = begun(snapshot, made)
    assert [one.id for one in started.holding] == [1]
    assert passes(planning, started) == 0
    assert passes(planning, replace(started, now=7)) == 0
    more = replace(started, now=20, waiting=(*started.waiting, job(4, "/core=1", 10)))
    assert passes(planning, more) == 0


def test_the_date_of_a_predicted_start_takes_none_when_it_was_kept() -> None:
    planning, snapshot, _ = planned_once(holding=(running(9, "1-4", -10, 30),), security_time=5)
    assert passes(planning, replace(snapshot, now=25, holding=())) == 0
    planning, snapshot, _ = planned_once(holding=(running(9, "1-4", -10, 30),), security_time=5)
    assert passes(planning, replace(snapshot, now=24, holding=())) == 1


def test_half_of_what_is_free_is_counted_anew_once_jobs_behind_hold_some_of_it() -> None:
    jobs = (job(1, "/core=3", 20), job(2, "/core=BESTHALF", 20, after=(1,)), job(3, "/core=1", 40))
    planning, snapshot, made = planned_once(*jobs)
    assert [one.resources for one in made.placements] == [[1, 2, 3], [1, 2], [4]]
    started = begun(snapshot, made)
    assert passes(planning, started) == 1
    assert plan(started).by_job()[2].resources == [1]


def test_an_end_before_its_time_takes_a_full_pass() -> None:
    planning, snapshot, made = planned_once()
    started = begun(snapshot, made)
    planning.plan(started)
    assert passes(planning, replace(started, now=10, holding=())) == 1


def test_a_job_that_overtakes_takes_a_full_pass() -> None:
    queue = tuple(structs.replace(one, submitted=5) for one in QUEUE)
    planning, snapshot, _ = planned_once(*queue)
    assert passes(planning, replace(snapshot, waiting=(*queue, job(4, "/core=1", 10)))) == 1


def test_a_start_that_has_gone_by_takes_a_full_pass() -> None:
    planning, snapshot, made = planned_once()
    started = begun(snapshot, made)
    planning.plan(started)
    late = structs.replace(started.holding[0], walltime=60)
    assert passes(planning, replace(started, now=51, holding=(late,))) == 1


def test_with_quotas_only_a_clock_that_stands_takes_none() -> None:
    planning, snapshot, _ = planned_once(quotas=(QuotaRule(user="/", jobs=1),))
    more = replace(snapshot, waiting=(*QUEUE, job(4, "/core=1", 10)))
    assert passes(planning, more) == 0
    assert passes(planning, replace(more, now=1)) == 1


def test_a_new_job_behind_best_effort_jobs_takes_a_full_pass_a_best_effort_one_does_not() -> None:
    planning, snapshot, _ = planned_once(*QUEUE, job(4, "/core=1", 10, types="besteffort"))
    more = replace(snapshot, waiting=(*snapshot.waiting, job(5, "/core=1", 10, types="besteffort")))
    assert passes(planning, more) == 0
    assert passes(planning, replace(more, waiting=(*more.waiting, job(6, "/core=1", 10)))) == 1


def test_a_platform_that_changes_takes_a_full_pass() -> None:
    planning, snapshot, _ = planned_once()
    assert passes(planning, replace(snapshot, platform=cluster("n1:2 n2:2", {1: "Suspected"}))) == 1


def test_compression_keeps_a_promise_that_planning_anew_would_break() -> None:
    platform = cluster("n1:3")
    queue = (job(1, "/core=3", 20), job(2, "/core=2", 30))
    snapshot = Snapshot(
        now=0,
        platform=platform,
        waiting=queue,
        holding=(running(7, "1", 0, 40), running(8, "2", 0, 10), running(9, "3", 0, 10)),
    )
    planning = Planning(compression=True)
    assert [one.start for one in planning.plan(snapshot).placements] == [40, 10]
    early = replace(snapshot, now=5, holding=snapshot.holding[1:])
    assert [one.start for one in plan(early).placements] == [10, 30]
    assert [one.start for one in planning.plan(early).placements] == [40, 10]
    assert planning.full_passes == 1


def test_compression_moves_jobs_forward() -> None:
    planning = Planning(compression=True)
    holding = (running(8, "1-2", 0, 100), running(9, "3-4", 0, 50))
    snapshot = Snapshot(now=0, platform=PLATFORM, waiting=(job(1, "/nodes=2", 50), job(2, "/nodes=1", 40)))
    made = planning.plan(replace(snapshot, holding=holding))
    assert [one.start for one in made.placements] == [100, 50]
    made = planning.plan(replace(snapshot, now=20, holding=holding[1:]))
    # in a first round job 2 still has its old place, from 50 to 90, when job 1 is moved
    assert [(one.start, one.resources) for one in made.placements] == [(60, [1, 2, 3, 4]), (20, [1, 2])]
