"""The results of the runs of the reallocation paper: its tables 2 to 17 with our values, and its claims."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any, TextIO

from oarpy.simulation.reports.output_files import write_file
from research.grids.reallocation import HEURISTICS, PLATFORMS, POLICIES, PWA, SCENARIOS, SITES
from research.grids.reallocation import site_inputs as inputs_of
from research.runs.experiment import Parameters, RunList, Values
from research.runs.judged_claims import JudgedClaim, verdict

METRICS = {"impacted_pct": "impacted", "n_realloc": "moves", "early_pct": "early", "rel_avg_resp": "rel"}
"""The published names of metrics, and ours."""
RUN_COLUMNS = (
    *("scenario", "platform", "batch", "algorithm", "heuristic"),
    *("jobs", "moves", "impacted", "early", "rel", "mean_response"),
)
_WITHIN_PUBLISHED, _WITHIN_COUNTING = 0.15, 0.05

Setup = tuple[str, str, str, str]
"""Platform, batch, algorithm, heuristic."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A line of the published tables: a metric of a setup, by scenario, and its average."""

    table: str
    metric: str
    setup: Setup
    values: Mapping[str, float]
    average: float | None


@cache
def published() -> tuple[PublishedRow, ...]:
    """Return the published tables 2 to 17, in their order."""
    text = files("research.grids").joinpath("published_reallocation.csv").read_text(encoding="utf-8")
    return tuple(
        PublishedRow(
            row["table"],
            row["metric"],
            (row["platform"], row["batch"], row["algorithm"], row["heuristic"]),
            {name: float(row[name.replace("-", "_")]) for name in SCENARIOS},
            float(row["avg"]) if row["avg"] else None,
        )
        for row in csv.DictReader(text.splitlines())
    )


class RunTable:
    """The values of runs by engine, scenario and setup."""

    def __init__(self, experiment: RunList, values_by_run: Mapping[int, Values]) -> None:
        self.rows: list[tuple[Parameters, Values]] = [
            (experiment.runs[place], values) for place, values in values_by_run.items()
        ]
        self._known = {(run["engine"], run["scenario"], _setup(run)): values for run, values in self.rows}

    def value(self, scenario: str, setup: Setup, metric: str, engine: str = "counting") -> float | None:
        """Return a value of a run, None if it was not done."""
        values = self._known.get((engine, scenario, setup))
        return None if values is None else values[metric]

    def average(self, setup: Setup, metric: str) -> float | None:
        """Return the mean over the seven scenarios, None if one of them was not done."""
        values = [self.value(scenario, setup, metric) for scenario in SCENARIOS]
        known = [value for value in values if value is not None]
        return fmean(known) if len(known) == len(values) else None


def _setup(run: Parameters) -> Setup:
    return str(run["platform"]), str(run["batch"]), str(run["algorithm"]), str(run["heuristic"])


def _setups(
    platforms: Iterable[str] = PLATFORMS,
    batches: Iterable[str] = POLICIES,
    algorithms: Iterable[str] = ("nocancel", "cancel"),
) -> list[Setup]:
    return [
        (platform, batch, algorithm, heuristic)
        for platform in platforms
        for batch in batches
        for algorithm in algorithms
        for heuristic in HEURISTICS
    ]


# Files


def write_tables(folder: Path, experiment: RunList, table: RunTable, scenarios: Sequence[str]) -> None:
    """Write all files but claims and charts. Raises :class:`OarpyError` when they cannot be written."""
    seed = int(experiment.runs[0]["seed"])
    _write(folder / "inputs.csv", _inputs(scenarios, seed, tuple(experiment.places.items())))
    counted = [(run, values) for run, values in table.rows if run["engine"] == "counting"]
    _write(folder / "runs.csv", [RUN_COLUMNS, *map(_run_row, counted)])
    if "jan" in scenarios:
        named = [(run, values) for run, values in table.rows if run["engine"] == "production"]
        _write(folder / "january-production.csv", [RUN_COLUMNS, *map(_run_row, named)])
    columns = ("table", "metric", "platform", "algorithm", "batch", "heuristic")
    of_scenarios = (*(name.replace("-", "_") for name in SCENARIOS), "avg")
    _write(folder / "tables.csv", [(*columns, *of_scenarios), *(_table_row(row, table) for row in published())])
    compared = [line for row in published() for line in _compared(row, table)]
    _write(folder / "compared.csv", [(*columns, "scenario", "stand_in", "published", "ours"), *compared])


def _write(path: Path, rows: Iterable[Iterable[object]]) -> None:
    def write(file: TextIO) -> None:
        csv.writer(file, lineterminator="\n").writerows(rows)

    write_file(path, write)


