"""What other jobs have to do with the members of arrays that a pass leaves out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oarpy.cluster_state import array_tails
from oarpy.cluster_state.array_tails import ArrayTails, can_be_decided
from oarpy.cluster_state.pass_limits import PassLimits
from oarpy.configuration import SchedulerSettings
from oarpy.model.dependency import Dependency
from oarpy.model.request import parse_request
from oarpy.scheduler.decide import decide
from oarpy.scheduler.passes.starts_only import plan_starts
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.snapshot import Alternative, HoldingJob, PassShare, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict

PLATFORM = Platform.build(Resource(n + 1, properties={"network_address": 0, "cpu": 0, "core": n}) for n in range(4))
RUNNING = HoldingJob(100, "eve", -5, 15, (1, 2))
"""It has two of four cores until 10."""


@pytest.fixture(autouse=True)
def _one_job_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_tails, "LEAST", 1)


def _way(cores: int, walltime: int) -> tuple[Alternative, ...]:
    return (Alternative(parse_request(f"/core={cores}").groups, walltime),)


def _array(first: int, size: int, cores: int, *, nice: int = 0) -> list[WaitingJob]:
    ways = _way(cores, 10)
    return [WaitingJob(first + n, "ann", alternatives=ways, submitted=first, nice=nice) for n in range(size)]


def _heads(*jobs: WaitingJob) -> tuple[Snapshot, Snapshot, ArrayTails]:
    """Return all jobs, those that are not left out, and who left them out."""
    everything = Snapshot(now=0, platform=PLATFORM, waiting=jobs, holding=(RUNNING,))
    tails = ArrayTails()
    tails.renew(everything, whole=True)
    runs = tails.runs()
    left = tuple(job for job in jobs if not any(first <= job.id <= last for first, last in runs))
    return everything, replace(everything, waiting=left, heads=bool(runs)), tails


def _starts(made: Plan) -> list[int]:
    return [one.job for one in made.placements if one.verdict is Verdict.STARTS]


@pytest.mark.parametrize("outcome", ["any", "ok", "notok"])
def test_what_depends_on_a_job_that_is_left_out_waits_for_it(outcome: str) -> None:
    dependant = WaitingJob(1, "bob", alternatives=_way(1, 5), depends_on=(Dependency(13, outcome),))  # type: ignore[arg-type]
    everything, heads, tails = _heads(dependant, *_array(2, 12, 3))
    assert 13 not in {job.id for job in heads.waiting}
    made = plan_starts(heads)
    assert can_be_decided(heads)
    assert tails.are_behind(made)
    assert _starts(made) == _starts(plan(everything)) == []
    assert 1 in made.unseen


def test_a_reservation_that_depends_on_a_job_that_is_left_out_waits_for_it() -> None:
    reserved = WaitingJob(1, "bob", alternatives=_way(1, 50), reservation=0, depends_on=(Dependency(13),))
    _, heads, _ = _heads(*_array(2, 12, 3))
    decided = decide(replace(heads, reservations=(Reservation(reserved, 0, 50, (4,)),)))
    assert decided.starts == ()
    assert "job 13" in str(decided.awaiting[1])


def test_jobs_of_a_user_that_change_places_are_all_looked_at() -> None:
    """Behind the nicer array a small job would start at once, if eight others had not come before the array."""
    small = WaitingJob(20, "bob", alternatives=_way(1, 95), submitted=20)
    others = [WaitingJob(n, "ann", alternatives=_way(3, 10), submitted=n) for n in range(21, 29)]
    everything, heads, tails = _heads(*_array(1, 12, 4, nice=5), small, *others)
    made = plan_starts(heads)
    assert tails.are_behind(made)
    assert (_starts(made), _starts(plan(everything))) == ([20], [])
    assert not can_be_decided(heads)
    assert can_be_decided(replace(heads, waiting=tuple(_array(1, 5, 4, nice=5))))


def test_heads_that_fit_into_a_limited_pass_start_what_one_without_limits_would() -> None:
    limits = PassLimits(SchedulerSettings(jobs_per_pass=8))
    everything, heads, tails = _heads(*_array(1, 12, 1))
    assert limits.current(everything.waiting) != limits.current(heads.waiting) == PassShare()
    assert can_be_decided(heads)
    made = plan_starts(heads)
    assert tails.are_behind(made)
    assert _starts(made) == _starts(plan(everything)) == [1, 2]


def test_heads_that_do_not_fit_into_a_pass_decide_nothing() -> None:
    _, heads, _ = _heads(*_array(1, 12, 4), *_array(21, 12, 4))
    limited = PassLimits(SchedulerSettings(jobs_per_pass=8)).current(heads.waiting)
    assert not can_be_decided(replace(heads, ration=limited))
