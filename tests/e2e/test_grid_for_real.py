"""A broker and two clusters, each with its own server: a user's job runs on the one where it ends first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from oarpy.grid.local.local_grid import LocalGrid
from oarpy.store.grid import broker_jobs, clusters
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridComponent, NewGridJob
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """North is small, south has more cores."""
    with brokered_clusters({"north": 1, "south": 4}, cluster_databases) as found:
        with psycopg.connect(found.broker.dsn()) as connection:
            for place, name in enumerate(found.clusters):
                clusters.put(connection, name, "oarpy", found.door(name), place=place)
        yield found


def submit(grid: LocalGrid, program: str, procs: int = 1, copies: int = 1) -> list[int]:
    """Submit mapped jobs of the user."""
    job = NewGridJob(
        grid.user.pw_name, "mapped", program, 60, (NewGridComponent(f"/core={procs}", procs),), str(grid.home)
    )
    with psycopg.connect(grid.broker.dsn()) as connection:
        return broker_jobs.insert(connection, job, copies)


def job(grid: LocalGrid, number: int) -> GridJobRow:
    """Return a job."""
    with psycopg.connect(grid.broker.dsn()) as connection:
        return broker_jobs.read(connection, [number])[0]


def test_a_job_runs_on_the_best_of_two_clusters(grid: LocalGrid) -> None:
    first = submit(grid, "sleep 600")[0]
    until(lambda: job(grid, first).state == "Running", lambda: str(job(grid, first)))
    second = submit(grid, "exit 3")[0]
    until(lambda: job(grid, second).state == "Terminated", lambda: str(job(grid, second)))
    found = grid.sql("SELECT job, cluster, hosts FROM grid_parts ORDER BY job")
    assert found == [(first, "north", ["north1"]), (second, "south", ["south1"])], (
        grid.sql("SELECT at, events FROM grid_decisions"),
        (grid.broker.directory / "server.log").read_text()[-3000:],
    )
    assert job(grid, second).exit_status == 3
