"""The points of figures 1 to 9 of the paper on deadlines, and their files: CSV with a line a point, and SVG."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from oarpy.simulation.reports.output_files import write_file
from research.grids.deadlines import METRICS, global_rate, local_rate
from research.runs.drawing import picture
from research.runs.estimates import Estimate, estimate
from research.runs.experiment import Parameters, RunList, Values

LOADS = (10, 20, 30, 40)
LPS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 1)
WAITS = ("0", "10", "100", "1000", "inf")
OFFSETS = (50, 300, 1000, 1800, 3600)
"""Mean offsets of deadlines in seconds."""
RATES = (0.005, 0.01, 0.02, 0.03, 0.04, 0.05)
COLUMNS = (
    *("requested_local", "requested_global", "lambda_local", "lambda_global", "priority", "evict_at", "lp", "tries"),
    *("wait", "offset_min", "offset_max"),
)


def point(
    *,
    local: float = 30,
    together: float = 20,
    rate: float | None = None,
    priority: str = "GP",
    evict_at: str = "deadline",
    lp: float = 0.7,
    tries: int = 10,
    wait: str = "inf",
    offset: int = 1800,
) -> Parameters:
    """Return the parameters of a point; loads in %, ``rate`` in local arrivals a second instead of ``local``."""
    arrivals = local_rate(local) if rate is None else rate
    return {
        "requested_local": local if rate is None else round(30 * rate / local_rate(30), 6),
        "requested_global": together,
        "lambda_local": arrivals,
        "lambda_global": global_rate(together),
        "priority": priority,
        "evict_at": evict_at,
        "lp": lp,
        "tries": tries,
        "wait": wait,
        "offset_min": 1,
        "offset_max": 2 * offset - 1,
    }


def _over_waits(**changes: object) -> list[Parameters]:
    return [point(together=load, wait=wait, **changes) for load in LOADS for wait in WAITS]  # type: ignore[arg-type]


def _over_offsets(local: float) -> list[Parameters]:
    return [
        point(local=local, together=load, wait=wait, offset=offset)
        for load in (20, 40)
        for wait in ("10", "inf")
        for offset in OFFSETS
    ]


FIGURES: Mapping[int, Callable[[], list[Parameters]]] = {
    1: lambda: [point(together=load) for load in LOADS],
    2: lambda: [point(together=load, lp=lp) for load in (20, 40) for lp in LPS],
    3: lambda: [point(local=60, together=load, lp=lp) for load in (20, 40) for lp in LPS],
    4: lambda: [*_over_waits(), *_over_waits(priority="LP")],
    5: lambda: _over_offsets(30),
    6: lambda: _over_offsets(60),
    7: lambda: [point(rate=rate, wait=wait) for wait in ("10", "inf") for rate in RATES],
    8: _over_waits,
    9: lambda: [
        *_over_waits(),
        *_over_waits(evict_at="last_try"),
        *_over_waits(evict_at="last_try", tries=1),
    ],
}


class PointTable:
    """The values of runs by point and metric."""

    def __init__(self, experiment: RunList, values_by_run: Mapping[int, Values]) -> None:
        self.rows = [(experiment.runs[place], values) for place, values in values_by_run.items()]
        self._known: dict[tuple[object, ...], list[Values]] = {}
        for run, values in self.rows:
            self._known.setdefault(_key(run), []).append(values)

    def estimate(self, at: Parameters, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds."""
        known = [values[metric] for values in self._known.get(_key(at), ()) if values[metric] is not None]
        return estimate(known)

    def mean(self, at: Parameters, metric: str) -> float | None:
        """Return the mean of a metric over the seeds, None where there is none."""
        return self.estimate(at, metric).mean


def _key(run: Parameters) -> tuple[object, ...]:
    return tuple(run[name] for name in COLUMNS)


def points_of(figures: Iterable[int]) -> list[Parameters]:
    """Return the points of figures, each once."""
    return list({_key(at): at for figure in figures for at in FIGURES[figure]()}.values())


# Files


