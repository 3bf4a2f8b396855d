"""The experiments of each figure, in full and in little."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from oarpy.model.setting_values import RankRule
from research.ndrms.experiments import Experiment
from research.ndrms.workloads import JOBS, Sizes

MOLDABLE_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
QUICK_MOLDABLE_SHARES = (0.0, 0.2, 1.0)
COMPLEX_SHARES = (0.0, 0.2, 0.5, 0.8, 1.0)
CLUSTER_COUNTS = tuple(range(1, 9))
FAIR_STARTS = (1, 5, 20)
DELAYS = (0, 2, 5, 10, 30)
WASTE_FAIR_STARTS = (0, 5, 10, 15, 20, 25, 30)
DRAWS, QUICK_DRAWS = 10, 2
REAL_COMPLEX_SHARE = 0.2
LARGEST_REAL = 7200
"""Processor-seconds of a job that is served by a real server."""
DRAWN_FROM = 20_000
"""Jobs of the log among which the first of the 200 of figure 10 is drawn."""


@dataclass(frozen=True, slots=True)
class SourceReading:
    """A way to understand the source where it says two things."""

    rank: RankRule = "first-request"
    sizes: Sizes = "processors"

    @property
    def judged(self) -> bool:
        """Say whether it is the source's own words, which decide the exit status."""
        return self == JUDGED


JUDGED = SourceReading()
READINGS = (JUDGED, SourceReading(sizes="nodes"), SourceReading("submission"), SourceReading("submission", "nodes"))


def _ours(reading: SourceReading, **changes: object) -> Experiment:
    return replace(Experiment("ours", "W0", reading.sizes, reading.rank), **changes)  # type: ignore[arg-type]


def oar_like(experiment: Experiment) -> Experiment:
    """Return the same workload in the OAR-like system, whose order is that of submission in any reading."""
    return replace(experiment, system="oar", rank=None)


def moldable_shares(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 7: one cluster, more and more moldable jobs."""
    for share in QUICK_MOLDABLE_SHARES if quick else MOLDABLE_SHARES:
        experiment = _ours(reading, p_mo=share)
        yield from (experiment, oar_like(experiment))


def cluster_counts(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 8: more and more clusters."""
    for count in (1, 2, 8) if quick else CLUSTER_COUNTS:
        experiment = _ours(reading, clusters=count)
        yield from (experiment, oar_like(experiment))


def complex_shares(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 9: more and more complex applications."""
    for count in (8,) if quick else CLUSTER_COUNTS:
        yield _ours(reading, clusters=count)
        yield _ours(reading, clusters=count, workload="W1")
        for share in (1.0,) if quick else COMPLEX_SHARES[1:]:
            yield _ours(reading, clusters=count, workload="W2", p_cem=share)


def delays(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 10: a complex application that answers late; clusters, jobs and its place are drawn."""
    for draw in range(1, (QUICK_DRAWS if quick else DRAWS) + 1):
        random = Random(draw)
        drawn = _ours(
            reading,
            workload="W1",
            draw=draw,
            clusters=random.randint(1, 8),
            first=random.randrange(DRAWN_FROM),
            place=random.randint(1, JOBS),
        )
        for fair_start in (1, 20) if quick else FAIR_STARTS:
            for delay in (0, 10) if quick else DELAYS:
                yield replace(drawn, fair_start=fair_start, delay=delay)


def wastes(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 11: four clusters, longer and longer ghosts."""
    for share in (0.0, 1.0) if quick else COMPLEX_SHARES:
        for fair_start in (0, 15, 30) if quick else WASTE_FAIR_STARTS:
            yield _ours(reading, workload="W2", clusters=4, p_cem=share, fair_start=fair_start)


def real_servers(reading: SourceReading, quick: bool) -> Iterator[Experiment]:
    """Figure 12: small jobs, which a real server serves too, in real time."""
    if not quick:
        yield _ours(reading, workload="W2", clusters=8, p_cem=REAL_COMPLEX_SHARE, largest=LARGEST_REAL)


FigureNumber = Literal[7, 8, 9, 10, 11, 12]
FIGURES: Mapping[int, Callable[[SourceReading, bool], Iterator[Experiment]]] = {
    7: moldable_shares,
    8: cluster_counts,
    9: complex_shares,
    10: delays,
    11: wastes,
    12: real_servers,
}
