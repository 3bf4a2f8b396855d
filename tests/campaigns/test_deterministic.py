"""Twenty small seeds of the deterministic simulation, and that equal seeds have equal histories."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import pytest

from oarpy.modules.launcher import recording
from tests.campaigns.deterministic import Step, run_steps, shrink, steps_of
from tests.harness import virtual_time

pytestmark = pytest.mark.e2e
SEEDS, STEPS = 20, 30


@pytest.fixture(scope="module")
def template(server: str) -> Iterator[str]:
    """A database with the virtual clock, from which others are made."""
    with virtual_time.template(server) as name:
        yield name


@pytest.fixture(scope="module")
def database(server: str, template: str) -> Iterator[virtual_time.Database]:
    """The database that all seeds use, one after the other."""
    with virtual_time.database(server, template) as dsn:
        yield virtual_time.Database(dsn)


def test_nothing_is_stuck_doubled_lost_or_held(database: virtual_time.Database) -> None:
    kills, starts = 0, 0
    for seed in range(1, SEEDS + 1):
        result = run_steps(database, seed, steps_of(seed, STEPS))
        assert result.wrong == "", f"seed {seed}: {result.wrong}\n" + "\n".join(result.history[-40:])
        kills += result.counts.kills
        starts += sum(" hears startNotify" in line for line in result.history)
    assert kills > SEEDS
    assert starts, "no launcher was told that its application has started"


def test_equal_seeds_have_equal_histories_whatever_ran_before(
    database: virtual_time.Database, server: str, template: str
) -> None:
    run_steps(database, 8, steps_of(8, STEPS))
    first = run_steps(database, 7, steps_of(7, STEPS))
    with virtual_time.database(server, template) as dsn:
        second = run_steps(virtual_time.Database(dsn), 7, steps_of(7, STEPS))
    assert first.history == second.history
    assert first.digest == second.digest


def test_it_does_not_matter_for_how_long_the_machine_has_been_up(
    database: virtual_time.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_steps(database, 7, steps_of(7, STEPS))
    for uptime in (1.0, 1500.0):
        monkeypatch.setattr(time, "monotonic", partial(float, uptime))
        assert run_steps(database, 7, steps_of(7, STEPS)).history == first.history


def test_what_a_wrong_seed_does_not_need_is_left_out(
    database: virtual_time.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "leaves_nothing", lambda end, row: end.started is not None and not end.event)
    found = run_steps(database, 1, [Step("submit", salt) for salt in (4, 6, 11, 12)])
    assert "was not told to end" in found.wrong
    least = shrink(database, found)
    assert "was not told to end" in least.wrong
    assert [(step.kind, step.struck) for step in least.steps] == [("submit", False)]
    assert least.steps[0].salt in (4, 6, 11, 12)
