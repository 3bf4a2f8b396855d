"""Clusters that refuse, are silent or say what cannot be stored: a job ends by no's alone, and nobody else suffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import psycopg
import pytest

from oarpy.grid.broker.conversations import ClusterCall
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.parts import PreparedPart
from oarpy.grid.calls.table import CallRefused, Describe, Estimate, Prepare, Waiting
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, clusters
from tests.harness.inline_calls import answer_instead
from tests.harness.simulated_grid import SimulatedGrid
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.kept]
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


@pytest.fixture
def grid(connection: Connection) -> Iterator[SimulatedGrid]:
    """Two clusters: north is larger, south is faster."""
    made = SimulatedGrid(connection, [SimulatedCluster("north", 8), SimulatedCluster("south", 4, speed=2)])
    yield made
    made.close()


def no_account(cluster: SimulatedCluster, user: str) -> None:
    """A cluster refuses to estimate for a user."""

    def estimate(call: Estimate, real: Callable[[Estimate], Sequence[float]]) -> Sequence[float]:
        if any(not isinstance(one, str) and one.user == user for one in call.requests):
            raise CallRefused(f"{user} has no account on {cluster.name}")
        return real(call)

    answer_instead(cluster, Estimate, estimate)


def refuses_to_prepare(cluster: SimulatedCluster, reason: str) -> None:
    """A cluster refuses every part."""

    def prepare(call: Prepare, real: object) -> PreparedPart:
        raise CallRefused(reason)

    answer_instead(cluster, Prepare, prepare)


def known_to_be_silent(grid: SimulatedGrid, *names: str) -> None:
    """The mapper has found out that clusters do not answer."""
    grid.once(grid.mapper)
    for name in names:
        grid.mapper._connections.submit(ClusterCall(name, Describe()))
    until(lambda: set(grid.mapper._connections.silent()) >= set(names), "silent clusters")


def test_a_job_waits_for_the_silent_cluster_that_may_take_it(grid: SimulatedGrid) -> None:
    """The user has an account on south alone, and south is silent for a moment."""
    north, south = grid.clusters["north"], grid.clusters["south"]
    no_account(north, "bob")
    south.faults.cut = True
    known_to_be_silent(grid, "south")
    (bob,) = grid.submit(user="bob")
    grid.drive(lambda: grid.job(bob).message, "what is said of the job")
    assert grid.job(bob).state is GridJobState.SUBMITTED, grid.job(bob)
    assert grid.job(bob).message.startswith("waits for a cluster: bob has no account on north; cluster ")
    south.faults.cut = False
    assert grid.settled(bob) == ["south"]


def test_a_job_that_all_active_clusters_refuse_fails_though_a_disabled_one_is_silent(grid: SimulatedGrid) -> None:
    south = grid.clusters["south"]
    south.faults.cut = True
    known_to_be_silent(grid, "south")
    clusters.set_active(grid.connection, "south", active=False)
    refuses_to_prepare(grid.clusters["north"], "above the limit of the grant")
    (job,) = grid.submit()
    grid.drive(lambda: grid.job(job).state is GridJobState.ERROR, "the end of the job")
    assert grid.job(job).message == "above the limit of the grant"


def test_a_refusal_with_letters_that_cannot_be_stored_is_passed_over(grid: SimulatedGrid) -> None:
    refuses_to_prepare(grid.clusters["south"], "no\0")
    (job,) = grid.submit(4, 600)
    assert grid.settled(job) == ["north"]


def test_a_cluster_that_tells_nonsense_of_itself_is_silent_and_the_others_serve(grid: SimulatedGrid) -> None:
    south = grid.clusters["south"]
    answer_instead(south, Describe, lambda call, real: replace(real(call), procs=10**12))
    (job,) = grid.submit(8)
    assert grid.settled(job) == ["north"]
    grid.drive(
        lambda: any("procs is 1e+12" in row.message for row in clusters.every(grid.connection)), "what is said of south"
    )


def test_unlike_jobs_without_a_cluster_are_read_once_a_round(
    grid: SimulatedGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in grid.clusters.values():
        one.faults.cut = True
    known_to_be_silent(grid, "north", "south")
    jobs = [grid.submit(1, 60 + more)[0] for more in range(20)]
    asked: list[Sequence[int]] = []
    real = broker_jobs.components

    def components(connection: Connection, wanted: Sequence[int]) -> Any:
        asked.append(wanted)
        return real(connection, wanted)

    monkeypatch.setattr(broker_jobs, "components", components)
    grid.drive(lambda: all(grid.job(job).message for job in jobs), "what all wait for", grid.mapper)
    assert list(map(len, asked)) == [len(jobs)]


def test_a_deleted_job_whose_cluster_was_restored_without_its_part_ends(grid: SimulatedGrid) -> None:
    (job,) = grid.submit(8, 600)
    grid.drive(lambda: grid.job(job).state is GridJobState.RUNNING, "the start")
    north = SimulatedCluster("north", 8)
    grid.clusters = {**grid.clusters, "north": north}
    grid.mapper, grid.watcher = grid.new_mapper(), Watcher(0.01, 3600, grid.connections())
    assert north.ask(Waiting()) == []
    broker_jobs.ask_deletion(grid.connection, [job], "alice")
    grid.drive(lambda: grid.job(job).state is GridJobState.ERROR, "the end of the job")
    (part,) = grid.parts(job)
    assert (part.state, part.message) == (GridPartState.ENDED, "cluster 'north' does not know it any more")
    assert grid.job(job).message == "deleted by alice"
