"""``oarpy reproduce deadlines``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from research.grids.deadlines import deadline_runs
from research.grids.deadlines_figures import (
    FIGURES,
    LOADS,
    OFFSETS,
    RATES,
    PointTable,
    point,
    points_of,
    write_figures,
)
from research.runs.drawing import can_draw, wanted_figures
from research.runs.experiment import Parameters
from research.runs.judged_claims import Found, JudgedClaim, judged_claim, report_of_claims
from research.runs.pools import Pool
from research.runs.runner import run_experiment

_JOBS, _SEEDS = 20000, 5
_QUICK_JOBS, _QUICK_SEEDS = 300, 2


def reproduce_deadlines(
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    figures: Sequence[int] = (),
    seed: int = 1,
    quick: bool = False,
    fresh: bool = False,
    as_json: bool = False,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status. Raises :class:`UsageError` for a figure that does not exist."""
    wanted = list(wanted_figures(FIGURES, figures))
    jobs, seeds = (_QUICK_JOBS, _QUICK_SEEDS) if quick else (_JOBS, _SEEDS)
    experiment = deadline_runs(points_of(wanted), range(seed, seed + seeds), jobs)
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    table = PointTable(experiment, done.values)
    write_figures(output, table, wanted, seeds, jobs, drawing=can_draw(err))
    claims = deadline_claims(table, wanted)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)


Judge = Callable[[PointTable], Found]


def deadline_claims(table: PointTable, figures: Sequence[int]) -> list[JudgedClaim]:
    """Return the paper's claims, and whether they hold; open where the runs of their figures were not asked for."""
    return [
        judged_claim(claim, paper, judge(table) if set(needed) <= set(figures) else None, judged=judged)
        for claim, needed, paper, judged, judge in _CLAIMS
    ]


def _success(table: PointTable, points: Sequence[Parameters]) -> list[float] | None:
    """Return the success at points in %, None if one of them was not run."""
    return _means(table, points, "success")


def _means(table: PointTable, points: Sequence[Parameters], metric: str) -> list[float] | None:
    means = [table.mean(at, metric) for at in points]
    known = [mean for mean in means if mean is not None]
    return known if len(known) == len(means) else None


def _grows_with_lp(table: PointTable) -> tuple[str, bool] | None:
    gains = []
    for local in (30, 60):
        for load in (20, 40):
            successes = _success(table, [point(local=local, together=load, lp=lp) for lp in (0.1, 1)])
            if successes is None:
                return None
            gains.append(successes[1] - successes[0])
    return "gains " + ", ".join(f"{gain:.1f}" for gain in gains), min(gains) >= 15


def _drops_near_one(table: PointTable) -> tuple[str, bool] | None:
    successes = _success(table, [point(local=60, together=40, lp=lp) for lp in (0.95, 1)])
    return (
        None
        if successes is None
        else (f"{successes[0]:.2f} at 0.95, {successes[1]:.2f} at 1", successes[1] < successes[0])
    )


def _short_waits_are_best(priority: str) -> Judge:
    def judge(table: PointTable) -> tuple[str, bool] | None:
        spreads, below = [], []
        for load in LOADS:
            points = [point(together=load, wait=wait, priority=priority) for wait in ("0", "10", "100", "inf")]
            successes = _success(table, points)
            if successes is None:
                return None
            spreads.append(max(successes[:3]) - min(successes[:3]))
            below.append(min(successes[:3]) - successes[3])
        ours = f"at most {max(spreads):.2f} apart; pure RPP at least {min(below):.2f} lower"
        return ours, max(spreads) <= 1.5 and min(below) >= 2.5

    return judge


def _independent_of_offsets(table: PointTable) -> tuple[str, bool] | None:
    spreads, falls = [], []
    for local in (30, 60):
        for load in (20, 40):
            short = _success(table, [point(local=local, together=load, wait="10", offset=offset) for offset in OFFSETS])
            pure = _success(table, [point(local=local, together=load, offset=offset) for offset in OFFSETS])
            if short is None or pure is None:
                return None
            spreads.append(max(short) - min(short))
            falls.append(pure[0] - pure[-1])
    ours = "Wait-10 within " + ", ".join(f"{spread:.2f}" for spread in spreads)
    ours += "; pure RPP falls by " + ", ".join(f"{fall:.1f}" for fall in falls)
    return ours, max(spreads) <= 2 and min(falls) >= 8


def _alike_at_low_load(table: PointTable) -> tuple[str, bool] | None:
    short = _success(table, [point(rate=rate, wait="10") for rate in RATES])
    pure = _success(table, [point(rate=rate) for rate in RATES])
    if short is None or pure is None:
        return None
    apart = max(abs(brief - other) for brief, other in zip(short, pure, strict=True))
    return f"at most {apart:.2f} apart", apart <= 2


def _local_jobs_wait(table: PointTable) -> tuple[str, bool] | None:
    means = _means(table, [point(together=40, wait=wait) for wait in ("10", "inf")], "local_response")
    if means is None:
        return None
    return f"{means[1]:.0f} s against {means[0]:.0f} s: {means[1] / means[0]:.1f} times", means[1] >= 10 * means[0]


def _long_waits_kill(table: PointTable) -> tuple[str, bool] | None:
    means = _means(table, [point(together=40, wait=wait) for wait in ("10", "1000", "inf")], "local_killed")
    if means is None:
        return None
    ours = f"{means[1]:.2f} % and {means[2]:.2f} % against {means[0]:.2f} %"
    return ours, min(means[1:]) >= 2 * means[0]


_CLAIMS: Sequence[tuple[str, tuple[int, ...], str, bool, Judge]] = (
    ("A1", (2, 3), "success at Lp 1 at least 15 points above Lp 0.1, four loads", True, _grows_with_lp),
    ("A1-drop", (3,), "a little lower close to Lp 1 at 60 % local and 40 % global load", False, _drops_near_one),
    (
        *("A2", (4,), "Wait-0, 10, 100 within 1.5 points, pure RPP 2.5 below them, each load"),
        *(True, _short_waits_are_best("GP")),
    ),
    ("A2-LP", (4,), "the same under LP", False, _short_waits_are_best("LP")),
    (
        *("A3", (5, 6), "Wait-10 within 2 points over the offsets, pure RPP falls by 8"),
        *(True, _independent_of_offsets),
    ),
    ("A4", (7,), "Wait-10 and pure RPP within 2 points at each local rate", False, _alike_at_low_load),
    ("A5", (8,), "local response 10 times worse under pure RPP than under Wait-10", True, _local_jobs_wait),
    ("A5-kills", (9,), "kills at X = 1000 and infinite at least twice those of Wait-10", False, _long_waits_kill),
)
