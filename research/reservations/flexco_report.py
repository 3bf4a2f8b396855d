"""``oarpy reproduce flexco``: do the runs, write the files, tell the claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TextIO

from research.reservations.flexco import EXTERNAL, LOCAL, METRICS, flexco_runs, published, scenario
from research.runs.experiment import Parameters, Values
from research.runs.judged_claims import JudgedClaim, claims_text, status, verdict, write_claims
from research.runs.pools import Pool
from research.runs.result_files import write_rows, write_scenarios
from research.runs.runner import run_experiment

OPERATIONS = ("rigid", "shift", "remap")
PRECISIONS = (0.0, 0.25, 0.5)
_COLUMNS = ("days", "scaled", "external", "precision", "operation", "seed")
_CELL = ("scaled", "external", "precision", "operation")
_FOUND = (*METRICS, "alone", "most_saved")


def reproduce_flexco(
    traces: Path,
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
    """Return the claims as text, and the exit status; with ``write``, only write the files of the runs, a line each.

    Raises :class:`UsageError` for a log that there is not.
    """
    experiment = flexco_runs(_points(seed, quick=quick, full=full), traces)
    if write is not None:
        return write_scenarios(write, experiment, scenario), 0
    done = run_experiment(experiment, output, pool, err, fresh=fresh)
    rows = [(experiment.runs[place], values) for place, values in done.values.items()]
    _write_files(output, rows)
    claims = flexco_claims(CellTable(rows))
    write_claims(output / "claims.csv", claims)
    return claims_text(claims, as_json=as_json), 1 if done.failed else 0 if quick else status(claims)


def _points(seed: int, *, quick: bool, full: bool) -> list[Parameters]:
    seeds = {1: 1, 0: 0} if quick else {1: 5, 0: 5} if full else {1: 2, 0: 1}
    return [
        dict(zip(_COLUMNS, (10 if quick else 30, scaled, load, precision, operation, seed + more), strict=True))
        for scaled, count in seeds.items()
        for load in (tuple(EXTERNAL)[:1] if quick else EXTERNAL)
        for precision in (PRECISIONS[:1] if quick else PRECISIONS)
        for operation in OPERATIONS
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


class CellTable:
    """The values of runs by cell, means over seeds: a cell is an external load and a precision."""

    def __init__(self, rows: Sequence[tuple[Parameters, Values]]) -> None:
        self._known: dict[tuple[object, ...], list[Values]] = {}
        for run, values in rows:
            self._known.setdefault(tuple(run[name] for name in _CELL), []).append(values)

    def cells(self, scaled: int) -> list[tuple[int, float]]:
        """Return the cells that have runs of all operations."""
        return [
            (load, precision)
            for load in EXTERNAL
            for precision in PRECISIONS
            if all((scaled, load, precision, operation) in self._known for operation in OPERATIONS)
        ]

    def mean(self, scaled: int, cell: tuple[int, float], operation: str, metric: str) -> float:
        """Return the mean of a metric of a cell."""
        known = [values[metric] for values in self._known[scaled, *cell, operation] if values[metric] is not None]
        return fmean(known) if known else 0.0

    def gain(self, scaled: int, cell: tuple[int, float], operation: str, metric: str) -> float:
        """Return by how many % a metric is below that of rigid jobs."""
        rigid = self.mean(scaled, cell, "rigid", metric)
        return 100 * (1 - self.mean(scaled, cell, operation, metric) / rigid) if rigid else 0.0


Found = tuple[str, bool] | None
Judge = Callable[[CellTable, int], Found]


def flexco_claims(table: CellTable) -> list[JudgedClaim]:
    """Return the claims, and whether they hold; open where there are no runs for them."""
    judges = [(claim, paper, judged, judge, 1) for claim, paper, judged, judge in _CLAIMS]
    judges += [
        (f"{claim}-unscaled", paper, False, judge, 0) for claim, paper, _, judge in _CLAIMS if claim in _UNSCALED
    ]
    claims = []
    for claim, paper, judged, judge, scaled in judges:
        came = judge(table, scaled) if table.cells(scaled) else None
        ours, holds = came or ("not run", False)
        claims.append(JudgedClaim(claim, paper, ours, judged, verdict(holds) if came else "-"))
    return claims


def _texts(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _moved_respond_earlier(table: CellTable, scaled: int) -> Found:
    gains = {
        f"{operation} {metric.removesuffix('_response')}": [
            table.gain(scaled, cell, operation, metric) for cell in table.cells(scaled)
        ]
        for operation in OPERATIONS[1:]
        for metric in ("local_response", "external_response")
    }
    words = "; ".join(f"{name} {_texts(some)}" for name, some in gains.items())
    return f"% below rigid: {words}", all(gain > 0 for some in gains.values() for gain in some)


def _remap_is_as_good(table: CellTable, scaled: int) -> Found:
    cells = table.cells(scaled)
    leads = [
        table.gain(scaled, cell, "remap", "response") - table.gain(scaled, cell, "shift", "response") for cell in cells
    ]
    return f"points before shift: {_texts(leads)}", sum(lead >= 0 for lead in leads) >= 4 / 6 * len(cells)


def _local_gain_more(table: CellTable, scaled: int) -> Found:
    leads = [
        table.gain(scaled, cell, operation, "local_response") - table.gain(scaled, cell, operation, "external_response")
        for operation in OPERATIONS[1:]
        for cell in table.cells(scaled)
    ]
    return f"points before external ones: {_texts(leads)}", fmean(leads) > 0


def _precise_gain_less(table: CellTable, scaled: int) -> Found:
    cells = table.cells(scaled)
    curves = {
        load: [table.gain(scaled, (load, at), "remap", "response") for at in PRECISIONS]
        for load in EXTERNAL
        if all((load, at) in cells for at in PRECISIONS)
    }
    if not curves:
        return None
    falls = all(curve[0] > curve[1] > curve[2] for curve in curves.values())
    return "; ".join(f"{load} %: {_texts(curve)}" for load, curve in curves.items()), falls


def _more_is_used(table: CellTable, scaled: int) -> Found:
    gains = [-table.gain(scaled, cell, "remap", "utilisation") for cell in table.cells(scaled)]
    return f"% above rigid: {_texts(gains)}", max(gains) >= 5


def _some_run_on_one(table: CellTable, scaled: int) -> Found:
    shares = [table.mean(scaled, cell, "remap", "collapsed") for cell in table.cells(scaled)]
    return f"% of those planned on several: {_texts(shares)}", 8 <= fmean(shares) <= 30


def _almost_all_are_earlier(table: CellTable, scaled: int) -> Found:
    shares = [
        table.mean(scaled, cell, operation, "earlier") for operation in OPERATIONS[1:] for cell in table.cells(scaled)
    ]
    return f"%: {_texts(shares)}", fmean(shares) >= 80


def _more_run_on_one_at_low_load(table: CellTable, scaled: int) -> Found:
    cells = table.cells(scaled)
    shares = {
        load: [table.mean(scaled, cell, "remap", "alone") for cell in cells if cell[0] == load] for load in EXTERNAL
    }
    if not all(shares.values()):
        return None
    low, high = (fmean(some) for some in shares.values())
    return f"{low:.1f} % at 16, {high:.1f} % at 31", low > high


def _nobody_saves_more(table: CellTable, scaled: int) -> Found:
    most = max(table.mean(scaled, cell, "remap", "most_saved") for cell in table.cells(scaled))
    return f"{most:.1f} % at most", most <= 25


_UNSCALED = ("4a", "4b", "4c")
_CLAIMS: Sequence[tuple[str, str, bool, Judge]] = (
    ("4a", "local and external jobs respond earlier than rigid, by shift and by remap", True, _moved_respond_earlier),
    ("4a-remap", "all jobs: remap at least as good as shift in 4 of 6 cells", True, _remap_is_as_good),
    ("4a-who", "local jobs gain more than external ones", False, _local_gain_more),
    ("4b", "the gain of remap falls as estimates get more precise", True, _precise_gain_less),
    ("4c", "utilisation of remap at least 5 % above rigid in the best cell (published: 10)", True, _more_is_used),
    ("4d", "8 to 30 % of jobs planned on several clusters run on one (published: 15)", True, _some_run_on_one),
    ("4e", "at least 80 % of them begin earlier than planned (published: almost all)", True, _almost_all_are_earlier),
    ("4f", "more run on one cluster at 16 than at 31 %", False, _more_run_on_one_at_low_load),
    ("4g", "no job saves more than 25 % of its time on one cluster", False, _nobody_saves_more),
)
