"""The figures of the experiment on bags with deadlines: CSV with a line a policy and schema, and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from research.bags.offers import KINDS, SCHEMAS
from research.runs.drawing import draw_estimates, picture
from research.runs.estimates import Estimate, estimate
from research.runs.experiment import Parameters, Values
from research.runs.result_files import write_rows

SLOTS = "slots"
BY_OFFERS = ("plb", "dplb", "dplbv2")
POLICIES = (SLOTS, *BY_OFFERS)

Figure: TypeAlias = tuple[str, Sequence[str]]
"""The label of the axis, and the metrics."""
FIGURES: Mapping[int, Figure] = {
    1: ("jobs delayed (%)", [f"{kind}_delayed" for kind in KINDS]),
    2: ("work delayed (%)", [f"{kind}_work_delayed" for kind in KINDS]),
    3: ("weighted delay", [f"{kind}_tw_delay" for kind in KINDS]),
    4: ("clusters a bag", ["clusters_per_bag"]),
    5: ("utilisation (%)", ["utilisation"]),
}


class PolicyTable:
    """The values of runs by schema and policy: only of seeds that have all runs, so that means can be compared."""

    def __init__(self, rows: Sequence[tuple[Parameters, Values]]) -> None:
        by_seed: dict[object, dict[tuple[object, object], Values]] = {}
        for run, values in rows:
            by_seed.setdefault(run["seed"], {})[run["schema"], run["policy"]] = values
        self._paired = [known for known in by_seed.values() if len(known) == len(SCHEMAS) * len(POLICIES)]

    @property
    def seeds(self) -> int:
        """The number of seeds that have all runs."""
        return len(self._paired)

    def estimate(self, schema: int, policy: str, metric: str) -> Estimate:
        """Return the mean of a metric over the seeds, with its interval."""
        return estimate(self._values(schema, policy, metric))

    def mean(self, schema: int, policy: str, metric: str) -> float:
        """Return the mean of a metric over the seeds."""
        return fmean(self._values(schema, policy, metric))

    def means(self, schema: int, metric: str) -> dict[str, float]:
        """Return the means of all policies."""
        return {policy: self.mean(schema, policy, metric) for policy in POLICIES}

    def _values(self, schema: int, policy: str, metric: str) -> list[float]:
        return [known[schema, policy][metric] for known in self._paired]


def write_figures(folder: Path, table: PolicyTable, figures: Mapping[int, Figure], *, drawing: bool) -> None:
    """Write CSV (if ``drawing``, SVG too) of each figure. Raises :class:`OarpyError`."""
    for number, (label, metrics) in figures.items():
        heads = [f"{metric}{end}" for metric in metrics for end in ("", "_low", "_high")]
        rows = [
            (schema, policy, table.seeds, *_cells(table, schema, policy, metrics))
            for schema in SCHEMAS
            for policy in POLICIES
        ]
        write_rows(folder / f"figure{number:02}.csv", [("schema", "policy", "seeds", *heads), *rows])
        if drawing:
            _draw(folder / f"figure{number:02}.svg", number, label, metrics, table)


def _cells(table: PolicyTable, schema: int, policy: str, metrics: Sequence[str]) -> list[float | None]:
    found = [table.estimate(schema, policy, metric) for metric in metrics]
    return [cell for one in found for cell in (one.mean, one.low, one.high)]


def _draw(path: Path, number: int, label: str, metrics: Sequence[str], table: PolicyTable) -> None:
    with picture(path, f"Figure {number}", (7, 4)) as drawn:
        for axes, schema in zip(drawn.subplots(1, len(SCHEMAS), sharey=True), SCHEMAS, strict=True):
            _fill(axes, schema, metrics, table)
            axes.set_title(f"schema {schema}")
        drawn.supylabel(label)
        drawn.axes[0].legend(frameon=False, fontsize=7)


def _fill(axes: Any, schema: int, metrics: Sequence[str], table: PolicyTable) -> None:
    for metric in metrics:
        draw_estimates(axes, metric, {policy: table.estimate(schema, policy, metric) for policy in POLICIES}, fmt="o")
    axes.grid(color="#dddddd", linewidth=0.6)
