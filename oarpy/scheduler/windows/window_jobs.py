"""Jobs with windows, and the order of the queue in which they get their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import inf, nextafter
from typing import Generic, Literal, TypeVar

from oarpy.model.plugins import RESERVATION_ORDERS, looking_at, plugin
from oarpy.profiles.planned import JobId, id_order

Request = TypeVar("Request")
Criterion = Literal["shuffle", "fifo", "bjf", "lff", "edf"]
"""At random; by submission; the largest first; the least slack first; the earliest deadline first."""
OWN_ORDER: Criterion = "edf"
"""The order if none is named, or if a plug-in fails."""
Window = tuple[float, float]
"""The first and the last start that a job may have."""


@dataclass(frozen=True, slots=True)
class WindowJob(Generic[Request]):
    """A job of ``procs`` processors for ``time`` seconds that runs wholly inside [ready, deadline].

    A deadline job has no ready time.
    """

    id: JobId
    request: Request
    procs: int
    time: float
    deadline: float
    ready: float = -inf
    submitted: float = 0

    def window(self, now: float) -> Window:
        """Return the starts that it may still have."""
        return max(self.ready, now), self.deadline - self.time

    def slack(self, now: float) -> float:
        """Return the seconds by which its start may still be put off."""
        return self.deadline - max(self.ready, now) - self.time

    def fixed_at(self, start: float) -> WindowJob[Request]:
        """Return the same job with no room to move."""
        deadline = start + self.time
        while deadline - self.time < start:  # the sum was rounded down
            deadline = nextafter(deadline, inf)
        return replace(self, ready=start, deadline=deadline)


def in_order(
    jobs: Iterable[WindowJob[Request]], criterion: str, now: float, draw: Callable[[], float]
) -> list[WindowJob[Request]]:
    """Return the queue. Jobs that are equal under the criterion, or a plug-in, come by submission, then by id.

    ``draw`` gives a random number for each job, in the order of submission, for the criterion that shuffles.
    """
    queue = sorted(jobs, key=lambda job: (job.submitted, id_order(job.id)))
    match criterion:
        case "fifo":
            return queue
        case "bjf":
            return sorted(queue, key=lambda job: -job.time * job.procs)
        case "lff":
            return sorted(queue, key=lambda job: job.slack(now))
        case "edf":
            return sorted(queue, key=lambda job: job.deadline)
        case "shuffle":
            drawn = {job.id: draw() for job in queue}
            return sorted(queue, key=lambda job: drawn[job.id])
        case _:
            order = plugin(RESERVATION_ORDERS, criterion)
            keys = {job.id: order(job, now) for job in queue}
            with looking_at(criterion):  # keys of several types cannot be compared
                return sorted(queue, key=lambda job: keys[job.id])
