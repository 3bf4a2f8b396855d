"""Reservations with windows on named resources: nobody loses a window, and counted places are the same."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from msgspec import structs

from oarpy.model.request import parse_request
from oarpy.profiles.profile import Profile
from oarpy.questions.counted_cluster import question_text
from oarpy.questions.table import answer
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import Alternative, HoldingJob, Queue, Reservation, Snapshot, WaitingJob
from oarpy.scheduler.windows.admission import Terms, admit
from oarpy.scheduler.windows.reservation_windows import ReservationWindow, Windows
from oarpy.scheduler.windows.window_jobs import WindowJob, in_order
from tests.harness.examples import examples

CORES = 4
SEEDS = range(examples(150))


def platform() -> Platform:
    rows = [Resource(number, properties={"core": number, "network_address": "n1"}) for number in range(1, CORES + 1)]
    return Platform.build(rows, hierarchy=["core"])


PLATFORM = platform()


def asking(number: int, cores: int, walltime: int, date: float) -> WaitingJob:
    ways = (Alternative(parse_request(f"/core={cores}").groups, walltime),)
    return WaitingJob(number, "ann", alternatives=ways, reservation=date, submitted=number - 100)


def batch(number: int, cores: int, walltime: int) -> WaitingJob:
    return structs.replace(asking(number, cores, walltime, 0), reservation=None)


def random_snapshot(rng: Random, *, whole: bool, flexible: float = 0.6, security: int = 0) -> Snapshot:
    """Return a cluster with a running job, accepted reservations, most of them with windows, and a new one.

    With ``whole`` each of them takes all cores, so that names do not bind. A share of the reservations is ``flexible``.
    """
    snapshot = Snapshot(0, PLATFORM, security_time=security, windows=Windows({}, notice=0))
    if rng.random() < 0.5:
        bits = tuple(range(1, (CORES if whole else rng.randint(1, CORES)) + 1))
        snapshot = replace(snapshot, holding=(HoldingJob(99, "eve", -5, 5 + rng.randint(1, 20), bits),))
    for number in range(1, rng.randint(2, 7)):
        snapshot = accept(snapshot, rng, number, CORES if whole else rng.randint(1, CORES), flexible)
    if not whole:
        waiting = tuple(batch(number, rng.randint(1, CORES), rng.randint(1, 20)) for number in range(50, 53))
        snapshot = replace(snapshot, waiting=waiting)
    new = asking(20, CORES if whole else rng.randint(1, CORES), rng.randint(1, 12), rng.randint(0, 40))
    return asked(snapshot, rng, new)


def asked(snapshot: Snapshot, rng: Random, new: WaitingJob, flexible: float = 0.6) -> Snapshot:
    """Return the snapshot with a new reservation, which may have a window."""
    assert new.reservation is not None
    assert snapshot.windows is not None
    windows = dict(snapshot.windows.of)
    if rng.random() < flexible:
        deadline = new.reservation + new.alternatives[0].walltime + rng.randint(0, 30)
        windows[new.id] = ReservationWindow(deadline, new.reservation)
    waiting = (*snapshot.waiting, new)
    return replace(snapshot, waiting=waiting, windows=replace(snapshot.windows, of=windows))


def accept(snapshot: Snapshot, rng: Random, number: int, cores: int, flexible: float = 0.6) -> Snapshot:
    """Return the snapshot with one more accepted reservation, if there is room for it."""
    new = asking(number, cores, rng.randint(1, 12), rng.randint(1, 40))
    trial = asked(snapshot, rng, new, flexible)
    decided = decide(replace(trial, waiting=tuple(job for job in trial.waiting if job.id == number)))
    placement = decided.plan.by_job()[number]
    if number not in {one.job for one in decided.accepted} or placement.start is None:
        return snapshot
    assert trial.windows is not None
    kept = decided.kept.snapshot
    reservation = Reservation(
        new, placement.start, new.alternatives[0].walltime, tuple(PLATFORM.ids_of(placement.bits))
    )
    holding = promised(reservation, 0)
    assert holding is not None
    return replace(
        kept,
        waiting=snapshot.waiting,
        holding=(*kept.holding, holding),
        reservations=(*kept.reservations, reservation),
        windows=trial.windows,
    )


def starts(decided: Decisions) -> dict[int, float]:
    return {one.job.id: one.start for one in decided.kept.snapshot.reservations}


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_loses_a_window_or_a_strict_date(seed: int) -> None:
    rng = Random(seed)
    snapshot = random_snapshot(rng, whole=False)
    if rng.random() < 0.3:
        assert snapshot.windows is not None
        snapshot = replace(snapshot, windows=replace(snapshot.windows, replan=True))
    decided = decide(snapshot)
    assert snapshot.windows is not None
    before = {one.job.id: one for one in snapshot.reservations}
    for one in decided.kept.snapshot.reservations:
        window = snapshot.windows.of.get(one.job.id)
        if window is None:
            assert one == before[one.job.id]
        else:
            assert (window.ready or 0) <= one.start <= window.deadline - one.walltime
    check_that_none_meet(decided)


def check_that_none_meet(decided: Decisions) -> None:
    """Check that no two hold one core at one time."""
    held = [(job.start, job.end, set(job.resources)) for job in decided.kept.snapshot.holding]
    held += [
        (one.start, one.end, set(one.resources))
        for one in decided.plan.placements
        if one.start is not None and one.end is not None
    ]
    for place, (begin, end, some) in enumerate(held):
        for other_begin, other_end, others in held[:place]:
            assert begin >= other_end or other_begin >= end or not some & others


@pytest.mark.parametrize("seed", SEEDS)
def test_several_new_ones_of_one_pass_run_inside_their_windows(seed: int) -> None:
    rng = Random(seed)
    snapshot = random_snapshot(rng, whole=False)
    for number in (21, 22):
        snapshot = asked(snapshot, rng, asking(number, rng.randint(1, CORES), rng.randint(1, 12), rng.randint(0, 40)))
    decided = decide(snapshot)
    assert snapshot.windows is not None
    refused, placed = {one.job for one in decided.refused}, decided.plan.by_job()
    for job in snapshot.waiting:
        if job.reservation is not None and job.id not in refused:
            begin, end = placed[job.id].start, placed[job.id].end
            window = snapshot.windows.of.get(job.id)
            assert begin is not None
            assert end is not None
            if window is None:
                assert begin == job.reservation
            else:
                assert (window.ready or 0) <= begin <= end <= window.deadline
    assert (decided.windows.moves == ()) or len(refused) < 3
    check_that_none_meet(decided)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_refused_changes_nothing(seed: int) -> None:
    snapshot = random_snapshot(Random(seed), whole=False)
    decided = decide(snapshot)
    if 20 in {one.job for one in decided.refused}:
        assert starts(decided) == {one.job.id: one.start for one in snapshot.reservations}
        assert decided.windows.moves == ()
        assert decided.windows.offers[20]
    else:
        assert 20 not in decided.windows.offers


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_refused_beside_jobs_of_a_queue_served_first_gets_offers(seed: int) -> None:
    rng = Random(seed)
    snapshot = random_snapshot(rng, whole=False)
    for number in (21, 22):
        snapshot = asked(snapshot, rng, asking(number, rng.randint(1, CORES), rng.randint(1, 12), rng.randint(0, 40)))
    urgent = tuple(structs.replace(job, queue="urgent") if job.reservation is None else job for job in snapshot.waiting)
    snapshot = replace(snapshot, waiting=urgent, queues=(Queue("urgent", 5), Queue("default", 3)))
    decided = decide(snapshot)
    refused = {one.job for one in decided.refused}
    assert refused <= {job for job, offers in decided.windows.offers.items() if offers}
    if len(refused) == 3:
        assert decided.windows.moves == ()
    check_that_none_meet(decided)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_windows_all_is_as_if_there_were_none(seed: int) -> None:
    snapshot = random_snapshot(Random(seed), whole=False)
    plain = replace(snapshot, windows=Windows({}))
    none = replace(snapshot, windows=None)
    with_rules, without = decide(plain), decide(none)
    assert with_rules.plan == without.plan
    assert with_rules.refused == without.refused
    assert with_rules.accepted == without.accepted


@pytest.mark.parametrize("seed", SEEDS)
def test_counted_places_are_the_same_where_names_do_not_bind(seed: int) -> None:
    snapshot = random_snapshot(Random(seed), whole=True)
    decided = decide(snapshot)
    assert snapshot.windows is not None
    windows = snapshot.windows.of
    movable = [one for one in snapshot.reservations if one.job.id in windows]
    strict = [job for job in snapshot.holding if job.id not in {one.job.id for one in movable}]
    profile = Profile(CORES)
    for job in strict:
        profile.hold(CORES, max(job.start, 0), job.end)
    (new,) = snapshot.waiting
    assert new.reservation is not None
    window = windows.get(new.id) or ReservationWindow(new.reservation + new.alternatives[0].walltime, new.reservation)
    jobs = [
        WindowJob(one.id, CORES, CORES, one.alternatives[0].walltime, found.deadline, found.ready or 0, one.submitted)
        for one, found in [*((one.job, windows[one.job.id]) for one in movable), (new, window)]
    ]
    counted = admit(
        profile,
        [(job.start, job.end) for job in strict],
        in_order(jobs, "edf", 0, Random(0).random),
        {one.job.id: one.start for one in movable},
        0,
        Terms(accept=-1.0, farther=True, tries=32, offers=8),
    )
    accepted = {one.job: one.start for one in (*decided.accepted, *decided.plan.placements) if one.job == new.id}
    if counted.start is None:
        assert list(decided.windows.offers[new.id]) == list(counted.offers)
    else:
        assert accepted[new.id] == counted.start
        assert starts(decided) | {new.id: counted.start} == dict(counted.starts) | {
            one.job.id: one.start for one in snapshot.reservations if one.job.id not in windows
        }


@pytest.mark.parametrize(("flexible", "security"), [(1, 0), (0.6, 0), (0.6, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_asked_on_file_is_answered_as_the_cluster_does(seed: int, flexible: float, security: int) -> None:
    snapshot = random_snapshot(Random(seed), whole=True, flexible=flexible, security=security)
    (new,) = snapshot.waiting
    found = answer(question_text(snapshot, new, Matchers(PLATFORM)))
    decided = decide(snapshot)
    accepted = {one.job: one.start for one in (*decided.accepted, *decided.plan.placements) if one.job == new.id}
    if found["accepted"]:
        now = {str(job): start for job, start in (starts(decided) | {new.id: accepted[new.id]}).items()}
        assert found["start"] == accepted[new.id]
        assert found["schedule"] == now
    else:
        offers = decided.windows.offers[new.id]
        assert sorted(one["start"] for one in found["offers"]) == sorted(one.start for one in offers)
        assert security or [one["phi"] for one in found["offers"]] == [one.phi for one in offers]


@pytest.mark.parametrize("seed", SEEDS)
def test_any_moment_can_be_asked_about_on_file(seed: int) -> None:
    snapshot = random_snapshot(Random(seed), whole=False)
    asking_one = next(job for job in snapshot.waiting if job.reservation is not None)
    found = answer(question_text(snapshot, asking_one, Matchers(PLATFORM)))
    assert snapshot.windows is not None
    strict = {one.job.id: one.start for one in snapshot.reservations if one.job.id not in snapshot.windows.of}
    assert found["schedule"].items() >= {str(job): start for job, start in strict.items()}.items()
