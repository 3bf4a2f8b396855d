"""How many random examples a test tries: all of them in `make test`, a fiftieth in `make test-quick`."""

from __future__ import annotations

import os

QUICK = "OARPY_QUICK_TESTS" in os.environ
RANDOM = "OARPY_RANDOM_TESTS" in os.environ
"""Whether properties are tried on other examples each time; else on the same ones."""
_FEWEST = 2


def examples(number: int) -> int:
    """Return how many of ``number`` examples are tried now.

    >>> examples(2)
    2
    """
    return min(number, max(number // 50, _FEWEST)) if QUICK else number
