"""The pattern language of ``oaradmin resources add``."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oarpy.model.errors import UsageError
from oarpy.model.resource_pattern import _COMMA, _size, expand, node_names, parse_pattern


def rows(text: str, **highest: int) -> list[tuple[int | str | None, ...]]:
    return [tuple(row.values()) for row in expand(parse_pattern(text), highest)]


def test_counts_are_in_each_parent_and_numbered_through() -> None:
    assert rows("/host=a[1-2]/cpu={1}/core={2}", cpu=4, core=10) == [
        ("a1", 5, 11),
        ("a1", 5, 12),
        ("a2", 6, 13),
        ("a2", 6, 14),
    ]


def test_names_are_dealt_out_to_parents() -> None:
    assert rows("switch=s[1-2]/host=a[1-4]") == [("s1", "a1"), ("s1", "a2"), ("s2", "a3"), ("s2", "a4")]


def test_a_level_of_numbers_is_an_integer() -> None:
    levels = parse_pattern("/rack=[7-8]/host=a[1-2]/core={1}")
    assert [level.kind for level in levels] == ["integer", "text", "integer"]
    assert rows("/rack=[7-8]/host=a[1-2]") == [(7, "a1"), (8, "a2")]


def test_node_sets_keep_padding_and_the_order_of_their_parts() -> None:
    assert node_names("n[08-10],login", "n9") == ("n08", "n09", "n10", "login", "n9")


@pytest.mark.parametrize(
    "texts",
    [
        ("a[1-31000]b[1-31000]",),
        ("a[1-99999]", "b[1-2]"),
        tuple(f"a{letter}[1-999]b[1-99]" for letter in "pq"),
        ("a[1-100]b[1-100]c[1-100]d[1-100]",),
    ],
)
def test_more_names_than_a_command_takes_are_counted_before_they_are_made(texts: tuple[str, ...]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="names over 100000 nodes"):
            node_names(*texts)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()


@given(st.from_regex(r"a(\[[0-9]{1,2}(-[0-9]{1,2})?(/[1-9])?(,[0-9])*\]x){0,2}(,b)?", fullmatch=True))
def test_no_set_has_more_names_than_were_counted(text: str) -> None:
    assume("" not in text.split(","))
    try:
        names = node_names(text)
    except UsageError:
        return
    assert len(names) <= sum(map(_size, _COMMA.split(text)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "host",
        "=3",
        "host=",
        "Host=a",
        "host=a/host=b",
        "core={0}",
        "core={x}",
        "core={1}2",
        "a b=c",
        "x={9999999}",
    ],
)
def test_what_is_no_pattern(text: str) -> None:
    with pytest.raises(UsageError):
        parse_pattern(text)


@given(st.text(max_size=30))
def test_any_text_is_a_set_of_names_or_a_usage_error(text: str) -> None:
    try:
        names = node_names(text)
    except UsageError:
        return
    assert names
    assert len(set(names)) == len(names)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 5))
def test_numbers_are_never_used_twice(counts: list[int], hosts: int) -> None:
    text = f"/host=n[1-{hosts}]" + "".join(f"/level{place}={{{count}}}" for place, count in enumerate(counts))
    made = expand(parse_pattern(text), {"level0": 100})
    total = hosts
    for place, count in enumerate(counts):
        total *= count
        first = 101 if place == 0 else 1
        assert {row[f"level{place}"] for row in made} == set(range(first, first + total))
    assert len(made) == total
