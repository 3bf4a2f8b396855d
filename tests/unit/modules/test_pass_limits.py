"""Limits of passes: users share them, every job has its turn, and nothing changes while all jobs fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from oarpy.cluster_state.pass_limits import PassLimits
from oarpy.configuration import SchedulerSettings, SubmissionSettings
from oarpy.model.reasons import Why
from oarpy.scheduler.memory import PERIOD, Memory
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.plan import Plan, plan
from oarpy.scheduler.snapshot import HoldingJob, PassShare, Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict
from tests.harness.scheduling_cases import cluster, job

FOUR = cluster("n1:4")
users = st.lists(st.sampled_from(["ann", "bob", "cam"]), min_size=1, max_size=30)


def rations(jobs: int, jobs_per_user: int) -> PassLimits:
    return PassLimits(SchedulerSettings(jobs_per_pass=jobs, jobs_per_user=jobs_per_user))


def waiting_of(names: Sequence[str], request: str = "/core=4") -> tuple[WaitingJob, ...]:
    return tuple(job(number, request, 10, user=user) for number, user in enumerate(names, 1))


def queue(waiting: Sequence[WaitingJob], ration: PassShare) -> Snapshot:
    """One core is held for long."""
    holding = (HoldingJob(9000, "eve", 0, 36_000, (1,)),)
    return Snapshot(now=0, platform=FOUR, waiting=tuple(waiting), holding=holding, ration=ration)


def looked_at(made: Plan) -> set[int]:
    return {one.job for one in made.placements if one.reason.kind not in (Why.LIMIT_OF_USER, Why.LIMIT_OF_PASS)}


def started(made: Plan) -> list[int]:
    return [one.job for one in made.placements if one.verdict is Verdict.STARTS]


def test_a_third_user_starts_at_once() -> None:
    blocked = waiting_of(["ann"] * 10 + ["bob"] * 10)
    waiting = (*blocked, job(21, "/core=1", 10, user="cam"))
    assert started(plan(queue(waiting, rations(10, 5).next(waiting)))) == [21]


def test_a_job_behind_many_of_its_user_has_its_turn() -> None:
    waiting = (*waiting_of(["ann"] * 20), job(21, "/core=1", 10, user="ann"))
    limits = rations(10, 6)
    passes = [started(plan(queue(waiting, limits.next(waiting)))) for _ in range(ceil(2 * 21 / 6))]
    assert [21] in passes


def test_what_a_user_leaves_over_goes_to_the_others_by_rank() -> None:
    waiting = waiting_of(["ann"] * 3 + ["bob"] * 5 + ["cam"])
    found = looked_at(plan(queue(waiting, PassShare(6))))
    assert found == {1, 2, 3, 4, 5, 9}


def test_the_best_ranked_keep_their_places_in_every_pass() -> None:
    """A long job that could start must not pass those for which the cores are kept, whoever's turn it is."""
    waiting = (*waiting_of(["ann"]), *(job(number, "/core=1", 90_000, user="ann") for number in range(2, 20)))
    limits = rations(4, 0)
    assert not any(started(plan(queue(waiting, limits.next(waiting)))) for _ in range(20))


@given(users, st.integers(0, 8), st.integers(0, 6))
def test_every_job_is_looked_at_in_so_many_passes(names: list[str], jobs: int, jobs_per_user: int) -> None:
    waiting, limits, found = waiting_of(names), rations(jobs, jobs_per_user), set()
    lowest = min((limit for limit in (jobs, jobs_per_user) if limit), default=len(names) * 2)
    for _ in range(ceil(2 * len(names) / lowest)):
        now = looked_at(plan(queue(waiting, limits.next(waiting))))
        assert not jobs or len(now) <= jobs
        assert not jobs_per_user or max(Counter(names[number - 1] for number in now).values()) <= jobs_per_user
        found |= now
    assert found == set(range(1, len(names) + 1))


@given(users, st.integers(0, 40), st.integers(0, 40))
def test_no_limits_while_all_jobs_fit(names: list[str], jobs: int, jobs_per_user: int) -> None:
    waiting, limits = waiting_of(names), rations(jobs, jobs_per_user)
    fit = (not jobs or len(names) <= jobs) and (not jobs_per_user or max(Counter(names).values()) <= jobs_per_user)
    assert (limits.next(waiting) == PassShare()) == fit
    if fit:
        bounded = looked_at(plan(queue(waiting, PassShare(jobs, jobs_per_user))))
        assert bounded == set(range(1, len(names) + 1))


def test_held_jobs_take_no_places() -> None:
    waiting = [structs.replace(one, held=True) for one in waiting_of(["ann"] * 5)]
    assert rations(3, 2).next([*waiting, job(6, "/core=1", 10)]) == PassShare()


def test_what_is_only_asked_for_takes_no_turn() -> None:
    limits, waiting = rations(4, 0), waiting_of(["ann"] * 9)
    assert limits.current(waiting) == limits.current(waiting) == limits.next(waiting)
    assert limits.next(waiting).turn == (3, 4)


def test_limited_passes_follow_each_other_and_are_those_of_a_plan_made_anew() -> None:
    memory, limits, waiting = Memory(lambda: 0.0), rations(4, 0), waiting_of(["ann"] * 9)
    for _ in range(6):
        snapshot = queue(waiting, limits.next(waiting))
        made = memory.plan(snapshot, ORDERS, whole=True)
        assert made == plan(snapshot)
        assert (memory.owed(made) or 0) >= PERIOD
        waiting = (*waiting, job(len(waiting) + 1, "/core=1", 10, user="bob"))
    unlimited = queue(waiting, PassShare())
    assert memory.owed(memory.plan(unlimited, ORDERS, whole=True)) is None


def test_the_largest_array_may_be_submitted() -> None:
    assert SubmissionSettings().maximum_array_size <= SubmissionSettings().waiting_jobs_per_user
