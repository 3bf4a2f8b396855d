"""``oarpy reproduce flexco``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TextIO

from research.reservations.flexco import EXTERNAL, LOCAL, METRICS, flexco_runs, published, scenario
from research.reservations.flexco_figures import (
    FIGURES,
    OPERATIONS,
    PRECISIONS,
    Cell,
    Figure,
    PointTable,
    write_figures,
)
from research.runs.drawing import can_draw, wanted_figures
from research.runs.experiment import Parameters, Values
from research.runs.judged_claims import Found, JudgedClaim, judged_claim, report_of_claims
from research.runs.pools import Pool
from research.runs.result_files import write_rows, write_scenarios
from research.runs.runner import run_experiment

_COLUMNS = ("days", "scaled", "external", "precision", "operation", "seed")
_FOUND = (*METRICS, "alone", "most_saved")


def reproduce_flexco(
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
    wanted = wanted_figures(_figures(quick=quick), figures)
    experiment = flexco_runs(_points(wanted, seed, quick=quick, full=full), traces)
    if write is not None:
        return write_scenarios(write, experiment, scenario), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    rows = [(experiment.runs[place], values) for place, values in done.values.items()]
    _write_files(output, rows)
    table = PointTable(rows)
    write_figures(output, table, wanted, drawing=can_draw(err))
    claims = flexco_claims(table, wanted)
    return report_of_claims(output, claims, failed=bool(done.failed), quick=quick, as_json=as_json)


def _figures(*, quick: bool) -> dict[int, Figure]:
    """Return the figures, of a quick call those of scaled estimates."""
    return {number: figure for number, figure in FIGURES.items() if figure.scaled or not quick}


def _points(figures: Mapping[int, Figure], seed: int, *, quick: bool, full: bool) -> list[Parameters]:
    """Return the runs that figures need, with scaled estimates first."""
    seeds = {1: 1} if quick else {1: 5, 0: 5} if full else {1: 2, 0: 1}
    return [
        dict(zip(_COLUMNS, (10 if quick else 30, scaled, load, precision, operation, seed + more), strict=True))
        for scaled, count in seeds.items()
        for load in (tuple(EXTERNAL)[:1] if quick else EXTERNAL)
        for precision in (PRECISIONS[:1] if quick else PRECISIONS)
        for operation in OPERATIONS
        if any(operation in figure.operations for figure in figures.values() if figure.scaled == scaled)
        for more in range(count)
    ]


def _write_files(folder: Path, rows: Sequence[tuple[Parameters, Values]]) -> None:
    inputs = {}
    for run, values in rows:
        for name, (jobs, lost, added, load) in values["inputs"].items():
            log = published(run, name)
            about = (name if name in LOCAL else f"external {run['external']}", run["days"], run["seed"])
            inputs[about] = (log.name, log.first_day, jobs, lost, added, log.load, round(load, 3))
    heads = (
        "workload",
        "days",
        "seed",
        "log",
        "first_day",
        "records",
        "lost",
        "added",
        "load_published",
        "load_reached",
    )
    write_rows(folder / "inputs.csv", [heads, *((*about, *facts) for about, facts in sorted(inputs.items()))])
    lines = [(*(run[name] for name in _COLUMNS), *(values[name] for name in _FOUND)) for run, values in rows]
    write_rows(folder / "runs.csv", [(*_COLUMNS, *_FOUND), *lines])


Judge = Callable[[PointTable, int, Sequence[Cell]], Found]


def flexco_claims(table: PointTable, figures: Mapping[int, Figure]) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where the runs of their figures were not asked for."""
    claims = []
    for scaled, end in ((1, ""), (0, "-unscaled")):
        for claim, metrics, paper, judged, judge in _CLAIMS:
            if not scaled and claim not in _UNSCALED:
                continue
            needed = {number for number, one in FIGURES.items() if one.metric in metrics and one.scaled == scaled}
            operations = {operation for number in needed for operation in FIGURES[number].operations}
            cells = table.cells(scaled, operations) if needed <= figures.keys() else []
            found = judge(table, scaled, cells) if cells else None
            claims.append(judged_claim(f"{claim}{end}", paper, found, judged=judged and bool(scaled)))
    return claims


