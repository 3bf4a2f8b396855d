"""The report on a replay: JSON for programs, a table for users, CSV for one row a job."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from oarpy.model.durations import format_duration
from oarpy.simulation.reports.metrics import Metrics, bounded_slowdown
from oarpy.simulation.traces.trace import Trace, TraceJob

CSV_COLUMNS = ("job", "submit", "start", "end", "procs", "wait", "bounded_slowdown")
_TABLE_COLUMNS = (
    "policy",
    "order",
    "jobs",
    "mean wait",
    "max wait",
    "mean b. slowdown",
    "utilisation",
    "makespan",
    "ran",
)


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """One policy's replay: its metrics and the wall-clock seconds that the replay took.

    ``prediction`` is empty if none was used; ``underestimated`` is the share of jobs that outlived their prediction.
    """

    policy: str
    order: str
    metrics: Metrics
    seconds: float
    prediction: str = ""
    underestimated: float = 0.0


def summary_json(trace: Trace, procs: int, results: Sequence[PolicyResult]) -> str:
    """Return the JSON summary on one line (times in seconds; ``seconds`` is wall-clock time)."""
    return json.dumps(
        {
            "trace": trace.name,
            "procs": procs,
            "left_out": trace.left_out,
            "policies": [_policy_json(result) for result in results],
        }
    )


def _policy_json(result: PolicyResult) -> dict[str, str | int | float]:
    """Return the figures of one policy as a JSON object, times in seconds."""
    metrics = result.metrics
    predicted: dict[str, str | float] = {}
    if result.prediction:
        predicted = {"prediction": result.prediction, "underestimated": result.underestimated}
    return {
        "policy": result.policy,
        **predicted,
        "order": result.order,
        "jobs": metrics.jobs,
        "mean_wait": metrics.mean_wait,
        "max_wait": metrics.max_wait,
        "mean_bounded_slowdown": metrics.mean_bounded_slowdown,
        "utilisation": metrics.utilisation,
        "makespan": metrics.makespan,
        "seconds": round(result.seconds, 3),
    }


def summary_table(trace: Trace, procs: int, results: Sequence[PolicyResult]) -> str:
    """Return the same as a table, durations as h:m:s."""
    rows = [_TABLE_COLUMNS, *(_policy_row(result) for result in results)]
    if any(result.prediction for result in results):
        column = [
            ("prediction", "underestimated"),
            *((result.prediction, f"{result.underestimated:.2%}") for result in results),
        ]
        rows = [(row[0], *more, *row[1:]) for row, more in zip(rows, column, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    replayed = results[0].metrics.jobs if results else len(trace.jobs)
    title = f"{trace.name}: {replayed} jobs on {procs} processors ({trace.left_out} left out)"
    return "\n".join([title, *lines])


def _policy_row(result: PolicyResult) -> tuple[str, ...]:
    """Return the figures of one policy as a row of the table."""
    metrics = result.metrics
    return (
        result.policy,
        result.order,
        str(metrics.jobs),
        format_duration(metrics.mean_wait),
        format_duration(metrics.max_wait),
        f"{metrics.mean_bounded_slowdown:.2f}",
        f"{metrics.utilisation:.2%}",
        format_duration(metrics.makespan),
        f"{result.seconds:.1f} s",
    )


def write_csv(jobs: Sequence[TraceJob], starts: Sequence[float], out: TextIO) -> None:
    """Write one row a job, in submission order."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(_csv_rows(jobs, starts))


def _csv_rows(jobs: Sequence[TraceJob], starts: Sequence[float]) -> Iterable[tuple[int | float, ...]]:
    for job, start in zip(jobs, starts, strict=True):
        wait = start - job.submit
        yield job.number, job.submit, start, start + job.run, job.procs, wait, bounded_slowdown(wait, job.run)
