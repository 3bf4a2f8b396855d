"""Accepted reservations: two never share, whatever dies; best-effort jobs live as long as they were promised."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from oarpy.model.request import Consumption, parse_request
from oarpy.scheduler.plan import plan
from oarpy.scheduler.resources.consumables import Consumable
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservation_repair import moved, shifted
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from tests.harness.examples import examples

NODES, CORES, SECURITY = 5, 2, 1
requests = st.sampled_from(["/nodes=1", "/nodes=2", "/core=1", "/core=3", "/nodes=2/core=1", "/nodes=ALL"])


def platform(dead: frozenset[int] = frozenset()) -> Platform:
    return Platform.build(
        Resource(
            n + 1,
            state="Suspected" if n // CORES in dead else "Alive",
            properties={"network_address": n // CORES, "core": n},
        )
        for n in range(NODES * CORES)
    )


@st.composite
def asked(draw: st.DrawFn) -> list[WaitingJob]:
    """Return new reservations."""
    return [
        WaitingJob(
            number,
            draw(st.sampled_from(["ann", "bob"])),
            alternatives=(Alternative(parse_request(draw(requests)).groups, draw(st.integers(1, 20))),),
            reservation=draw(st.integers(0, 30)),
        )
        for number in range(1, draw(st.integers(1, 8)) + 1)
    ]


def accept(snapshot: Snapshot, jobs: list[WaitingJob]) -> Snapshot:
    """Return the snapshot in which those that are accepted hold what they got."""
    made = plan(replace(snapshot, waiting=tuple(jobs)))
    held = [
        HoldingJob(one.job, "ann", one.start, one.end - one.start, tuple(one.resources))
        for one in made.placements
        if one.start is not None and one.end is not None
    ]
    return replace(snapshot, holding=(*snapshot.holding, *held))


def assert_nothing_is_shared(snapshot: Snapshot) -> None:
    for one, other in combinations(snapshot.holding, 2):
        if set(one.resources) & set(other.resources):
            assert one.end + SECURITY <= other.start or other.end + SECURITY <= one.start


@given(asked(), st.frozensets(st.integers(0, NODES - 1)), st.integers(0, 3))
@settings(max_examples=examples(120), deadline=None)
def test_two_accepted_reservations_never_share_and_shifts_serve_the_same_request(
    jobs: list[WaitingJob], dead: frozenset[int], later: int
) -> None:
    accepted = accept(Snapshot(now=0, platform=platform(), security_time=SECURITY), jobs)
    assert_nothing_is_shared(accepted)
    begun = frozenset(job.id for job in accepted.holding if job.start <= later)
    damaged = replace(accepted, now=later, platform=platform(dead))
    alive = {
        number
        for number, row in zip(damaged.platform.ids, damaged.platform.resources, strict=True)
        if row.state == "Alive"
    }
    lost = [
        job
        for job in jobs
        if job.id not in begun and any(held.id == job.id and set(held.resources) - alive for held in damaged.holding)
    ]
    found = shifted(damaged, lost)
    after = replace(
        damaged,
        holding=tuple(moved(damaged, job, found[job.id]) if job.id in found else job for job in damaged.holding),
    )
    assert_nothing_is_shared(after)
    assert found.keys() <= {job.id for job in lost}
    size = {job.id: len(job.resources) for job in accepted.holding}
    whole = {job.id for job in jobs if "ALL" in str(job.alternatives[0].groups[0])}
    for job in after.holding:
        if job.id in found:
            assert set(job.resources) <= alive
            assert len(job.resources) == size[job.id] or job.id in whole
    # whoever was not moved could not be: alone on the date, nothing would serve it
    for asking in lost:
        if asking.id not in found:
            others = tuple(held for held in after.holding if held.id != asking.id)
            again = plan(replace(after, holding=others, waiting=(asking,)))
            assert again.placements[0].start is None or set(again.placements[0].resources) - alive


@st.composite
def cheap(draw: st.DrawFn) -> tuple[HoldingJob, ...]:
    """Return running best-effort jobs, one on each of some nodes."""
    return tuple(
        HoldingJob(
            100 + node,
            "eve",
            draw(st.integers(-20, 0)),
            draw(st.integers(21, 60)),
            tuple(range(CORES * node + 1, CORES * node + 1 + draw(st.integers(1, CORES)))),
            types=("besteffort",),
            consumes=draw(st.sampled_from([(), (Consumption("memory", 3),)])),
        )
        for node in sorted(draw(st.frozensets(st.integers(0, NODES - 1))))
    )


def consuming(job: WaitingJob, amount: int) -> WaitingJob:
    """Let a job ask for memory of its hosts."""
    way = replace(job.alternatives[0], consumes=(Consumption("memory", amount),) if amount else ())
    return structs.replace(job, alternatives=(way,))


@given(asked(), cheap(), st.integers(0, 40), st.integers(0, 3), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_a_minimum_life_is_like_jobs_that_are_not_best_effort_until_then(
    jobs: list[WaitingJob], running: tuple[HoldingJob, ...], life: int, security: int, data: st.DataObject
) -> None:
    jobs = [consuming(job, data.draw(st.sampled_from([0, 1, 2]))) for job in jobs]
    waiting = tuple(structs.replace(job, reservation=job.reservation if job.id % 3 == 0 else None) for job in jobs)
    snapshot = Snapshot(
        now=0,
        platform=platform(),
        security_time=security,
        holding=running,
        waiting=waiting,
        besteffort_minimum_life=life,
        consumables=(Consumable("memory", "network_address", {str(node): 4 for node in range(NODES)}),),
    )
    made = plan(snapshot)
    assert all(job.start + life <= 0 for job in running if job.id in made.kill)
    young = [job for job in running if min(job.start + life, job.end + security) > 0]
    stand_ins = tuple(
        structs.replace(job, types=(), id=job.id + 100, walltime=min(life - security, job.walltime))
        for job in young
        if min(job.start + life - security, job.end) > 0
    )
    if all(job.id + 100 in {one.id for one in stand_ins} for job in young):
        old = [job for job in running if job not in young]
        plain = plan(replace(snapshot, holding=(*old, *stand_ins), besteffort_minimum_life=0))
        assert [(one.start, one.bits) for one in plain.placements] == [(one.start, one.bits) for one in made.placements]
        assert plain.kill == made.kill
