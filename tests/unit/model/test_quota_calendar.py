"""When a set of quota rules is valid: weeks that repeat, exceptions, the hour that is skipped or comes twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.model.errors import UsageError
from oarpy.model.quota_calendar import (
    DAY,
    WEEK,
    DatedPeriod,
    QuotaCalendar,
    WeeklyPeriod,
    overlap,
    parse_period,
    period_texts,
    uncovered,
    valid_spans,
)
from tests.harness.examples import examples

PARIS = ZoneInfo("Europe/Paris")
OFFICE = parse_period("08:00-19:00 mon-fri * *", "day")


def at(text: str, zone: ZoneInfo | None = PARIS) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def shown(calendar: QuotaCalendar, begin: str, end: str) -> dict[str, list[str]]:
    """Return the spans as local dates ``day hour:minute``."""
    found = valid_spans(calendar, at(begin), at(end))
    return {
        name: [
            " to ".join(datetime.fromtimestamp(instant, PARIS).strftime("%a %H:%M") for instant in span)
            for span in spans
        ]
        for name, spans in found.items()
    }


def test_a_week() -> None:
    calendar = QuotaCalendar(OFFICE, (), "rest", PARIS)
    assert shown(calendar, "2026-06-04 12:00", "2026-06-09 12:00") == {  # Thursday to Tuesday
        "day": ["Thu 12:00 to Thu 19:00", "Fri 08:00 to Fri 19:00", "Mon 08:00 to Mon 19:00", "Tue 08:00 to Tue 12:00"],
        "rest": ["Thu 19:00 to Fri 08:00", "Fri 19:00 to Mon 08:00", "Mon 19:00 to Tue 08:00"],
    }


def test_an_exception_overrides_the_week_which_then_goes_on_where_it_is() -> None:
    strike = DatedPeriod(at("2026-06-04 18:00"), at("2026-06-05 12:30"), "strike")
    calendar = QuotaCalendar(OFFICE, (strike,), None, PARIS)
    assert shown(calendar, "2026-06-04 00:00", "2026-06-06 00:00") == {
        "day": ["Thu 08:00 to Thu 18:00", "Fri 12:30 to Fri 19:00"],
        "strike": ["Thu 18:00 to Fri 12:30"],
    }


def test_the_clocks_change() -> None:
    """02:00 became 03:00 on 29 March, 03:00 became 02:00 on 25 October 2026; both were Sundays."""
    calendar = QuotaCalendar(parse_period("01:00-04:00 sun * *", "night"), (), None, PARIS)
    for day, hours in (("2026-03-29", 2), ("2026-04-05", 3), ("2026-10-25", 4)):
        ((begin, end),) = valid_spans(calendar, at(f"{day} 00:00"), at(f"{day} 12:00"))["night"]
        assert (begin, end - begin) == (at(f"{day} 01:00"), hours * 3600)


def test_a_period_in_the_skipped_hour_is_over_at_once_and_no_two_are_valid_together() -> None:
    halves = (WeeklyPeriod(6, 0, 9000, "a"), WeeklyPeriod(6, 9000, 10800, "b"), WeeklyPeriod(6, 10800, DAY, "c"))
    found = valid_spans(QuotaCalendar(halves, (), None, PARIS), at("2026-03-29 00:00"), at("2026-03-30 00:00"))
    assert set(found) == {"a", "c"}
    assert found["a"][0][1] == found["c"][0][0]


def test_without_a_zone_it_is_that_of_the_machine() -> None:
    calendar = QuotaCalendar(parse_period("12:00-13:00 * * *", "noon"))
    begin = datetime(2026, 6, 4).timestamp()
    assert valid_spans(calendar, begin, begin + DAY)["noon"][0][0] == datetime(2026, 6, 4, 12).timestamp()


zones = st.sampled_from([UTC, PARIS, ZoneInfo("America/New_York"), ZoneInfo("Australia/Lord_Howe")])
instants = st.integers(1_700_000_000, 1_900_000_000)


@st.composite
def calendars(draw: st.DrawFn) -> QuotaCalendar:
    weekly = []
    for weekday in range(7):
        cuts = sorted(draw(st.sets(st.integers(0, 48), max_size=6)))
        for begin, end in zip(cuts[::2], cuts[1::2], strict=False):
            weekly.append(WeeklyPeriod(weekday, begin * 1800, end * 1800, draw(st.sampled_from("ab"))))
    cuts = sorted(draw(st.sets(instants, max_size=4)))
    dated = [DatedPeriod(begin, end, "x") for begin, end in zip(cuts[::2], cuts[1::2], strict=False)]
    return QuotaCalendar(tuple(weekly), tuple(dated), draw(st.sampled_from([None, "rest"])), draw(zones))


@given(calendars(), instants, st.integers(1, 10 * DAY))
@settings(max_examples=examples(200), deadline=None)
def test_at_every_instant_the_set_that_the_clock_on_the_wall_says(
    calendar: QuotaCalendar, begin: int, long: int
) -> None:
    found = valid_spans(calendar, begin, begin + long)
    for instant in range(begin, begin + long, 1800):
        valid = {name for name, spans in found.items() if any(left <= instant < right for left, right in spans)}
        assert len(valid) <= 1
        date = datetime.fromtimestamp(instant, calendar.zone)
        offsets = {(date + timedelta(hours=hours)).utcoffset() for hours in (-3, 3)}
        if len(offsets) == 1:  # the hours around a change of the clocks have cases of their own
            assert valid == expected(calendar, instant, date)


def expected(calendar: QuotaCalendar, instant: int, date: datetime) -> set[str]:
    dated = {one.rule_set for one in calendar.dated if one.begin <= instant < one.end}
    second = date.hour * 3600 + date.minute * 60 + date.second
    weekly = {
        one.rule_set for one in calendar.weekly if one.weekday == date.weekday() and one.begin <= second < one.end
    }
    return dated or weekly or ({calendar.otherwise} if calendar.otherwise else set())


def test_periods_as_text() -> None:
    week = (
        *parse_period("19:00-08:00 mon-thu * *", "night"),
        *parse_period("* sat-sun * *", "weekend", "free"),
        *parse_period("00:00-12:00 mon,wed * *", "am"),
    )
    assert [text for text, _, _ in period_texts(week)] == [
        "00:00-12:00 mon,wed * *",
        "19:00-00:00 mon-thu * *",
        "00:00-08:00 tue-fri * *",
        "* sat-sun * *",
    ]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 23), st.integers(1, 24), st.sampled_from("ab")), max_size=8)
)
def test_texts_are_read_as_what_they_were_written_from(parts: list[tuple[int, int, int, str]]) -> None:
    week = {WeeklyPeriod(day, begin * 3600, end * 3600, name) for day, begin, end, name in parts if begin < end}
    read = {one for text, name, _ in period_texts(sorted(week, key=repr)) for one in parse_period(text, name)}
    assert read == week


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("08:00-19:00 mon-fri", "is no period of the week"),
        ("08:00-19:00 mon-fri 1 *", "must be *"),
        ("8-19 mon-fri * *", "are no times"),
        ("08:00-25:00 * * *", "are no times"),
        ("08:60-09:00 * * *", "are no times"),
        ("08:00-08:00 * * *", "is empty"),
        ("* mon-day * *", "is no weekday"),
        ("* mon,,tue * *", "is no weekday"),
    ],
)
def test_what_is_no_period(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint.replace("*", r"\*")):
        parse_period(text, "day")


def test_holes_and_overlaps() -> None:
    assert uncovered(OFFICE) == (0, 8 * 3600)
    assert uncovered(parse_period("* * * *", "all")) is None
    assert uncovered(parse_period("* mon-sat * *", "all")) == (6 * DAY, WEEK)
    assert overlap(OFFICE) is None
    assert overlap((*OFFICE, *parse_period("18:59-20:00 fri * *", "late"))) is not None
