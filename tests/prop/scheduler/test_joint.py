"""Looking at free resources, partners and consumables at once finds what trying every instant finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.request import Consumption, parse_request
from oarpy.scheduler.gantt import shared_search, timeline
from oarpy.scheduler.gantt.amount_timeline import Stocks, StockView
from oarpy.scheduler.gantt.known_lower_bounds import Bounds
from oarpy.scheduler.gantt.sparse_timeline import Pieces
from oarpy.scheduler.gantt.timeline import Timeline
from oarpy.scheduler.resources.bit_sets import bits_at
from oarpy.scheduler.resources.block_requirements import Gauges
from oarpy.scheduler.resources.consumables import Capacities, Consumable
from oarpy.scheduler.resources.matching import Matchers, RequestMatcher
from oarpy.scheduler.resources.platform import Platform, Resource
from tests.harness.examples import examples

LAST = 60
NODES, CORES = 10, 40
PLATFORM = Platform.build(
    Resource(n + 1, properties={"network_address": f"n{n // 4}", "switch": f"s{n // 12}", "core": n})
    for n in range(CORES)
)
MEMORY = Consumable("memory", "network_address", {f"n{number}": 4 + number % 3 * 2 for number in range(NODES)})
NET = Consumable("net", "switch", {f"s{number}": 6 for number in range(4)})
CAPACITIES = Capacities((MEMORY, NET), PLATFORM)
MATCHERS = Matchers(PLATFORM)
GAUGES = Gauges(PLATFORM, MATCHERS, CAPACITIES)
TEXTS = """/core=1 /core=5 /core=12 /core=BEST /nodes=1 /nodes=3 /nodes=2/core=3 /nodes=4/core=1 /nodes=ALL/core=1
/nodes=BEST/core=2 /nodes=1/core=ALL /switch=2/nodes=1/core=2 /switch=1/core=6 /core=3+/nodes=1"""
whole = PLATFORM.everything
masks = st.sampled_from([whole, whole, whole & ~0xF, bits_at(range(0, CORES, 2))])
asked = st.lists(
    st.one_of(
        st.builds(Consumption, st.just("memory"), st.integers(1, 8)),
        st.builds(Consumption, st.just("net"), st.integers(1, 6)),
    ),
    max_size=2,
    unique_by=lambda one: one.name,
).map(lambda some: tuple(sorted(some, key=lambda one: one.name)))
holds = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 25), st.sets(st.integers(0, CORES - 1), max_size=20), asked),
    min_size=4,
    max_size=20,
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every path run on small timelines."""
    monkeypatch.setattr(timeline, "_CHUNK", 2)
    monkeypatch.setattr(shared_search, "_AHEAD", 1)


def _filled(held: list[tuple[int, int, set[int], tuple[Consumption, ...]]]) -> tuple[Timeline, Pieces, Stocks]:
    """Enter jobs, every third of which is a partner, as spaces do."""
    alone, partners, stocks = Timeline(0, whole), Pieces(), Stocks(CAPACITIES, 0)
    for rank, (begin, length, places, consumes) in enumerate(held):
        bits, end = bits_at(sorted(places)), begin + length
        if rank % 3 == 0:
            for left in range(begin, end):
                partners.add(left, left + 1, bits & alone.common(left, left + 1))
        else:
            partners.remove(begin, end, bits)
        alone.remove(begin, end, bits)
        stocks.take(begin, end, bits, consumes)
    return alone, partners, stocks


def _tried(
    matcher: RequestMatcher, alone: Timeline, partners: Pieces | None, stock: StockView | None, span: tuple[int, int]
) -> tuple[float, int] | None:
    """Try every second."""
    first, hold = span
    for start in range(first, LAST + 30):
        free = whole
        for second in range(start, start + hold):
            there = alone.common(second, second + 1)
            if partners is not None:
                there |= next(iter(partners.parts(second, second + 1)))[2]
            if stock is not None:
                there &= stock.common(second, second + 1)
            free &= there
        if bits := matcher.match(free):
            return start, bits
    return None


@given(holds, st.sampled_from(TEXTS.split()), masks, asked, st.booleans(), st.integers(0, 30), st.integers(1, 25))
@settings(max_examples=examples(150), deadline=None)
def test_it_finds_what_trying_every_second_finds(
    held: list[tuple[int, int, set[int], tuple[Consumption, ...]]],
    text: str,
    mask: int,
    consumes: tuple[Consumption, ...],
    sharing: bool,
    first: int,
    hold: int,
) -> None:
    alone, pieces, stocks = _filled(held)
    partners = pieces if sharing else None
    groups = parse_request(text).groups
    matcher = MATCHERS.request(groups, [mask & CAPACITIES.admitted(consumes)] * len(groups))
    stock = StockView(stocks, consumes) if consumes else None
    gauge = GAUGES.of(matcher, consumes) if consumes else None
    found = shared_search.first_fit(alone, partners, stock, gauge, matcher, first, hold)
    assert found == _tried(matcher, alone, partners, stock, (first, hold))
    if found is not None:
        early = shared_search.first_fit(alone, partners, stock, gauge, matcher, first, hold, found[0] + 1)
        assert early == found
        assert shared_search.first_fit(alone, partners, stock, gauge, matcher, first, hold, found[0]) is None


@given(holds)
@settings(max_examples=examples(50), deadline=None)
def test_stocks_equal_amounts_counted_second_by_second(
    held: list[tuple[int, int, set[int], tuple[Consumption, ...]]],
) -> None:
    stocks = Stocks(CAPACITIES, 0)
    used: dict[tuple[str, str, int], int] = {}
    for begin, length, places, consumes in held:
        bits = bits_at(sorted(places))
        stocks.take(begin, begin + length, bits, consumes)
        for part, amount in CAPACITIES.parts(bits, consumes).items():
            for second in range(begin, begin + length):
                used[*part, second] = used.get((*part, second), 0) + amount
    for name, stores in CAPACITIES.stores.items():
        for amount in (1, 3, 6):
            for second in range(0, LAST, 7):
                enough = StockView(stocks, (Consumption(name, amount),)).common(second, second + 5)
                for store in stores:
                    most = max(used.get((name, store.name, instant), 0) for instant in range(second, second + 5))
                    short = most + amount > store.capacity >= amount
                    assert bool(enough & store.bits) is not short


def test_what_is_known_of_a_request_counts_for_those_that_consume_more() -> None:
    groups = parse_request("/nodes=2/core=2").groups
    matcher, bounds = MATCHERS.request(groups, [whole]), Bounds()
    bounds.note(matcher, 10, 50, (Consumption("memory", 4),))
    assert bounds.earliest(matcher, 10, (Consumption("memory", 5),)) == 50
    assert bounds.earliest(matcher, 10, (Consumption("memory", 3),)) == float("-inf")
    assert bounds.earliest(matcher, 10) == float("-inf")
    bounds.note(matcher, 10, 30)
    assert bounds.earliest(matcher, 20, (Consumption("memory", 3),)) == 30
