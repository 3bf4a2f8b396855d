"""Dates, periods, ids, signals and property values as users type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.client.jobs.selection import parse_ids
from oarpy.client.past.periods import parse_date, parse_date_or_age, parse_period
from oarpy.client.platform.property_values import parse_assignments, parse_value
from oarpy.model.errors import NotFound, UsageError
from oarpy.model.submission_checks import read_signal
from oarpy.store.platform.properties import Property

KNOWN = {
    "mem": Property("mem", "integer", False),
    "model": Property("model", "text", False),
    "deploy": Property("deploy", "boolean", True),
    "until": Property("until", "timestamptz", False),
}


def test_dates_are_local_unless_they_say_where() -> None:
    local = datetime(2026, 5, 1, 12).astimezone()
    assert parse_date("2026-05-01 12:00:00") == local
    assert parse_date("2026-05-01T12:00:00+00:00") == datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert parse_period("2026-05-01 12:00,2026-05-02 12:00") == (local, local + timedelta(days=1))


@pytest.mark.parametrize(
    "text", ["", "never", "2026", "2026-02-30", "1969-01-01", "9999-01-01", "2026-05-01, 2026-05-02"]
)
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(UsageError):
        parse_date(text)


def test_periods_may_count_from_now_and_from_their_beginning() -> None:
    begin, end = parse_period("yesterday, now")
    assert begin.astimezone().hour == 0
    assert timedelta(days=1) <= end - begin < timedelta(days=2, hours=1)
    begin, end = parse_period("2026-05-01T12:00:00Z, +2h")
    assert (begin, end) == (datetime(2026, 5, 1, 12, tzinfo=UTC), datetime(2026, 5, 1, 14, tzinfo=UTC))


def test_an_age_is_counted_back() -> None:
    before = datetime.now(UTC) - timedelta(seconds=3600)
    assert before <= parse_date_or_age("3600") <= datetime.now(UTC) - timedelta(seconds=3600)


@given(st.text(max_size=20))
def test_any_text_is_an_id_or_a_usage_error(text: str) -> None:
    try:
        (number,) = parse_ids([text])
    except UsageError:
        return
    assert 0 < number < 2**63
    assert text.isascii()


def test_repeated_ids_count_once() -> None:
    assert parse_ids(["3", "1", "03", "3"]) == (3, 1)


@pytest.mark.parametrize(("text", "number"), [("10", 10), ("USR1", 10), ("sigterm", 15), ("64", 64)])
def test_signals(text: str, number: int) -> None:
    assert read_signal(text) == number


@pytest.mark.parametrize("text", ["", "0", "65", "-9", "SIG", "NOSUCH", "1e1"])
def test_what_is_no_signal(text: str) -> None:
    with pytest.raises(UsageError):
        read_signal(text)


def test_assignments_have_the_type_of_the_property() -> None:
    values = parse_assignments(["mem=-4", "model=a=b!", "deploy=yes", "until=2026-05-01T00:00:00+00:00"], KNOWN)
    assert values == {"mem": -4, "model": "a=b!", "deploy": True, "until": datetime(2026, 5, 1, tzinfo=UTC)}
    assert parse_assignments(["mem!"], KNOWN) == {"mem": None}


@pytest.mark.parametrize(
    "word", ["mem", "=4", "!", "mem=", "mem=4.5", "mem=2147483648", "model=a\nb", "deploy!", "deploy=2"]
)
def test_what_assigns_nothing(word: str) -> None:
    with pytest.raises(UsageError):
        parse_assignments([word], KNOWN)


def test_a_property_is_given_once_and_exists() -> None:
    with pytest.raises(UsageError, match="given twice"):
        parse_assignments(["mem=1", "mem=2"], KNOWN)
    with pytest.raises(NotFound, match="no property 'disk'"):
        parse_assignments(["disk=1"], KNOWN)


@given(st.text(max_size=20), st.sampled_from(["integer", "boolean", "timestamptz", "text"]))
def test_any_text_is_a_value_or_a_usage_error(text: str, kind: str) -> None:
    try:
        value = parse_value(text, kind, "mem")
    except UsageError:
        return
    assert isinstance(value, {"integer": int, "boolean": bool, "timestamptz": datetime, "text": str}[kind])
