"""Random scenarios of the systems with planned starts come out as in naive worlds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from oarpy.grid.simulation.command import object_of
from tests.campaigns.decide_random import equal
from tests.harness.examples import examples
from tests.prop.grid.naive_bags import NaiveBags, NaiveOffers
from tests.prop.grid.naive_promised import NaiveFlexco, NaiveWindows
from tests.prop.grid.random_systems import random_scenario

NAIVE_WORLDS: dict[str, Callable[[dict[str, Any]], list[dict[str, Any]]]] = {
    "windows": lambda file: NaiveWindows(file).courses(),
    "flexco": lambda file: NaiveFlexco(file).courses(),
    "offers": lambda file: NaiveOffers(file).courses(),
    "bags": lambda file: NaiveBags(file).courses(),
}


def different(system: str, seed: int) -> str | None:
    """Return a scenario with what becomes of it here and there, if that differs."""
    file = random_scenario(system, seed)
    found, expected = object_of(json.dumps(file))["jobs"], NAIVE_WORLDS[system](file)
    if equal(found, expected):
        return None
    return "\n".join(json.dumps(one) for one in (file, found, expected))


@pytest.mark.long
@pytest.mark.parametrize("system", list(NAIVE_WORLDS))
def test_scenarios_come_out_as_in_the_naive_world(system: str) -> None:
    for seed in range(examples(150)):
        assert different(system, seed) is None
