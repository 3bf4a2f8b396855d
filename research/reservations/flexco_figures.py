"""The figures of the experiment on jobs over clusters that begin earlier: CSV with a line a point, and SVG.

A point is an external load, a precision of estimates and an operation.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from research.reservations.flexco import EXTERNAL
from research.runs.drawing import draw_estimates, picture
from research.runs.estimates import Estimate, estimate
from research.runs.experiment import Parameters, Values
from research.runs.result_files import write_rows

RIGID = "rigid"
OPERATIONS = (RIGID, "shift", "remap")
PRECISIONS = (0.0, 0.25, 0.5)
_POINT = ("scaled", "external", "precision", "operation")

Cell = tuple[int, float]
"""An external load in %, and a precision."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric by precision: a curve an operation, axes of its own for each external load."""

    label: str
    metric: str
    operations: Sequence[str] = OPERATIONS
    scaled: int = 1
    """Whether estimates are brought to their published load."""


FIGURES: Mapping[int, Figure] = {
    1: Figure("response of all jobs (s)", "response"),
    2: Figure("response of local jobs (s)", "local_response"),
    3: Figure("response of external jobs (s)", "external_response"),
    4: Figure("utilisation (%)", "utilisation"),
    5: Figure("planned on several clusters, ran on one (%)", "collapsed", ("remap",)),
    6: Figure("planned on several clusters, began earlier (%)", "earlier", ("shift", "remap")),
    7: Figure("external jobs on one cluster (%)", "alone"),
    8: Figure("response of all jobs (s), estimates of the logs", "response", scaled=0),
    9: Figure("response of local jobs (s), estimates of the logs", "local_response", scaled=0),
    10: Figure("response of external jobs (s), estimates of the logs", "external_response", scaled=0),
    11: Figure("utilisation (%), estimates of the logs", "utilisation", scaled=0),
}


class PointTable:
    """The values of runs by point, means over seeds."""

    def __init__(self, rows: Sequence[tuple[Parameters, Values]]) -> None:
        self._known: dict[tuple[object, ...], list[Values]] = {}
        for run, values in rows:
            self._known.setdefault(tuple(run[name] for name in _POINT), []).append(values)

    def cells(self, scaled: int, operations: Collection[str]) -> list[Cell]:
        """Return the cells that have runs of all these operations."""
        return [
            (load, precision)
            for load in EXTERNAL
            for precision in PRECISIONS
            if all((scaled, load, precision, operation) in self._known for operation in operations)
        ]

    def values(self, scaled: int, cell: Cell, operation: str, metric: str) -> list[float]:
        """Return the metric of each run of a point that has it."""
        known = self._known.get((scaled, *cell, operation), ())
        return [values[metric] for values in known if values[metric] is not None]

    def mean(self, scaled: int, cell: Cell, operation: str, metric: str) -> float:
        """Return the mean of a metric at a point, 0 if there is none."""
        known = self.values(scaled, cell, operation, metric)
        return fmean(known) if known else 0.0

    def gain(self, scaled: int, cell: Cell, operation: str, metric: str) -> float:
        """Return by how many % a metric is below that of rigid jobs."""
        rigid = self.mean(scaled, cell, RIGID, metric)
        return 100 * (1 - self.mean(scaled, cell, operation, metric) / rigid) if rigid else 0.0


def write_figures(folder: Path, table: PointTable, figures: Mapping[int, Figure], *, drawing: bool) -> None:
    """Write CSV (if ``drawing``, SVG too) of each figure. Raises :class:`OarpyError`."""
    for number, figure in figures.items():
        heads = (*_POINT, "runs", *(f"{figure.metric}{end}" for end in ("", "_low", "_high")))
        rows = [
            (figure.scaled, *cell, operation, len(_values(table, figure, cell, operation)), *astuple(found))
            for cell in table.cells(figure.scaled, figure.operations)
            for operation in figure.operations
            for found in [_estimate(table, figure, cell, operation)]
        ]
        write_rows(folder / f"figure{number:02}.csv", [heads, *rows])
        if drawing:
            with picture(folder / f"figure{number:02}.svg", f"Figure {number}", (7, 4)) as drawn:
                _draw(drawn, figure, table)


def _values(table: PointTable, figure: Figure, cell: Cell, operation: str) -> list[float]:
    return table.values(figure.scaled, cell, operation, figure.metric)


def _estimate(table: PointTable, figure: Figure, cell: Cell, operation: str) -> Estimate:
    return estimate(_values(table, figure, cell, operation))


def _draw(drawn: Any, figure: Figure, table: PointTable) -> None:
    cells = table.cells(figure.scaled, figure.operations)
    for axes, load in zip(drawn.subplots(1, len(EXTERNAL), sharey=True), EXTERNAL, strict=True):
        for operation in figure.operations:
            estimates = {
                f"{100 * cell[1]:g}": _estimate(table, figure, cell, operation) for cell in cells if cell[0] == load
            }
            draw_estimates(axes, operation, estimates, marker="o")
        axes.set_title(f"external load {load} %")
        axes.grid(color="#dddddd", linewidth=0.6)
    drawn.supxlabel("precision of estimates (%)")
    drawn.supylabel(figure.label)
    drawn.axes[0].legend(frameon=False, fontsize=7)
