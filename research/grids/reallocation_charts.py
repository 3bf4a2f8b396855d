"""Our averages beside the published ones, one picture a metric."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from oarpy.simulation.reports.output_files import writing
from research.grids.reallocation import PWA, SCENARIOS
from research.grids.reallocation_tables import METRICS, PublishedRow, RunTable, published
from research.runs.drawing import picture

_TITLES = {
    "impacted": "jobs whose end changed (%)",
    "moves": f"moves, scenario {PWA}",
    "early": "of these, ended earlier (%)",
    "rel": "mean response of these, with / without",
}


def write_charts(folder: Path, table: RunTable) -> None:
    """Draw what is known; a picture of which nothing is known is removed. Raises :class:`OarpyError`.

    Averages are those of the scenarios that were done, on both sides.
    """
    for name, metric in METRICS.items():
        pairs = [(row, _pair(row, table, metric)) for row in published() if row.metric == name]
        known = [(row, *pair) for row, pair in pairs if pair is not None]
        path = folder / f"{metric}.svg"
        if known:
            _draw(path, _title(metric, table), known)
        else:
            with writing(path):
                path.unlink(missing_ok=True)


def _title(metric: str, table: RunTable) -> str:
    done = {run["scenario"] for run, _ in table.rows}
    some = metric != "moves" and not done >= set(SCENARIOS)
    return _TITLES[metric] + (f", of {', '.join(name for name in SCENARIOS if name in done)} alone" if some else "")


def _pair(row: PublishedRow, table: RunTable, metric: str) -> tuple[float, float] | None:
    """Return what was published and our value, None where there is none of ours."""
    scenarios = (PWA,) if row.average is None else SCENARIOS
    ours = {name: value for name in scenarios if (value := table.value(name, row.setup, metric)) is not None}
    if not ours:
        return None
    if row.average is not None and len(ours) == len(SCENARIOS):
        return row.average, fmean(ours.values())
    return fmean(row.values[name] for name in ours), fmean(ours.values())


def _draw(path: Path, title: str, points: list[tuple[PublishedRow, float, float]]) -> None:
    with picture(path, title, (12, 4.5), font=8) as drawn:
        axes = drawn.subplots()
        places = range(len(points))
        axes.bar([place - 0.2 for place in places], [theirs for _, theirs, _ in points], 0.4, label="published")
        axes.bar([place + 0.2 for place in places], [ours for _, _, ours in points], 0.4, label="ours, with stand-ins")
        axes.set_xticks(list(places), [" ".join(row.setup) for row, _, _ in points], rotation=90)
        axes.set(title=f"{title}: Bordeaux, Lyon and Toulouse are stand-ins", ylim=(0, None))
        axes.legend(frameon=False)
