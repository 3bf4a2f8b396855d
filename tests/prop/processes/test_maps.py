"""Maps of processes: as the naive reference has them, every process once, whatever the order of equal types."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.processes.dealing import map_lines, shares
from oarpy.processes.mapping import MAPPERS, Program, Rates
from tests.campaigns.decide_random import different
from tests.harness.examples import examples

SIZES = ("a", "b", "c")
KINDS = ("r", "s", "t")
cores = st.fixed_dictionaries({kind: st.integers(0, 4) for kind in KINDS}).filter(lambda found: any(found.values()))
rates = st.fixed_dictionaries(
    {kind: st.fixed_dictionaries(dict.fromkeys(SIZES, st.sampled_from([0.5, 1.0, 2.0, 3.0]))) for kind in KINDS}
)
programs = st.builds(Program, st.integers(1, 40), st.sampled_from([1, 100]), st.sampled_from([0.0, 0.5]))
models = st.sampled_from(sorted(MAPPERS))


def test_random_maps_are_those_of_the_reference() -> None:
    assert [text for seed in range(examples(2000)) if (text := different("map", seed)) is not None] == []


@given(models, cores, rates, programs)
def test_every_process_is_placed_once(model: str, cores: dict[str, int], rates: Rates, program: Program) -> None:
    found = MAPPERS[model](cores, rates, program)
    counted: Counter[str] = Counter()
    for its in found.assigned.values():
        counted.update(its)
    each, more = divmod(program.processes, len(SIZES))
    assert sum(counted.values()) == program.processes
    assert sorted(counted[size] for size in SIZES) == sorted(each + (place < more) for place in range(len(SIZES)))
    # the same on single cores: all lines of the map together have each process once, on a core that there is
    hosts = [(f"{kind}{number}", kind) for kind in KINDS for number in range(cores[kind])]
    used = {kind: shares(found, kind, lambda _: 1.0) for kind, count in cores.items() if count}
    dealt: Counter[str] = Counter()
    for line in map_lines(used, hosts, in_stages=model == "sync"):
        host, core, size, count = line.split()
        assert (host, core) in {(name, "0") for name, _ in hosts}
        dealt[size] += int(count)
    assert dealt == counted


@given(models, cores, rates, programs, st.permutations(KINDS))
def test_types_of_equal_rates_give_equal_seconds_whatever_their_order(
    model: str, cores: dict[str, int], rates: Rates, program: Program, order: list[str]
) -> None:
    mapper, alike = MAPPERS[model], dict.fromkeys(KINDS, rates["r"])
    seconds = mapper(cores, alike, program).seconds
    assert mapper({kind: cores[kind] for kind in order}, alike, program).seconds == pytest.approx(seconds)
    assert mapper({"r": sum(cores.values())}, alike, program).seconds == pytest.approx(seconds)
