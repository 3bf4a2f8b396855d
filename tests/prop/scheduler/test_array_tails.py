"""A pass over the heads of arrays starts what a pass over all jobs does, or says that it cannot tell."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.cluster_state import array_tails
from oarpy.cluster_state.array_tails import ArrayTails, can_be_decided
from oarpy.scheduler.passes.starts_only import plan_starts
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.examples import examples
from tests.prop.scheduler.test_invariants import snapshots


@pytest.fixture(autouse=True, scope="module")
def _one_job_is_enough() -> object:
    patch = pytest.MonkeyPatch()
    patch.setattr(array_tails, "LEAST", 1)
    yield
    patch.undo()


@st.composite
def queues_with_arrays(draw: st.DrawFn) -> Snapshot:
    """Snapshots of which some jobs are repeated, as the members of arrays are."""
    snapshot = draw(snapshots())
    most = len(snapshot.platform.resources) + 1
    jobs: list[WaitingJob] = []
    for job in snapshot.waiting:
        times = draw(st.sampled_from((1, 1, most + 1, most + 3)))
        jobs += [structs.replace(job, id=len(jobs) + place, depends_on=()) for place in range(1, times + 1)]
    return replace(snapshot, waiting=tuple(jobs))


def _starts(made: Plan) -> list[tuple[int, int]]:
    return [(one.job, one.bits) for one in made.placements if one.verdict is Verdict.STARTS]


@given(queues_with_arrays())
@settings(max_examples=examples(60), deadline=None)
def test_heads_start_as_all_would(snapshot: Snapshot) -> None:
    tails = ArrayTails()
    tails.renew(snapshot, whole=True)
    runs = tails.runs()
    left = tuple(job for job in snapshot.waiting if not any(first <= job.id <= last for first, last in runs))
    assert len(left) + tails.jobs == len(snapshot.waiting)
    heads = replace(snapshot, waiting=left, heads=bool(runs))
    if not runs or not can_be_decided(heads):
        return
    made = plan_starts(heads)
    event(f"told by the heads: {tails.are_behind(made)}")
    if tails.are_behind(made):
        full = plan(snapshot)
        assert _starts(made) == _starts(full)
        assert made.kill == full.kill


@given(queues_with_arrays(), st.data())
@settings(max_examples=examples(50), deadline=None)
def test_heads_stay_as_long_as_jobs_start(snapshot: Snapshot, data: st.DataObject) -> None:
    tails = ArrayTails()
    tails.renew(snapshot, whole=True)
    tails.runs()
    waiting = {job.id for job in snapshot.waiting}
    read = waiting - {number for first, last in tails.runs() for number in range(first, last + 1)}
    started = data.draw(st.sets(st.sampled_from(sorted(read)), max_size=len(read))) if read else set()
    tails.started(started)
    left_out = {number for first, last in tails.runs() for number in range(first, last + 1)}
    assert len(left_out) == tails.jobs
    assert left_out <= waiting - read
