"""When tries are made on clusters that need time before the deadline."""

from __future__ import annotations

import pytest

from oarpy.grid.core.broker_state import CoAllocatedJob, DeadlineRules, PlannedTry
from oarpy.grid.core.placing_policy import first_try, next_try


def _tries(rules: DeadlineRules, deadline: float = 1000) -> list[PlannedTry]:
    job = CoAllocatedJob("g", 0, procs=2, components=2, deadline=deadline)
    tries = [first_try(job, rules)]
    while not tries[-1].last:
        tries.append(next_try(tries[-1], job, rules))
    return tries


def test_without_a_lead_one_more_try_follows_at_the_deadline() -> None:
    assert [one.at for one in _tries(DeadlineRules(lp=0.5, tries=2))] == [500, 750, 875, 1000]


def test_a_lead_makes_one_try_of_those_that_would_come_too_late() -> None:
    rules = DeadlineRules(lp=0.5, tries=10, lead=100)
    assert [(one.at, one.last) for one in _tries(rules)] == [(500, False), (750, False), (875, False), (900, True)]


def test_the_try_after_the_last_of_the_list_is_a_lead_before_the_deadline() -> None:
    assert [one.at for one in _tries(DeadlineRules(lp=0.5, tries=1, lead=100))] == [500, 750, 900]


def test_evictions_at_the_last_try_of_the_list() -> None:
    rules = DeadlineRules(lp=0.5, tries=1, lead=100, evict_at="last_try")
    assert [(one.at, one.last) for one in _tries(rules)] == [(500, False), (750, True)]


@pytest.mark.parametrize("deadline", [5, 100])
def test_a_deadline_sooner_than_the_lead_gets_one_try(deadline: float) -> None:
    assert [(one.at, one.last) for one in _tries(DeadlineRules(lead=100), deadline)] == [(deadline - 100, True)]
