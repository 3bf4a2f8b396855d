"""The use that finished jobs made of their resources: by job, or by user, project and period."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeAlias

from oarpy.store.database import Connection

Step: TypeAlias = Literal["day", "week"]


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """One job: seconds and bytes; None for amounts that were not requested, or not measured."""

    job_id: int
    user: str
    project: str
    cores: int
    run_seconds: float
    cpu_seconds: float
    cpu_efficiency: float | None
    memory_peak: int | None
    memory_asked: int | None
    gpus: int | None
    gpu_efficiency: float | None
    gpu_memory_peak: int | None
    gpu_memory: int | None
    """The memory of the GPU that had most of its memory in use."""


@dataclass(frozen=True, slots=True)
class MeasuredPeriod:
    """The jobs of a user for a project that ended in a period (UTC), from its first ``day`` on."""

    day: date
    user: str
    project: str
    jobs: int
    core_seconds: float
    cpu_seconds: float
    cpu_efficiency: float | None
    memory_efficiency: float | None
    gpu_seconds: float | None
    gpu_efficiency: float | None


_JOBS = """
    SELECT job_id, user_name, project, cores, run_seconds, cpu_seconds, cpu_efficiency, memory_peak_bytes,
           memory_asked_bytes, gpus, gpu_efficiency, gpu_memory_peak_bytes, gpu_memory_bytes
    FROM oar_report.efficiency WHERE job_id = ANY(%s) ORDER BY job_id
"""
# A job that ran long weighs more; memory is compared where it was asked for.
_PERIODS = """
    SELECT date_trunc(%(step)s, ended_at AT TIME ZONE 'UTC')::date, user_name, project, count(*)::bigint,
           sum(core_seconds), sum(cpu_seconds), sum(cpu_seconds) / nullif(sum(core_seconds), 0),
           sum(memory_efficiency * run_seconds)
               / nullif(sum(run_seconds) FILTER (WHERE memory_efficiency IS NOT NULL), 0),
           sum(gpu_seconds), sum(gpu_busy_seconds) / nullif(sum(gpu_seconds), 0)
    FROM oar_report.efficiency
    WHERE ended_at >= now() - %(days)s * interval '1 day'
      AND (%(user)s::text IS NULL OR user_name = %(user)s) AND (%(project)s::text IS NULL OR project = %(project)s)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


def jobs(connection: Connection, job_ids: Sequence[int]) -> list[MeasuredJob]:
    """Return the jobs among ``job_ids`` that are over and were measured, in order of id."""
    return [MeasuredJob(*row) for row in connection.execute(_JOBS, [list(job_ids)])]


def periods(
    connection: Connection, step: Step, days: int, user: str | None, project: str | None
) -> list[MeasuredPeriod]:
    """Return the measured use of users in the last ``days`` days, of one user or project if given."""
    values = {"step": step, "days": days, "user": user, "project": project}
    return [MeasuredPeriod(*row) for row in connection.execute(_PERIODS, values)]
