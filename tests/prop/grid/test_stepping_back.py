"""Wherever a run is gone to, forward or back, its state is that of a run which was only played to there."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import Any

import pytest

from oarpy.grid.simulation.command import run_of
from oarpy.simulation.stepping.stepped_run import Stop, play
from oarpy.simulation.stepping.stepper import Stepper
from tests.prop.grid.random_systems import random_queues, random_scenario

SYSTEMS = ("queues", "windows", "flexco", "offers", "bags")


def scenarios(system: str, count: int) -> list[str]:
    make = random_queues if system == "queues" else lambda seed: random_scenario(system, seed)
    return [json.dumps(make(seed)) for seed in range(count)]


def played(text: str, steps: int) -> dict[str, Any]:
    return dict(play(run_of(text), Stop(steps=steps, places=True)))


def shown(stepper: Stepper) -> dict[str, Any]:
    view = stepper.view()
    over = [{key: bar[key] for key in ("job", "start", "end", "rows", "cluster")} for bar in view["over"]["bars"]]
    clusters = [
        {
            "name": cluster["name"],
            "procs": cluster["procs"],
            "queue": cluster["queue"],
            "over": [
                {key: bar[key] for key in ("job", "start", "end", "rows")}
                for bar in over
                if bar["cluster"] == cluster["name"]
            ],
            "running": cluster["running"],
            "planned": cluster["planned"],
        }
        for cluster in view["clusters"]
    ]
    return {**stepper.state(), "event": view["event"], "clusters": clusters, "broker": view["broker"]}


@pytest.mark.parametrize("every", ["each event", "few"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_gone_through_is_where_one_is_that_was_only_played(
    system: str, every: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarpy.simulation.stepping.stepper._FORWARD", 0 if every == "each event" else 1e9)
    monkeypatch.setattr("oarpy.simulation.stepping.stepper.thread_time", lambda: 0.0)
    for seed, text in enumerate(scenarios(system, 5)):
        dice, stepper = Random(seed), Stepper(partial(run_of, text))
        stepper.run_until(float("inf"))
        last = stepper.step
        assert json.dumps(shown(stepper)) == json.dumps(played(text, last))
        for _ in range(4):
            step = dice.randint(0, last + 2)
            stepper.go_to(step)
            assert json.dumps(shown(stepper)) == json.dumps(played(text, step))
            at = dice.choice([stepper.now or 0, dice.random() * 40])
            if at >= (stepper.now or 0):
                stepper.run_until(at)
                assert json.dumps(shown(stepper)) == json.dumps(played(text, stepper.step))


@pytest.mark.parametrize("system", SYSTEMS)
def test_copies_keep_within_their_memory(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarpy.simulation.stepping.stepper._FORWARD", 0)
    monkeypatch.setattr("oarpy.simulation.stepping.stepper.thread_time", lambda: 0.0)
    (text,) = scenarios(system, 1)
    stepper = Stepper(partial(run_of, text), most_bytes=20_000)
    stepper.go_to(10**6)
    count, size = stepper.copies
    assert count <= 2 or size <= 20_000
    stepper.go_to(1)
    assert json.dumps(shown(stepper)) == json.dumps(played(text, 1))


@pytest.mark.parametrize("system", SYSTEMS)
def test_nobody_shares_a_row(system: str) -> None:
    for text in scenarios(system, 5):
        stepper = Stepper(partial(run_of, text))
        while not stepper.ended:
            stepper.go_to(stepper.step + 1)
            for cluster in shown(stepper)["clusters"]:
                bars = [*cluster["over"], *cluster["running"], *cluster["planned"]]
                for place, one in enumerate(bars):
                    for other in bars[:place]:
                        if one["start"] < other["end"] and other["start"] < one["end"]:
                            assert not rows(one) & rows(other), (one, other)


def rows(bar: dict[str, Any]) -> set[int]:
    return {row for low, high in bar["rows"] for row in range(low, high)}
