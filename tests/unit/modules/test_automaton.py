"""The automaton's machine: complete, merging repeats, and never forgetting that a module is wanted."""

from __future__ import annotations

from itertools import product

import pytest

from oarpy import slices
from oarpy.modules.automaton import PATIENCE, PATIENT, REACTIONS, TABLE, Activity, EventMachine, Stimulus
from oarpy.modules.registry import GRID_MODULES, MODULES

PERIODS = {"metascheduler": 60.0, "launcher": 10.0, "accounting": 300.0}


@pytest.fixture
def machine() -> EventMachine:
    """A machine at time 0, each module told once and done."""
    made = EventMachine(PERIODS)
    made.stimulate([(name, Stimulus.WANTED) for name in PERIODS], 0.0)
    made.stimulate([(name, Stimulus.DONE) for name in PERIODS], 0.0)
    return made


def want(machine: EventMachine, name: str, at: float) -> list[str]:
    return machine.stimulate([(name, Stimulus.WANTED)], at)


def test_every_stimulus_is_defined_in_every_activity() -> None:
    assert set(TABLE) == set(product(Activity, Stimulus))


def test_reactions_name_modules_only() -> None:
    known = {*MODULES, *GRID_MODULES, *slices.MODULES} - {"automaton"}
    assert {name for names in REACTIONS.values() for name in names} | PATIENT <= known


def test_an_idle_module_is_told_at_once(machine: EventMachine) -> None:
    assert want(machine, "launcher", 1.0) == ["launcher"]


def test_repeats_while_a_module_runs_make_one_more_run(machine: EventMachine) -> None:
    assert want(machine, "launcher", 1.0) == ["launcher"]
    for _ in range(5):
        assert want(machine, "launcher", 1.1) == []
    assert machine.stimulate([("launcher", Stimulus.DONE)], 1.2) == ["launcher"]
    assert machine.stimulate([("launcher", Stimulus.DONE)], 1.3) == []


def test_repeats_heard_together_are_one(machine: EventMachine) -> None:
    assert machine.stimulate([("launcher", Stimulus.WANTED)] * 3, 1.0) == ["launcher"]
    assert machine.stimulate([("launcher", Stimulus.DONE)], 1.1) == []


def test_a_module_that_never_says_done_is_told_again_after_its_period(machine: EventMachine) -> None:
    assert want(machine, "launcher", 1.0) == ["launcher"]
    assert machine.overdue(10.9) == []
    assert machine.overdue(11.0) == ["launcher"]
    assert machine.overdue(12.0) == []


def test_an_idle_module_is_told_after_its_period(machine: EventMachine) -> None:
    assert machine.overdue(9.9) == []
    assert machine.overdue(10.0) == ["launcher"]
    assert machine.overdue(60.0) == ["launcher", "metascheduler"]


def test_a_patient_module_runs_at_most_once_in_its_patience(machine: EventMachine) -> None:
    assert want(machine, "accounting", PATIENCE / 2) == []
    assert machine.overdue(PATIENCE - 0.1) == []
    assert machine.overdue(PATIENCE) == ["accounting"]
    machine.stimulate([("accounting", Stimulus.DONE)], PATIENCE + 0.1)
    assert machine.overdue(2 * PATIENCE + 1) == []


def test_modules_that_are_not_ours_are_ignored(machine: EventMachine) -> None:
    assert machine.stimulate([("automaton", Stimulus.DONE), ("gateway", Stimulus.DONE)], 1.0) == []
