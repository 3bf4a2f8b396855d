"""Walltimes of jobs whose processes are mapped, and their places: placed again until they agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oarpy.model.plugins import PluginFailed
from oarpy.model.reasons import NO_REASON
from oarpy.model.request import Group, Level
from oarpy.processes import models
from oarpy.processes.mapping import ProcessMap, Program
from oarpy.scheduler.decide import decide
from oarpy.scheduler.fitting import Placed
from oarpy.scheduler.mapped_jobs import FittedJobs, Fitter, MappedJob, MappedJobs
from oarpy.scheduler.memory import Memory
from oarpy.scheduler.plan import Placement, Plan
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

# core 1 and 2 are fast, 3 and 4 slow: four times
PLATFORM = Platform.build(
    Resource(number, properties={"network_address": f"n{number}", "kind": "fast" if number < 3 else "slow"})
    for number in range(1, 5)
)
RATES = {"fast": {"a": 1.0}, "slow": {"a": 0.25}}
JOB = MappedJob(Program(2, 100), "sync", RATES, 2, None, 440)
"""Two processes of 100 s on fast cores, 400 s on slow ones."""


def waiting(number: int, walltime: float = 440) -> WaitingJob:
    return WaitingJob(number, "ann", alternatives=(Alternative((Group((Level("resource_id", 2),)),), walltime),))


def snapshot_of(*jobs: WaitingJob, holding: tuple[HoldingJob, ...] = (), step: MappedJobs | None = None) -> Snapshot:
    return Snapshot(now=0, platform=PLATFORM, waiting=jobs, holding=holding, fitting=step)


def step_for(**jobs: MappedJob) -> MappedJobs:
    numbered = {int(name[1:]): job for name, job in jobs.items()}
    return MappedJobs(numbered, PLATFORM.blocks("kind"), Fitter(10))


def placing(*places: int) -> tuple[Callable[[Snapshot], Placed], list[float]]:
    """Put job 1 on these sets of resources, one after the other, the last for ever; also the walltimes that it had."""
    left, walltimes = list(places), []

    def place(snapshot: Snapshot) -> Placed:
        walltime = snapshot.waiting[0].alternatives[0].walltime
        walltimes.append(walltime)
        bits = left.pop(0) if len(left) > 1 else left[0]
        one = Placement(1, Verdict.STARTS, NO_REASON, PLATFORM, 0, 0, walltime, bits)
        return (Plan((one,), (), 1), None)

    return place, walltimes


FAST, SLOW = 0b0011, 0b1100


def fitted(job: MappedJob, *places: int) -> tuple[FittedJobs, list[float]]:
    place, walltimes = placing(*places)
    _, found = step_for(j1=job).fitted(snapshot_of(waiting(1, job.walltime)), place)
    return found, walltimes


def test_a_job_is_placed_again_with_the_walltime_of_its_place() -> None:
    found, walltimes = fitted(JOB, FAST)
    assert walltimes == [440, 110]
    assert (found.fits[1].walltime, dict(found.fits[1].cores)) == (110, {"fast": 2})


def test_what_was_settled_is_placed_once_and_tells_nothing_new() -> None:
    found, walltimes = fitted(replace(JOB, settled={"fast": 2}, walltime=110), FAST)
    assert (walltimes, found.fits) == ([110], {})


def test_the_longest_walltime_stands_where_a_job_does_not_come_to_rest() -> None:
    found, walltimes = fitted(JOB, FAST, SLOW, FAST, SLOW, FAST, FAST)
    assert walltimes == [440, 110, 440, 110, 440, 440]
    assert (found.fits[1].walltime, dict(found.fits[1].cores)) == (440, {"fast": 2})


def test_no_walltime_is_too_short_for_the_last_place() -> None:
    one, mixed = 0b0001, 0b0110
    found, walltimes = fitted(replace(JOB, walltime=60), FAST, one, FAST, one, FAST, mixed)
    assert walltimes == [60, 110, 220, 110, 220, 220, 440]
    assert (found.fits[1].walltime, dict(found.fits[1].cores)) == (440, {"fast": 1, "slow": 1})


def test_a_job_that_finds_slower_nodes_each_time_is_placed_a_bounded_number_of_times() -> None:
    kinds = [f"k{number:03}" for number in range(200)]
    platform = Platform.build(
        Resource(number, properties={"network_address": kind, "kind": kind}) for number, kind in enumerate(kinds, 1)
    )
    rates = {kind: {"a": 1 / (1 + number / 100)} for number, kind in enumerate(kinds)}
    job = MappedJob(Program(1, 100), "sync", rates, 1, None, 110)
    place, walltimes = placing(*(1 << number for number in range(1, 200)))
    _, found = MappedJobs({1: job}, platform.blocks("kind"), Fitter(10)).fitted(snapshot_of(waiting(1, 110)), place)
    assert len(walltimes) <= 3 * models.ROUNDS
    assert walltimes[-1] >= 110 * (1 + len(walltimes) / 100)
    assert found.fits[1].walltime == walltimes[-1]


def test_the_least_walltime_is_a_minute() -> None:
    found, _ = fitted(replace(JOB, program=Program(2, 1)), FAST)
    assert found.fits[1].walltime == 60


def test_a_failing_plug_in_is_told_and_the_usual_model_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    def plugin(_: str, name: str) -> Callable[..., ProcessMap]:
        raise PluginFailed(f"plug-in '{name}' raised")

    monkeypatch.setattr(models, "plugin", plugin)
    found, _ = fitted(replace(JOB, model="own"), FAST)
    assert (found.fits[1].walltime, found.faults) == (110, ("plug-in 'own' raised",))


def test_a_job_moves_to_faster_nodes_when_they_become_free_and_gets_less() -> None:
    fast = HoldingJob(8, "bob", 0, 1000, resources=(1, 2))
    slow = HoldingJob(9, "bob", 0, 300, resources=(3, 4))
    first = decide(snapshot_of(waiting(1), holding=(fast, slow), step=step_for(j1=JOB)))
    (place,) = first.plan.placements
    assert (place.start, place.end, place.resources) == (300, 740, [3, 4])
    settled = replace(JOB, settled={"slow": 2}, walltime=440)
    second = decide(snapshot_of(waiting(1), holding=(slow,), step=step_for(j1=settled)))
    (place,) = second.plan.placements
    assert (place.start, place.end, place.resources) == (0, 110, [1, 2])
    assert [(start.job, start.walltime) for start in second.starts] == [(1, 110)]


def test_a_pass_goes_on_from_the_last_one_where_nothing_changed() -> None:
    memory = Memory(lambda: 0.0)
    busy = (HoldingJob(9, "bob", 0, 300, resources=(1, 2, 3, 4)),)
    settled = replace(JOB, settled={"fast": 2}, walltime=110)
    snapshot = snapshot_of(waiting(1, 110), holding=busy, step=step_for(j1=settled))
    first = decide(snapshot, memory)
    again = decide(replace(snapshot, fitting=step_for(j1=settled)), memory)
    assert again.plan == first.plan
    assert memory._planning.full_passes == 1
