"""Dates are read alike wherever they stand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.model.dates import read_date, read_end, read_instant, read_span
from oarpy.model.errors import UsageError
from oarpy.model.job_types import read_types, with_offsets

NOW = datetime(2026, 5, 6, 12, 30).astimezone()
"""A Wednesday."""


def local(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-05-07", local("2026-05-07 00:00:00")),
        ("2026-5-7 8", local("2026-05-07 08:00:00")),
        ("2026-05-07T08:30", local("2026-05-07 08:30:00")),
        ("2026-05-07 08:30:15.250", local("2026-05-07 08:30:15.250")),
        ("2026-05-07T08:30:15Z", datetime(2026, 5, 7, 8, 30, 15, tzinfo=UTC)),
        ("2026-05-07 08:30 +0200", datetime(2026, 5, 7, 6, 30, tzinfo=UTC)),
        ("2026-05-07 08:30-05", datetime(2026, 5, 7, 13, 30, tzinfo=UTC)),
        ("1777896000", datetime.fromtimestamp(1777896000, UTC)),
        ("now", NOW),
        ("+1h", NOW + timedelta(hours=1)),
        ("now + 0:30:0", NOW + timedelta(minutes=30)),
        ("-2d", NOW - timedelta(days=2)),
        ("today", local("2026-05-06 00:00:00")),
        ("Tomorrow 8:00", local("2026-05-07 08:00:00")),
        ("yesterday 23:59:59", local("2026-05-05 23:59:59")),
        ("friday 9", local("2026-05-08 09:00:00")),
        ("wed", local("2026-05-13 00:00:00")),
        ("18:30", local("2026-05-06 18:30:00")),
    ],
)
def test_every_form(text: str, expected: datetime) -> None:
    assert read_date(f" {text} ", NOW) == expected


@pytest.mark.parametrize(
    "text", ["", "never", "tomorrow 25:00", "2026-02-30", "+", "+1x", "12345678", "2026-05-07 8:00 CET"]
)
def test_what_is_no_date_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a date \(write YYYY-MM-DD hh:mm:ss .*tomorrow 8:00\)"):
        read_date(text, NOW)


def test_an_end_counts_from_the_beginning() -> None:
    begin = local("2026-05-06 22:00:00")
    assert read_end("+2h", NOW, begin) == begin + timedelta(hours=2)
    assert read_end("02:00", NOW, begin) == local("2026-05-07 02:00:00")
    assert read_end("tomorrow", NOW, begin) == local("2026-05-07 00:00:00")


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("today", "2026-05-06 00:00:00", "2026-05-07 00:00:00"),
        ("Yesterday", "2026-05-05 00:00:00", "2026-05-06 00:00:00"),
        ("2026-02-28", "2026-02-28 00:00:00", "2026-03-01 00:00:00"),
        ("-7d", "2026-04-29 12:30:00", "2026-05-06 12:30:00"),
        ("yesterday 18:00", "2026-05-05 18:00:00", "2026-05-06 12:30:00"),
        ("+1h", "2026-05-06 12:30:00", "2026-05-06 13:30:00"),
        ("now", "2026-05-06 12:30:00", "2026-05-06 12:30:00"),
    ],
)
def test_one_date_is_a_day_or_reaches_until_now(text: str, begin: str, end: str) -> None:
    assert read_span(text, NOW) == (local(begin), local(end))


@given(st.text(max_size=24))
def test_any_text_is_a_date_or_a_usage_error(text: str) -> None:
    try:
        assert read_date(text, NOW).tzinfo is not None
    except UsageError:
        with pytest.raises(ValueError, match="is not a date"):
            read_instant(text)


def test_types_are_kept_with_an_instant() -> None:
    (word,) = with_offsets(["postpone=+1h"])
    ahead = read_types([word]).dates().not_before - datetime.now().timestamp()
    assert 3500 < ahead <= 3600
    # what is kept is read again later: there +1h would move
    with pytest.raises(UsageError, match="needs a date"):
        read_types(["postpone=+1h"]).dates()
