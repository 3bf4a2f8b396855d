from __future__ import annotations

import random
import statistics
from itertools import islice, pairwise

import pytest

from oarpy.model.errors import UsageError
from oarpy.simulation.workloads.lublin import (
    ALL_JOBS,
    BATCH,
    INTERACTIVE,
    LublinModel,
    arrivals,
    draw_run_time,
    draw_size,
    gamma_cdf,
    generate,
    generate_both,
    slot_weights,
)

MODELS = pytest.mark.parametrize(
    ("model", "size", "mean_run", "median_run", "gap"),
    [
        (BATCH, 13.87, 9502, 819, 3746),
        (INTERACTIVE, 8.05, 237, 13, 604),
        (ALL_JOBS, 12.09, 4361, 107, 880),
    ],
    ids=["batch", "interactive", "one type"],
)


@MODELS
def test_draws_have_the_models_means(
    model: LublinModel, size: float, mean_run: float, median_run: float, gap: float
) -> None:
    draw = random.Random(20)
    sizes = [draw_size(model, draw) for _ in range(60_000)]
    runs = [draw_run_time(model, one, draw) for one in sizes]
    times = list(islice(arrivals(model, draw), 15_000))
    assert statistics.fmean(sizes) == pytest.approx(size, rel=0.03)
    assert statistics.fmean(runs) == pytest.approx(mean_run, rel=0.06)
    assert statistics.median(runs) == pytest.approx(median_run, rel=0.08)
    assert times[-1] / len(times) == pytest.approx(gap, rel=0.12)


@MODELS
def test_shares_of_serial_and_power_of_two_sizes(
    model: LublinModel, size: float, mean_run: float, median_run: float, gap: float
) -> None:
    draw = random.Random(21)
    sizes = [draw_size(model, draw) for _ in range(40_000)]
    assert sizes.count(1) / len(sizes) >= model.serial - 0.01
    powers = sum(one & (one - 1) == 0 for one in sizes) / len(sizes)
    assert powers >= model.serial + model.power_of_two - 0.01
    assert max(sizes) <= 2**model.high + 1


def test_the_day_peaks_after_noon_and_sleeps_before_dawn() -> None:
    for model in (BATCH, INTERACTIVE, ALL_JOBS):
        weights = slot_weights(model)
        assert sum(weights) == pytest.approx(48)
        assert 12.5 <= weights.index(max(weights)) / 2 <= 14
        assert 4.5 <= weights.index(min(weights)) / 2 <= 5
        assert 1.6 < max(weights) < 1.95
        assert 0.1 < min(weights) < 0.25


def test_gamma_cdf_of_known_values() -> None:
    assert gamma_cdf(0, 2, 3) == 0
    assert gamma_cdf(3, 1, 3) == pytest.approx(1 - 2.718281828459045**-1)
    assert gamma_cdf(4, 2, 2) == pytest.approx(1 - 3 * 2.718281828459045**-2)
    assert gamma_cdf(500, 6.1, 5.3) == pytest.approx(1)


def test_arrivals_never_go_back() -> None:
    times = list(islice(arrivals(ALL_JOBS, random.Random(5)), 5000))
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_same_seed_same_jobs() -> None:
    assert generate(ALL_JOBS, 200, 3) == generate(ALL_JOBS, 200, 3)
    assert generate(ALL_JOBS, 200, 3) != generate(ALL_JOBS, 200, 4)
    assert generate_both(64, 200, 3) == generate_both(64, 200, 3)


def test_jobs_fit_the_machine_and_their_estimate() -> None:
    jobs = generate(ALL_JOBS.fitted(256), 3000, 1, overestimate=3)
    assert [job.number for job in jobs] == list(range(1, 3001))
    assert max(job.procs for job in jobs) <= 256
    assert any(job.procs > 128 for job in jobs)
    assert all(0 < job.run <= job.estimate <= 3 * job.run + 1 for job in jobs)
    assert any(job.estimate > 2 * job.run for job in jobs)


def test_the_two_streams_are_merged_by_time() -> None:
    jobs = generate_both(32, 1000, 8)
    assert len(jobs) == 1000
    assert all(earlier.submit <= later.submit for earlier, later in pairwise(jobs))
    assert max(job.procs for job in jobs) <= 32


def test_time_scale_raises_the_load() -> None:
    slow, fast = generate(ALL_JOBS, 50, 1), generate(ALL_JOBS, 50, 1, time_scale=0.5)
    assert fast[-1].submit == pytest.approx(slow[-1].submit / 2, abs=1)


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match="not 1 processor"):
        ALL_JOBS.fitted(1)
    with pytest.raises(UsageError, match="would cut run times"):
        generate(ALL_JOBS, 1, 1, overestimate=0.5)
