"""Twenty small seeds of the deterministic simulation, and that equal seeds have equal histories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaigns.deterministic import run_steps, steps_of
from tests.harness import virtual_time

pytestmark = pytest.mark.e2e
SEEDS, STEPS = 20, 30


@pytest.fixture(scope="module")
def template(server: str) -> Iterator[str]:
    """A database with the virtual clock, from which each seed gets its own."""
    with virtual_time.template(server) as name:
        yield name


def test_nothing_is_stuck_doubled_lost_or_held(server: str, template: str) -> None:
    kills = 0
    for seed in range(1, SEEDS + 1):
        result = run_steps(server, template, seed, steps_of(seed, STEPS))
        assert result.wrong == "", f"seed {seed}: {result.wrong}\n" + "\n".join(result.history[-40:])
        kills += result.counts.kills
    assert kills > SEEDS


def test_equal_seeds_have_equal_histories(server: str, template: str) -> None:
    first, second = (run_steps(server, template, 7, steps_of(7, STEPS)) for _ in range(2))
    assert first.history == second.history
    assert first.digest == second.digest