def _texts(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _moved_respond_earlier(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    gains = {
        f"{operation} {metric.removesuffix('_response')}": [
            table.gain(scaled, cell, operation, metric) for cell in cells
        ]
        for operation in OPERATIONS[1:]
        for metric in ("local_response", "external_response")
    }
    words = "; ".join(f"{name} {_texts(some)}" for name, some in gains.items())
    return f"% below rigid: {words}", all(gain > 0 for some in gains.values() for gain in some)


def _remap_is_as_good(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    leads = [
        table.gain(scaled, cell, "remap", "response") - table.gain(scaled, cell, "shift", "response") for cell in cells
    ]
    return f"points before shift: {_texts(leads)}", sum(lead >= 0 for lead in leads) >= 4 / 6 * len(cells)


def _local_gain_more(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    leads = [
        table.gain(scaled, cell, operation, "local_response") - table.gain(scaled, cell, operation, "external_response")
        for operation in OPERATIONS[1:]
        for cell in cells
    ]
    return f"points before external ones: {_texts(leads)}", fmean(leads) > 0


def _precise_gain_less(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    curves = {
        load: [table.gain(scaled, (load, at), "remap", "response") for at in PRECISIONS]
        for load in EXTERNAL
        if all((load, at) in cells for at in PRECISIONS)
    }
    if not curves:
        return None
    falls = all(curve[0] > curve[1] > curve[2] for curve in curves.values())
    return "; ".join(f"{load} %: {_texts(curve)}" for load, curve in curves.items()), falls


def _more_is_used(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    gains = [-table.gain(scaled, cell, "remap", "utilisation") for cell in cells]
    return f"% above rigid: {_texts(gains)}", max(gains) >= 5


def _some_run_on_one(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    shares = [table.mean(scaled, cell, "remap", "collapsed") for cell in cells]
    return f"% of those planned on several: {_texts(shares)}", 8 <= fmean(shares) <= 30


def _almost_all_are_earlier(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    shares = [table.mean(scaled, cell, operation, "earlier") for operation in OPERATIONS[1:] for cell in cells]
    return f"%: {_texts(shares)}", fmean(shares) >= 80


def _more_run_on_one_at_low_load(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    shares = {
        load: [table.mean(scaled, cell, "remap", "alone") for cell in cells if cell[0] == load] for load in EXTERNAL
    }
    if not all(shares.values()):
        return None
    low, high = (fmean(some) for some in shares.values())
    return f"{low:.1f} % at 16, {high:.1f} % at 31", low > high


def _nobody_saves_more(table: PointTable, scaled: int, cells: Sequence[Cell]) -> Found:
    most = max(table.mean(scaled, cell, "remap", "most_saved") for cell in cells)
    return f"{most:.1f} % at most", most <= 25


_UNSCALED = ("4a", "4b", "4c")
_BOTH = ("local_response", "external_response")
_CLAIMS: Sequence[tuple[str, Sequence[str], str, bool, Judge]] = (
    (
        *("4a", _BOTH, "local and external jobs respond earlier than rigid, by shift and by remap"),
        *(True, _moved_respond_earlier),
    ),
    (
        *("4a-remap", ("response",), "all jobs: remap at least as good as shift in 4 of 6 cells"),
        *(True, _remap_is_as_good),
    ),
    ("4a-who", _BOTH, "local jobs gain more than external ones", False, _local_gain_more),
    ("4b", ("response",), "the gain of remap falls as estimates get more precise", True, _precise_gain_less),
    (
        *("4c", ("utilisation",), "utilisation of remap at least 5 % above rigid in the best cell (published: 10)"),
        *(True, _more_is_used),
    ),
    (
        *("4d", ("collapsed",), "8 to 30 % of jobs planned on several clusters run on one (published: 15)"),
        *(True, _some_run_on_one),
    ),
    (
        *("4e", ("earlier",), "at least 80 % of them begin earlier than planned (published: almost all)"),
        *(True, _almost_all_are_earlier),
    ),
    ("4f", ("alone",), "more run on one cluster at 16 than at 31 %", False, _more_run_on_one_at_low_load),
    (
        *("4g", ("collapsed",), "no job saves more than 25 % of its time on one cluster"),
        *(False, _nobody_saves_more),
    ),
)
