"""Under compression an early completion never makes a prediction later, and nothing is held twice."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.snapshot import HoldingJob, Snapshot
from oarpy.scheduler.verdicts import Verdict
from tests.harness.examples import examples
from tests.prop.scheduler.test_invariants import PLATFORM, snapshots


def begun(snapshot: Snapshot, made: Plan) -> Snapshot:
    """Let what starts hold its resources."""
    starts = {one.job: one for one in made.placements if one.verdict is Verdict.STARTS}
    holding = tuple(
        HoldingJob(one.job, "ann", one.start, one.end - one.start, tuple(one.resources))
        for one in starts.values()
        if one.start is not None and one.end is not None
    )
    waiting = tuple(job for job in snapshot.waiting if job.id not in starts)
    return replace(snapshot, holding=(*snapshot.holding, *holding), waiting=waiting)


def assert_nothing_is_held_twice(snapshot: Snapshot, made: Plan) -> None:
    held = [(job.start, job.end, PLATFORM.bits_of(job.resources)) for job in snapshot.holding if job.end > snapshot.now]
    held += [(one.start, one.end, one.bits) for one in made.placements if one.start is not None and one.end is not None]
    for (begin, end, bits), (other_begin, other_end, other_bits) in combinations(held, 2):
        security = snapshot.security_time
        assert not (bits & other_bits and begin < other_end + security and other_begin < end + security)


def assert_nobody_is_later(before: Plan, after: Plan) -> None:
    """A job with one request starts no later; one with several ends no later."""
    places = before.by_job()
    for one in after.placements:
        old = places.get(one.job)
        if old is not None and old.end is not None:
            assert one.end is not None
            assert one.end <= old.end


@given(st.data())
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_early_completion_never_makes_a_prediction_later(data: st.DataObject) -> None:
    snapshot = data.draw(snapshots())
    # accepted reservations and jobs that overlap are not what ends early here
    disjoint = tuple(structs.replace(job, start=min(job.start, 0)) for job in snapshot.holding)
    queue = snapshot.waiting
    snapshot = replace(snapshot, holding=disjoint, waiting=queue[: len(queue) // 2 + 1])
    planning = Planning(compression=True)
    made = planning.plan(snapshot)
    for _ in range(data.draw(st.integers(1, 6))):
        snapshot = begun(snapshot, made)
        made = planning.plan(snapshot)
        later = [one.start for one in made.placements if one.start is not None and one.start > snapshot.now]
        most = int(min([*later, *(job.end for job in snapshot.holding if job.end > snapshot.now), snapshot.now + 10]))
        now = data.draw(st.integers(int(snapshot.now), most))
        ending = data.draw(st.sets(st.sampled_from(sorted(job.id for job in snapshot.holding) or [0]), max_size=3))
        gone = data.draw(st.sets(st.sampled_from(sorted(job.id for job in snapshot.waiting) or [0]), max_size=1))
        snapshot = replace(
            snapshot,
            now=now,
            holding=tuple(job for job in snapshot.holding if job.id not in ending),
            waiting=tuple(job for job in snapshot.waiting if job.id not in gone),
        )
        count = planning.full_passes
        after = planning.plan(snapshot)
        assert_nothing_is_held_twice(snapshot, after)
        if planning.full_passes == count:
            assert_nobody_is_later(made, after)
        else:
            # nobody waited, or what is over its time still holds resources
            assert not made.placements or any(job.end <= now for job in snapshot.holding)
        known = {job.id for job in snapshot.waiting} | {job.id for job in snapshot.holding} | gone | ending
        snapshot = replace(snapshot, waiting=(*snapshot.waiting, *(job for job in queue[-1:] if job.id not in known)))
        made = planning.plan(snapshot)
        assert_nothing_is_held_twice(snapshot, made)


@given(snapshots())
@settings(max_examples=examples(60), deadline=None)
def test_without_early_ends_it_is_the_plan(snapshot: Snapshot) -> None:
    assert Planning(compression=True).plan(snapshot) == plan(snapshot)
