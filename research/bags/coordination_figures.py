"""The figures of the experiment on coordinated bags: CSV with a line a variant and overestimation, and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

from research.runs.drawing import draw_estimates, picture
from research.runs.estimates import Estimate, estimate
from research.runs.experiment import Parameters, Values
from research.runs.result_files import write_rows

SPEEDS = (1.0, 1.2, 1.5)


@dataclass(frozen=True, slots=True)
class Variant:
    """Clusters and their rules; ``speed`` is that of the first two."""

    speed: float = 1.0
    estimates: str = "walltime"
    accuracy: float = 0.0
    """How wrong a prediction is, as a share of how wrong the walltime is."""
    coordinated: int = 0
    policy: str = "plb"

    @property
    def label(self) -> str:
        """Its name in figures."""
        words = [f"speed {self.speed:g}", self.policy, f"{self.estimates}{f' {self.accuracy:g}' * bool(self.accuracy)}"]
        return ", ".join([*words, "coordinated"] if self.coordinated else words)


BASES = {speed: Variant(speed) for speed in SPEEDS}
COORDINATED = {speed: Variant(speed, coordinated=1) for speed in SPEEDS}
PREDICTED = {speed: Variant(speed, "predicted", 0.2) for speed in SPEEDS}
"""Predictions that are wrong by a fifth of what walltimes are."""
LESS_PREDICTED = {speed: Variant(speed, "predicted", 0.5) for speed in SPEEDS}
MIXED = Variant(1.0, "mixed", 0.2)
NOLB = (Variant(policy="nolb"), Variant(policy="nolb", coordinated=1))
VARIANTS = (
    *(kinds[speed] for speed in SPEEDS for kinds in (BASES, COORDINATED, PREDICTED, LESS_PREDICTED)),
    *(MIXED, *NOLB),
)

FIGURES: Mapping[int, tuple[str, str, bool]] = {
    1: ("response below the base (%)", "response", True),
    2: ("slowdown below the base (%)", "slowdown", True),
    3: ("stretch of bags on several clusters", "stretch", False),
    4: ("clusters a bag", "clusters_per_bag", False),
    5: ("utilisation (%)", "utilisation", False),
    6: ("bags that fit into what early ends free", "fitting", False),
}
"""The label of the axis, the metric, and whether it is the gain over the base of the same speed."""


class BagsTable:
    """The values of runs by variant, overestimation and seed: only of seeds that have all runs."""

    def __init__(self, rows: Sequence[tuple[Parameters, Values]]) -> None:
        self.rows = rows
        self._known: dict[tuple[Variant, float], dict[int, Values]] = {}
        for run, values in rows:
            variant = Variant(**{name: run[name] for name in asdict(Variant())})  # type: ignore[arg-type]
            self._known.setdefault((variant, float(run["more"])), {})[int(run["seed"])] = values
        seeds = [set(known) for known in self._known.values()]
        self.seeds = sorted(set.intersection(*seeds)) if seeds else []

    @property
    def overestimations(self) -> list[float]:
        """By which shares walltimes are too long; without 0, which is for perfect estimates."""
        return sorted({more for _, more in self._known if more})

    def values(self, variant: Variant, more: float, metric: str) -> list[float]:
        """Return a metric of all seeds."""
        return [self._known[variant, more][seed][metric] for seed in self.seeds]

    def mean(self, variant: Variant, more: float, metric: str) -> float:
        """Return the mean of a metric over the seeds."""
        return fmean(self.values(variant, more, metric))

    def gains(self, variant: Variant, more: float, metric: str) -> list[float]:
        """Return by how many % a metric is below that of the base of the same speed, for each seed."""
        base = self.values(BASES[variant.speed], more, metric)
        return [100 * (1 - value / of) for value, of in zip(self.values(variant, more, metric), base, strict=True)]

    def gain(self, variant: Variant, more: float, metric: str) -> float:
        """Return the mean of the gains."""
        return fmean(self.gains(variant, more, metric))

    def mean_gain(self, variant: Variant, metric: str) -> float:
        """Return the mean gain over all overestimations."""
        return fmean(self.gain(variant, more, metric) for more in self.overestimations)


def write_figures(folder: Path, table: BagsTable, *, drawing: bool) -> None:
    """Write CSV (if ``drawing``, SVG too) of each figure. Raises :class:`OarpyError`."""
    if not table.seeds:
        return
    for number, (label, metric, as_gain) in FIGURES.items():
        found = {variant: _estimates(table, variant, metric, as_gain) for variant in VARIANTS}
        rows = [
            (*asdict(variant).values(), more, len(table.seeds), one.mean, one.low, one.high)
            for variant, estimates in found.items()
            for more, one in estimates.items()
        ]
        heads = (*asdict(Variant()), "more", "seeds", metric, "low", "high")
        write_rows(folder / f"figure{number:02}.csv", [heads, *rows])
        if drawing:
            _draw(folder / f"figure{number:02}.svg", number, label, found)


def _estimates(table: BagsTable, variant: Variant, metric: str, as_gain: bool) -> dict[float, Estimate]:
    read = table.gains if as_gain else table.values
    return {more: estimate(read(variant, more, metric)) for more in table.overestimations}


def _draw(path: Path, number: int, label: str, found: Mapping[Variant, Mapping[float, Estimate]]) -> None:
    with picture(path, f"Figure {number}", (9, 4)) as drawn:
        for axes, speed in zip(drawn.subplots(1, len(SPEEDS), sharey=True), SPEEDS, strict=True):
            for variant, estimates in found.items():
                if variant.speed == speed:
                    named = {f"{more:g}": one for more, one in estimates.items()}
                    draw_estimates(axes, variant.label.split(", ", 1)[1], named)
            axes.set_title(f"first two clusters at speed {speed:g}", fontsize=8)
            axes.set_xlabel("overestimation")
            axes.grid(color="#dddddd", linewidth=0.6)
            axes.legend(frameon=False, fontsize=6)
        drawn.supylabel(label)
