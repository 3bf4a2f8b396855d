"""``oarstat --efficiency``: CPU time against cores, used against requested memory, and GPUs, of ended jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from oarpy.client.rendering import Column, Document, Look, Report, Table, TwoForms
from oarpy.client.session import Session
from oarpy.model.durations import format_duration
from oarpy.store.analytics import efficiency_rows
from oarpy.store.analytics.efficiency_rows import MeasuredJob, MeasuredPeriod, Step

DAYS: dict[Step, int] = {"day": 14, "week": 84}
"""The days that the reports by day and by week go back."""

_JOB_COLUMNS = ("Job id", "User", "Project", "Cores", "Run", "CPU", "CPU %", "Memory", "Asked", "Memory %")
_PERIOD_COLUMNS = ("From", "User", "Project", "Jobs", "Core hours", "CPU hours", "CPU %", "Memory %")
_JOB_GPUS = ("GPUs", "GPU %", "GPU memory")
_PERIOD_GPUS = ("GPU hours", "GPU %")
"""Further columns where GPUs of some jobs were measured."""
_UNITS = ("", "K", "M", "G", "T")


def of_jobs(session: Session, job_ids: Sequence[int], seen: Look) -> Report[Document]:
    """Return a line for each of the jobs that was measured."""
    jobs = efficiency_rows.jobs(session.connection, job_ids)
    gpus = _JOB_GPUS if any(job.gpus is not None for job in jobs) else ()
    return TwoForms(
        lambda: _table((*_JOB_COLUMNS, *gpus), [_job(job) for job in jobs], seen),
        lambda: [asdict(job) for job in jobs],
    )


def of_periods(session: Session, step: Step, user: str | None, project: str | None, seen: Look) -> Report[Document]:
    """Return a line for each user and project and period, of one user or project if given."""
    periods = efficiency_rows.periods(session.connection, step, DAYS[step], user, project)
    gpus = _PERIOD_GPUS if any(period.gpu_seconds is not None for period in periods) else ()
    return TwoForms(
        lambda: _table((*_PERIOD_COLUMNS, *gpus), [_period(period) for period in periods], seen),
        lambda: [{**asdict(period), "day": period.day.isoformat()} for period in periods],
    )


def size(amount: int | None) -> str:
    """Return bytes for people: ``1.5G``; empty for None.

    >>> size(1536 * 2**20), size(10), size(None)
    ('1.5G', '10', '')
    """
    if amount is None:
        return ""
    shown, unit = float(amount), 0
    while shown >= 1024 and unit < len(_UNITS) - 1:
        shown, unit = shown / 1024, unit + 1
    return f"{shown:.1f}{_UNITS[unit]}" if unit else str(amount)


def _job(job: MeasuredJob) -> tuple[str, ...]:
    part = None if job.memory_peak is None or not job.memory_asked else job.memory_peak / job.memory_asked
    return (
        str(job.job_id),
        job.user,
        job.project,
        str(job.cores),
        format_duration(int(job.run_seconds)),
        format_duration(int(job.cpu_seconds)),
        _percent(job.cpu_efficiency),
        size(job.memory_peak),
        size(job.memory_asked),
        _percent(part),
        "" if job.gpus is None else str(job.gpus),
        _percent(job.gpu_efficiency),
        size(job.gpu_memory_peak),
    )


def _period(period: MeasuredPeriod) -> tuple[str, ...]:
    parts = _percent(period.cpu_efficiency), _percent(period.memory_efficiency)
    return (
        period.day.isoformat(),
        period.user,
        period.project,
        str(period.jobs),
        _hours(period.core_seconds),
        _hours(period.cpu_seconds),
        *parts,
        _hours(period.gpu_seconds),
        _percent(period.gpu_efficiency),
    )


def _hours(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds / 3600:.1f}"


def _percent(part: float | None) -> str:
    return "" if part is None else f"{100 * part:.0f}"


def _table(titles: Sequence[str], rows: Sequence[tuple[str, ...]], seen: Look) -> str:
    shown = tuple(row[: len(titles)] for row in rows)
    return Table(tuple(map(Column, titles)), shown).text(seen) if rows else "no job that is over was measured\n"
