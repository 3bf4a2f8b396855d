from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.simulation.engines.engine import replay
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import make_scheduler
from oarpy.simulation.traces.trace import TraceJob, in_submit_order
from tests.harness.examples import examples
from tests.unit.simulation.naive_replay import NaiveReplay


def workload(*rows: tuple[float, float, float, int]) -> tuple[TraceJob, ...]:
    """Jobs from (submit, run, estimate, procs)."""
    return in_submit_order([TraceJob(number, *row) for number, row in enumerate(rows, start=1)])


def starts(policy: str, procs: int, jobs: tuple[TraceJob, ...], order: str = "fifo") -> list[float]:
    return replay(jobs, make_scheduler(policy, order, jobs, Machine(procs)))


def test_fcfs_lets_nobody_overtake_the_head() -> None:
    jobs = workload((0, 10, 10, 3), (1, 5, 5, 2), (2, 1, 1, 1))
    assert starts("fcfs", 4, jobs) == [0, 10, 10]


def test_easy_backfills_a_job_that_ends_by_the_heads_start() -> None:
    jobs = workload((0, 10, 10, 3), (1, 5, 5, 2), (2, 8, 8, 1))
    assert starts("easy", 4, jobs) == [0, 10, 2]


def test_easy_does_not_backfill_a_job_that_would_end_after_the_heads_start() -> None:
    jobs = workload((0, 10, 10, 3), (1, 5, 5, 4), (2, 9, 9, 1))
    assert starts("easy", 4, jobs) == [0, 10, 15]


def test_easy_backfills_a_long_job_on_what_the_head_leaves_over() -> None:
    jobs = workload((0, 10, 10, 3), (1, 5, 5, 2), (2, 50, 50, 1))
    assert starts("easy", 4, jobs) == [0, 10, 2]


def test_easy_gives_away_what_the_head_leaves_over_once() -> None:
    jobs = workload((0, 10, 10, 3), (1, 5, 5, 4), (2, 50, 50, 1), (3, 50, 50, 1))
    assert starts("easy", 5, jobs) == [0, 10, 2, 15]


def test_jobs_ending_together_all_count_for_what_the_head_leaves_over() -> None:
    jobs = workload((0, 10, 10, 2), (0, 10, 10, 2), (1, 5, 5, 3), (2, 50, 50, 2))
    assert starts("easy", 6, jobs) == [0, 0, 10, 2]


def test_the_reservation_follows_estimates_and_moves_when_a_job_ends_early() -> None:
    jobs = workload((0, 4, 20, 3), (1, 5, 5, 4), (2, 15, 15, 1))
    assert starts("easy", 4, jobs) == [0, 17, 2]


def test_a_head_that_starts_leaves_its_place_to_the_next() -> None:
    jobs = workload((0, 10, 10, 4), (1, 10, 10, 2), (2, 10, 10, 4), (3, 10, 10, 2), (4, 11, 11, 2))
    assert starts("easy", 4, jobs) == [0, 10, 20, 10, 30]


def test_completions_come_before_arrivals_of_the_same_instant() -> None:
    jobs = workload((0, 10, 10, 4), (10, 5, 5, 4), (10, 5, 5, 1))
    assert starts("fcfs", 4, jobs) == [0, 10, 15]


def test_a_pass_follows_every_single_arrival_of_an_instant() -> None:
    jobs = workload((0, 5, 5, 3), (0, 5, 5, 2))
    assert starts("fcfs", 4, jobs, "smallest") == [0, 5]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fifo", [0, 10, 20, 30]), ("smallest", [0, 20, 30, 10]), ("largest", [0, 20, 10, 30])],
)
def test_the_order_decides_who_is_the_head(order: str, expected: list[float]) -> None:
    jobs = workload((0, 10, 10, 6), (1, 10, 10, 4), (2, 10, 10, 5), (3, 10, 10, 3))
    assert starts("fcfs", 6, jobs, order) == expected


def test_an_early_completion_in_the_instant_of_a_predicted_one_sees_both() -> None:
    jobs = workload((0, 10, 30, 1), (0, 10, 10, 3), (1, 5, 5, 4))
    assert starts("easy", 4, jobs) == [0, 0, 10]


def test_a_pass_between_two_completions_of_an_instant_gives_away_what_the_head_leaves_over() -> None:
    jobs = workload((0, 10, 10, 5), (0, 10, 10, 5), (1, 99, 99, 6), (2, 99, 99, 7), (3, 99, 99, 4))
    assert starts("easy", 10, jobs) == [0, 0, 10, 109, 10]


durations = st.integers(1, 12)
rows = st.tuples(st.integers(0, 25), durations, durations, st.integers(1, 6))


@settings(max_examples=examples(300), deadline=None)
@given(
    rows=st.lists(rows, min_size=1, max_size=25),
    policy=st.sampled_from(["fcfs", "easy"]),
    order=st.sampled_from(["fifo", "smallest", "largest"]),
)
def test_the_baselines_equal_the_naive_replay(rows: list[tuple[int, int, int, int]], policy: str, order: str) -> None:
    jobs = workload(*((submit, min(run, estimate), estimate, procs) for submit, run, estimate, procs in rows))
    expected = NaiveReplay(jobs, policy, order, 6).starts
    assert starts(policy, 6, jobs, order) == [expected[job] for job in range(len(jobs))]
