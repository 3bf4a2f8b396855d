"""Our averages beside the published ones, one picture a metric."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from oarpy.grid.experiments.reallocation import PWA
from oarpy.grid.experiments.reallocation_tables import METRICS, PublishedRow, RunTable, published
from oarpy.simulation.reports.output_files import writing

_TITLES = {
    "impacted": "jobs whose end changed (%)",
    "moves": f"moves, scenario {PWA}",
    "early": "of these, ended earlier (%)",
    "rel": "mean response of these, with / without",
}


def write_charts(folder: Path, table: RunTable) -> None:
    """Draw what is known. Raises :class:`OarpyError` when a file cannot be written."""
    for name, metric in METRICS.items():
        rows = [row for row in published() if row.metric == name]
        points = [(row, *_values(row, table, metric)) for row in rows]
        known = [(row, theirs, ours) for row, theirs, ours in points if ours is not None]
        if known:
            _draw(folder / f"{metric}.svg", _TITLES[metric], known)


def _values(row: PublishedRow, table: RunTable, metric: str) -> tuple[float, float | None]:
    if row.average is None:
        return row.values[PWA], table.value(PWA, row.setup, metric)
    return row.average, table.average(row.setup, metric)


def _draw(path: Path, title: str, points: list[tuple[PublishedRow, float, float]]) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    picture = BytesIO()
    with rc_context({"svg.hashsalt": "oarpy", "svg.fonttype": "none", "font.size": 8}):
        drawn = Figure(figsize=(12, 4.5), layout="constrained")
        axes = drawn.subplots()
        places = range(len(points))
        axes.bar([place - 0.2 for place in places], [theirs for _, theirs, _ in points], 0.4, label="published")
        axes.bar([place + 0.2 for place in places], [ours for _, _, ours in points], 0.4, label="ours, with stand-ins")
        axes.set_xticks(list(places), [" ".join(row.setup) for row, _, _ in points], rotation=90)
        axes.set(title=f"{title}: Bordeaux, Lyon and Toulouse are stand-ins", ylim=(0, None))
        axes.legend(frameon=False)
        drawn.savefig(picture, format="svg", metadata={"Title": title, "Date": None})
    with writing(path):
        path.write_bytes(picture.getvalue())
