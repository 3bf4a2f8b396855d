"""Cores that take turns as a map in stages says are as long at work as it says."""

from __future__ import annotations

from random import Random

import pytest

from oarpy.processes.dealing import Share, dealt
from oarpy.processes.mapping import Program, synchronous
from tests.harness.examples import examples


def random_program(random: Random) -> tuple[dict[str, int], dict[str, dict[str, float]], Program]:
    """Return cores, rates and a program that need not divide evenly."""
    kinds, sizes = [f"t{n}" for n in range(random.randint(1, 3))], [f"s{n}" for n in range(random.randint(1, 4))]
    cores = {kind: random.randint(1, 5) for kind in kinds}
    rates = {kind: {size: random.choice([1.0, 2.0, 3.0, 5.0, 8.0]) for size in sizes} for kind in kinds}
    return cores, rates, Program(random.randint(1, 40), 100, random.choice([0.0, 0.8]))


@pytest.mark.parametrize("seed", range(examples(200)))
def test_stages_take_as_long_as_the_map_says(seed: int) -> None:
    cores, rates, program = random_program(Random(seed))
    found = synchronous(cores, rates, program)
    stages: list[list[float]] = [[] for _ in range(found.stages or 0)]
    counted: dict[str, dict[str, int]] = {kind: {} for kind in cores}
    for kind, turns in found.turns.items():
        shares = [Share(turn.size, turn.cores * turn.stages, 0.0, turn.stages) for turn in turns]
        lines: list[list[str]] = [[] for _ in range(cores[kind])]
        for core, size, count in dealt(shares, cores[kind], in_stages=True):
            lines[core] += [size] * count
            counted[kind][size] = counted[kind].get(size, 0) + count
        for line in lines:
            for stage, size in enumerate(line):
                stages[stage].append(program.iterations / rates[kind][size])
    assert sum(max(times) + program.transfer for times in stages) == pytest.approx(found.seconds)
    assert counted == {kind: dict(its) for kind, its in found.assigned.items()}
