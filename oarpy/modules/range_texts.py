"""Sets of resources as the database writes them, kept from pass to pass: most predictions stay as they were."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.scheduler.platform import Platform


class RangeTexts:
    """Remembers the texts that this pass and the one before asked for."""

    def __init__(self) -> None:
        self._platform = Platform.build([], [])
        self._before: dict[int, str] = {}
        self._known: dict[int, str] = {}

    def begin(self, platform: Platform) -> None:
        """Begin a pass: bits are those of ``platform`` from now on."""
        self._before = self._known if platform is self._platform else {}
        self._platform, self._known = platform, {}

    def of(self, bits: int) -> str:
        """Return the ids of a set as an ``int4multirange``."""
        text = self._known.get(bits)
        if text is None:
            text = self._before.get(bits) or multirange(self._platform.ids_of(bits))
            self._known[bits] = text
        return text


def multirange(ids: Sequence[int]) -> str:
    """Write ids as an ``int4multirange``.

    >>> multirange([1, 2, 3, 7])
    '{[1,3],[7,7]}'
    """
    runs: list[list[int]] = []
    for number in sorted(ids):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return "{" + ",".join(f"[{first},{last}]" for first, last in runs) + "}"
