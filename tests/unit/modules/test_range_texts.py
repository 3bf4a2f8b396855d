"""Texts of sets of resources are those of the platform of the pass."""

from __future__ import annotations

from oarpy.modules.metascheduler.written_predictions import RangeTexts
from oarpy.scheduler.resources.platform import Platform, Resource


def platform(*ids: int) -> Platform:
    return Platform.build([Resource(number, properties={"core": number}) for number in ids], ["core"])


def test_the_text_of_a_set_is_the_same_in_every_pass_on_a_platform() -> None:
    small, texts = platform(1, 2, 3, 7), RangeTexts()
    for _ in range(3):
        texts.begin(small)
        assert [texts.of(0b1111), texts.of(0b0110), texts.of(0)] == ["{[1,3],[7,7]}", "{[2,3]}", "{}"]


def test_another_platform_gives_the_same_bits_another_text() -> None:
    texts = RangeTexts()
    texts.begin(platform(1, 2))
    assert texts.of(0b11) == "{[1,2]}"
    texts.begin(platform(5, 9))
    assert texts.of(0b11) == "{[5,5],[9,9]}"


def test_what_no_pass_asks_for_any_more_is_forgotten() -> None:
    texts, small = RangeTexts(), platform(1, 2)
    texts.begin(small)
    first = texts.of(0b11)
    texts.begin(small)
    assert texts.of(0b11) is first
    texts.begin(small)
    texts.begin(small)
    assert texts.of(0b11) == first
    assert texts.of(0b11) is not first
