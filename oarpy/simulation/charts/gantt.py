"""A Gantt chart of a replay, above curves of use and waiting jobs, as SVG or PNG by the name of the file.

Up to :data:`MOST_BOXES` jobs each job is a box, coloured by how long it waited. With more, boxes would be thinner than
a pixel. Then the chart shows how full each band of processors is in each column of time.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from oarpy.model.errors import OarpyError, UsageError
from oarpy.simulation.charts.processor_rows import Bar, spans
from oarpy.simulation.reports.output_files import writing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.path import Path as Outline

Numbers = NDArray[np.float64]

MOST_BOXES = 3000
"""Jobs drawn one by one."""

WAITS = (
    (0.0, "not at all", "#8fbcd4"),
    (600.0, "up to 10 min", "#7fc08f"),
    (3600.0, "up to 1 h", "#d9d05f"),
    (21600.0, "up to 6 h", "#f2a65a"),
    (86400.0, "up to 1 day", "#d9644a"),
    (float("inf"), "longer", "#7d3c6b"),
)
"""Longest wait in seconds, text and colour of each class of jobs."""

_KINDS = (".svg", ".png")
_SIZE = (12.0, 7.2)
_DOTS_PER_INCH = 100
_COLUMNS, _BANDS = 600, 100
_UNITS = ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "oarpy",  # the same replay gives the same file
    "svg.fonttype": "none",
    "text.parse_math": False,  # a title may hold dollar signs
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_LINK = re.compile(rb'<a xlink:href="(job \d+)"[^>]*>(.*?)</a>', re.DOTALL)


def check_plot(path: Path | None) -> None:
    """Raise :class:`UsageError` when the file's name is no picture's, :class:`OarpyError` when nothing can draw it."""
    if path is None:
        return
    if path.suffix.lower() not in _KINDS:
        raise UsageError(f"'{path.name[:80]}' names no kind of picture", hint="--plot FILE.svg or FILE.png")
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it reports its caches unasked
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise OarpyError("--plot needs matplotlib", hint="pip install 'oarpy-scheduler[plots]'") from None


def write_plot(path: Path, bars: Sequence[Bar], rows: int, title: str) -> None:
    """Draw ``bars`` on a machine of ``rows`` processors. Raises :class:`OarpyError` when it cannot be written."""
    check_plot(path)
    from matplotlib import rc_context

    picture, kind = BytesIO(), path.suffix.lower().removeprefix(".")
    with rc_context(_STYLE):
        chart(bars, rows, title).savefig(picture, format=kind, metadata={"Title": title, "Date": None})
    data = picture.getvalue()
    with writing(path):
        path.write_bytes(_with_names(data) if kind == "svg" else data)


def _with_names(svg: bytes) -> bytes:
    """Turn the links around the boxes into texts that are shown when a box is pointed at."""
    return _LINK.sub(rb"<g><title>\1</title>\2</g>", svg)


def chart(bars: Sequence[Bar], rows: int, title: str) -> Figure:
    """Return the picture: Gantt chart, use and waiting jobs, from the top down, over the same time."""
    from matplotlib.figure import Figure

    first = min((bar.submit for bar in bars), default=0.0)
    span = max((bar.start + bar.run for bar in bars), default=first) - first
    size, unit = next((pair for pair in _UNITS if span >= 2 * pair[0]), _UNITS[-1])
    submits, starts, runs = (
        np.array([getattr(bar, name) for bar in bars], dtype=np.float64) for name in ("submit", "start", "run")
    )
    submits, starts, ends = (submits - first) / size, (starts - first) / size, (starts + runs - first) / size
    edges = np.linspace(0, max(span / size, 1e-9), _COLUMNS + 1)

    figure = Figure(figsize=_SIZE, dpi=_DOTS_PER_INCH, layout="constrained")
    gantt, use, queue = figure.subplots(3, 1, sharex=True, height_ratios=(5, 1, 1))
    gantt.set_title(title, fontsize=13, pad=10)
    gantt.set(ylabel="processors", ylim=(0, rows), xlim=(0, edges[-1]))
    if len(bars) <= MOST_BOXES:
        _boxes(gantt, bars, starts, ends, rows)
    else:
        _shades(gantt, bars, starts, ends, rows, edges)
    held = np.array([len(bar.rows) for bar in bars], dtype=np.float64)
    _over_time(use, edges, 100 / rows * column_means(starts, ends, held, edges), 100, "#8c8c8c")
    use.set_ylabel("in use (%)")
    waiting = column_means(submits, starts, np.ones(len(bars)), edges)
    _over_time(queue, edges, waiting, max(1.0, 1.05 * waiting.max()), "#c9853f")
    queue.set(ylabel="waiting jobs", xlabel=f"{unit} since the first submission")
    figure.align_ylabels()
    return figure


def _over_time(axes: Axes, edges: Numbers, values: Numbers, most: float, colour: str) -> None:
    """Draw a step function of time on its own axes."""
    axes.stairs(values, edges, fill=True, color=colour)
    axes.set_ylim(0, most)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def column_means(begins: Numbers, ends: Numbers, weights: Numbers, edges: Numbers) -> Numbers:
    """Return the mean of each column, for intervals from ``begins`` to ``ends`` with these ``weights``.

    The integral of a step function is linear between the steps: it is cut at the edges of the columns.
    """
    if not len(begins):
        return np.zeros(len(edges) - 1)
    times, steps = np.concatenate((begins, ends)), np.concatenate((weights, -weights))
    order = np.argsort(times, kind="stable")
    times, levels = times[order], np.cumsum(steps[order])
    integral = np.concatenate(([0.0], np.cumsum(levels[:-1] * np.diff(times))))
    return np.diff(np.interp(edges, times, integral)) / np.diff(edges)


def fullness(bars: Sequence[Bar], starts: Numbers, ends: Numbers, limits: Numbers, edges: Numbers) -> Numbers:
    """Return how full (0 to 1) each band of rows between two of ``limits`` is in each column."""
    sizes = [len(bar.rows) for bar in bars]
    jobs = np.repeat(np.arange(len(bars)), sizes)
    held = np.fromiter(chain.from_iterable(bar.rows for bar in bars), np.int64, sum(sizes))
    bands = (np.searchsorted(limits, held, side="right") - 1).astype(np.uint16)
    by_band = np.split(jobs[np.argsort(bands, kind="stable")], np.cumsum(np.bincount(bands, minlength=len(limits) - 1)))
    full = np.empty((len(limits) - 1, len(edges) - 1))
    for band, (low, high) in enumerate(pairwise(limits)):
        rows = np.bincount(by_band[band], minlength=len(bars)).astype(np.float64)
        there = np.flatnonzero(rows)
        full[band] = column_means(starts[there], ends[there], rows[there], edges) / (high - low)
    return full


def _shades(axes: Axes, bars: Sequence[Bar], starts: Numbers, ends: Numbers, rows: int, edges: Numbers) -> None:
    """Draw the bands of processors, the fuller the darker."""
    per_band = -(-rows // _BANDS)
    limits = np.append(np.arange(0, rows, per_band), rows).astype(np.float64)
    full = fullness(bars, starts, ends, limits, edges)
    mesh = axes.pcolormesh(edges, limits, 100 * full, cmap="Blues", vmin=0, vmax=100, rasterized=True)
    axes.figure.colorbar(mesh, ax=axes, label="in use (%)", pad=0.01, aspect=30)


def _boxes(axes: Axes, bars: Sequence[Bar], starts: Numbers, ends: Numbers, rows: int) -> None:
    """Draw one outline a job, a box for each run of neighbouring rows, with a white edge where there is room."""
    from matplotlib.collections import PathCollection
    from matplotlib.patches import Patch

    points_per_time = 72 * _SIZE[0] / axes.get_xlim()[1]
    room = (ends - starts) * points_per_time > 3
    kinds = np.searchsorted([longest for longest, _, _ in WAITS], [bar.start - bar.submit for bar in bars])
    axes.add_collection(
        PathCollection(
            [_outline(bar.rows, start, end) for bar, start, end in zip(bars, starts, ends, strict=True)],
            facecolors=[WAITS[kind][2] for kind in kinds],
            edgecolors="white",
            linewidths=np.where(room, min(0.5, 100 / rows), 0.0),
            urls=[f"job {bar.number}" for bar in bars],
        )
    )
    handles = [Patch(color=colour, label=text) for _, text, colour in WAITS]
    axes.legend(handles=handles, title="waited", loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _outline(rows: Sequence[int], start: float, end: float) -> Outline:
    """Return the path around the boxes of a job: one box for each run of neighbouring rows."""
    from matplotlib.path import Path as Outline

    corners = [
        corner
        for low, high in spans(rows)
        for corner in ((start, low), (end, low), (end, high), (start, high), (start, low))
    ]
    box = (Outline.MOVETO, Outline.LINETO, Outline.LINETO, Outline.LINETO, Outline.CLOSEPOLY)
    return Outline(corners, box * (len(corners) // len(box)))
