"""``oarpy reproduce flexible``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TextIO

from research.reservations.flexible import WINDOWS, flexible_runs, scenario
from research.reservations.flexible_figures import (
    FIXES,
    LOADS,
    MEDIUM,
    ORDERS,
    ROOMS,
    Figure,
    PointTable,
    figures_of,
    key,
    point,
    write_figures,
)
from research.runs.drawing import can_draw, wanted_figures
from research.runs.experiment import Parameters
from research.runs.judged_claims import Found, JudgedClaim, judged_claim, report_of_claims
from research.runs.pools import Pool
from research.runs.result_files import write_scenarios
from research.runs.runner import run_experiment

_QUICK_WINDOWS = (1, 25)
_FULL_SEEDS = 5
_STRICT = (46.8, 50.9, 54.7)
"""Published utilisation of strict reservations at the loads, in %."""


def reproduce_flexible(
    traces: Path,
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    figures: Sequence[int] = (),
    seed: int = 1,
    quick: bool = False,
    full: bool = False,
    fresh: bool = False,
    as_json: bool = False,
    write: Path | None = None,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status; with ``write``, only write the files of the runs, a line each.

    Raises :class:`UsageError` for a figure or a log that there is not.
    """
    loads = (MEDIUM,) if quick else LOADS
    wanted = wanted_figures(figures_of(loads), figures)
    points = list({key(at): at for figure in wanted.values() for at in figure.points()}.values())
    seeds = range(seed, seed + (_FULL_SEEDS if full and not quick else 1))
    experiment = flexible_runs(points, _QUICK_WINDOWS if quick else WINDOWS, seeds, traces)
    if write is not None:
        return write_scenarios(write, experiment, lambda run, places: scenario(run, Path(places["log"]))), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    table = PointTable(experiment, done.values)
    write_figures(output, table, wanted, drawing=can_draw(err))
    claims = flexible_claims(table, loads, wanted)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)


Judge = Callable[[PointTable, Sequence[float]], Found]


def flexible_claims(table: PointTable, loads: Sequence[float], figures: Mapping[int, Figure]) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where the runs of their figures were not asked for."""
    return [
        judged_claim(claim, paper, judge(table, loads) if set(needed) <= set(figures) else None, judged=judged)
        for claim, needed, paper, judged, judge in _CLAIMS
    ]


def _means(table: PointTable, points: Sequence[Parameters], metric: str = "utilisation") -> list[float] | None:
    means = [table.mean(at, metric) for at in points]
    known = [mean for mean in means if mean is not None]
    return known if len(known) == len(means) else None


def _texts(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _rises(values: Sequence[float]) -> bool:
    return all(value < other for value, other in pairwise(values))


def _strict_ones(table: PointTable, loads: Sequence[float]) -> Found:
    means = _means(table, [point(load, order="fifo") for load in loads])
    if means is None:
        return None
    published = [_STRICT[LOADS.index(load)] for load in loads]
    near = all(abs(mean - other) <= 8 for mean, other in zip(means, published, strict=True))
    return _texts(means), near and _rises(means)


def _earliest_deadline_is_best(table: PointTable, loads: Sequence[float]) -> Found:
    leads = []
    for load in loads:
        means = _means(table, [point(load, order=order, interval=50) for order in ORDERS])
        if means is None:
            return None
        *others, edf = means
        leads.append(edf - max(others))
    return "before the best other by " + _texts(leads), min(leads) >= -0.3


def _by_room(table: PointTable, load: float, inaccurate: int) -> list[float] | None:
    return _means(table, [point(load, interval=room, inaccurate=inaccurate) for room in (0, *ROOMS)])


def _longer_is_better(table: PointTable, loads: Sequence[float]) -> Found:
    curves = [_by_room(table, load, 0) for load in loads]
    known = [curve for curve in curves if curve is not None]
    if len(known) < len(curves):
        return None
    return "; ".join(map(_texts, known)), all(map(_rises, known))


def _more_when_inaccurate(table: PointTable, loads: Sequence[float]) -> Found:
    gains = []
    for inaccurate in (0, 1):
        gains_of_loads = []
        for load in loads:
            curve = _by_room(table, load, inaccurate)
            if curve is None:
                return None
            gains_of_loads += [100 * (mean / curve[0] - 1) for mean in curve[1:]]
        gains.append(fmean(gains_of_loads))
    return f"{gains[1]:.2f} % against {gains[0]:.2f} %", gains[1] > gains[0]


def _later_is_better(table: PointTable, _loads: Sequence[float]) -> Found:
    means = _means(table, [point(interval=100, fix=at) for at in FIXES])
    return None if means is None else (_texts(means), _rises(means))


def _offers_are_between(rooms: Sequence[int], everybody: int) -> Judge:
    def judge(table: PointTable, _loads: Sequence[float]) -> Found:
        rows = []
        for room in rooms:
            means = _means(table, [point(), point(offers=room, all=everybody), point(interval=room, all=everybody)])
            if means is None:
                return None
            rows.append(means)
        return "; ".join(map(_texts, rows)), all(map(_rises, rows))

    return judge


def _offers_are_near(table: PointTable, _loads: Sequence[float]) -> Found:
    means = _means(table, [point(offers=room) for room in ROOMS], "mean_phi")
    if means is None:
        return None
    return _texts(means), all(phi <= 0.7 * room / 100 for phi, room in zip(means, ROOMS, strict=True))


_CLAIMS: Sequence[tuple[str, tuple[int, ...], str, bool, Judge]] = (
    ("3a", (1,), "utilisation of strict ones within 8 of 46.8, 50.9, 54.7 %, and rising", True, _strict_ones),
    (
        *("3b", (1,), "edf at most 0.3 points below any other order, intervals of 50 %, each load"),
        *(True, _earliest_deadline_is_best),
    ),
    ("3c", (2,), "no interval < 25 < 50 < 100 %, edf, each load", True, _longer_is_better),
    ("3d", (2, 3), "intervals gain more when run times are inaccurate", True, _more_when_inaccurate),
    ("3e", (4,), "fixed after 0 < 25 < 50 < 75 % of the wait", True, _later_is_better),
    ("3f", (5,), "strict < offers < intervals of 25, 50, 100 %", True, _offers_are_between(ROOMS, 0)),
    (
        "3f-all",
        (5,),
        "the same at 100 % if all jobs take offers, and all have intervals",
        False,
        _offers_are_between((100,), 1),
    ),
    ("3g", (5,), "mean phi of offers at most 0.7 of the limit", True, _offers_are_near),
)
