"""What a run asks of a cluster: its queue planned from nothing, and what is held on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as one cluster sees it: a number, processors, and the walltime on this cluster (seconds)."""

    number: int
    procs: int
    walltime: float


class ClusterQueue(Protocol):
    """A cluster in virtual time. Jobs are told by numbers; ``now`` never goes back.

    Before ``due`` nobody can start, unless something happens to the queue.
    """

    due: float

    @property
    def idle(self) -> int:
        """How many processors are neither held by a running job nor claimed."""

    def join(self, job: QueuedJob, now: float) -> None:
        """Let a job join the end of the queue."""

    def leave(self, number: int) -> None:
        """Take a job out of the queue."""

    def hold(self, number: int, procs: int, end: float, now: float) -> None:
        """Hold idle processors for a job that joined no queue, up to its predicted ``end``."""

    def free(self, number: int, now: float) -> None:
        """Free what a job holds."""

    def plan(self, now: float) -> Sequence[int]:
        """Plan the queue; return who starts now, in the order of the queue. They run from then on."""

    def completions(self, jobs: Sequence[QueuedJob], now: float) -> list[float]:
        """Return when each of these jobs, in the queue or not, would end if each took its walltime (its ECT)."""
