"""A short round of the planner against its naive reference."""

from __future__ import annotations

from tests.campaigns.planner_random import main


def test_random_scenarios_are_planned_as_the_naive_reference_does() -> None:
    assert main(["--count", "400"]) == 0


def test_easy_plans_scenarios_as_the_naive_reference_does() -> None:
    assert main(["--count", "400", "--policy", "easy"]) == 0
