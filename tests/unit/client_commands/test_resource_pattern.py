"""The pattern language of ``oaradmin resources add``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.platform.resource_pattern import expand, node_names, parse_pattern
from oarpy.model.errors import UsageError


def rows(text: str, **highest: int) -> list[tuple[int | str, ...]]:
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


def test_node_sets_keep_padding_and_commas() -> None:
    assert node_names("n[08-10],login") == ("login", "n08", "n09", "n10")


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
