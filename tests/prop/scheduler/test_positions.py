"""The place of a job that is shown is its place in the pass, whoever else is in line."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.scheduler.explain.queue_position import standing
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.passes.planner import Planner
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob
from tests.harness.examples import examples
from tests.harness.scheduling_cases import cluster, job

PLATFORM = cluster("n1:4 n2:4")
INSTANTS = st.integers(0, 5)


@st.composite
def waiting_jobs(draw: st.DrawFn, number: int) -> WaitingJob:
    """Draw a job; one that is ranked is an application in line."""
    return job(
        number,
        draw(st.sampled_from(["/core=1", "/core=4", "/nodes=1"])),
        draw(st.sampled_from([10, 20])),
        user=draw(st.sampled_from(["ann", "bob"])),
        queue=draw(st.sampled_from(["default", "other", "gone", "low"])),
        types=draw(st.sampled_from(["", "", "besteffort"])),
        submitted=draw(INSTANTS),
        ranked=draw(st.none() | INSTANTS),
        nice=draw(st.sampled_from([0, 0, 1, 1000])),
        held=draw(st.sampled_from([False, False, False, True])),
        reservation=draw(st.sampled_from([None, None, None, 30])),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Draw two queues that are planned together, of which an order may fail, and one behind them."""
    order = st.sampled_from([*ORDERS, "fifo/3", "odd"])
    queues = (Queue("default", 3, draw(order)), Queue("other", 3, draw(order)), Queue("low", 1, draw(order)))
    jobs = tuple(draw(waiting_jobs(number)) for number in range(1, draw(st.integers(1, 9)) + 1))
    return Snapshot(now=6, platform=PLATFORM, queues=queues, waiting=jobs)


def places(snapshot: Snapshot) -> dict[int, int]:
    """Return the places in which a pass looks at the jobs that are not held, by stage."""
    planner = Planner(snapshot, ORDERS, None)
    for turn in planner.turns():
        planner.look_at(turn)
    able = [[job.id for job in stage.jobs if not job.held] for stage in planner.begun]
    return {number: place for stage in able for place, number in enumerate(stage, 1)}


def shown(snapshot: Snapshot) -> dict[int, int]:
    """Return the places that are shown of those jobs."""
    found = {job.id: standing(snapshot, job.id) for job in snapshot.waiting if not job.held}
    return {number: one.place for number, one in found.items() if one is not None and one.place is not None}


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_a_job_is_shown_the_place_that_it_has_in_the_pass(snapshot: Snapshot) -> None:
    assert shown(snapshot) == places(snapshot)


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_nice_jobs_change_places_with_jobs_of_their_user_alone(snapshot: Snapshot) -> None:
    plain = replace(snapshot, waiting=tuple(structs.replace(one, nice=0) for one in snapshot.waiting))
    jobs = {one.id: one for one in snapshot.waiting}
    planner, equal = Planner(snapshot, ORDERS, None), Planner(plain, ORDERS, None)
    for one in (planner, equal):
        for turn in one.turns():
            one.look_at(turn)
    for stage, before in zip(planner.begun, equal.begun, strict=True):
        assert [one.user for one in stage.jobs] == [one.user for one in before.jobs]
        for user in ("ann", "bob"):
            mine = [one for one in stage.jobs if one.user == user and one.ranked is None]
            assert [one.nice for one in mine] == sorted(one.nice for one in mine)
        moved = [(one.id, other.id) for one, other in zip(stage.jobs, before.jobs, strict=True) if one.id != other.id]
        assert all(jobs[one].ranked is None and jobs[other].ranked is None for one, other in moved)


def test_a_nice_job_waits_behind_the_later_ones_of_its_user() -> None:
    first, later = job(1, "/core=1", 10, submitted=0, nice=5), job(2, "/core=1", 10, submitted=2)
    bob = job(3, "/core=1", 10, user="bob", submitted=1)
    assert places(Snapshot(now=6, platform=PLATFORM, waiting=(first, later, bob))) == {2: 1, 3: 2, 1: 3}


def test_an_application_is_shown_behind_the_jobs_that_came_before_it_asked() -> None:
    """It was submitted first, and asked last."""
    application = job(1, "/core=1", 10, submitted=0, ranked=5)
    others = job(2, "/core=1", 10, submitted=1), job(3, "/core=1", 10, submitted=2)
    snapshot = Snapshot(now=6, platform=PLATFORM, waiting=(application, *others))
    assert places(snapshot) == {2: 1, 3: 2, 1: 3}
    assert shown(snapshot) == {2: 1, 3: 2, 1: 3}
