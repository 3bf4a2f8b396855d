"""Rows that no pass can read, and jobs that no pass can decide about, are set aside. The others go on.

A waiting job gets a verdict with the reason, and an event. A job that holds resources keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from dataclasses import replace
from typing import TypeVar

from oarpy.scheduler.snapshot import AskedJob, HoldingJob, Snapshot, WaitingJob

Row = TypeVar("Row")
Made = TypeVar("Made")


def made_of(
    rows: Iterable[Row], make: Callable[[Row], Made], aside: Callable[[Row, str], Made | None]
) -> Iterator[Made]:
    """Make a value of each row; for a row that cannot be read, use the value of ``aside`` for it and the reason."""
    for row in rows:
        try:
            value: Made | None = make(row)
        except Exception as error:  # a row that cannot be read concerns no other row
            value = aside(row, f"it cannot be read: {described(error)}")
        if value is not None:
            yield value


def unplaced(row: AskedJob, reason: str) -> WaitingJob:
    """Return a waiting job without a request; ``reason`` is its verdict."""
    return WaitingJob(row.id, row.user, project=row.project, queue=row.queue, held=row.held, fault=reason)


def indecisive(snapshot: Snapshot, decides: Callable[[Snapshot], object]) -> dict[int, str]:
    """Return the jobs that must be left out so that ``decides`` raises nothing, each with its error.

    Return nothing if no jobs are to blame. Every half that can stay in does: so a few of many jobs are found in a few
    dozen tries.
    """
    jobs = [job.id for job in snapshot.asking] + [reservation.job.id for reservation in snapshot.reservations]
    jobs += [request.job for request in snapshot.walltime_requests] + [job.id for job in snapshot.holding]
    jobs = list(dict.fromkeys(jobs))
    reasons: dict[frozenset[int], str] = {}

    def fails(without: Set[int]) -> str:
        known = frozenset(without)
        if known not in reasons:
            try:
                decides(left_out(snapshot, known))
                reasons[known] = ""
            except Exception as error:  # this asks only whether the planner raises
                reasons[known] = described(error)
        return reasons[known]

    def to_blame(some: list[int], gone: Set[int]) -> dict[int, str]:
        """Return the jobs of ``some`` that must go, if ``gone`` have gone and it suffices that all of both go."""
        reason = fails(gone)
        if not reason:
            return {}
        if len(some) == 1:
            return {some[0]: reason}
        first, second = some[: len(some) // 2], some[len(some) // 2 :]
        blamed = to_blame(first, gone | set(second))
        return blamed | to_blame(second, gone | blamed.keys())

    return {} if not jobs or fails(set(jobs)) else to_blame(jobs, set())


def left_out(snapshot: Snapshot, jobs: Collection[int]) -> Snapshot:
    """Return ``snapshot`` without decisions about ``jobs``; the resources that they hold stay held."""
    if not jobs:
        return snapshot
    return replace(
        snapshot,
        waiting=tuple(job for job in snapshot.waiting if job.id not in jobs),
        parts=tuple(job for job in snapshot.parts if job.id not in jobs),
        reservations=tuple(reservation for reservation in snapshot.reservations if reservation.job.id not in jobs),
        walltime_requests=tuple(request for request in snapshot.walltime_requests if request.job not in jobs),
        holding=tuple(_bare(job) if job.id in jobs else job for job in snapshot.holding),
    )


def _bare(job: HoldingJob) -> HoldingJob:
    """Return a job with its resources alone, without its types and other facts."""
    return HoldingJob(
        job.id,
        job.user,
        job.start if math.isfinite(job.start) else 0,
        job.walltime if math.isfinite(job.walltime) else 1,
        resources=job.resources,
        queue=job.queue,
        bits=job.bits,
    )


def described(error: Exception) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
