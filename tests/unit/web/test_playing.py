"""Runs that are open in a browser: comparisons that stop half-way, and texts that are sent again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from oarpy.simulation.stepping.sources import Source
from oarpy.web.stepping.playing import Playing


class _Broken:
    """A run that raises after its first event."""

    def events(self) -> Iterator[tuple[float, str]]:
        yield 0.0, "first"
        raise RuntimeError("it broke")

    def watch(self) -> None:
        pass

    def description(self, happening: tuple[float, str]) -> tuple[str, int, list[int]]:
        return happening[1], 1, []

    def digested(self, _happening: Any) -> int:
        return 0


class _Source:
    def start(self, _choices: Any) -> _Broken:
        return _Broken()

    def edited(self, _text: str) -> _Source:
        return self


def playing() -> Playing:
    return Playing([cast("Source", _Source())])


def test_a_comparison_that_broke_breaks_again() -> None:
    some = playing()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="it broke"):
            some.part("0", {}, {"policy": "easy"})


def test_a_text_that_is_sent_again_is_kept_as_the_newest() -> None:
    some = playing()
    first = some.edit("0", "first")
    for number in range(15):
        some.edit("0", str(number))
    assert some.edit("0", "first") == first
    some.edit("0", "one more")
    assert some.source(first)
