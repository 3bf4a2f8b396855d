"""How many jobs a pass looks at together, and asks about, changes nothing of what it decides."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from oarpy.grid.core import reallocation
from oarpy.grid.core.exchanges import AskEcts, EctsTold
from oarpy.grid.core.heuristics import BY_GAIN
from oarpy.grid.simulation.grid_run import GridOutcome, GridRun
from oarpy.grid.simulation.reader import read_grid


def outcome(policy: str, algorithm: int, heuristic: str, walltimes: Sequence[int] = range(100, 5000)) -> GridOutcome:
    """Return what becomes of a burst of jobs of which many take less than they say."""
    draw = Random(5)
    jobs: list[dict[str, Any]] = []
    for number in range(120):
        walltime = draw.choice(walltimes)
        run = draw.choice([walltime, walltime // 5 + 1])
        jobs.append(
            {
                "id": number,
                "submit": draw.randrange(900),
                "procs": draw.randrange(1, 9),
                "run": run,
                "walltime": walltime,
            }
        )
    clusters = [{"name": name, "procs": procs, "policy": policy} for name, procs in (("a", 12), ("b", 9), ("c", 8))]
    rules = {"algorithm": algorithm, "heuristic": heuristic, "period": 1000}
    file = {"engine": "counting", "clusters": clusters, "jobs": jobs, "reallocation": rules}
    return GridRun(read_grid(json.dumps(file))).run()


@pytest.mark.parametrize("algorithm", [1, 2])
@pytest.mark.parametrize("policy", ["fcfs", "conservative"])
def test_first_come_first_served_by_few_and_by_all(
    monkeypatch: pytest.MonkeyPatch, policy: str, algorithm: int
) -> None:
    by_sixteen = outcome(policy, algorithm, "mct")
    assert len(by_sixteen.moves) > 10
    for count in (1, 3, 1000):
        monkeypatch.setattr(reallocation, "_TOGETHER", count)
        assert outcome(policy, algorithm, "mct") == by_sixteen


@pytest.mark.long
@pytest.mark.parametrize("heuristic", ["minmin", "maxmin", "maxgain", "maxrelgain", "sufferage"])
@pytest.mark.parametrize("policy", ["fcfs", "conservative", "easy"])
def test_one_of_a_kind_is_asked_about_or_each(monkeypatch: pytest.MonkeyPatch, policy: str, heuristic: str) -> None:
    walltimes = (600, 1800, 3600)
    asked = [0]
    told, part = GridRun._told, GridRun._part

    def counted(run: GridRun, ask: AskEcts, now: float) -> EctsTold:
        asked[-1] += len(ask.jobs)
        return told(run, ask, now)

    monkeypatch.setattr(GridRun, "_told", counted)
    one_of_a_kind = outcome(policy, 2, heuristic, walltimes)
    assert len(one_of_a_kind.moves) > 10
    asked.append(0)
    monkeypatch.setattr(GridRun, "_part", lambda *args: replace(part(*args), kind=None))
    assert outcome(policy, 2, heuristic, walltimes) == one_of_a_kind
    # two that are alike in what they gain too are rare
    assert asked[0] < asked[1] / (1 if heuristic in BY_GAIN else 2)
