"""The table of job types, and what the words of a job mean."""

from __future__ import annotations

from math import inf

import pytest

from oarpy.model.dates import NO_DATES, JobDates
from oarpy.model.errors import UsageError
from oarpy.model.job_types import NOT_OFFERED, TYPES, JobTypes, Sharing, Usable, read_types


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("", JobTypes()),
        ("qos=1 licence unknown=x besteffort", JobTypes()),
        ("noop", JobTypes(runs_nothing=True)),
        ("noop=standby", JobTypes(runs_nothing=True)),
        ("noop=x", JobTypes()),
        ("noop=", JobTypes()),
        ("idempotent no_quotas", JobTypes(idempotent=True, without_quotas=True)),
        ("idempotent=yes", JobTypes()),
        ("deploy cosystem", JobTypes(host="deploy")),
        ("cosystem=standby state=permissive", JobTypes(host="cosystem", any_state=True)),
        ("container container=a", JobTypes(containers=("", "a"), alone=False)),
        ("inner= inner=1 inner=2", JobTypes(inside="1")),
        ("timesharing", JobTypes(timesharing=Sharing(False, False), alone=False)),
        ("timesharing=*,user", JobTypes(timesharing=Sharing(True, False), alone=False)),
        ("timesharing=x timesharing=user,name", JobTypes(alone=False)),
        (
            "placeholder=p allowed=q allowed=r",
            JobTypes(placeholders=("p",), allowed=("q", "r"), alone=False),
        ),
        ("placeholder", JobTypes(alone=False)),
        ("kept=600", JobTypes(kept=600)),
        ("kept kept=0 kept=soon", JobTypes()),
    ],
)
def test_meaning(words: str, meant: JobTypes) -> None:
    assert read_types(words.split()) == meant


@pytest.mark.parametrize(
    ("words", "permissive"),
    [("state=permissive", False), ("state=permissive noop", True), ("deploy state=permissive", False), ("noop", False)],
)
def test_who_may_have_what_is_down(words: str, permissive: bool) -> None:
    assert read_types(words.split()).permissive == permissive


def test_dates_are_read_when_they_are_asked_for() -> None:
    assert read_types(["noop"]).dates() is NO_DATES
    types = ["postpone=1800000000", "deadline=2027-01-15 08:00+00:00"]
    assert read_types(types).dates() == JobDates(1800000000, inf, 1800000000)


@pytest.mark.parametrize("words", [["expire"], ["expire=soon"], ["postpone=1800000000", "postpone=1900000000"]])
def test_wrong_dates_are_refused(words: list[str]) -> None:
    types = read_types(words)
    with pytest.raises(UsageError, match=words[0].partition("=")[0]):
        types.dates()


def test_every_type_is_well_formed_as_its_help_writes_it() -> None:
    examples = {"NAME": "a", "JOB_ID": "7", "DATE": "2026-01-01", "COUNT": "2", "FUNCTION": "f", "ARGUMENTS": "x"}
    examples |= {"DAYS": "1", "HH:MM": "08:00", "HOURS": "4", "SECONDS": "600"}
    for kind in TYPES.values():
        assert kind.help
        for spelling in kind.spellings:
            for word, example in examples.items():
                spelling = spelling.replace(word, example)
            assert kind.fault(spelling) == "", spelling


def test_what_is_not_offered_has_no_effect_or_needs_a_host() -> None:
    assert NOT_OFFERED == ("assign", "find", "constraints", "deploy", "cosystem")
    assert all(TYPES[name].means is None for name in TYPES if TYPES[name].usable is Usable.NOWHERE)
