"""A run that is stopped is where the whole run was then, in every system."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from oarpy.grid.simulation.command import object_of, run_of
from oarpy.simulation.stepping.stepped_run import Stop, play
from tests.prop.grid.random_systems import random_scenario
from tests.unit.grid.test_grid_simulate import EXAMPLE

OVER = ("Terminated", "Refused", "Missed", "Killed")


def logged(text: str, stop: Stop) -> list[dict[str, Any]]:
    log = io.StringIO()
    play(run_of(text), stop, log)
    return [json.loads(line) for line in log.getvalue().splitlines()]


def files(system: str) -> list[str]:
    if system == "queues":
        return [json.dumps({**EXAMPLE, "engine": engine}) for engine in ("counting", "production")]
    return [json.dumps(random_scenario(system, seed)) for seed in range(5)]


@pytest.mark.long
@pytest.mark.parametrize("system", ["queues", "windows", "flexco", "offers", "bags"])
def test_a_run_that_is_stopped_is_where_the_whole_run_was(system: str) -> None:
    for text in files(system):
        whole, events = object_of(text), logged(text, Stop())
        assert [one["step"] for one in events] == list(range(1, len(events) + 1))
        assert object_of(text, Stop(steps=0)) | {"jobs": []} == {"now": None, "steps": 0, "jobs": []} | (
            {"moves": []} if system == "queues" else {}
        )
        end = object_of(text, Stop(steps=len(events) + 5))
        assert (end["steps"], end["now"], end["jobs"]) == (len(events), events[-1]["at"], whole["jobs"])
        assert "metrics" not in end
        for one in events:
            state = object_of(text, Stop(steps=one["step"]))
            assert (state["now"], state["steps"]) == (one["at"], one["step"])
            for now, then in zip(state["jobs"], whole["jobs"], strict=True):
                assert now["state"] not in OVER or now == then
            last = max(other["step"] for other in events if other["at"] <= one["at"])
            assert object_of(text, Stop(until=one["at"])) == object_of(text, Stop(steps=last))
            assert logged(text, Stop(steps=one["step"])) == events[: one["step"]]


@pytest.mark.parametrize("system", ["queues", "windows", "flexco", "offers", "bags"])
def test_the_log_names_whose_start_or_parts_changed(system: str) -> None:
    for text in files(system):
        before = object_of(text, Stop(steps=0))["jobs"]
        for one in logged(text, Stop()):
            now = object_of(text, Stop(steps=one["step"]))["jobs"]
            changed = [
                new["id"]
                for old, new in zip(before, now, strict=True)
                if new["id"] != one["job"] and old["state"] == "Waiting" and old["start"] is not None
                if any(old.get(key) != new.get(key) for key in ("start", "last_start", "parts", "clusters"))
            ]
            assert set(changed) <= set(one["changed"])
            before = now
