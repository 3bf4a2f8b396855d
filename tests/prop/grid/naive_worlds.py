"""The naive worlds of the systems with planned starts, and how runs are compared with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from oarpy.grid.simulation.command import object_of
from tests.prop.grid.naive_bags import NaiveBags, NaiveOffers
from tests.prop.grid.naive_promised import NaiveFlexco, NaiveWindows
from tests.prop.grid.random_systems import random_scenario
from tests.prop.questions.comparison import equal

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
