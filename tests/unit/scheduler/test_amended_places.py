"""New reservations that are to take the place of accepted ones: these count as away for them, and stay."""

from __future__ import annotations

import json
from typing import Any

from oarpy.cluster_state.trace import scenario_of
from oarpy.model.dates import JobDates
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.rules.reservations import promised
from oarpy.scheduler.snapshot import QuotaRule, Reservation, Snapshot, WaitingJob
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.scheduling_cases import cluster, job

THREE = cluster("n1:3")


def accepted(number: int, start: int, walltime: int, *resources: int) -> Reservation:
    """Return a reservation that was accepted."""
    asked = job(number, f"/core={len(resources)}", walltime, reservation=start)
    return Reservation(asked, start, walltime, resources)


def snapshot_of(reservations: list[Reservation], *waiting: WaitingJob, **rest: Any) -> Snapshot:
    holding = tuple(held for one in reservations if (held := promised(one, 0)) is not None)
    return Snapshot(now=0, platform=THREE, holding=holding, reservations=tuple(reservations), waiting=waiting, **rest)


def answers(decided: Decisions) -> tuple[dict[int, tuple[float | None, list[int]]], dict[int, str]]:
    """Return where those are that were accepted, and why others were not."""
    yes = {one.job: (one.start, one.resources) for one in decided.accepted}
    return yes, {one.job: str(one.reason) for one in decided.refused}


OLD = accepted(7, 10, 20, 1, 2, 3)
NEW = job(9, "/core=3", 20, reservation=20)


def test_it_is_placed_as_if_the_old_one_were_away() -> None:
    assert answers(decide(snapshot_of([OLD], NEW, amending={9: 7}))) == ({9: (20, [1, 2, 3])}, {})
    yes, no = answers(decide(snapshot_of([OLD], NEW)))
    assert (yes, list(no)) == ({}, [9])


def test_both_are_held_until_it_is_decided() -> None:
    first, last = job(2, "/core=1", 5, reservation=12), job(3, "/core=1", 5, reservation=35)
    yes, no = answers(decide(snapshot_of([OLD], first, last, NEW, amending={9: 7})))
    assert (list(yes), sorted(no)) == ([9], [2, 3])
    waits = decide(snapshot_of([OLD], job(2, "/core=1", 15), NEW, amending={9: 7})).plan.placements
    assert [(one.job, one.start) for one in waits] == [(2, 40)]


def test_what_others_hold_stays_theirs() -> None:
    beside = accepted(8, 30, 20, 3)
    old = accepted(7, 10, 20, 1, 2, 3)
    yes, no = answers(decide(snapshot_of([old, beside], NEW, amending={9: 7})))
    assert (yes, no) == (
        {},
        {9: "reservation refused: there is no room at its date, also without what it is to take the place of"},
    )
    smaller = job(9, "/core=2", 20, reservation=20)
    assert answers(decide(snapshot_of([old, beside], smaller, amending={9: 7})))[0] == {9: (20, [1, 2])}


def test_quotas_count_the_old_one_as_away() -> None:
    rule = (QuotaRule(user="ann", resources=3),)
    assert answers(decide(snapshot_of([OLD], NEW, amending={9: 7}, quotas=rule)))[0] == {9: (20, [1, 2, 3])}


def test_without_an_old_one_it_is_refused() -> None:
    yes, no = answers(decide(snapshot_of([], NEW, amending={9: 7})))
    assert yes == {}
    assert no == {9: "reservation refused: job 7, whose place it is to take, is no reservation any more"}


def test_two_of_them_do_not_get_the_same_place() -> None:
    one, other = accepted(7, 10, 5, 1), accepted(8, 10, 5, 2)
    jobs = [job(number, "/core=2", 5, reservation=20) for number in (10, 11)]
    yes, no = answers(decide(snapshot_of([one, other], *jobs, amending={10: 7, 11: 8})))
    assert (list(yes), list(no)) == ([10], [11])


def test_one_that_is_held_or_wrong_is_for_the_planner() -> None:
    held = job(9, "/core=3", 20, reservation=20, held=True, dates=JobDates())
    yes, no = answers(decide(snapshot_of([OLD], held, amending={9: 7})))
    assert (yes, no) == ({}, {})


def test_a_recorded_pass_decides_the_same_again() -> None:
    snapshot = snapshot_of([OLD], NEW, amending={9: 7})
    again = read_scenario(json.dumps(scenario_of(snapshot)))
    assert answers(decide(again)) == answers(decide(snapshot))
