"""``oarpy reproduce bags``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TextIO

from research.bags.coordination import CLUSTERS, METRICS, ON, coordination_runs, scenario
from research.bags.coordination_figures import (
    BASES,
    COORDINATED,
    LESS_PREDICTED,
    MIXED,
    NOLB,
    PREDICTED,
    SPEEDS,
    VARIANTS,
    BagsTable,
    Variant,
    write_figures,
)
from research.runs.drawing import can_draw
from research.runs.experiment import Parameters, Values
from research.runs.judged_claims import Found, JudgedClaim, judged_claim, report_of_claims
from research.runs.pools import Pool
from research.runs.result_files import write_rows, write_scenarios
from research.runs.runner import run_experiment

_PUBLISHED = (0.5, 1.0, 1.5)
"""The overestimations of table 7.4."""
_MORE = (0.3, *_PUBLISHED, 2.0)
_MORE_FULL = tuple(tenths / 10 for tenths in range(1, 21))
_LARGE = 1.0
"""The least overestimation that counts as large."""
_COLUMNS = ("days", *asdict(Variant()), "more", "seed")
HOMOGENEOUS, CO = BASES[1.0], COORDINATED[1.0]


def reproduce_bags(
    output: Path,
    pool: Pool,
    err: TextIO,
    *,
    seed: int = 1,
    quick: bool = False,
    full: bool = False,
    fresh: bool = False,
    as_json: bool = False,
    write: Path | None = None,
) -> tuple[str, int]:
    """Return the claims as text, and the exit status; with ``write``, only write the files of the runs, a line each."""
    experiment = coordination_runs(points_of(seed, quick=quick, full=full))
    if write is not None:
        return write_scenarios(write, experiment, lambda run, _: scenario(run)), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    rows = [(experiment.runs[place], values) for place, values in done.values.items()]
    _write_files(output, rows)
    table = BagsTable(rows if not done.failed else [])
    write_figures(output, table, drawing=can_draw(err))
    claims = bags_claims(table)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)


def points_of(seed: int, *, quick: bool, full: bool) -> list[Parameters]:
    days = 5 if quick else 15
    seeds = 1 if quick else 15 if full else 3
    overestimations = _PUBLISHED[::2] if quick else _MORE_FULL if full else _MORE
    return [
        {"days": days, **asdict(variant), "more": more, "seed": seed + further}
        for further in range(seeds)
        for variant in VARIANTS
        for more in ((0.0, *overestimations) if variant in BASES.values() else overestimations)
    ]


def _write_files(folder: Path, rows: Sequence[tuple[Parameters, Values]]) -> None:
    inputs = {(run["days"], run["seed"]): (values["bags"], round(values["load"], 3)) for run, values in rows}
    lines = [(*about, *facts) for about, facts in sorted(inputs.items())]
    write_rows(folder / "inputs.csv", [("days", "seed", "bags", "load"), *lines])
    lines = [(*(run[name] for name in _COLUMNS), *(values[name] for name in METRICS)) for run, values in rows]
    write_rows(folder / "runs.csv", [(*_COLUMNS, *METRICS), *lines])


Judge = Callable[[BagsTable], Found]


def bags_claims(table: BagsTable) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where runs are missing."""
    return [
        judged_claim(claim, paper, judge(table) if table.seeds else None, judged=judged)
        for claim, paper, judged, judge in _CLAIMS
    ]


def _texts(values: Iterable[float], digits: int = 2) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _of(table: BagsTable, wanted: Iterable[float]) -> list[float]:
    return [more for more in wanted if more in table.overestimations]


def _at(points: Sequence[float]) -> str:
    return f"at x = {', '.join(f'{more:g}' for more in points)}"


def _large(table: BagsTable) -> list[float]:
    return [more for more in table.overestimations if more >= _LARGE]


def _stretch_is_lower(table: BagsTable) -> Found:
    points = _large(table)
    apart, together = ([table.mean(kind, more, "stretch") for more in points] for kind in (HOMOGENEOUS, CO))
    gain = 100 * (1 - fmean(together) / fmean(apart))
    return f"{_texts(apart)} and {_texts(together)} {_at(points)}: {-gain:+.1f} %", all(
        one < other for one, other in zip(together, apart, strict=True)
    )


def _stretch_is_equal_below(table: BagsTable) -> Found:
    if not (points := _of(table, [0.3])):
        return None
    apart, together = (table.mean(kind, points[0], "stretch") for kind in (HOMOGENEOUS, CO))
    return f"{apart:.3f} and {together:.3f}", abs(together / apart - 1) <= 0.02


def _responses_are_shorter(table: BagsTable) -> Found:
    points = _of(table, _PUBLISHED)
    response, slowdown = ([table.gain(CO, more, name) for more in points] for name in ("response", "slowdown"))
    words = f"response {_texts(response)} %, slowdown {_texts(slowdown)} % lower {_at(points)}"
    return words, min(response) >= 1 and min(slowdown) > 0


def _by_not_too_much(table: BagsTable) -> Found:
    points = _of(table, _PUBLISHED)
    gains = [table.gain(CO, more, "response") for more in points]
    return f"{_texts(gains)} % {_at(points)}", max(gains) <= 8


def _gains_grow(table: BagsTable) -> Found:
    points = table.overestimations
    gains = [table.gain(CO, more, "response") for more in points]
    return f"{_texts(gains)} % {_at(points)}", gains == sorted(gains) and len(set(gains)) == len(gains)


