"""The timeline equals a list of seconds, whatever is entered; its search finds what trying every slot finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.request import parse_request
from oarpy.scheduler.gantt import slot_windows, timeline
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.resources import matching
from oarpy.scheduler.resources.bit_sets import bits_at, lowest, positions
from oarpy.scheduler.resources.block_counting import BlockCounter
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform, Resource
from tests.harness.examples import examples

LAST: int = 60
CORES = 12
sets = st.integers(0, 2**CORES - 1)
entries = st.lists(
    st.tuples(st.sampled_from(["remove", "remove", "remove", "add"]), st.integers(0, 50), st.integers(1, 30), sets),
    max_size=40,
)
TEXTS = """/core=1 /core=3 /core=7 /core=ALL /core=BESTHALF /nodes=1 /nodes=2 /nodes=2/core=2 /nodes=3/core=1
/nodes=ALL/core=1 /nodes=BEST/core=2 /nodes=1/core=ALL /core=1+/nodes=1"""
texts = st.sampled_from(TEXTS.split())


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every path run on small timelines."""
    monkeypatch.setattr(timeline, "_CHUNK", 2)
    monkeypatch.setattr(matching, "_FEW_BLOCKS", 1)
    monkeypatch.setattr(slot_windows, "_AHEAD", 1)
    monkeypatch.setattr(slot_windows, "_BLOCKS_AHEAD", 1)


def _entered(changes: list[tuple[str, int, int, int]]) -> tuple[Timeline, list[int]]:
    line = Timeline(0, 2**CORES - 1)
    seconds = [2**CORES - 1] * LAST
    for what, begin, length, bits in changes:
        end = min(begin + length, LAST)
        if what == "remove":
            line.remove(begin, end, bits)
        else:
            line.add(begin, end, bits)
        for second in range(begin, end):
            seconds[second] = seconds[second] & ~bits if what == "remove" else seconds[second] | bits
    return line, seconds


def _common(seconds: list[int], begin: int, end: int) -> int:
    bits: int = 2**CORES - 1
    for second in range(begin, min(end, LAST)):
        bits &= seconds[second]
    return bits


def _platform() -> Platform:
    rows = (Resource(n + 1, properties={"network_address": f"n{n // 4}", "core": n}) for n in range(CORES))
    return Platform.build(rows)


@given(entries, st.integers(0, 55), st.integers(1, 20))
@settings(max_examples=examples(150), deadline=None)
def test_common_is_what_is_free_in_every_second(
    changes: list[tuple[str, int, int, int]], begin: int, hold: int
) -> None:
    line, seconds = _entered(changes)
    assert line.common(begin, begin + hold) == _common(seconds, begin, begin + hold)
    assert line.begins == sorted(set(line.begins))
    twin = line.copy()
    twin.remove(begin, begin + hold, 2**CORES - 1)
    assert line.common(begin, begin + hold) == _common(seconds, begin, begin + hold)


@given(entries, entries, texts, st.integers(0, 55), st.integers(1, 20), st.one_of(st.none(), st.integers(0, LAST)))
@settings(max_examples=examples(400), deadline=None)
def test_first_fit_is_the_first_second_that_fits(
    changes: list[tuple[str, int, int, int]],
    later: list[tuple[str, int, int, int]],
    text: str,
    instant: int,
    hold: int,
    latest: int | None,
) -> None:
    platform = _platform()
    groups = parse_request(text).groups
    matcher = Matchers(platform).request(groups, [platform.everything] * len(groups))
    line, _ = _entered(changes)
    line.first_fit(instant, hold, matcher)  # from here on blocks are counted as jobs are entered
    for what, begin, length, bits in later:
        (line.remove if what == "remove" else line.add)(begin, min(begin + length, LAST), bits)
    seconds = _entered([*changes, *later])[1]
    candidates = [second for second in range(instant, LAST + 1) if second in (instant, *line.begins)]
    fits = [(second, matcher.match(_common(seconds, second, second + hold))) for second in candidates]
    expected = next(((second, bits) for second, bits in fits if bits), None)
    if expected and latest is not None and expected[0] >= latest:
        expected = None
    assert line.first_fit(instant, hold, matcher, latest) == expected


@given(sets, texts)
@settings(max_examples=examples(150), deadline=None)
def test_blocks_counted_at_once_give_the_same_resources(free: int, text: str) -> None:
    platform = _platform()
    groups = parse_request(text).groups
    masks = [platform.everything] * len(groups)
    counted = Matchers(platform).request(groups, masks).match(free)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_FEW_BLOCKS", 10_000)
        plain = Matchers(platform).request(groups, masks)
    assert counted == plain.match(free)
    assert not counted or counted & ~free == 0
    assert plain.may_fit(free) or not counted


@given(
    st.sampled_from([8, 16, 64]),
    st.sampled_from(
        ["/nodes=3", "/nodes=ALL", "/nodes=BEST", "/nodes=9/core=2", "/nodes=BEST/core=4", "/nodes=12/core=BEST"]
    ),
    st.lists(st.integers(0, 2**64 - 1), min_size=12, max_size=12),
    st.lists(st.booleans(), min_size=12, max_size=12),
)
@settings(max_examples=examples(150), deadline=None)
def test_many_nodes_of_a_machine_word_give_what_each_gives_alone(
    width: int, text: str, words: list[int], whole: list[bool]
) -> None:
    rows = (Resource(n + 1, properties={"network_address": f"n{n // width}", "core": n}) for n in range(12 * width))
    platform, groups = Platform.build(rows), parse_request(text).groups
    full = 2**width - 1
    free = sum(
        (full if all_of else word & full) << rank * width
        for rank, (word, all_of) in enumerate(zip(words, whole, strict=True))
    )
    together = Matchers(platform).request(groups, [platform.everything]).match(free)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_FEW_BLOCKS", 10_000)
        assert Matchers(platform).request(groups, [platform.everything]).match(free) == together


@given(st.integers(0, 2**300 - 1), st.integers(0, 300))
def test_lowest_members(bits: int, count: int) -> None:
    members = positions(bits)
    assert bits_at(members) == bits
    count = min(count, len(members))
    assert positions(lowest(bits, count)) == members[:count]


@given(st.sampled_from([1, 3, 8, 16, 24, 64]), st.integers(1, 5), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=examples(60), deadline=None)
def test_members_counted_by_words_or_one_by_one(width: int, blocks: int, scattered: bool, draw: object) -> None:
    places = list(range(width * blocks))
    if scattered:
        draw.shuffle(places)  # type: ignore[attr-defined]
    parts = [bits_at(places[rank * width : (rank + 1) * width]) for rank in range(blocks)]
    free = draw.getrandbits(width * blocks + 3)  # type: ignore[attr-defined]
    assert BlockCounter(parts).count(free).tolist() == [(part & free).bit_count() for part in parts]
