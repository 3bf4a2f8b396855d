"""How many processors a replay has in use."""

from __future__ import annotations

from collections.abc import Sequence

from oarpy.simulation.traces.trace import TraceJob


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
