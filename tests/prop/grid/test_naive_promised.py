"""Random scenarios of the systems with planned starts come out as in naive worlds, and keep what they promise."""

from __future__ import annotations

import pytest

from tests.harness.examples import examples
from tests.prop.grid.kept_promises import broken_promises, states_that_differ
from tests.prop.grid.naive_worlds import NAIVE_WORLDS, different
from tests.prop.grid.random_systems import random_scenario


@pytest.mark.long
@pytest.mark.parametrize("system", list(NAIVE_WORLDS))
def test_scenarios_come_out_as_in_the_naive_world(system: str) -> None:
    for seed in range(examples(150)):
        assert different(system, seed) is None


@pytest.mark.parametrize("system", ["windows", "flexco"])
def test_runs_keep_what_they_promise_and_are_the_same_step_by_step(system: str) -> None:
    for seed in range(examples(60)):
        file = random_scenario(system, seed)
        broken, _ = broken_promises(file)
        assert [*broken, *states_that_differ(file)] == [], file