def write_figures(
    folder: Path, table: PointTable, figures: Sequence[int], seeds: int, jobs: int, *, drawing: bool
) -> None:
    """Write ``runs.csv``, and CSV (if ``drawing``, SVG too) of each figure. Raises :class:`OarpyError`."""
    runs = [(*_key(run), run["seed"], run["jobs"], *(values[name] for name in METRICS)) for run, values in table.rows]
    _write(folder / "runs.csv", [(*COLUMNS, "seed", "jobs", *METRICS), *runs])
    named = tuple(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high"))
    for figure in figures:
        rows = [(*_key(at), seeds, jobs, *_cells(table, at)) for at in FIGURES[figure]()]
        _write(folder / f"figure{figure:02}.csv", [(*COLUMNS, "seeds", "jobs", *named), *rows])
        if drawing:
            _draw(folder / f"figure{figure:02}.svg", figure, table)


def _cells(table: PointTable, at: Parameters) -> Iterator[float | None]:
    for metric in METRICS:
        estimate = table.estimate(at, metric)
        yield from (estimate.mean, estimate.low, estimate.high)


def _write(path: Path, rows: Iterable[Iterable[object]]) -> None:
    def write(file: TextIO) -> None:
        csv.writer(file, lineterminator="\n").writerows(rows)

    write_file(path, write)


_ACROSS: Mapping[int, tuple[str, Callable[[Parameters], float]]] = {
    **dict.fromkeys((1, 4, 8, 9), ("global load (%)", lambda at: float(at["requested_global"]))),
    **dict.fromkeys((2, 3), ("Lp", lambda at: float(at["lp"]))),
    **dict.fromkeys((5, 6), ("mean offset of deadlines (s)", lambda at: (float(at["offset_max"]) + 1) / 2)),
    7: ("local arrivals a second", lambda at: float(at["lambda_local"])),
}
_PANELS: Mapping[int, tuple[tuple[str, ...], ...]] = {
    1: (METRICS[:-1], METRICS[-1:]),
    8: (("local_response",),),
    9: (("local_killed",),),
}
"""The metrics of each panel of a figure; those of others show the success alone."""


def _draw(path: Path, figure: int, table: PointTable) -> None:
    panels = _PANELS.get(figure, (("success",),))
    with picture(path, f"Figure {figure}", (7, 1.5 + 3 * len(panels))) as drawn:
        column = drawn.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
        for axes, metrics in zip(column, panels, strict=True):
            _fill(axes, figure, metrics, table)
        column[0].set_title(f"Figure {figure}")
        column[-1].set_xlabel(_ACROSS[figure][0])


def _fill(axes: Any, figure: int, metrics: Sequence[str], table: PointTable) -> None:
    """Draw the curves of metrics of one unit."""
    across = _ACROSS[figure][1]
    lines: dict[str, list[tuple[float, Estimate]]] = {}
    for metric in metrics:
        for at in FIGURES[figure]():
            estimate = table.estimate(at, metric)
            if estimate.mean is not None:
                lines.setdefault(_curve(figure, metric, at), []).append((across(at), estimate))
    for name, line in lines.items():
        means = [known.mean or 0 for _, known in line]
        spread = [max((known.high or mean) - mean, 0) for mean, (_, known) in zip(means, line, strict=True)]
        axes.errorbar([at for at, _ in line], means, spread, marker="o", markersize=3, capsize=2, label=name)
    unit = "s" if "local_response" in metrics else "%"
    axes.set_ylabel(unit if len(metrics) > 1 else f"{metrics[0]} ({unit})")
    if figure == 8:
        axes.set_yscale("log")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=7)


def _curve(figure: int, metric: str, at: Parameters) -> str:
    """Return what a curve of a figure is called."""
    wait = "pure RPP" if at["wait"] == "inf" else f"Wait-{at['wait']}"
    if figure == 1:
        return metric
    if figure in (2, 3):
        return f"global load {at['requested_global']} %"
    if figure in (5, 6):
        return f"{wait}, global load {at['requested_global']} %"
    if figure == 4:
        return f"{wait}, {at['priority']}"
    if figure == 9:
        return f"{wait}, {at['evict_at']}, Mp {at['tries']}"
    return wait
