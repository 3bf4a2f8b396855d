"""A scenario: clusters, jobs, and the rules of the broker. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from oarpy.grid.core.broker_state import DeadlineRules, GridCluster, JobId, ReallocationRules

QueuePolicy = Literal["fcfs", "conservative", "easy"]
EngineName = Literal["production", "counting"]


@dataclass(frozen=True, slots=True)
class GridJob:
    """A job of a file. ``run`` and ``walltime`` are at speed 1; ``procs`` counts the processors of each component.

    With ``cluster`` it is local. With ``components``, which start together at ``deadline``, it is co-allocated.
    """

    id: JobId
    submit: float
    procs: int
    run: float
    walltime: float
    cluster: str | None = None
    components: int = 0
    deadline: float = 0

    @property
    def mapped(self) -> bool:
        """Whether the broker chooses its cluster."""
        return self.cluster is None and not self.components

    def length(self, speed: float) -> float:
        """Return how long it runs on processors of a speed: it is ended at its walltime."""
        return min(self.run, self.walltime) / speed


@dataclass(frozen=True, slots=True)
class GridScenario:
    """Clusters with the policies of their queues, jobs, and the rules for both. ``period`` is between passes."""

    clusters: tuple[GridCluster, ...]
    policies: tuple[QueuePolicy, ...]
    jobs: tuple[GridJob, ...]
    engine: EngineName = "production"
    deadlines: DeadlineRules = field(default_factory=DeadlineRules)
    reallocation: ReallocationRules = field(default_factory=ReallocationRules)
    period: float = 3600
