"""A suspended job goes on at the first instant at which its resources are free for the rest of it, and only then."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.request import parse_request
from oarpy.scheduler.plan import plan
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.suspended_jobs import resumed
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Snapshot, WaitingJob
from tests.harness.examples import examples

CORES = 4
PLATFORM = Platform.build(Resource(n + 1, properties={"network_address": n, "core": n}) for n in range(CORES))
sets = st.frozensets(st.integers(1, CORES), min_size=1)
requests = st.sampled_from(["/core=1", "/core=2", "/core=4"])


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Return running and reserved jobs that do not overlap, suspended ones, and a queue."""
    security = draw(st.integers(0, 2))
    free_from = dict.fromkeys(range(1, CORES + 1), 0)
    holding = []
    for number in range(100, 100 + draw(st.integers(0, 6))):
        chosen = draw(sets)
        start = max(free_from[core] for core in chosen) + draw(st.integers(0, 8))
        job = HoldingJob(number, "ann", start, draw(st.integers(1, 12)), tuple(sorted(chosen)))
        for core in chosen:
            free_from[core] = int(job.end) + security
        holding.append(job)
    for number in range(200, 200 + draw(st.integers(1, 3))):
        bits = PLATFORM.bits_of(draw(sets))
        holding.append(HoldingJob(number, "bob", -3, 3 + draw(st.integers(1, 12)), (), given_back=bits))
    waiting = tuple(
        WaitingJob(
            number, "eve", alternatives=(Alternative(parse_request(draw(requests)).groups, draw(st.integers(1, 9))),)
        )
        for number in range(1, draw(st.integers(1, 6)) + 1)
    )
    return Snapshot(now=0, platform=PLATFORM, holding=tuple(holding), waiting=waiting, security_time=security)


def spans(job: HoldingJob, snapshot: Snapshot) -> list[tuple[float, float, int]]:
    """Begin, end with security time, and resources of what a job holds."""
    end = job.end + snapshot.security_time
    own = [(job.start, end, PLATFORM.bits_of(job.resources))]
    return own if job.resumes is None else [*own, (job.resumes, end, job.given_back)]


def overlaps(one: tuple[float, float, int], other: tuple[float, float, int]) -> bool:
    return bool(one[2] & other[2]) and one[0] < other[1] and other[0] < one[1]


@given(snapshots())
@settings(max_examples=examples(150), deadline=None)
def test_it_goes_on_as_early_as_nobody_else_has_its_resources(snapshot: Snapshot) -> None:
    wanting = {job.id for job in snapshot.holding if job.id >= 200}
    after, found = resumed(snapshot, wanting)
    assert {one.job for one in found} == wanting
    known = list(snapshot.holding[: len(snapshot.holding) - len(wanting)])
    before = {job.id: job for job in snapshot.holding}
    for job in sorted((one for one in after.holding if one.id in wanting), key=lambda one: one.id):
        rest = before[job.id].end
        assert job.resumes is not None
        assert job.end == job.resumes + rest
        busy = [span for other in known for span in spans(other, snapshot)]
        free = [
            start
            for start in range(int(job.resumes) + 1)
            if not any(overlaps((start, start + rest + snapshot.security_time, job.given_back), span) for span in busy)
        ]
        assert free[0] == job.resumes
        known.append(job)


@given(snapshots())
@settings(max_examples=examples(150), deadline=None)
def test_nothing_is_held_twice_and_everybody_else_finds_a_place(snapshot: Snapshot) -> None:
    after, _ = resumed(snapshot, {job.id for job in snapshot.holding if job.id >= 200})
    made = plan(after)
    assert all(one.start is not None for one in made.placements)
    held = [span for job in after.holding for span in spans(job, after)]
    held += [
        (one.start, one.end + after.security_time, one.bits)
        for one in made.placements
        if one.start is not None and one.end is not None
    ]
    for place, one in enumerate(held):
        assert not any(overlaps(one, other) for other in held[place + 1 :])


@given(snapshots())
@settings(max_examples=examples(50), deadline=None)
def test_as_long_as_it_is_not_to_go_on_it_is_as_if_it_were_not_there(snapshot: Snapshot) -> None:
    gone = replace(snapshot, holding=tuple(job for job in snapshot.holding if job.id < 200))
    assert plan(snapshot).placements == plan(gone).placements
