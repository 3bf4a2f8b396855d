"""Runs of whole numbers, such as ids, that follow each other."""

from __future__ import annotations

from collections.abc import Iterable


def runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last number of each run, ascending.

    >>> runs([7, 3, 4, 5])
    [(3, 5), (7, 7)]
    """
    pairs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if pairs and number == pairs[-1][1] + 1:
            pairs[-1] = pairs[-1][0], number
        else:
            pairs.append((number, number))
    return pairs
