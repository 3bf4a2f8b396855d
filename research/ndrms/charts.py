"""Charts of the figures, as SVG: what is measured over what is varied, a line for each system or share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oarpy.simulation.reports.output_files import writing
from research.ndrms.claims import MEGABYTE, end_delays
from research.ndrms.experiments import Experiment, Measured, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "oarpy",  # the same figures give the same file
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_PANEL = (4.6, 3.2)
"""Width and height of a panel in inches."""

Points = Iterable[tuple[Experiment, float]]


@dataclass(frozen=True, slots=True)
class _Panel:
    """Axes with what is measured upwards."""

    title: str
    value: Callable[[Measured], float]


_COSTS = (
    _Panel("unique configurations", lambda measured: measured.unique_configurations),
    _Panel("operations", lambda measured: measured.operations),
    _Panel("sent (MB)", lambda measured: measured.bytes / MEGABYTE),
    _Panel("processor time (s)", lambda measured: measured.seconds),
)
_ACROSS: Mapping[int, tuple[str, Callable[[Experiment], float]]] = {
    7: ("share of moldable jobs (p_mo)", lambda experiment: experiment.p_mo),
    8: ("clusters", lambda experiment: experiment.clusters),
    9: ("clusters", lambda experiment: experiment.clusters),
    10: ("adaptation delay (s)", lambda experiment: experiment.delay),
    11: ("fair-start (s)", lambda experiment: experiment.fair_start),
}


def write_chart(path: Path, figure: int, results: Results) -> None:
    """Draw the runs of one figure under one reading. Raises :class:`OarpyError` when it cannot be written."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    panels = _panels(figure, results)
    picture = BytesIO()
    with rc_context(_STYLE):
        rows = -(-len(panels) // 2)
        columns = min(len(panels), 2)
        drawn = Figure(figsize=(columns * _PANEL[0], rows * _PANEL[1]), layout="constrained")
        for axes, (title, points) in zip(drawn.subplots(rows, columns, squeeze=False).flat, panels, strict=True):
            if figure == 12:
                _draw_beside(axes, title, [value for _, value in points])
            else:
                _draw(axes, figure, title, points)
        drawn.suptitle(f"Figure {figure}, rank by first request, processors as hosts")
        drawn.savefig(picture, format="svg", metadata={"Title": f"Figure {figure}", "Date": None})
    with writing(path):
        path.write_bytes(picture.getvalue())


def _panels(figure: int, results: Results) -> list[tuple[str, list[tuple[Experiment, float]]]]:
    if figure == 10:
        later = list(end_delays(results).items())
        return [("mean end delay (s)", _over_draws(later, _mean)), ("maximum end delay (s)", _over_draws(later, max))]
    if figure == 11:
        return [("waste (M host-seconds)", [(run, (measured.waste or 0) / 1e6) for run, measured in results.items()])]
    if figure == 12:
        ((experiment, measured),) = results.items()
        sizes = (measured.bytes / MEGABYTE, (measured.real_bytes or 0) / MEGABYTE)
        seconds = (measured.seconds, measured.real_seconds or 0.0)
        return [
            ("all lines (MB)", [(experiment, size) for size in sizes]),
            (_COSTS[-1].title, [(experiment, s) for s in seconds]),
        ]
    return [(panel.title, [(run, panel.value(measured)) for run, measured in results.items()]) for panel in _COSTS]


def _over_draws(points: Points, summed: Callable[[list[float]], float]) -> list[tuple[Experiment, float]]:
    """Return one point for each fair-start and adaptation delay."""
    drawn: dict[tuple[int, int], list[tuple[Experiment, float]]] = {}
    for experiment, value in points:
        drawn.setdefault((experiment.fair_start, experiment.delay), []).append((experiment, value))
    return [(experiments[0][0], summed([value for _, value in experiments])) for experiments in drawn.values()]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _draw(axes: Axes, figure: int, title: str, points: Points) -> None:
    label, across = _ACROSS[figure]
    lines: dict[str, list[tuple[float, float]]] = {}
    for experiment, value in points:
        lines.setdefault(_name(figure, experiment), []).append((across(experiment), value))
    for name, line in lines.items():
        line.sort()
        axes.plot([x for x, _ in line], [y for _, y in line], marker="o", markersize=3, label=name)
    axes.set(xlabel=label, ylabel=title, ylim=(0, None))
    axes.grid(color="#dddddd", linewidth=0.6)
    if len(lines) > 1:
        axes.legend(frameon=False)


def _draw_beside(axes: Axes, title: str, values: list[float]) -> None:
    """Draw what is simulated beside what is real."""
    axes.bar(["simulated", "real"], values, width=0.5)
    axes.set(ylabel=title)


def _name(figure: int, experiment: Experiment) -> str:
    """Return what a line of a figure is called."""
    if figure in (7, 8):
        return "negotiated" if experiment.system == "ours" else "OAR-like"
    if figure == 10:
        return f"fair-start {experiment.fair_start} s"
    return f"{experiment.workload}, p_CEM {experiment.p_cem:g}" if experiment.workload == "W2" else experiment.workload
