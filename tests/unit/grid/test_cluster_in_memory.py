"""The cluster in memory promises a broker what every cluster promises, under both of its policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from oarpy.grid.calls.parts import GridPart
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from tests.harness.cluster_conformance import LONG, ClusterConformance, ClusterStage


def run_time(part: GridPart) -> float:
    """Return how long ``sleep SECONDS`` takes."""
    return float(part.program.split()[1])


class MemoryStage(ClusterStage):
    """A cluster in memory; waiting is turning its clock."""

    procs = 8

    def __init__(self, policy: Literal["fcfs", "conservative"]) -> None:
        self.clock = VirtualClock(1000)
        self.memory = SimulatedCluster("memory", self.procs, clock=self.clock, policy=policy, runs=run_time)
        super().__init__(self.memory)

    def occupy(self, procs: int) -> str:
        """Run a local job."""
        name = self.unique("local")
        self.memory.submit(name, procs, LONG, evictable=True)
        assert self.memory.states()[name] == "running"
        return name

    def vacate(self, local: str) -> None:
        """End a local job."""
        self.memory.finish(local)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Turn the clock until something is true."""
        for _ in range(100):
            if found := condition():
                return found
            self.clock.advance(0.5)
        raise AssertionError(f"not within 50 s: {what}")


@pytest.fixture(params=["fcfs", "conservative"])
def stage(request: pytest.FixtureRequest) -> ClusterStage:
    return MemoryStage(request.param)


class TestClusterInMemory(ClusterConformance):
    """The suite, on the cluster in memory."""
