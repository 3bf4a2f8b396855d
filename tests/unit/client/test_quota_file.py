"""Quota files: what is read, what is refused, and that what is shown is read back."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.client.platform.quota_file import document, parse
from oarpy.model.errors import UsageError
from tests.harness.examples import examples

WEEK: dict[str, Any] = {
    "quotas": {"*,*,besteffort,*": -1},
    "job_types": ["*"],
    "periodical": [
        ["08:00-19:00 mon-fri * *", "workdays", "office hours"],
        ["* sat-sun * *", "weekend"],
        ["* * * *", "nights", "default"],
    ],
    "oneshot": [["2026-12-24 12:00", "2027-01-02 8:30", "weekend", "holidays"]],
    "workdays": {"*,*,*,/": ["0.5*ALL", "16", -1], "default , / ,*,john": ["34.5", "ALL", 200.5]},
    "weekend": {"*,*,*,/": ["ALL", -1, -1]},
    "nights": {"*,*,*,/": [12, -1, -1]},
}


def read(tree: Any) -> Any:
    return parse(json.dumps(tree), 10, UTC)


def test_a_file_as_oar_has_them() -> None:
    found = read(WEEK)
    assert found.sets == ("workdays", "weekend", "nights")
    rules = {(rule.rule_set, rule.user): (rule.resources, rule.jobs, rule.resource_hours) for rule in found.rules}
    assert rules == {
        (None, "*"): (-1, -1, -1),
        ("workdays", "/"): (5, 16, -1),
        ("workdays", "john"): (34, 10, 200.5),
        ("weekend", "/"): (10, -1, -1),
        ("nights", "/"): (12, -1, -1),
    }
    assert found.calendar.otherwise == "nights"
    assert len(found.calendar.weekly) == 7
    assert found.calendar.dated[0].label == "holidays"


def test_a_fifth_word_of_the_key_is_the_level() -> None:
    found = read({"quotas": {"*,*,*,/": 4, "*,*,*,/,users": 2, "*,p,*,*, projects": 6}})
    assert [(rule.project, rule.resources, rule.level) for rule in found.rules] == [
        ("*", 4, "default"),
        ("*", 2, "users"),
        ("p", 6, "projects"),
    ]
    for wrong in ({"*,*,*,/,a b": 1}, {"*,*,*,/,": 1}, {"*,*,*,/": 1, "*,*,*,/,default": 2}, {"*,*,*,/,a,b": 2}):
        with pytest.raises(UsageError):
            read({"quotas": wrong})


def test_what_is_shown_is_read_as_the_same() -> None:
    found = read({**WEEK, "quotas": {"*,*,besteffort,*": -1, "*,*,*,*,site": 9}})
    again = read(document(found))
    assert (set(again.rules), again.sets, again.calendar.dated) == (set(found.rules), found.sets, found.calendar.dated)
    assert set(again.calendar.weekly) == set(found.calendar.weekly)
    assert read(document(again)) == again


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"quotas": []}, "'quotas' is no set of rules"),
        ({"quotas": {"*,*,*": 1}}, "'*,*,*' is no key of a rule"),
        ({"quotas": {"*,*,*,/": 1, "*,*,*, /": 2}}, "there are two rules for *,*,*,/"),
        ({"quotas": {"*,*,*,/": [1, 2]}}, "not three limits"),
        ({"quotas": {"*,*,*,/": -2}}, "-2 is no limit"),
        ({"quotas": {"*,*,*,/": "some"}}, '"some" is no limit'),
        ({"quotas": {"*,*,*,/": True}}, "true is no limit"),
        ({"quotas": {"*,*,/,*": 1}, "job_types": ["besteffort"]}, "'job_types' cannot restrict"),
        ({"periodical": [["* mon-sat * *", "weekend"]]}, "no period from sun 00:00 to mon 00:00"),
        ({"periodical": [["* * * *", "nights"], ["* * * *", "weekend"]]}, "is there twice"),
        ({"periodical": [["* mon * *", "mondays"]]}, "there is no set of rules 'mondays'"),
        ({"periodical": [["* mon * *", "weekend"], ["8:00-9:00 mon * *", "nights"]]}, "periods overlap: mon 00:00-"),
        ({"periodical": [["* mon * *"]]}, "is no period"),
        ({"periodical": {}}, "'periodical' is no list"),
        ({"oneshot": [["2026-01-02 00:00", "2026-01-01 00:00", "nights"]]}, "is not before"),
        ({"oneshot": [["tomorrow", "2026-01-01 00:00", "nights"]]}, "'tomorrow' is no date"),
        (
            {
                "oneshot": [
                    ["2026-01-01 0:00", "2026-01-03 0:00", "nights"],
                    ["2026-01-02 0:00", "2026-01-04 0:00", "weekend"],
                ]
            },
            "oneshot: dates overlap: 2026-01-01 00:00 to 2026-01-03 00:00 and",
        ),
        ({"bad name!": {}}, "is no name for a set of rules"),
    ],
)
def test_what_makes_no_sense(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read({**WEEK, **change})
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


words = st.sampled_from(
    ["*", "*,*,*,/", "ALL", "2*ALL", "-1", "nights", "* sat * *", "2026-01-01 00:00", "9999-12-31 23:59"]
)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), words)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(words | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.sampled_from([*WEEK, "other"]), trees, st.integers(0, 2))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_stands_there_it_is_read_or_refused(key: str, tree: Any, place: int) -> None:
    """A part of a good file, or an entry of it, is something else."""
    whole = WEEK.get(key)
    value = [*whole[:place], tree, *whole[place:]] if isinstance(whole, list) else tree
    with suppress(UsageError):
        found = read({**WEEK, key: value})
        assert set(read(document(found)).rules) == set(found.rules)


def test_a_key_that_is_there_twice_and_what_is_no_json() -> None:
    for text, complaint in (('{"quotas": {}, "quotas": {}}', "is there twice"), ("{", "not JSON"), ("[]", "an object")):
        with pytest.raises(UsageError, match=complaint):
            parse(text, 1, UTC)
