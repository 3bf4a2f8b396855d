"""The modules of a broker decide in virtual time as the core does that ``oarpy grid simulate`` asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from oarpy.grid.simulation.reader import read_grid
from tests.harness import virtual_time
from tests.harness.broker_in_virtual_time import by_the_core, by_the_modules, on_real_clusters
from tests.unit.grid.test_grid_simulate import EXAMPLE

pytestmark = pytest.mark.db


@pytest.fixture(scope="module")
def template(server: str) -> Iterator[str]:
    """A database with the virtual clock, from which each scenario gets its own."""
    with virtual_time.template(server) as name:
        yield name


SEEDS = 8
"""Scenarios by chance: as many as the suite has time for."""


def by_chance(seed: int) -> dict[str, Any]:
    """Return a file whose jobs meet often. Its first job is the broker's, which begins its period with that."""
    chance = Random(seed)
    clusters: list[dict[str, Any]] = [
        {
            "name": f"c{number}",
            "procs": chance.randint(3, 8),
            "speed": chance.choice([1, 1, 2, 0.5]),
            "policy": chance.choice(["fcfs", "conservative"]),
        }
        for number in range(chance.randint(2, 3))
    ]
    jobs: list[dict[str, Any]] = [{"id": 0, "procs": 1, "run": 20}]
    for number in range(1, 16):
        job: dict[str, Any] = {"id": number, "submit": chance.randint(0, 200), "run": chance.randint(5, 200)}
        job["walltime"] = job["run"] + chance.choice([0, 0, 40, 100])
        kind = chance.choice(["local", "mapped", "mapped", "mapped", "together"])
        job["procs"] = chance.randint(1, min(cluster["procs"] for cluster in clusters))
        if kind == "local":
            job["cluster"] = chance.choice(clusters)["name"]
        if kind == "together":
            job |= {"components": chance.randint(1, 3), "deadline": job["submit"] + chance.randint(20, 150)}
        jobs.append(job)
    reallocation = {
        "algorithm": chance.choice([1, 1, 0]),
        "period": chance.choice([47, 90]),
        "threshold": 10,
        "heuristic": chance.choice(["mct", "minmin", "maxgain", "sufferage"]),
        "mapping": chance.choice(["mct", "mct", "round_robin"]),
    }
    deadlines = {"lp": chance.choice([0.5, 0.75]), "tries": chance.randint(0, 3)}
    rules = {"reallocation": reallocation, "deadlines": deadlines}
    return {"engine": "counting", "clusters": clusters, "jobs": jobs, **rules}


def test_the_example_of_the_guide(server: str, template: str) -> None:
    jobs = [{"id": "first", "procs": 1, "run": 1}, *EXAMPLE["jobs"]]
    scenario = on_real_clusters(read_grid(json.dumps({**EXAMPLE, "jobs": jobs})))
    core, modules = by_the_core(scenario), by_the_modules(server, template, scenario)
    assert modules == core
    assert core.moves


@pytest.mark.parametrize("seed", range(SEEDS))
def test_scenarios_by_chance(server: str, template: str, seed: int) -> None:
    scenario = on_real_clusters(read_grid(json.dumps(by_chance(seed))))
    core, modules = by_the_core(scenario), by_the_modules(server, template, scenario)
    assert modules.decisions == core.decisions
    assert modules.moves == core.moves
    assert modules.courses == core.courses
