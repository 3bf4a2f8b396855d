"""A timeline of gaps answers what one of slots answers, whatever is entered, and gives the same plans."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.model.request import parse_request
from oarpy.scheduler.gantt import gap_search, gaps, wide_timeline
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.gantt.wide_timeline import WideTimeline, timeline_of
from oarpy.scheduler.plan import plan
from oarpy.scheduler.resources import matching
from oarpy.scheduler.resources.bit_sets import bits_at
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.examples import examples
from tests.prop.scheduler.test_reference import scenarios

LAST = 60
CORES = 170
"""Three machine words, the last one in part."""
EVERYTHING = 2**CORES - 1
LAYOUTS = {
    "words": [f"n{place // 64}" for place in range(CORES)],
    "parts of words": [f"n{place // 10}" for place in range(CORES)],
    "scattered": [f"n{place % 17}" for place in range(CORES)],
}
PLATFORMS = {
    name: Platform.build(
        Resource(n + 1, properties={"network_address": node, "core": n}) for n, node in enumerate(nodes)
    )
    for name, nodes in LAYOUTS.items()
}
TEXTS = """/core=1 /core=30 /core=100 /core=170 /core=ALL /core=BESTHALF /nodes=1 /nodes=2 /nodes=2/core=7
/nodes=3/core=1 /nodes=10/core=4 /nodes=ALL/core=1 /nodes=BEST/core=2 /nodes=BESTHALF/core=5 /nodes=1/core=ALL
/core=20+/nodes=1"""
usable = st.sampled_from([EVERYTHING, EVERYTHING, EVERYTHING & ~(0xFF << 60), bits_at(range(0, CORES, 2))])
runs = st.builds(lambda first, count: (2**count - 1) << first & EVERYTHING, st.integers(0, CORES), st.integers(0, 90))
sets = st.one_of(runs, runs, st.integers(0, EVERYTHING))
entries = st.lists(
    st.tuples(st.sampled_from([1.0, 1.0, 0.1]), st.integers(0, 50), st.integers(1, 30), sets), max_size=30
)
asked = st.lists(
    st.tuples(st.sampled_from(TEXTS.split()), usable, st.integers(0, 55), st.integers(1, 20)), min_size=1, max_size=12
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every path run on small timelines."""
    monkeypatch.setattr(matching, "_FEW_BLOCKS", 1)
    monkeypatch.setattr(gap_search, "_AHEAD", 1)
    monkeypatch.setattr(gaps, "_ROOM", 4)


def _entered(changes: list[tuple[float, int, int, int]]) -> tuple[Timeline, WideTimeline]:
    """Take the same away from both kinds of timeline; dates are whole seconds or tenths."""
    slots, wide = Timeline(0, EVERYTHING), WideTimeline(0, EVERYTHING)
    for unit, begin, length, bits in changes:
        for line in (slots, wide):
            line.remove(begin * unit, (begin + length) * unit, bits)
    return slots, wide


@given(st.sampled_from(sorted(PLATFORMS)), entries, asked, st.one_of(st.none(), st.integers(0, LAST)))
@settings(max_examples=examples(150), deadline=None)
def test_jobs_get_the_same_places(
    layout: str, changes: list[tuple[float, int, int, int]], jobs: list[tuple[str, int, int, int]], latest: int | None
) -> None:
    slots, wide = _entered(changes)
    matchers = Matchers(PLATFORMS[layout])
    for text, mask, instant, hold in jobs:
        groups = parse_request(text).groups
        matcher = matchers.request(groups, [mask] * len(groups))
        found = slots.first_fit(instant, hold, matcher, latest)
        assert wide.first_fit(instant, hold, matcher, latest) == found
        if found is not None:
            for line in (slots, wide):
                line.remove(found[0], found[0] + hold, found[1], all_free=True)
    assert wide.begins == slots.begins
    assert wide.copy().slots() == slots.slots()


@given(entries, entries, st.integers(0, 55), st.integers(1, 20))
@settings(max_examples=examples(100), deadline=None)
def test_what_is_free_is_the_same(
    changes: list[tuple[float, int, int, int]], later: list[tuple[float, int, int, int]], begin: int, hold: int
) -> None:
    slots, wide = _entered(changes)
    matcher = Matchers(PLATFORMS["words"]).request(parse_request("/core=50").groups, [EVERYTHING])
    assert wide.first_fit(begin, hold, matcher) == slots.first_fit(begin, hold, matcher)
    twin = wide.copy()
    for unit, first, length, bits in later:
        for line in (slots, wide):
            (line.add if unit < 1 else line.remove)(first, first + length, bits)
    for seconds in (0.5, 1, hold):
        assert wide.common(begin, begin + seconds) == slots.common(begin, begin + seconds)
    assert wide.first_fit(begin, hold, matcher) == slots.first_fit(begin, hold, matcher)
    assert wide.after(begin) == slots.after(begin)
    assert twin.slots() == _entered(changes)[0].slots()


@given(scenarios())
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_plans_are_the_same(scenario: dict[str, Any]) -> None:
    snapshot = read_scenario(json.dumps(scenario))
    made = plan(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wide_timeline, "_MANY", 0)
        assert plan(snapshot) == made


def test_only_large_machines_have_gaps() -> None:
    assert isinstance(timeline_of(0, 2**1_024 - 1), Timeline)
    assert isinstance(timeline_of(0, 2**102_400 - 1), WideTimeline)
