"""Clusters tell how fast they are; what an admin says counts more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from oarpy.grid.broker import watcher
from oarpy.grid.calls.table import Describe
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.store.grid import broker_parts, clusters
from oarpy.store.grid.clusters import GridClusterRow
from tests.harness.inline_calls import answer_instead
from tests.harness.oarsub_cluster import Connection, Submitter
from tests.harness.simulated_grid import SimulatedGrid

pytestmark = pytest.mark.db


@pytest.fixture
def grid(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedGrid]:
    """A broker of one cluster that says it has speed 2; an admin has said nothing."""
    monkeypatch.setattr(watcher, "_DESCRIBE_PERIOD", 0.01)
    made = SimulatedGrid(connection, [SimulatedCluster("north", 8, speed=2)])
    clusters.put(connection, "north", "oarpy", ["door"])
    yield made
    made.close()


def row(grid: SimulatedGrid) -> GridClusterRow:
    """The one cluster."""
    return clusters.every(grid.connection)[0]


def tell(grid: SimulatedGrid, speed: float) -> None:
    """Have the cluster say it is so fast, and the broker hear it."""
    north = grid.clusters["north"]
    real = north.ask(Describe())
    answer_instead(north, Describe, lambda call, ask: replace(real, speed=speed))
    grid.drive(lambda: row(grid).told_speed == speed, "a speed that is heard")


def placed(grid: SimulatedGrid, walltime: float = 60) -> float:
    """Submit a job; return the walltime of its part."""
    (job,) = grid.submit(8, walltime)
    grid.settled(job)
    return grid.parts(job)[0].walltime


def test_a_cluster_has_the_speed_that_it_tells_unless_an_admin_says_another(grid: SimulatedGrid) -> None:
    assert (row(grid).speed, row(grid).told_speed) == (1, None)
    assert placed(grid) == 60
    grid.drive(lambda: row(grid).told_speed, "a speed that is heard")
    assert (row(grid).speed, placed(grid)) == (2, 30)
    clusters.put(grid.connection, "north", "oarpy", ["door"], speed=0.5)
    assert (row(grid).speed, placed(grid)) == (0.5, 120)
    tell(grid, 4)
    assert (row(grid).speed, placed(grid)) == (0.5, 120)
    clusters.put(grid.connection, "north", "oarpy", ["door"])
    assert (row(grid).speed, placed(grid)) == (4, 15)


def test_parts_keep_their_walltimes_when_another_speed_is_told(grid: SimulatedGrid) -> None:
    tell(grid, 2)
    grid.clusters["north"].submit("local", 8, 5000)
    (job,) = grid.submit(8, 60)
    grid.settled(job)
    tell(grid, 5)
    (part,) = grid.parts(job)
    assert part.walltime == 30
    # what a pass asks other clusters for comes from the job, whatever its cluster says since
    assert [(one.name, one.walltime) for one in broker_parts.movable(grid.connection)] == [(part.name, 60)]


def test_a_speed_that_nobody_can_have_leaves_the_broker_at_work(grid: SimulatedGrid) -> None:
    tell(grid, 1e-6)
    assert placed(grid, 10_000) == 1e9
    north = grid.clusters["north"]
    real = north.ask(Describe())
    answer_instead(north, Describe, lambda call, ask: replace(real, speed=0))
    grid.drive(lambda: "speed is 0" in row(grid).message, "what is said of north")
    assert row(grid).told_speed == 1e-6


def test_the_list_has_the_speed_that_counts_and_the_one_told(connection: Connection, oarsub: Submitter) -> None:
    def listed() -> tuple[object, object]:
        (found,) = json.loads(oarsub("clusters", "list", "-J", command="oargridctl").out)
        return found["speed"], found["told_speed"]

    add = ("clusters", "add", "north", "--door", "ssh north")
    assert oarsub(*add, command="oargridctl").status == 0
    assert listed() == (1, None)
    clusters.note_description(connection, "north", 8, [], 0, 1.25)
    assert listed() == (1.25, 1.25)
    assert "1.25" in oarsub("clusters", "list", command="oargridctl").out
    assert oarsub(*add, "--speed", "3", command="oargridctl").status == 0
    assert listed() == (3, 1.25)
