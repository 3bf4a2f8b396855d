"""Gantt chart and utilisation over time of a replay, as an SVG file.

The replay counts processors; the chart needs rows, so processors are dealt out again afterwards: each job gets the
lowest rows free at its start; row 0 is drawn at the bottom. That always works, for the jobs never need more rows than
there are at any instant.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from html import escape
from typing import TextIO

from oarpy.simulation.trace import TraceJob

_LEFT, _TOP, _GAP, _WIDTH = 60.0, 40.0, 40.0, 1200.0
_GANTT, _CURVE = 480.0, 120.0
_THINNEST = 0.2
_TICKS = 8
_COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def write_svg(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int, title: str, out: TextIO) -> None:
    """Draw ``jobs`` started at ``starts`` on ``procs`` processors."""
    first = min((job.submit for job in jobs), default=0.0)
    last = max((start + job.run for job, start in zip(jobs, starts, strict=True)), default=1.0)
    scale = _WIDTH / (last - first)
    height = _TOP + _GANTT + _GAP + _CURVE + _GAP
    out.write(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20:g}" height="{height:g}" '
        f'font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{_LEFT:g}" y="24" font-size="16">{escape(title)}</text>\n'
    )
    out.write(f'<g id="gantt" transform="translate({_LEFT:g} {_TOP:g})">\n')
    for path in _job_paths(jobs, starts, procs, first, scale):
        out.write(path)
    out.write(_frame(_GANTT, "processors", str(procs)) + "</g>\n")
    out.write(f'<g id="utilisation" transform="translate({_LEFT:g} {_TOP + _GANTT + _GAP:g})">\n')
    out.write(_utilisation_path(jobs, starts, procs, first, scale))
    out.write(_frame(_CURVE, "used", "100%") + _time_axis(last - first) + "</g>\n</svg>\n")


def processor_rows(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int) -> list[list[int]]:
    """Return the rows (0-based, ascending) of each job: at its start, the lowest that no running job holds."""
    rows: list[list[int]] = [[] for _ in jobs]
    free = list(range(procs))
    running: list[tuple[float, int]] = []
    for job in sorted(range(len(jobs)), key=lambda index: (starts[index], index)):
        while running and running[0][0] <= starts[job]:
            for row in rows[heapq.heappop(running)[1]]:
                heapq.heappush(free, row)
        rows[job] = [heapq.heappop(free) for _ in range(jobs[job].procs)]
        heapq.heappush(running, (starts[job] + jobs[job].run, job))
    return rows


def busy_steps(jobs: Sequence[TraceJob], starts: Sequence[float]) -> list[tuple[float, int]]:
    """Return (instant, processors in use from then on), one entry an instant at which the number may change."""
    changes: dict[float, int] = {}
    for job, start in zip(jobs, starts, strict=True):
        changes[start] = changes.get(start, 0) + job.procs
        changes[start + job.run] = changes.get(start + job.run, 0) - job.procs
    busy = 0
    steps = []
    for instant in sorted(changes):
        busy += changes[instant]
        steps.append((instant, busy))
    return steps


def _job_paths(
    jobs: Sequence[TraceJob], starts: Sequence[float], procs: int, first: float, scale: float
) -> Iterator[str]:
    row_height = _GANTT / procs
    for index, rows in enumerate(processor_rows(jobs, starts, procs)):
        job = jobs[index]
        left, width = (starts[index] - first) * scale, max(job.run * scale, _THINNEST)
        boxes = "".join(
            f"M{left:.1f} {_GANTT - high * row_height:.1f}h{width:.1f}v{(high - low) * row_height:.1f}h-{width:.1f}z"
            for low, high in _runs(rows)
        )
        colour = _COLOURS[job.number % len(_COLOURS)]
        yield f'<path fill="{colour}" d="{boxes}"><title>job {job.number}</title></path>\n'


def _runs(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the half-open intervals of neighbouring rows."""
    low = high = rows[0]
    for row in rows:
        if row > high:
            yield low, high
            low = row
        high = row + 1
    yield low, high


def _utilisation_path(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int, first: float, scale: float) -> str:
    points = [f"M0 {_CURVE:g}"]
    for instant, busy in busy_steps(jobs, starts):
        points.append(f"H{(instant - first) * scale:.1f}V{_CURVE * (1 - busy / procs):.1f}")
    return f'<path fill="#bab0ac" stroke="#555" stroke-width="0.5" d="{"".join(points)}"/>\n'


def _frame(height: float, label: str, top: str) -> str:
    return (
        f'<rect width="{_WIDTH:g}" height="{height:g}" fill="none" stroke="black"/>\n'
        f'<text x="-6" y="12" text-anchor="end">{top}</text><text x="-6" y="{height:g}" text-anchor="end">0</text>\n'
        f'<text transform="translate(-40 {height / 2:g}) rotate(-90)" text-anchor="middle">{label}</text>\n'
    )


def _time_axis(span: float) -> str:
    size, unit = next((pair for pair in _UNITS if span >= 2 * pair[0]), _UNITS[-1])
    texts = []
    for tick in range(_TICKS + 1):
        share = tick / _TICKS
        label = f"{share * span / size:.1f} {unit}"
        texts.append(f'<text x="{share * _WIDTH:.1f}" y="{_CURVE + 16:g}" text-anchor="middle">{label}</text>')
    return "".join(texts) + "\n"
