"""The points of the experiments on reservations that may move, and their files: CSV with a line a point, and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from research.reservations.flexible import LOG, METRICS, NEVER
from research.runs.drawing import draw_estimates, picture
from research.runs.estimates import estimate
from research.runs.experiment import Parameters, RunList, Values
from research.runs.result_files import write_rows

COLUMNS = ("load", "order", "interval", "offers", "all", "inaccurate", "fix")
LOADS = (1.0, 1.25, 1.5)
MEDIUM = 1.25
"""The load of the figures that have one."""
ORDERS = ("shuffle", "fifo", "bjf", "lff", "edf")
ROOMS = (25, 50, 100)
"""Means of intervals, and limits of offers, in % of the run time."""
FIXES = (0, 25, 50, 75)


def point(load: float = MEDIUM, **changes: str | int) -> Parameters:
    """Return the parameters of a point: strict reservations, the earliest deadline first, unless told otherwise."""
    usual: dict[str, str | int] = {"order": "edf", "interval": 0, "offers": 0, "all": 0, "inaccurate": 0, "fix": NEVER}
    return {"load": load, **usual, **changes}


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: curves by name, and the points of each curve by their label on the axis."""

    title: str
    curves: Mapping[str, Mapping[str, Parameters]]

    def points(self) -> list[Parameters]:
        """Return its points."""
        return [at for curve in self.curves.values() for at in curve.values()]


def figures_of(loads: Sequence[float]) -> dict[int, Figure]:
    """Return the figures, those that compare loads with these."""

    def by_room(load: float, inaccurate: int) -> dict[str, Parameters]:
        return {str(room): point(load, interval=room, inaccurate=inaccurate) for room in (0, *ROOMS)}

    strict = {f"{load:g}": point(load, order="fifo") for load in loads}
    orders = {order: {f"{load:g}": point(load, order=order, interval=50) for load in loads} for order in ORDERS}
    offers = {str(room): point(offers=room) for room in ROOMS}
    return {
        1: Figure(
            "orders, by load", {"strict, fifo": strict, **{f"50 %, {name}": curve for name, curve in orders.items()}}
        ),
        2: Figure("intervals (%)", {f"load {load:g}": by_room(load, 0) for load in loads}),
        3: Figure("intervals (%), inaccurate", {f"load {load:g}": by_room(load, 1) for load in loads}),
        4: Figure("fixed after % of the wait", {"100 %": {str(at): point(interval=100, fix=at) for at in FIXES}}),
        5: Figure(
            "offers against intervals (%)",
            {
                "strict": {str(room): point() for room in ROOMS},
                "offers": offers,
                "intervals": {str(room): point(interval=room) for room in ROOMS},
                "offers for all": {"100": point(offers=100, all=1)},
                "intervals for all": {"100": point(interval=100, all=1)},
            },
        ),
    }


class PointTable:
    """The values of runs by point."""

    def __init__(self, experiment: RunList, values_by_run: Mapping[int, Values]) -> None:
        self.rows = [(experiment.runs[place], values) for place, values in values_by_run.items()]
        self._known: dict[tuple[object, ...], list[Values]] = {}
        for run, values in self.rows:
            self._known.setdefault(key(run), []).append(values)

    def values(self, at: Parameters, metric: str) -> list[float]:
        """Return the metric of each run of a point that has it."""
        return [values[metric] for values in self._known.get(key(at), ()) if values[metric] is not None]

    def mean(self, at: Parameters, metric: str = "utilisation") -> float | None:
        """Return the mean of a metric over the parts of the log and the seeds, None where there is none."""
        values = self.values(at, metric)
        return fmean(values) if values else None


def key(run: Parameters) -> tuple[object, ...]:
    """Return what makes a run one of its point."""
    return tuple(run[name] for name in COLUMNS)


def write_figures(folder: Path, table: PointTable, figures: Mapping[int, Figure], *, drawing: bool) -> None:
    """Write inputs, runs, and CSV (if ``drawing``, SVG too) of each figure. Raises :class:`OarpyError`."""
    parts = {(run["window"], run["load"]): values for run, values in table.rows}
    inputs = [
        (
            LOG,
            15 * int(window),
            load,
            values["jobs"] + values["left_out"],
            values["left_out"],
            "",
            round(values["load"], 3),
        )
        for (window, load), values in sorted(parts.items())
    ]
    heads = ("log", "first_day", "frequency", "records", "left_out", "load_published", "load_reached")
    write_rows(folder / "inputs.csv", [heads, *inputs])
    runs = [(*key(run), run["window"], run["seed"], *(values[name] for name in METRICS)) for run, values in table.rows]
    write_rows(folder / "runs.csv", [(*COLUMNS, "window", "seed", *METRICS), *runs])
    named = tuple(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high"))
    for number, figure in figures.items():
        rows = [
            (name, *key(at), len(table.values(at, "utilisation")), *_cells(table, at))
            for name, curve in figure.curves.items()
            for at in curve.values()
        ]
        write_rows(folder / f"figure{number:02}.csv", [("curve", *COLUMNS, "runs", *named), *rows])
        if drawing:
            _draw(folder / f"figure{number:02}.svg", number, figure, table)


def _cells(table: PointTable, at: Parameters) -> list[float | None]:
    return [cell for metric in METRICS for cell in astuple(estimate(table.values(at, metric)))]


def _draw(path: Path, number: int, figure: Figure, table: PointTable) -> None:
    with picture(path, f"Figure {number}", (7, 4)) as drawn:
        _fill(drawn.subplots(), figure, table)


def _fill(axes: Any, figure: Figure, table: PointTable) -> None:
    for name, curve in figure.curves.items():
        estimates = {label: estimate(table.values(at, "utilisation")) for label, at in curve.items()}
        draw_estimates(axes, name, estimates, marker="o")
    axes.set_xlabel(figure.title)
    axes.set_ylabel("utilisation (%)")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=7)
