"""Months of a grid site, made to order: stand-ins for the logs of Grid'5000 of 2008, which are missing.

Users of such sites start campaigns: a script submits many like jobs one after the other. So a month is made of bursts::

    burst of 5 jobs       one job          burst of 3 jobs
    |||||..................|................|||...............> time

Each burst has one size. Sizes and run times are those of the Lublin-Feitelson model for a machine of that size. Run
times are scaled so that the site would be used to :data:`LOAD` by them. These constants were chosen before the first
run, and are not tuned.
"""

from __future__ import annotations

from math import ceil
from random import Random

from oarpy.simulation.traces.trace import TraceJob
from oarpy.simulation.workloads.lublin import BATCH, draw_run_time, draw_size

LOAD = 0.6
"""Part of the site's processor seconds that the jobs of a month need."""
LONGEST_BURST = 500
_TAIL = 1.1
"""Exponent of the Pareto law of the jobs in a burst: most are few, some are many."""
_GAP = 10.0
"""Mean seconds between two jobs of a burst."""
_SPREAD = (0.5, 1.5)
"""Run times within a burst differ from the first one's by a factor of this interval."""
_OVERESTIMATE = (1.0, 5.0)
_DAY = 86400
_LONGEST_RUN = 7 * _DAY
_AT_NIGHT = 0.3
"""Chance that a burst drawn for the night or a weekend stays there; else it is drawn again."""


def bursty_month(procs: int, count: int, days: int, seed: str) -> tuple[TraceJob, ...]:
    """Return ``count`` jobs for a site of ``procs`` processors over ``days`` days, from second 0 on, by submission.

    The same seed gives the same jobs. Estimates are run times times a factor uniform on [1, 5], in whole minutes.
    """
    draw = Random(seed)
    model = BATCH.fitted(procs)
    drawn: list[tuple[float, int, float]] = []
    while len(drawn) < count:
        size = draw_size(model, draw)
        longest = draw_run_time(model, size, draw)
        at = _begin(days, draw)
        for _ in range(min(int(draw.paretovariate(_TAIL)), LONGEST_BURST, count - len(drawn))):
            drawn.append((at, size, max(longest * draw.uniform(*_SPREAD), 1)))
            at = min(at + draw.expovariate(1 / _GAP), days * _DAY - 1)
    scale = LOAD * procs * days * _DAY / sum(size * run for _, size, run in drawn)
    jobs = []
    for number, (at, size, run) in enumerate(sorted(drawn), 1):
        length = min(max(round(run * scale), 1), _LONGEST_RUN)
        estimate = 60 * ceil(length * draw.uniform(*_OVERESTIMATE) / 60)
        jobs.append(TraceJob(number, int(at), length, estimate, size))
    return tuple(jobs)


def _begin(days: int, draw: Random) -> float:
    """Return when a burst begins: by day from Monday to Friday, for the most part."""
    while True:
        at = draw.uniform(0, days * _DAY)
        working = 8 <= at % _DAY / 3600 < 20 and at // _DAY % 7 < 5
        if working or draw.random() < _AT_NIGHT:
            return at