def _hetero_gains_less(table: BagsTable) -> Found:
    gains = [table.mean_gain(COORDINATED[speed], "response") for speed in SPEEDS]
    return f"{_texts(gains)} % at speeds {_speeds()}", max(gains[1:]) < gains[0]


def _hetero_predicts_better(table: BagsTable) -> Found:
    gains, less = (
        [table.mean_gain(kinds[speed], "response") for speed in SPEEDS] for kinds in (PREDICTED, LESS_PREDICTED)
    )
    words = f"{_texts(gains)} % at speeds {_speeds()} (q = 0.5: {_texts(less)} %)"
    return words, min(gains[1:]) > gains[0]


def _speeds() -> str:
    return ", ".join(f"{speed:g}" for speed in SPEEDS)


def _better_than_perfect(table: BagsTable) -> Found:
    points = _large(table)
    perfect = table.mean(HOMOGENEOUS, 0.0, "slowdown")
    slowdowns = [table.mean(CO, more, "slowdown") for more in points]
    return f"{_texts(slowdowns, 3)} {_at(points)}, perfect {perfect:.3f}", max(slowdowns) < perfect


def _bags_on_several_gain_more(table: BagsTable) -> Found:
    points = table.overestimations
    single, multi = ([table.gain(CO, more, f"response_{where}") for more in points] for where in ("single", "multi"))
    words = f"on one {_texts(single)} %, on several {_texts(multi)} % lower {_at(points)}"
    return words, max(single) <= 5 and fmean(multi) > fmean(single)


def _bags_are_spread(table: BagsTable) -> Found:
    points, words, near = table.overestimations, [], []
    for kind in (HOMOGENEOUS, NOLB[0]):
        shares = [fmean(table.mean(kind, more, name) for more in points) for name in ON]
        mean = fmean(table.mean(kind, more, "clusters_per_bag") for more in points)
        words.append(f"{kind.policy} {mean:.2f}: {_texts(shares, 1)} % on 1, 2, 3, 4")
        near.append(max(shares[1:]) - min(shares[1:]) <= 10)
    return "; ".join(words), all(near)


def _as_much_is_used(table: BagsTable) -> Found:
    points = table.overestimations
    apart, together = ([table.mean(kind, more, "utilisation") for more in points] for kind in (HOMOGENEOUS, CO))
    wide = max(abs(one - other) for one, other in zip(apart, together, strict=True))
    used = {name: fmean(table.mean(MIXED, more, name) for more in points) for name in CLUSTERS}
    draws = all(
        table.mean(MIXED, more, "C3") + table.mean(MIXED, more, "C4")
        > table.mean(MIXED, more, "C1") + table.mean(MIXED, more, "C2")
        for more in points
    )
    words = f"at most {wide:.2f} points apart; mixed: {', '.join(f'{name} {one:.1f}' for name, one in used.items())} %"
    return words, wide <= 1 and draws


def _candidates_saturate(table: BagsTable) -> Found:
    points = _of(table, (1.8, 2.0))
    if len(points) < 2:
        return None
    before, last = (table.mean(HOMOGENEOUS, more, "fitting") for more in points)
    return f"{before:.0f} at x = 1.8, {last:.0f} at 2", abs(last / before - 1) <= 0.05


def _promises_are_kept(table: BagsTable) -> Found:
    broken = sum(values["broken"] for _, values in table.rows)
    bags = sum(values["bags"] for _, values in table.rows)
    return f"{broken} of {bags:,} bags in {len(table.rows)} runs", broken == 0


_CLAIMS: Sequence[tuple[str, str, bool, Judge]] = (
    (
        "7a",
        "stretch of bags on several clusters lower with coordination at every x >= 1 (published: -11 %)",
        True,
        _stretch_is_lower,
    ),
    ("7a-30", "x = 0.3: stretch within 2 %", False, _stretch_is_equal_below),
    (
        "7b",
        "x = 0.5, 1, 1.5: response at least 1 % lower with coordination, slowdown lower"
        " (published: 3.1, 5.0, 5.7 % and 6.7, 8.5, 8.9 %)",
        True,
        _responses_are_shorter,
    ),
    ("7b-size", "x = 0.5, 1, 1.5: response at most 8 % lower", False, _by_not_too_much),
    ("7b-grows", "the gain in response grows with x", False, _gains_grow),
    ("7b-hetero", "the mean gain in response is less where clusters differ", False, _hetero_gains_less),
    (
        "7c",
        "the mean gain in response of predictions (q = 0.2) is larger where clusters differ",
        False,
        _hetero_predicts_better,
    ),
    ("7d", "x >= 1: slowdown with coordination below that of perfect estimates", False, _better_than_perfect),
    (
        "7e",
        "response of bags on one cluster at most 5 % lower with coordination, and less lower than on several clusters",
        False,
        _bags_on_several_gain_more,
    ),
    ("7f", "about as many bags on 2, on 3 and on 4 clusters: within 10 points", False, _bags_are_spread),
    (
        "7g",
        "utilisation with and without coordination within 1 point;"
        " clusters that predict (C3, C4) are used more than those that do not, at every x",
        True,
        _as_much_is_used,
    ),
    (
        "7h",
        "bags that would fit into what early ends free: at x = 2 within 5 % of x = 1.8",
        False,
        _candidates_saturate,
    ),
    ("7-kept", "no bag ends after its promise", True, _promises_are_kept),
)