def _inputs(scenarios: Sequence[str], seed: int, places: tuple[tuple[str, str], ...]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = [
        ("scenario", "site", "cores", "origin", "records", "left_out", "replayed", "published")
    ]
    for scenario in scenarios:
        for log in inputs_of(scenario, seed, places):
            left_out = log.records - len(log.jobs)
            rows.append(
                (scenario, log.site, SITES[log.site], log.origin, log.records, left_out, len(log.jobs), log.published)
            )
    return rows


def _run_row(row: tuple[Parameters, Values]) -> tuple[object, ...]:
    run, values = row
    return tuple(run[name] if name in run else values[name] for name in RUN_COLUMNS)


def _key(row: PublishedRow) -> tuple[str, ...]:
    platform, batch, algorithm, heuristic = row.setup
    return row.table, row.metric, platform, algorithm, batch, heuristic


def _table_row(row: PublishedRow, table: RunTable) -> tuple[object, ...]:
    metric = METRICS[row.metric]
    values = [table.value(scenario, row.setup, metric) for scenario in SCENARIOS]
    average = table.average(row.setup, metric) if row.average is not None else None
    return (*_key(row), *values, average)


def _compared(row: PublishedRow, table: RunTable) -> list[tuple[object, ...]]:
    """Return a line for each value; every scenario has sites whose jobs are made to order."""
    metric = METRICS[row.metric]
    lines: list[tuple[object, ...]] = [
        (*_key(row), scenario, "yes", row.values[scenario], table.value(scenario, row.setup, metric))
        for scenario in SCENARIOS
    ]
    if row.average is not None:
        lines.append((*_key(row), "avg", "yes", row.average, table.average(row.setup, metric)))
    return lines


# Claims


def reallocation_claims(table: RunTable) -> list[JudgedClaim]:
    """Return the paper's claims, and whether they hold for our values."""
    return [
        _pays(table),
        *_cancellation_pays(table),
        _few_moves(table),
        _impacted(table),
        _best(table),
        _some_delayed(table),
        _near_published(table),
        _engines_agree(table),
    ]


def _averages(table: RunTable, setups: Sequence[Setup], metric: str) -> list[float] | None:
    """Return the averages of setups, None if one of them is not known."""
    averages = [table.average(setup, metric) for setup in setups]
    known = [average for average in averages if average is not None]
    return known if len(known) == len(averages) else None


def _open(claim: str, paper: str, *, judged: bool) -> JudgedClaim:
    return JudgedClaim(claim, paper, "not run", judged, "-")


def _pays(table: RunTable) -> JudgedClaim:
    paper = "rel < 1 and early > 50 in all 48 averages; 42 are asked for"
    rel, early = _averages(table, _setups(), "rel"), _averages(table, _setups(), "early")
    if rel is None or early is None:
        return _open("B1", paper, judged=True)
    count = sum(ratio < 1 and other > 50 for ratio, other in zip(rel, early, strict=True))
    return JudgedClaim("B1", paper, f"{count} of {len(rel)}", True, verdict(count >= 42))


def _cancellation_pays(table: RunTable) -> list[JudgedClaim]:
    paper = "rel is lower with cancellation in all 24 pairs; 20 are asked for"
    without, cancelled = (
        _averages(table, _setups(algorithms=[algorithm]), "rel") for algorithm in ("nocancel", "cancel")
    )
    if without is None or cancelled is None:
        return [_open("B2", paper, judged=True)]
    pairs = list(zip(_setups(algorithms=["nocancel"]), without, cancelled, strict=True))
    count = sum(other < without_it for _, without_it, other in pairs)
    against = [
        JudgedClaim(
            f"B2 {' '.join(setup[:2] + setup[3:])}", paper, f"{without_it:.3f} without, {other:.3f} with", False, "no"
        )
        for setup, without_it, other in pairs
        if other >= without_it
    ]
    return [JudgedClaim("B2", paper, f"{count} of {len(pairs)}", True, verdict(count >= 20)), *against]


def _share_of_moves(table: RunTable, setups: Sequence[Setup]) -> float | None:
    """Return the mean number of moves in % of jobs over the runs of setups."""
    shares = []
    for setup in setups:
        for scenario in SCENARIOS:
            moves, jobs = table.value(scenario, setup, "moves"), table.value(scenario, setup, "jobs")
            if moves is None or jobs is None:
                return None
            shares.append(100 * moves / jobs)
    return fmean(shares)


def _few_moves(table: RunTable) -> JudgedClaim:
    paper = "moves in % of jobs: fewer without cancellation, more under FCFS than CBF, more on homog than heterog"
    kinds = (
        _setups(algorithms=["nocancel"]),
        _setups(algorithms=["cancel"]),
        _setups(batches=["FCFS"]),
        _setups(batches=["CBF"]),
        _setups(platforms=["homog"]),
        _setups(platforms=["heterog"]),
    )
    shares = [_share_of_moves(table, setups) for setups in kinds]
    if None in shares:
        return _open("B3", paper, judged=False)
    without, cancelled, fcfs, cbf, homog, heterog = (share or 0 for share in shares)
    ours = (
        f"{without:.1f} without, {cancelled:.1f} with; FCFS {fcfs:.1f}, CBF {cbf:.1f};"
        f" homog {homog:.1f}, heterog {heterog:.1f}"
    )
    return JudgedClaim("B3", paper, ours, False, verdict(without < cancelled and fcfs > cbf and homog > heterog))


def _impacted(table: RunTable) -> JudgedClaim:
    paper = "impacted on homog: higher under FCFS than under CBF, with and without cancellation"
    means = []
    for algorithm in ("nocancel", "cancel"):
        for batch in POLICIES:
            averages = _averages(table, _setups(["homog"], [batch], [algorithm]), "impacted")
            if averages is None:
                return _open("B4", paper, judged=False)
            means.append(fmean(averages))
    ours = "without {:.1f} and {:.1f}, with {:.1f} and {:.1f}".format(*means)
    return JudgedClaim("B4", paper, ours, False, verdict(means[0] > means[1] and means[2] > means[3]))


def _best(table: RunTable) -> JudgedClaim:
    paper = "least rel: MinMin on homog, Mct on heterog; -C: MinMin under FCFS, all within .04 under CBF"
    names, holds = [], True
    for platform in PLATFORMS:
        for algorithm in ("nocancel", "cancel"):
            for batch in POLICIES:
                setups = _setups([platform], [batch], [algorithm])
                averages = _averages(table, setups, "rel")
                if averages is None:
                    return _open("B5", paper, judged=False)
                best = setups[averages.index(min(averages))][3]
                names.append(f"{platform} {batch} {algorithm} {best} {min(averages):.2f}")
                if algorithm == "cancel" and batch == "CBF":
                    holds = holds and max(averages) - min(averages) <= 0.04
                else:
                    wanted = "Mct" if algorithm == "nocancel" and platform == "heterog" else "MinMin"
                    holds = holds and best == wanted
    return JudgedClaim("B5", paper, "; ".join(names), False, verdict(holds))


def _some_delayed(table: RunTable) -> JudgedClaim:
    paper = "every average of early is below 100"
    averages = _averages(table, _setups(), "early")
    if averages is None:
        return _open("B6", paper, judged=False)
    return JudgedClaim("B6", paper, f"at most {max(averages):.1f}", False, verdict(max(averages) < 100))


def _near_published(table: RunTable) -> JudgedClaim:
    paper = f"scenario {PWA}, Mct and MinMin without cancellation: rel within {_WITHIN_PUBLISHED} of the published"
    rows = [
        row
        for row in published()
        if row.metric == "rel_avg_resp" and row.setup[2] == "nocancel" and row.setup[3] in ("Mct", "MinMin")
    ]
    return _compare(
        "pwa",
        paper,
        [
            (" ".join(row.setup[:2] + row.setup[3:]), row.values[PWA], table.value(PWA, row.setup, "rel"))
            for row in rows
        ],
        _WITHIN_PUBLISHED,
    )


def _engines_agree(table: RunTable) -> JudgedClaim:
    paper = f"January: rel within {_WITHIN_COUNTING} of that of counted processors"
    setups = [
        *_setups(),
        *((platform, batch, "none", "") for platform in PLATFORMS for batch in POLICIES),
    ]
    pairs: list[tuple[str, Any, float | None]] = [
        (" ".join(setup), table.value("jan", setup, "rel"), table.value("jan", setup, "rel", "production"))
        for setup in setups
    ]
    if any(value is None for _, value, _ in pairs):
        return _open("january", paper, judged=True)
    return _compare("january", paper, pairs, _WITHIN_COUNTING)


def _compare(claim: str, paper: str, pairs: Sequence[tuple[str, float, float | None]], within: float) -> JudgedClaim:
    """Return whether our values are near others; the text names those furthest away."""
    if any(ours is None for _, _, ours in pairs):
        return _open(claim, paper, judged=True)
    off = sorted(
        ((abs(ours - other), name, other, ours) for name, other, ours in pairs if ours is not None), reverse=True
    )
    count = sum(distance <= within for distance, *_ in off)
    furthest = "; ".join(f"{name} {other:.2f} and {ours:.2f}" for _, name, other, ours in off[:4])
    return JudgedClaim(claim, paper, f"{count} of {len(off)}; furthest: {furthest}", True, verdict(count == len(off)))
