"""What the broker chooses by itself, and what it asks clusters for that."""

from __future__ import annotations

import pytest

from oarpy.grid.broker.pass_plan import MovablePart, PassPlanner
from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import Answer, Call, Cluster, Commit, Estimate, Prepare
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.broker_state import BrokerState, GridCluster, MappedJob, MappingRule, ReallocationRules
from oarpy.grid.core.exchanges import JobArrived, JoinQueue
from oarpy.grid.core.step import step
from tests.harness.inline_calls import carry_out


@pytest.mark.parametrize("mapping", ["random", "round_robin"])
def test_a_job_with_more_resources_than_processors_goes_where_it_may_run(mapping: MappingRule) -> None:
    """Licences are no processors: only clusters know whether they have enough."""
    state = BrokerState((GridCluster("north", 4), GridCluster("south", 4)), reallocation=ReallocationRules(mapping))
    (chosen,) = step(state, JobArrived(MappedJob(1, 0, 32, 600)), 0)
    assert isinstance(chosen, JoinQueue)
    assert chosen.cluster in ("north", "south")


class _Asked(SimulatedCluster):
    """A cluster that notes how old the state of its answers may be."""

    def __init__(self, name: str, clock: VirtualClock) -> None:
        super().__init__(name, 8, clock=clock)
        self.ages: list[float] = []

    def ask(self, call: Call[Answer]) -> Answer:
        if isinstance(call, Estimate):
            self.ages.append(call.age)
        return super().ask(call)


def test_a_pass_begins_with_the_present_state_of_clusters_and_stays_with_it() -> None:
    clock = VirtualClock(1000)
    north, south = _Asked("north", clock), _Asked("south", clock)
    north.submit("local", 8, 5000)
    parts = []
    for job in range(3):
        request = PartRequest("ann", "/core=8", 8, 100)
        north.ask(Prepare(f"t{job}", GridPart(f"g{job}", "queued", request), 60, key=f"p{job}"))
        north.ask(Commit(f"t{job}", key=f"c{job}"))
        parts.append(MovablePart(f"g{job}", job, "north", 1000.0, request))
    known = [GridCluster("north", 8), GridCluster("south", 8)]
    providers: dict[str, Cluster] = {"north": north, "south": south}
    plan = carry_out(PassPlanner(known, ReallocationRules(algorithm=1)).plan(parts, 1000), providers, clock)
    assert [move.part.name for move in plan.moves] == ["g0", "g1", "g2"]
    for one in (north, south):
        assert one.ages[0] == 0
        assert one.ages[1:] == [300] * (len(one.ages) - 1)
        assert len(one.ages) > 1
