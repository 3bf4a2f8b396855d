"""Passes by predictions: what is promised is safe, and what starts may use its walltime."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.predictors.predicted_pass import PredictedStep
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Outage, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

PLATFORM = Platform.build([Resource(number, properties={"core": number}) for number in (1, 2)], hierarchy=["core"])


def waits(number: int, cores: int, walltime: float) -> WaitingJob:
    ways = (Alternative(parse_request(f"/core={cores}").groups, walltime),)
    return WaitingJob(number, "ann", alternatives=ways, submitted=number)


def snapshot(*waiting: WaitingJob, runs: dict[int, float], holding: tuple[HoldingJob, ...] = ()) -> Snapshot:
    return Snapshot(0, PLATFORM, waiting=waiting, holding=holding, step=PredictedStep(runs))


def starts(asked: Snapshot) -> dict[int, float | None]:
    return {one.job: one.start for one in decide(asked).plan.placements}


def test_jobs_wait_until_the_predicted_ends_of_others() -> None:
    running = HoldingJob(9, "bob", 0, 1000, (1, 2))
    asked = snapshot(waits(1, 2, 500), waits(2, 1, 300), runs={9: 60, 1: 50}, holding=(running,))
    assert starts(asked) == {1: 60, 2: 110}
    assert starts(replace(asked, step=None)) == {1: 1000, 2: 1500}


def test_what_starts_has_its_whole_walltime() -> None:
    decided = decide(snapshot(waits(1, 1, 500), runs={1: 50}))
    assert [(start.job, start.walltime) for start in decided.starts] == [(1, 500)]


def test_no_walltime_runs_into_what_is_promised() -> None:
    dated = structs.replace(waits(8, 1, 100), reservation=200)
    promised = (HoldingJob(8, "bob", 200, 100, (1,)),)
    asked = replace(
        snapshot(waits(1, 1, 500), waits(2, 1, 500), waits(3, 1, 150), runs={1: 50, 2: 50, 3: 50}, holding=promised),
        reservations=(Reservation(dated, 200, 100, (1,)),),
    )
    placed = decide(asked).plan.by_job()
    assert (placed[1].start, placed[1].resources) == (0, [2])
    walltimes = {1: 500, 2: 500, 3: 150}
    on_promised = [(one.job, one.start or 0) for one in placed.values() if one.resources == [1]]
    assert all(start >= 300 or start + walltimes[job] <= 200 for job, start in on_promised)
    assert len(placed) == 3
    whole = replace(asked, reservations=(), holding=(), outages=(Outage(200, 0b11, 300),))
    assert all(start is not None and (start >= 300 or job == 3) for job, start in starts(whole).items())


def test_a_pass_that_answers_a_reservation_goes_by_walltimes() -> None:
    running = HoldingJob(9, "bob", 0, 1000, (1, 2))
    dated = structs.replace(waits(1, 2, 100), reservation=500)
    asked = snapshot(dated, waits(2, 2, 100), runs={9: 60, 2: 50}, holding=(running,))
    placed = decide(asked).plan.by_job()
    assert (placed[1].verdict is Verdict.RESERVED, placed[2].start) == (False, 1000)
