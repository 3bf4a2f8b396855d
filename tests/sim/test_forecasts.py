"""Intervals of starts hold in replays: they are told from what was known then, and adapt when jobs change."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oarpy.scheduler.forecast.start_intervals import FEWEST, LEVEL, WINDOW, PastStart, StartForecast
from oarpy.simulation.reports.forecast_accuracy import PlannedStart, accuracy, start_intervals
from research.benchmarks.predictions import trace_accuracy

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces" / "archive"


@given(st.lists(st.floats(0, 2), min_size=FEWEST, max_size=200), st.floats(1, 1e6))
def test_an_interval_holds_at_least_its_part_of_the_past(ratios: list[float], planned: float) -> None:
    interval = StartForecast([PastStart("q", planned, part * planned) for part in ratios]).interval("q", planned)
    assert interval is not None
    assert interval.starts == len(ratios)
    slack = 1e-9 * planned
    inside = [interval.earliest - slack <= part * planned <= interval.latest + slack for part in ratios]
    assert sum(inside) >= LEVEL * len(ratios)


def test_it_is_the_shortest_such_interval() -> None:
    """Half of the past starts at once, and most others by half of the planned wait: late ones are left out."""
    waits = [0.0] * 60 + [50.0] * 35 + [100.0] * 5
    interval = StartForecast([PastStart("q", 100, waited) for waited in waits]).interval("q", 100)
    assert interval is not None
    assert (interval.earliest, interval.latest) == (0, 50)


def test_little_history_tells_nothing() -> None:
    past = [PastStart("q", 100, 50)] * FEWEST
    assert StartForecast().interval("q", 100) is None
    assert StartForecast(past[1:]).interval("q", 100) is None
    assert StartForecast(past).interval("q", 100) is not None


def test_similar_waits_of_the_queue_come_first_then_the_queue_then_all() -> None:
    def told(queue: str, planned: float) -> float:
        interval = StartForecast(past).interval(queue, planned)
        assert interval is not None
        return round(interval.latest / planned, 6)

    past = [PastStart("a", 100, 10)] * FEWEST + [PastStart("a", 9000, 4500)] * FEWEST
    past += [PastStart("b", 100, 100)] * FEWEST
    assert told("a", 120) == 0.1  # jobs of a, 64 to 128 s
    assert told("a", 20) == 0.5  # all jobs of a
    assert told("c", 120) == 1  # those of a and b, 64 to 128 s
    assert told("c", 20) == 1  # all


def test_only_the_latest_starts_count() -> None:
    past = [PastStart("q", 100, 900)] * WINDOW + [PastStart("q", 100, 10)] * WINDOW
    interval = StartForecast(past).interval("q", 100)
    assert interval is not None
    assert interval.latest == 10


def test_what_was_missed_makes_the_next_wider() -> None:
    ratios = [number / 200 for number in range(200)]
    missed = [PastStart("q", 100, 100 * part, held=False) for part in ratios]
    held = [PastStart("q", 100, 100 * part, held=True) for part in ratios]
    wide, narrow = StartForecast(missed).interval("q", 100), StartForecast(held).interval("q", 100)
    assert wide is not None
    assert narrow is not None
    assert wide.latest - wide.earliest > narrow.latest - narrow.earliest


def _jobs(seed: int, number: int, *, drift: bool) -> list[PlannedStart]:
    """Return jobs a minute apart that wait a random part of what is planned, from the middle on most of it."""
    draw, jobs = random.Random(seed), []
    for rank in range(number):
        planned, made = draw.lognormvariate(7, 1.5), 60.0 * rank
        part = draw.betavariate(8, 2) if drift and rank > number / 2 else draw.betavariate(1, 3)
        jobs.append(PlannedStart("q", made, made + planned, made + part * planned))
    return jobs


@pytest.mark.parametrize("drift", [False, True])
def test_coverage_holds_also_when_jobs_change(drift: bool) -> None:
    found = accuracy(start_intervals(_jobs(1, 6000, drift=drift)))
    assert 0.85 <= found.coverage <= 0.95
    assert found.relative_width < 1


def test_nothing_of_the_future_is_used() -> None:
    """What comes after a job makes no difference to what it was told."""
    jobs = _jobs(2, 1000, drift=False)
    other = jobs[:500] + [PlannedStart("q", one.planned_at, one.start, one.planned_at) for one in jobs[500:]]
    pairs = zip(start_intervals(jobs)[:500], start_intervals(other)[:500], strict=True)
    assert all(one == another for one, another in pairs)


def test_the_first_jobs_of_kth() -> None:
    path = TRACES / "KTH-SP2-1996-2.swf.gz"
    if not path.exists():
        pytest.skip(f"{path} is not here: oarpy bench predictions --traces FOLDER measures it")
    found = trace_accuracy(path, 100, "conservative", 2000)
    assert found.told > 600
    assert 0.85 <= found.coverage <= 0.95
    assert found.relative_width < 1
