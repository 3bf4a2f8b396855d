"""A trace is stepped through under each policy: what it prints, and that going back changes nothing."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from oarpy.grid.simulation.command import run_grid
from oarpy.model.errors import UsageError
from oarpy.scheduler.order.queue_orders import ORDERS
from oarpy.scheduler.order.usage_shares import Priorities
from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.live_order import LiveOrder
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import POLICIES
from oarpy.simulation.stepping.stepped_run import Stop, play
from oarpy.simulation.stepping.stepper import Stepper
from oarpy.simulation.stepping.trace_command import SteppedTrace, play_trace, read_stepped
from oarpy.simulation.traces.trace import Trace, TraceJob

OVER = "Terminated"


def made(seed: int = 1, count: int = 15) -> tuple[TraceJob, ...]:
    dice, now, jobs = Random(seed), 0.0, []
    for number in range(1, count + 1):
        now += dice.choice([0, 0, 3, 10])
        run = dice.choice([5, 10, 20])
        jobs.append(TraceJob(number, now, run, run * dice.choice([1, 2]), dice.randint(1, 6), user="ab"[number % 2]))
    return tuple(jobs)


def stepped(order: str = "fifo", live: LiveOrder | None = None, machine: Machine | None = None) -> SteppedTrace:
    return SteppedTrace(Trace("made", made()), machine or Machine(6), order, live)


FAIR = LiveOrder("fairshare", ORDERS["fairshare"], Priorities(), 1000.0)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("live", [None, FAIR], ids=["fifo", "fairshare"])
def test_a_trace_gone_through_is_where_one_is_that_was_only_played(
    policy: str, live: LiveOrder | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if live is not None and policy == "compressed":
        pytest.skip("compression has no order but that of the jobs")
    monkeypatch.setattr("oarpy.simulation.stepping.stepper._FORWARD", 0)
    monkeypatch.setattr("oarpy.simulation.stepping.stepper.thread_time", lambda: 0.0)
    start = partial(stepped(live=live).run_of, policy)
    stepper, dice = Stepper(start), Random(policy)
    for _ in range(12):
        step = dice.randint(0, 32)
        stepper.go_to(step)
        alone = play(start(), Stop(steps=step, places=True))
        assert json.dumps(stepper.state()) == json.dumps(play(start(), Stop(steps=step)))
        assert stepper.view()["event"] == alone["event"]
        (cluster,), (other,) = stepper.view()["clusters"], alone["clusters"]
        assert json.dumps(cluster) == json.dumps({key: value for key, value in other.items() if key != "over"})


@pytest.mark.parametrize("policy", POLICIES)
def test_stepped_starts_are_those_of_the_replay(policy: str) -> None:
    found = stepped(machine=Machine(6, 2)).run_of(policy)
    play(found, Stop())
    assert found.starts == replay(made(), stepped(machine=Machine(6, 2)).run_of(policy)._scheduler)


@pytest.mark.parametrize("policy", ["conservative", "first_fit"])
def test_places_are_the_processors_of_the_planner(policy: str) -> None:
    if policy not in POLICIES:
        pytest.skip("no such policy")
    machine = Machine(6, 2)
    for step in range(31):
        state = play(stepped(machine=machine).run_of(policy), Stop(steps=step, places=True))
        (cluster,) = state["clusters"]
        for bar in (*cluster["running"], *cluster["planned"]):
            assert all(low % 2 == high % 2 == 0 for low, high in bar["rows"])
        held = [row for bar in cluster["running"] for low, high in bar["rows"] for row in range(low, high)]
        assert len(held) == len(set(held))


def test_a_log_does_not_replace_what_is_read(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.json"
    scenario.write_text('{"kept": 1}')
    (tmp_path / "link").symlink_to(scenario)
    for log in (scenario, tmp_path / "link"):
        with pytest.raises(UsageError, match="that is the file to read"):
            run_grid([str(scenario)], io.StringIO(), io.StringIO(), log=str(log))
    assert scenario.read_text() == '{"kept": 1}'


def test_what_is_printed_and_logged(tmp_path: Path) -> None:
    trace = tmp_path / "two.swf"
    trace.write_text("1 0 -1 20 4 -1 -1 4 20 -1 1 1 1 -1 -1 -1 -1 -1\n2 5 -1 10 4 -1 -1 4 10 -1 1 1 1 -1 -1 -1 -1 -1\n")
    policies, log, out = ("fcfs", "conservative"), tmp_path / "log", io.StringIO()
    read = read_stepped(trace, Machine(4), policies, "fifo", None, None)
    assert play_trace(read, policies, Stop(steps=2), str(log), out) == 0
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert list(first) == ["policy", "now", "steps", "jobs"]
    assert second | {"policy": "fcfs"} == first
    assert first["jobs"] == [
        {"id": 1, "state": "Running", "start": 0, "end": 20},
        {"id": 2, "state": "Waiting", "start": 20, "end": 30},
    ]
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[1] == {"policy": "fcfs", "step": 2, "at": 5, "event": "arrival", "job": 2, "changed": []}
    assert [line["policy"] for line in lines] == ["fcfs", "fcfs", "conservative", "conservative"]
