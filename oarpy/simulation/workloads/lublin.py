"""Workload generator: the Lublin-Feitelson model of rigid parallel jobs.

U. Lublin and D. G. Feitelson, "The workload on parallel supercomputers: modeling the characteristics of rigid jobs", J.
Parallel Distrib. Comput. 63(11), 2003. Sizes are drawn by their base-2 logarithm. Run times come from a hyper-gamma
whose mix depends on the size. Arrivals come from a gamma whose pace follows the time of day in 48 half-hour slots.
Gamma parameters are (shape, scale). The arrival clock starts at midnight.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from oarpy.model.errors import UsageError
from oarpy.simulation.traces.trace import TraceJob, in_submit_order

_SLOTS = 48
_SLOT_SECONDS = 1800
_FIRST_SLOT = 11
_LONGEST_LOG_RUN = 12.0
_LONGEST_LOG_GAP = 13.0


@dataclass(frozen=True, slots=True)
class LublinModel:
    """Constants of one type of jobs.

    ``serial`` and ``power_of_two`` are shares of all jobs. ``low``, ``bend`` and ``high`` bound the two-stage uniform
    from which log2(size) is drawn, its lower stage with probability ``lower_stage``. A run time is exp(gamma): from
    ``short_run`` with probability clamp(``short_slope`` * size + ``short_offset``), else from ``long_run``. ``arrival``
    and ``daily`` are the gammas of the gaps and of the daily cycle, ``pace`` stretches the former.
    """

    serial: float
    power_of_two: float
    low: float
    bend: float
    high: float
    lower_stage: float
    short_run: tuple[float, float]
    long_run: tuple[float, float]
    short_slope: float
    short_offset: float
    arrival: tuple[float, float]
    daily: tuple[float, float]
    pace: float

    def fitted(self, procs: int) -> LublinModel:
        """Return the model for a machine of ``procs`` processors: sizes reach it, the bend lies 2.5 (in log2) below."""
        if procs < 2:
            raise UsageError(f"the workload model needs a parallel machine, not {procs} processor", hint="2 or more")
        high = math.log2(procs)
        low = min(self.low, high)
        return replace(self, low=low, bend=max(high - 2.5, low), high=high)


BATCH = LublinModel(
    serial=0.2927,
    power_of_two=0.6686,
    low=1.2,
    bend=5,
    high=7,
    lower_stage=0.875,
    short_run=(6.57, 0.823),
    long_run=(639.1, 0.0156),
    short_slope=-0.003,
    short_offset=0.6986,
    arrival=(6.0415, 0.8531),
    daily=(6.1271, 5.2740),
    pace=1.0519,
)
INTERACTIVE = LublinModel(
    serial=0.1541,
    power_of_two=0.625,
    low=1,
    bend=3,
    high=5.5,
    lower_stage=0.705,
    short_run=(3.8351, 0.6605),
    long_run=(7.073, 0.6856),
    short_slope=-0.0118,
    short_offset=0.9156,
    arrival=(6.5510, 0.6621),
    daily=(8.9186, 3.6680),
    pace=0.9797,
)
ALL_JOBS = LublinModel(
    serial=0.244,
    power_of_two=0.576,
    low=0.8,
    bend=4.5,
    high=7,
    lower_stage=0.86,
    short_run=(4.2, 0.94),
    long_run=(312, 0.03),
    short_slope=-0.0054,
    short_offset=0.78,
    arrival=(10.2303, 0.4871),
    daily=(8.1737, 3.9631),
    pace=1.0225,
)


def generate(
    model: LublinModel, count: int, seed: int, *, overestimate: float = 1.0, time_scale: float = 1.0
) -> tuple[TraceJob, ...]:
    """Return ``count`` jobs drawn from ``model``, the same for the same seed.

    The model knows no walltimes: the estimate is the run time times a factor uniform on [1, ``overestimate``].
    ``time_scale`` stretches the arrival times (below 1 raises the load). A run time below 1 s becomes 1 s.
    """
    if overestimate < 1:
        raise UsageError(f"an overestimate of {overestimate} would cut run times", hint="a factor of 1 or more")
    draw = random.Random(seed)
    jobs = []
    for number, arrival in enumerate(islice(arrivals(model, draw), count), start=1):
        size = draw_size(model, draw)
        run = max(1, draw_run_time(model, size, draw))
        estimate = math.ceil(run * draw.uniform(1, overestimate))
        jobs.append(TraceJob(number, round(arrival * time_scale), run, estimate, size))
    return in_submit_order(jobs)


def generate_both(procs: int, count: int, seed: int, *, overestimate: float = 1.0) -> tuple[TraceJob, ...]:
    """Return the first ``count`` jobs of a batch and an interactive stream, drawn one by one and merged by time.

    Interactive jobs keep their own largest size, as far as the machine of ``procs`` processors has it.
    """
    interactive = INTERACTIVE if procs >= 2**INTERACTIVE.high else INTERACTIVE.fitted(procs)
    streams = (
        generate(BATCH.fitted(procs), count, 2 * seed, overestimate=overestimate),
        generate(interactive, count, 2 * seed + 1, overestimate=overestimate),
    )
    merged = sorted((job for stream in streams for job in stream), key=lambda job: job.submit)[:count]
    return tuple(replace(job, number=number) for number, job in enumerate(merged, start=1))


def draw_size(model: LublinModel, draw: random.Random) -> int:
    """Return a number of processors."""
    kind = draw.random()
    if kind <= model.serial:
        return 1
    if draw.random() <= model.lower_stage:
        log_size = draw.uniform(model.low, model.bend)
    else:
        log_size = draw.uniform(model.bend, model.high)
    if kind <= model.serial + model.power_of_two:
        log_size = math.floor(log_size + 0.5)
    return math.floor(2**log_size + 0.5)


def draw_run_time(model: LublinModel, size: int, draw: random.Random) -> int:
    """Return a run time in whole seconds for a job of ``size`` processors."""
    share = min(1.0, max(0.0, model.short_slope * size + model.short_offset))
    while True:
        log_run = draw.gammavariate(*(model.short_run if draw.random() <= share else model.long_run))
        if log_run <= _LONGEST_LOG_RUN:
            return int(math.exp(log_run))


def arrivals(model: LublinModel, draw: random.Random) -> Iterator[float]:
    """Yield arrival times in seconds, for ever.

    Each gap is drawn in points and spent on the slots' weights. A busy half-hour costs more points, so the same gap
    lasts less time there. Points not spent carry over.
    """
    weights = slot_weights(model)
    shape, scale = model.arrival
    slot, now, points, reached = 0, 0.0, 0.0, 0.0
    while True:
        log_gap = draw.gammavariate(shape * model.pace, scale)
        if log_gap > _LONGEST_LOG_GAP:
            continue
        points += math.exp(log_gap) / _SLOT_SECONDS
        while points > weights[slot]:
            points -= weights[slot]
            slot = (slot + 1) % _SLOTS
            now += _SLOT_SECONDS
        share = points / weights[slot]
        now += _SLOT_SECONDS * (share - reached)
        reached = share
        yield now


def slot_weights(model: LublinModel) -> list[float]:
    """Return the weight of each half-hour from midnight, 1 on average."""
    weights = [0.0] * _SLOTS
    for step in range(_FIRST_SLOT, _FIRST_SLOT + _SLOTS):
        share = gamma_cdf(step + 0.5, *model.daily) - gamma_cdf(step - 0.5, *model.daily)
        weights[(step - 1) % _SLOTS] = share
    mean = math.fsum(weights) / _SLOTS
    return [weight / mean for weight in weights]


def gamma_cdf(x: float, shape: float, scale: float) -> float:
    """Return P(X <= ``x``) for a gamma variable, by the series of the lower incomplete gamma function."""
    z = x / scale
    if z <= 0:
        return 0.0
    term = total = 1 / shape
    divisor = shape
    while term > total * 1e-16:
        divisor += 1
        term *= z / divisor
        total += term
    return total * math.exp(shape * math.log(z) - z - math.lgamma(shape))
