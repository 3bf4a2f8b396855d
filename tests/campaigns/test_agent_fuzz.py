"""A small number of the agent's fuzz, and of a hostile agent's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.campaigns.agent_fuzz import Agent, fuzz, fuzz_reader, fuzz_steps

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("seed", [1, 2])
def test_no_crash_no_hang_no_effect(tmp_path: Path, seed: int) -> None:
    agent = Agent(tmp_path, f"fuzz-{tmp_path.name}-{os.getpid()}")
    try:
        assert fuzz(agent, 3000, seed) == []
    finally:
        agent.close()
    words = "error refused ended pong suspended resumed cleaned checked load scripted"
    assert set(words.split()) <= set(agent.outcomes)


def test_what_a_hostile_agent_says_is_refused_or_can_be_stored() -> None:
    outcomes, wrong = fuzz_reader(5000, 1)
    assert wrong == []
    assert {"read", "refused"} == set(outcomes)


def test_specifications_of_steps_are_refused_or_whole() -> None:
    assert fuzz_steps(3000, 1) == []
