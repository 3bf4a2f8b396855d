"""The stencil of the examples divides its data anew, and computes the same on whatever hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oarpy.examples.negotiation import stencil
from oarpy.examples.negotiation.stencil import Plate, Stencil, blocks, first_row, neighbours, next_row, transfers

PLATE = Plate(rows=20, columns=10)
STEPS = 24
NUMBERS = st.lists(st.integers(1, 12), min_size=1, unique=True).map(sorted)


@given(st.integers(1, 30), NUMBERS, NUMBERS)
def test_every_row_has_one_owner_and_comes_from_the_one_before(rows: int, old: list[int], new: list[int]) -> None:
    before, after = blocks(rows, old), blocks(rows, new)
    owned = [row for held in after.values() for row in held]
    assert owned == list(range(rows))
    sent = [(transfer.target, row) for transfer in transfers(before, after) for row in transfer.rows]
    assert sent == [(number, row) for number, held in after.items() for row in held]
    assert all(row in before[transfer.source] for transfer in transfers(before, after) for row in transfer.rows)


@given(st.integers(1, 30), NUMBERS)
def test_blocks_are_as_equal_as_can_be_and_all_neighbours_exchange_rows(rows: int, numbers: list[int]) -> None:
    found = blocks(rows, numbers)
    sizes = [len(held) for held in found.values()]
    assert max(sizes) - min(sizes) <= 1
    filled = [number for number, held in found.items() if held]
    assert sorted(neighbours(found)) == list(pairwise(filled))


def test_the_checksum_is_that_of_the_plain_computation_whoever_joins_and_leaves() -> None:
    expected = checksum_of_one()
    assert spread_over(["a"]) == expected
    assert spread_over(["abc", "cd", "decab", "b"]) == expected


def test_a_process_that_cannot_start_is_named() -> None:
    def fails(_: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["false"], stdin=subprocess.PIPE)

    with Stencil(PLATE, fails, "127.0.0.1") as broken, pytest.raises(OSError, match="on n1 ended with 1"):
        broken.spread(["n1"])


def checksum_of_one() -> str:
    rows = [first_row(row, PLATE.columns) for row in range(PLATE.rows)]
    for _ in range(STEPS):
        inner = [next_row(*rows[row - 1 : row + 2]) for row in range(1, PLATE.rows - 1)]
        rows = [rows[0], *inner, rows[-1]]
    return stencil.checksum(rows)


def spread_over(hosts: Sequence[str]) -> str:
    """Return the checksum when each of these groups of hosts, named by letters, computes its part of the steps."""
    with Stencil(PLATE, process, "127.0.0.1") as running:
        for group in hosts:
            running.spread(list(group))
            assert sorted(running.hosts) == sorted(group)
            running.run(STEPS // len(hosts))
        assert running.step == STEPS
        return running.checksum()


def process(_: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, stencil.__file__], stdin=subprocess.PIPE)
