"""Jobs that no cluster takes, or that one refuses among many, cost no other job its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker import mapper
from oarpy.grid.calls.parts import GridPart
from oarpy.grid.calls.table import Answer, Call, CallRefused, EstimateInTurn, Prepare, PrepareAll
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.model.states import GridJobState
from tests.harness.simulated_grid import SimulatedGrid

pytestmark = pytest.mark.db
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class ChoosyCluster(SimulatedCluster):
    """It has nothing for some users, and refuses a whole call that is about the parts of some jobs."""

    strangers: frozenset[str] = frozenset()
    unwanted: frozenset[int] = frozenset()

    def ask(self, call: Call[Answer]) -> Answer:
        """Refuse strangers, and a call as a whole if one part is not wanted."""
        if isinstance(call, EstimateInTurn) and call.request.user in self.strangers:
            raise CallRefused(f"nothing for {call.request.user}")
        if isinstance(call, Prepare):
            self._look_at(call.part)
        if isinstance(call, PrepareAll):
            for one in call.parts:
                self._look_at(one.part)
        return super().ask(call)

    def _look_at(self, part: GridPart) -> None:
        job = int(part.name[1:].split(".")[0])
        if job in self.unwanted:
            raise CallRefused(f"not job {job}")


@pytest.fixture
def north() -> ChoosyCluster:
    """The slower cluster."""
    return ChoosyCluster("north", 8)


@pytest.fixture
def south() -> ChoosyCluster:
    """The faster one."""
    return ChoosyCluster("south", 8, speed=2)


@pytest.fixture
def grid(connection: Connection, north: ChoosyCluster, south: ChoosyCluster) -> Iterator[SimulatedGrid]:
    """A broker of both."""
    made = SimulatedGrid(connection, [north, south])
    yield made
    made.close()


def test_jobs_that_nobody_takes_at_present_keep_no_others_from_their_turn(
    grid: SimulatedGrid, north: ChoosyCluster, south: ChoosyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are read at once wait for a cluster that is silent."""
    monkeypatch.setattr(mapper, "_MOST_ALIKE", 3)
    monkeypatch.setattr(mapper, "_RETRY", 3600)
    north.strangers, south.faults.cut = frozenset({"bob"}), True
    waiting = grid.submit(1, 600, copies=8, user="bob")
    grid.drive(lambda: all("waits for" in grid.job(job).message for job in waiting), "jobs that wait")
    assert grid.settled(*grid.submit(1, copies=2)) == ["north", "north"]
    assert {grid.job(job).state for job in waiting} == {GridJobState.SUBMITTED}
    south.faults.cut = False
    assert set(grid.settled(*waiting)) == {"south"}


def test_one_job_that_spoils_a_bunch_is_refused_alone(
    grid: SimulatedGrid, north: ChoosyCluster, south: ChoosyCluster
) -> None:
    jobs = grid.submit(1, 60, copies=7)
    south.unwanted = frozenset({jobs[2]})
    expected = ["south"] * 7
    expected[2] = "north"
    assert grid.settled(*jobs) == expected
    grid.drive(lambda: len(south.states()) == 6 and len(north.states()) == 1, "one copy of each job")


def test_a_cluster_that_refuses_every_job_of_a_bunch_gets_none(
    grid: SimulatedGrid, north: ChoosyCluster, south: ChoosyCluster
) -> None:
    jobs = grid.submit(1, 60, copies=5)
    south.unwanted = frozenset(jobs)
    assert set(grid.settled(*jobs)) == {"north"}
    north.unwanted = south.unwanted = frozenset(grid.submit(1, 60, copies=3))
    refused = sorted(north.unwanted)
    grid.drive(lambda: all(grid.job(job).state is GridJobState.ERROR for job in refused), "the end of jobs")
    assert {grid.job(job).message for job in refused} == {f"not job {job}; not job {job}" for job in refused}
