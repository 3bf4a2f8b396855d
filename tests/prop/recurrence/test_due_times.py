"""Due times of recurring jobs, against a reference that looks at the clocks of a zone minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import settings as tries
from hypothesis import strategies as st

from oarpy.model.errors import UsageError
from oarpy.recurrence.rules import LONGEST, SHORTEST, Interval, read_rule
from tests.harness.examples import examples

MINUTE = timedelta(minutes=1)
NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ZONES = ("UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Asia/Kathmandu")
"""With changes of an hour, of half an hour, at midnight, and without any."""
CHANGES = (
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 3, 8, 5, tzinfo=UTC),
    datetime(2026, 11, 1, 5, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(2026, 10, 3, 15, 30, tzinfo=UTC),
)
"""When clocks change in these zones."""
instants = st.one_of(
    st.builds(
        lambda change, minutes, seconds: change + timedelta(minutes=minutes, seconds=seconds),
        st.sampled_from(CHANGES),
        st.integers(-2000, 300),
        st.integers(0, 59),
    ),
    st.integers(1_600_000_000, 2_000_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
clocks = st.builds(lambda hour, minute: (hour, minute), st.sampled_from((0, 1, 2, 3, 23, 8)), st.integers(0, 59))
zones = st.sampled_from(ZONES).map(ZoneInfo)


def shown_minutes(after: datetime, zone: ZoneInfo) -> Iterator[tuple[datetime, datetime]]:
    """Yield each minute later than ``after`` with the time that clocks show; a time that they skip comes with it.

    Clocks that are put forward go on for as long as they were put forward by, as if they had not been.
    """
    before = after.replace(second=0, microsecond=0) - timedelta(days=2)
    offset, skipped, until = before.astimezone(zone).utcoffset(), timedelta(0), before
    assert offset is not None
    for minutes in count(1):
        instant = before + minutes * MINUTE
        local = instant.astimezone(zone)
        now = local.utcoffset()
        assert now is not None
        if now > offset:
            skipped, until = offset, instant + (now - offset)
        offset = now
        if instant <= after:
            continue
        if instant < until:
            yield instant, (instant + skipped).replace(tzinfo=None)
        if local.fold == 0:
            yield instant, local.replace(tzinfo=None)


def reference(weekdays: set[int], days: set[int], clock: tuple[int, int], after: datetime, zone: ZoneInfo) -> datetime:
    return next(
        instant
        for instant, shown in shown_minutes(after, zone)
        if (shown.hour, shown.minute) == clock and (shown.weekday() in weekdays or shown.day in days)
    )


@tries(max_examples=examples(120))
@given(st.sets(st.integers(0, 6), min_size=1), clocks, instants, zones)
@example({6}, (2, 30), datetime(2026, 3, 29, 0, tzinfo=UTC), ZoneInfo("Europe/Paris"))
@example({6}, (2, 30), datetime(2026, 10, 25, 0, 30, tzinfo=UTC), ZoneInfo("Europe/Paris"))
@example({6}, (0, 30), datetime(2026, 3, 8, 4, tzinfo=UTC), ZoneInfo("America/Havana"))
def test_days_of_the_week(weekdays: set[int], clock: tuple[int, int], after: datetime, zone: ZoneInfo) -> None:
    words = ",".join(NAMES[day] for day in weekdays)
    found = read_rule(f"{words} {clock[0]}:{clock[1]:02}").after(after, after, zone)
    assert found == reference(weekdays, set(), clock, after, zone)


@tries(max_examples=examples(40))
@given(st.integers(0, 5), st.integers(0, 2), clocks, instants, zones)
def test_days_of_the_month(ahead: int, weekday: int, clock: tuple[int, int], after: datetime, zone: ZoneInfo) -> None:
    """A day that comes soon, since the reference looks at each minute; beside a day of the week."""
    day = (after + timedelta(days=ahead)).astimezone(zone).day
    found = read_rule(f"{day}th,{NAMES[weekday]} {clock[0]:02}:{clock[1]:02}").after(after, after, zone)
    assert found == reference({weekday}, {day}, clock, after, zone)


@given(st.integers(0, 6), st.integers(0, 6), instants)
def test_a_range_of_days_may_go_over_the_end_of_the_week(first: int, last: int, after: datetime) -> None:
    days = [first]
    while days[-1] != last:
        days.append((days[-1] + 1) % 7)
    listed = ",".join(NAMES[day] for day in days)
    ranged = read_rule(f"{NAMES[first]}-{NAMES[last]} 8:00")
    assert ranged == read_rule(f"{listed} 8:00")
    assert ranged.after(after, after, ZoneInfo("UTC")) > after


@given(st.integers(1, 31), instants, zones)
def test_due_times_go_on(day: int, after: datetime, zone: ZoneInfo) -> None:
    """A month without the day is left out; a due time is the same whenever it is asked for."""
    rule = read_rule(f"{day}th 6:30")
    dues = [after]
    for _ in range(14):
        dues.append(rule.after(dues[-1], dues[-1], zone))
    assert {due.astimezone(zone).day for due in dues[1:]} == {day}
    assert all(timedelta(days=27) < later - due < timedelta(days=63) for due, later in pairwise(dues[1:]))
    assert rule.after(after, dues[3] - timedelta(seconds=1), zone) == dues[3]


@given(st.integers(SHORTEST, LONGEST), instants, st.integers(-100_000, 100_000_000))
def test_intervals_keep_their_step(seconds: int, due: datetime, late: int) -> None:
    now = due + timedelta(seconds=late)
    found = Interval(seconds).after(due, now)
    steps = (found - due) / timedelta(seconds=seconds)
    assert steps == int(steps) >= 1
    assert found > now
    assert found - timedelta(seconds=seconds) <= max(now, due)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("day 8:00", "mon-sun 08:00"),
        ("Monday 8:00", "mon 8:00"),
        ("  mon    8:00 ", "mon 8:00"),
        ("sat-mon 0:00", "sat,sun,mon 0:00"),
        ("1st 6:30", "1th 6:30"),
        ("120m", "2h"),
        ("1d12h", "36h"),
        ("90s", "1m30s"),
    ],
)
def test_rules_that_are_the_same(text: str, other: str) -> None:
    assert read_rule(text) == read_rule(other)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("1s", "--every '1s' is out of range (from 1m to 366d)"),
        ("59s", "--every '59s' is out of range (from 1m to 366d)"),
        ("367d", "--every '367d' is out of range (from 1m to 366d)"),
        ("0s", "--every: duration '0s' is out of range (for example 2h, 90m or 1d12h)"),
        ("4000d", "--every: duration '4000d' is out of range (for example 2h, 90m or 1d12h)"),
        ("1m1h", "--every: '1m1h' is not a duration (for example 2h, 90m or 1d12h)"),
        ("second", "--every 'second' is not understood"),
        ("2", "--every '2' is not understood"),
        ("8:00", "--every '8:00' is not understood"),
        ("", "--every '' is not understood"),
        ("mon 8:00 9:00", "--every 'mon 8:00 9:00' is not understood"),
        ("funday 8:00", "--every 'funday 8:00': 'funday' is no day"),
        ("mon- 8:00", "--every 'mon- 8:00': '' is no day"),
        ("mon-1st 8:00", "--every 'mon-1st 8:00': '1st' is no day"),
        ("mon,,tue 8:00", "--every 'mon,,tue 8:00': '' is no day"),
        ("0th 8:00", "--every '0th 8:00': months have no day 0 (1st to 31st)"),
        ("32nd 8:00", "--every '32nd 8:00': months have no day 32 (1st to 31st)"),
        ("mon 24:00", "--every 'mon 24:00': '24:00' is no time of day (for example mon 8:00)"),
        ("mon 8:60", "--every 'mon 8:60': '8:60' is no time of day (for example mon 8:00)"),
        ("mon 8", "--every 'mon 8': '8' is no time of day (for example mon 8:00)"),
        ("mon \u0668:00", "--every 'mon \u0668:00': '\u0668:00' is no time of day (for example mon 8:00)"),
    ],
)
def test_what_is_no_rule(text: str, error: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_rule(text)
    assert str(refused.value).startswith(error)
