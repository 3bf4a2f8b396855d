"""The input of a simulation: jobs with their submission time, real run time, estimate and size."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a workload. Times and durations are seconds; sizes are processors.

    ``estimate`` is the walltime that the user requested: the scheduler sees only this until the job ends. ``run`` never
    exceeds it, because a job is killed at its walltime. ``user`` and ``project`` are empty if the workload does not
    name them.
    """

    number: int
    submit: float
    run: float
    estimate: float
    procs: int
    user: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs that can be replayed, by submission time then number, and how many records could not."""

    name: str
    jobs: tuple[TraceJob, ...]
    left_out: int = 0


def in_submit_order(jobs: list[TraceJob]) -> tuple[TraceJob, ...]:
    """Return ``jobs`` by submission time, then number (the order of a fifo queue)."""
    return tuple(sorted(jobs, key=lambda job: (job.submit, job.number)))
