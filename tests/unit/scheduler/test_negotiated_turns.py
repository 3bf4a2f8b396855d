"""Applications have their turns among batch jobs; what jobs leave is kept back for those who owe an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from oarpy.model.dependency import Dependency
from oarpy.model.reasons import words
from oarpy.model.setting_values import GhostRule
from oarpy.negotiation.core.cluster_pass import Negotiation, negotiated_by
from oarpy.negotiation.core.clusters import clusters_of
from oarpy.negotiation.core.events import EstimatedStart, GivenHosts, ViewChange
from oarpy.negotiation.core.line import FreedHosts, KeptHosts, KeptPlace, NegotiatingJob
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.snapshot import DEFAULT_QUEUES, HoldingJob, Queue, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job, running

FOUR = cluster("n1:1 n2:1 n3:1 n4:1")
ALL_FOUR = 0b1111
WALLTIME = 100


def application(number: int, hosts: int, ranked: float = 0, **rest: Any) -> tuple[WaitingJob, NegotiatingJob]:
    """Return an application that asks for hosts for 100 s, as a job and as what negotiates."""
    waiting = job(number, f"/network_address={hosts}", WALLTIME, types="negotiated", submitted=0, ranked=ranked)
    rest.setdefault("shown", {"all": [0]})
    asked = NegotiatingJob(number, "RequestSent", ranked, ("all",), {"all": hosts}, WALLTIME, 1, 1, **rest)
    return waiting, asked


def decided(
    *jobs: WaitingJob | HoldingJob | tuple[WaitingJob, NegotiatingJob],
    kept: tuple[KeptHosts, ...] = (),
    freed: tuple[FreedHosts, ...] = (),
    now: float = 10,
    ghosts: GhostRule = "needed",
    telling: bool = True,
    share: float = 1.0,
    most: int = 200,
    places: Mapping[int, KeptPlace] | None = None,
    queues: tuple[Queue, ...] = DEFAULT_QUEUES,
) -> Decisions:
    """Decide at an instant about jobs and applications on four hosts of one core."""
    applications = [one for one in jobs if isinstance(one, tuple)]
    asked = tuple(asked for _, asked in applications)[:most]
    negotiation = Negotiation(
        asked,
        clusters_of(FOUR, share=share),
        ghosts=kept,
        freed=freed,
        rule=ghosts,
        fair_start=5,
        telling=telling,
        next_telling=now + 1,
        places=places or {},
    )
    waiting = [*(one for one in jobs if isinstance(one, WaitingJob)), *(waiting for waiting, _ in applications)]
    holding = tuple(one for one in jobs if isinstance(one, HoldingJob))
    return decide(Snapshot(now, FOUR, queues=queues, waiting=tuple(waiting), holding=holding, step=negotiation))


def started(made: Decisions) -> list[int]:
    return sorted(one.job for one in made.starts)


def test_it_stands_between_the_jobs_submitted_before_and_after_its_first_request() -> None:
    """Whatever the order of the queue: here all three want everything."""
    before = job(1, "/network_address=4", 50, submitted=3)
    behind = job(2, "/network_address=4", 20, submitted=6)
    made = decided(behind, application(7, 4, ranked=5), before)
    starts = {one.job: one.start for one in made.plan.placements}
    assert starts == {1: 10, 7: 60, 2: 160}
    assert EstimatedStart(7, 1, 60) in negotiated_by(made).events


def test_its_view_is_what_those_before_it_hold_and_what_started_behind_it() -> None:
    holding = running(1, "1-2", 0, 40)
    ahead = job(2, "/network_address=4", 10, submitted=1)
    made = decided(holding, ahead, application(7, 4, ranked=5), application(8, 2, ranked=6))
    assert started(made) == []
    views = {
        one.application: one.changes["all"].flat(10)
        for one in negotiated_by(made).events
        if isinstance(one, ViewChange)
    }
    assert views == {7: [10, 30, 2, 10, 4], 8: [10, 30, 2, 110, 4]}


def test_hosts_beyond_the_share_of_one_application_are_busy_to_it() -> None:
    made = decided(running(1, "1", 0, 40), running(2, "2-3", 0, 90), application(7, 2), share=0.5)
    (view,) = [one.changes["all"].flat(10) for one in negotiated_by(made).events if isinstance(one, ViewChange)]
    assert view[:3] == [10, 30, 3]  # then job 2's two hosts, and two of the four after it
    assert view[4:] == [2]


def test_who_fits_starts_and_is_told_its_hosts() -> None:
    made = decided(application(7, 3))
    assert started(made) == [7]
    assert GivenHosts(7, 1, {"all": 3}) in negotiated_by(made).events


def test_what_a_job_has_left_is_kept_back_until_those_shown_it_have_answered() -> None:
    left = FreedHosts(1, ALL_FOUR, 300)
    small = job(2, "/network_address=1", 50, submitted=9)
    made = decided(application(7, 2, ranked=5), small, freed=(left,))
    assert started(made) == []
    assert negotiated_by(made).ghosts == (KeptHosts(1, ALL_FOUR, 10, 15, {7: 2}),)
    assert made.wake_at == 15
    owed = decided(application(7, 2, ranked=5), small, kept=(KeptHosts(1, ALL_FOUR, 10, 15, {7: 2}),), now=12)
    assert (started(owed), len(negotiated_by(owed).ghosts)) == ([], 1)
    answered = decided(application(7, 4, ranked=5), small, kept=(KeptHosts(1, ALL_FOUR, 10, 15),), now=12)
    assert (started(answered), negotiated_by(answered).ghosts) == ([7], ())
    late = decided(application(7, 4, ranked=5), kept=(KeptHosts(1, ALL_FOUR, 10, 15, {7: 2}),), now=15)
    assert (started(late), negotiated_by(late).ghosts) == ([7], ())


def test_nothing_is_kept_back_longer_than_the_walltime_would_have_lasted() -> None:
    made = decided(application(7, 2), freed=(FreedHosts(1, ALL_FOUR, 12),))
    assert [one.latest_end for one in negotiated_by(made).ghosts] == [12]


def test_nothing_is_kept_back_for_those_whose_launcher_is_lost() -> None:
    made = decided(application(7, 2, answers=False), freed=(FreedHosts(1, ALL_FOUR, 300),))
    assert (started(made), negotiated_by(made).ghosts) == ([7], ())


def test_a_job_ahead_of_all_who_owe_starts_on_what_is_kept_which_gives_way() -> None:
    ahead = job(2, "/network_address=3", 50, submitted=1)
    made = decided(ahead, application(7, 2, ranked=5), freed=(FreedHosts(1, ALL_FOUR, 300),))
    assert started(made) == [2]
    (ghost,) = negotiated_by(made).ghosts
    assert ghost.bits.bit_count() == 1
    (view,) = [one for one in negotiated_by(made).events if isinstance(one, ViewChange)]
    assert view.changes["all"].flat(10) == [10, 5, 4, 45, 3]


def test_an_application_ahead_of_all_who_owe_starts_on_it_too() -> None:
    made = decided(
        application(7, 3, ranked=5), application(8, 2, ranked=6), kept=(KeptHosts(1, ALL_FOUR, 10, 15, {8: 2}),), now=11
    )
    assert started(made) == [7]
    assert [one.bits.bit_count() for one in negotiated_by(made).ghosts] == [1]


def test_what_gave_way_wholly_is_over() -> None:
    ahead = job(2, "/network_address=4", 50, submitted=1)
    made = decided(ahead, application(7, 2, ranked=5), freed=(FreedHosts(1, ALL_FOUR, 300),))
    assert (started(made), negotiated_by(made).ghosts) == ([2], ())


def test_a_pass_for_batch_jobs_alone_leaves_applications_their_places() -> None:
    """A batch job before them in line gets what they leave; a job that depends on one waits for it as before."""
    places = {7: KeptPlace(Verdict.BEHIND_HIGHER_PRIORITY, words("as told"), 40, 140, ALL_FOUR)}
    long, short = job(1, "/network_address=1", 50, submitted=1), job(2, "/network_address=1", 30, submitted=2)
    after = job(3, "/network_address=1", 10, after=(7,), submitted=3)
    made = decided(long, short, application(7, 4, ranked=5), after, telling=False, places=places)
    told = made.plan.by_job()
    assert started(made) == [2]
    assert negotiated_by(made).events == ()
    assert (told[7].start, str(told[7].reason), told[1].start, told[3].start) == (40, "as told", 140, 140)


def test_who_asked_since_has_no_place_in_a_pass_for_batch_jobs_alone() -> None:
    made = decided(application(7, 2, ranked=5), job(2, "/network_address=3", 50, submitted=9), telling=False)
    assert started(made) == [2]
    assert made.plan.by_job()[7].start is None


def test_a_pass_for_batch_jobs_alone_gives_nobody_what_was_freed_and_makes_no_ghost() -> None:
    small = job(2, "/network_address=1", 50, submitted=1)
    left, kept = FreedHosts(1, 0b0111, 300), KeptHosts(9, 0b1000, 8, 13)
    made = decided(small, application(7, 2, ranked=5), freed=(left,), kept=(kept,), telling=False)
    assert (started(made), negotiated_by(made).ghosts) == ([], (kept,))
    assert made.plan.by_job()[2].start == 11
    elsewhere = replace(application(7, 2, ranked=5)[1], clusters=("none",))
    free = decided(small, (application(7, 2, ranked=5)[0], elsewhere), freed=(left,), telling=False)
    assert started(free) == [2]


def test_applications_beyond_the_first_ones_have_no_turn() -> None:
    made = decided(application(7, 2, ranked=5), application(8, 1, ranked=6), most=1)
    assert started(made) == [7]
    assert str(made.plan.by_job()[8].reason) == "not looked at in this pass, which takes 1 applications"
    assert {event.application for event in negotiated_by(made).events} == {7}


def test_a_ghost_gives_way_by_counts() -> None:
    """Whoever starts ahead leaves it as many hosts as are left over, be they others than it had."""
    ahead = job(2, "/network_address=2", 50, submitted=1)
    made = decided(ahead, application(7, 4, ranked=5), freed=(FreedHosts(1, 0b0011, 300),))
    assert started(made) == [2]
    assert [one.bits for one in negotiated_by(made).ghosts] == [0b1100]
    (view,) = [one for one in negotiated_by(made).events if isinstance(one, ViewChange)]
    assert view.changes["all"].flat(10) == [10, 5, 4, 45, 2]


def test_a_ghost_does_not_get_hosts_of_jobs_that_have_yet_to_give_way() -> None:
    queues = (Queue("default", 3), Queue("guests", 5, gives_way_to=("default",)))
    ahead, guest = job(2, "/network_address=2", 50, submitted=1), running(5, "4", 0, 300, queue="guests")
    left = FreedHosts(1, 0b0011, 300)
    made = decided(guest, ahead, application(7, 3, ranked=5), freed=(left,), queues=queues)
    assert started(made) == [2]
    assert [one.bits for one in negotiated_by(made).ghosts] == [0b0100]


def test_a_job_that_gives_way_to_applications_takes_no_hosts_from_a_ghost() -> None:
    queues = (Queue("default", 3), Queue("guests", 5, gives_way_to=("default",)))
    guest = job(2, "/network_address=1", 50, submitted=1, queue="guests")
    made = decided(guest, application(7, 2, ranked=5), freed=(FreedHosts(1, ALL_FOUR, 300),), queues=queues)
    assert started(made) == []


@pytest.mark.parametrize(("now", "begun"), [(12, []), (15, [2])])
def test_with_ghosts_always_everybody_sees_them_for_fair_start(now: float, begun: list[int]) -> None:
    ahead = job(2, "/network_address=1", 50, submitted=1)
    kept = (KeptHosts(1, ALL_FOUR, 10, 15),)
    made = decided(ahead, application(7, 4, ranked=5), kept=kept, now=now, ghosts="always")
    assert started(made) == begun


def test_best_effort_jobs_see_what_is_kept_back() -> None:
    filler = job(2, "/network_address=1", 50, submitted=1, types="besteffort")
    made = decided(filler, application(7, 2, ranked=5), freed=(FreedHosts(1, ALL_FOUR, 300),))
    assert started(made) == []


def test_a_batch_job_that_starts_behind_it_is_in_its_view() -> None:
    small = job(3, "/network_address=1", 50, submitted=9)
    made = decided(running(1, "1-2", 0, 100), application(7, 4, ranked=5), small)
    assert started(made) == [3]
    (view,) = [one.changes["all"].flat(10) for one in negotiated_by(made).events if isinstance(one, ViewChange)]
    assert view == [10, 50, 3, 40, 2]


def test_one_that_depends_on_a_job_behind_it_is_told_its_start_after_that_job() -> None:
    waiting, asked = application(7, 4, ranked=5)
    anterior = job(8, "/network_address=1", 30, submitted=9)
    made = decided((structs.replace(waiting, depends_on=(Dependency(8),)), asked), anterior)
    assert started(made) == [8]
    assert EstimatedStart(7, 1, 40) in negotiated_by(made).events
