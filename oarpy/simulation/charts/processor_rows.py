"""The rows of a chart that the jobs of a replay take, and the number of processors in use over time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oarpy.simulation.traces.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Bar:
    """A job on a chart: from ``start`` for ``run`` seconds on ``rows`` (ascending, 0 is the lowest)."""

    number: int
    submit: float
    start: float
    run: float
    rows: Sequence[int]


def trace_bars(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int) -> list[Bar]:
    """Return the jobs of a replay that counted processors, which are dealt out again here."""
    rows = processor_rows(jobs, starts, procs)
    return [
        Bar(job.number, job.submit, start, job.run, own) for job, start, own in zip(jobs, starts, rows, strict=True)
    ]


def processor_rows(jobs: Sequence[TraceJob], starts: Sequence[float], procs: int) -> list[list[int]]:
    """Return the rows (0-based, ascending) of each job: at its start, the lowest that no running job holds.

    That always works, for the jobs never need more rows than there are at any instant.
    """
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


def spans(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the half-open intervals of neighbouring rows.

    >>> list(spans([0, 1, 4]))
    [(0, 2), (4, 5)]
    """
    if not rows:
        return
    low = high = rows[0]
    for row in rows:
        if row > high:
            yield low, high
            low = row
        high = row + 1
    yield low, high
