"""How many random examples a test tries: all of them in `make test`, a twentieth in `make test-quick`."""

from __future__ import annotations

import os

QUICKLY, AT_RANDOM = "OARPY_TEST_QUICK", "OARPY_TEST_RANDOM"
"""Variables, which worker processes have too: ``bare_environment`` keeps such names."""
QUICK = QUICKLY in os.environ
RANDOM = AT_RANDOM in os.environ
"""Whether properties are tried on other examples each time; else on the same ones."""
_FEWEST = 4


def examples(number: int) -> int:
    """Return how many of ``number`` examples are tried now.

    >>> examples(3)
    3
    """
    return min(number, max(number // 20, _FEWEST)) if QUICK else number
