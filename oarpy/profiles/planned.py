"""Jobs that have a planned start on a timeline, the order of their ids, and their way to earlier starts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from oarpy.profiles.timeline import MovingTimeline, Timeline

JobId = int | str
Request = TypeVar("Request")
Hold = TypeVar("Hold")


def id_order(job_id: JobId) -> tuple[bool, int, str]:
    """Return the sort key of an id: numbers by value, then texts by code points."""
    return (True, 0, job_id) if isinstance(job_id, str) else (False, job_id, "")


@dataclass(slots=True)
class PlannedJob(Generic[Request, Hold]):
    """A job that waits for its ``start`` and then takes ``time`` seconds; ``hold`` is its hold on the timeline."""

    id: JobId
    request: Request
    start: float
    time: float
    hold: Hold

    @property
    def end(self) -> float:
        """The instant at which it ends."""
        return self.start + self.time


def plan_at(
    timeline: Timeline[Request, Hold], job_id: JobId, request: Request, start: float, time: float
) -> PlannedJob[Request, Hold]:
    """Return a job that holds its request on the timeline from ``start`` on."""
    return PlannedJob(job_id, request, start, time, timeline.hold(request, start, start + time))


def move_forward(
    timeline: MovingTimeline[Request, Hold], jobs: Iterable[PlannedJob[Request, Hold]], now: float
) -> list[PlannedJob[Request, Hold]]:
    """Give each job in turn its earliest place from ``now`` on, and return those that moved.

    A job may take its own place again, so none starts later than before.
    """
    moved = []
    for job in jobs:
        start = timeline.earlier(job.request, job.time, now, job.start)
        if start < job.start:
            timeline.give_back(job.hold)
            job.start = start
            job.hold = timeline.hold(job.request, job.start, job.end)
            moved.append(job)
    return moved
