"""Requests that can ever be served, text Gantts, and the examples in the docstrings."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from oarpy.model.request import parse_request
from oarpy.scheduler import bits, gantt_text, snapshot
from oarpy.scheduler.feasibility import feasible
from oarpy.scheduler.gantt_text import Bar, render
from oarpy.scheduler.matching import Matchers
from oarpy.scheduler.snapshot import Alternative
from tests.unit.scheduler.cases import cluster

SIX = cluster("n1:2 n2:2 n3:2", states={1: "Absent", 2: "Suspected", 6: "Dead"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/core=5", None),  # Absent and Suspected resources may be back, Dead ones will not
        ("/nodes=3", None),
        ("/nodes=2/core=2", None),
        ("/core=ALL", None),
        ("/core=6", "5 of 6 core"),
        ("/nodes=3/core=2", "2 of 3 nodes that hold /core=2"),
        ("/nodes=ALL/core=2", "not every nodes holds /core=2"),
        ("/switch=1", "'switch' is not a level of this platform"),
        ("/core=3+/core=3", "its groups together need more resources than there are"),
    ],
)
def test_what_can_ever_be_served(text: str, reason: str | None) -> None:
    alternative = Alternative(parse_request(text).groups, 60)
    matchers = Matchers(SIX)
    assert feasible(SIX, alternative, SIX.everything, matchers) == reason
    assert feasible(SIX, alternative, [SIX.everything] * len(alternative.groups)) == reason


def test_a_mask_per_group() -> None:
    alternative = Alternative(parse_request("{gpu = 1}/core=1+/core=1").groups, 60)
    assert feasible(SIX, alternative, [0b001000, 0b001000]) == "its groups together need more resources than there are"
    assert feasible(SIX, alternative, [0b001000, 0b011000]) is None
    assert feasible(SIX, alternative, [0, 0b011000]) == "no resource where gpu = 1"


def test_a_gantt_by_host_shows_several_jobs_and_what_is_down() -> None:
    platform = cluster("n1:2 n2:2", states={3: "Dead", 4: "Absent"})
    bars = [Bar(7, 0, 30, [1]), Bar(8, 20, 50, [2]), Bar(9, 90, 200, [4])]
    assert (
        "\n" + render(platform, bars, step=10, columns=12, by="network_address")
        == """
n1 |11+22.......|
n2 |xxxxxxxxx333|"""
    )


@pytest.mark.parametrize("module", [bits, gantt_text, snapshot])
def test_examples_in_docstrings(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
