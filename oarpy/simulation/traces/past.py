"""A site's past as a workload: jobs with their real requests, and how long each of them ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oarpy.scheduler.snapshot import HoldingJob, WaitingJob


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that ran. Instants are epoch seconds, durations seconds.

    ``runs`` is its run time with each of its alternatives. ``ran`` and ``waited`` are the real values. A job that was
    submitted before the period is replayed, because it was in the way of others, and not ``measured``.
    """

    job: WaitingJob
    submission: int
    runs: tuple[float, ...]
    ran: float
    waited: float
    succeeded: bool
    measured: bool = True
    checkpoint: float = 0


@dataclass(frozen=True, slots=True)
class Occupation:
    """A job that was running when the period began: it keeps its resources until ``until``, whatever the policy."""

    job: HoldingJob
    until: float
    succeeded: bool


@dataclass(frozen=True, slots=True)
class RefusedJob:
    """Why a job is not replayed."""

    reason: str


@dataclass(frozen=True, slots=True)
class LiveJobs:
    """The jobs that wait and that hold resources (or have a reservation) at an instant of the replay."""

    waiting: tuple[WaitingJob, ...]
    holding: tuple[HoldingJob, ...]


Admission = Callable[[PastJob, float, LiveJobs], PastJob | RefusedJob]
"""Admission applied anew: given the job, the instant and the live jobs, return the admitted job, or a refusal."""


def admit_as_they_were(job: PastJob, _now: float, _live: LiveJobs) -> PastJob | RefusedJob:
    """Take every job as it was admitted at the time."""
    return job
