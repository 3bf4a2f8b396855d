"""Components of a job on two real clusters, each with a server of its own: they start together, or not at all."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest

from oarpy.grid.local.local_grid import LocalGrid
from oarpy.store.grid import broker_jobs, clusters
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridComponent, NewGridJob
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e

LEAD = 16
"""Seconds before the deadline of a job at its submission: the last try is 11 s before it."""
_BEGUN = "date +%s.%N > $OAR_GRID_COMPONENT.begun; cat $OAR_GRID_NODEFILE > $OAR_GRID_COMPONENT.hosts; sleep 600"


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    with brokered_clusters({"north": 4, "south": 4}, cluster_databases, kill_grace=1) as found:
        with psycopg.connect(found.broker.dsn()) as connection:
            for place, name in enumerate(found.clusters):
                clusters.put(connection, name, "oarpy", found.door(name), place=place)
        yield found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody may write to."""
    with passable_folder("oarpy-begun-") as made:
        made.chmod(0o777)
        yield made


def submit(grid: LocalGrid, folder: Path, kind: str, *asked: NewGridComponent) -> int:
    """Submit a job whose parts begin in :data:`LEAD` seconds."""
    date = float(int(time.time()) + LEAD)
    job = NewGridJob(grid.user.pw_name, kind, _BEGUN, 60, asked, str(folder), deadline=date)
    with psycopg.connect(grid.broker.dsn()) as connection:
        return broker_jobs.insert(connection, job)[0]


def job_of(grid: LocalGrid, number: int) -> GridJobRow:
    with psycopg.connect(grid.broker.dsn()) as connection:
        return broker_jobs.read(connection, [number])[0]


def reaches(grid: LocalGrid, number: int, state: str) -> GridJobRow:
    """Wait until a job is in a state."""
    logs = [one.directory / "server.log" for one in (grid.broker, *grid.clusters.values())]
    until(
        lambda: job_of(grid, number).state == state,
        lambda: "\n".join([str(job_of(grid, number)), *(one.read_text()[-4000:] for one in logs)]),
    )
    return job_of(grid, number)


def kill(grid: LocalGrid, module: str) -> None:
    """Kill a module of the broker; its server starts it again."""
    found = re.findall(
        rf"module started.*module='{module}' pid=(\d+)", (grid.broker.directory / "server.log").read_text()
    )
    os.kill(int(found[-1]), signal.SIGKILL)


def delete(grid: LocalGrid, number: int) -> None:
    """Delete a job, and wait until the clusters are empty."""
    with psycopg.connect(grid.broker.dsn()) as connection:
        broker_jobs.ask_deletion(connection, [number], "ann")
    assert reaches(grid, number, "Error").message == "deleted by ann"
    for cluster in grid.clusters.values():
        until(partial(is_empty, cluster.dsn()), "a cluster without jobs")


def is_empty(dsn: str) -> bool:
    """Tell whether a cluster has no live job."""
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT 1 FROM jobs WHERE is_live(state)").fetchone() is None


def begun(folder: Path, components: int) -> list[float]:
    """Wait until all programs have said when they began (epoch seconds)."""
    files = [folder / f"{number}.begun" for number in range(components)]
    until(lambda: all(one.is_file() and one.read_text().strip() for one in files), lambda: str(list(folder.iterdir())))
    return [float(one.read_text()) for one in files]


def test_components_begin_within_a_second_and_know_each_other(grid: LocalGrid, folder: Path) -> None:
    job = submit(grid, folder, "coallocated", *[NewGridComponent("/core=2", 2)] * 3)
    reaches(grid, job, "Claimed")
    kill(grid, "claimer")
    row = reaches(grid, job, "Running")
    instants = begun(folder, 3)
    assert row.deadline is not None
    assert max(instants) - min(instants) < 1
    assert 0 <= min(instants) - row.deadline < 1
    until(lambda: all((folder / f"{number}.hosts").is_file() for number in range(3)), "the files of hosts")
    assert (folder / "0.hosts").read_text().split() == ["north1"] * 2 + ["south1"] * 2 + ["north1"] * 2
    delete(grid, job)


def test_best_effort_jobs_give_way_where_their_owner_says_so(grid: LocalGrid, folder: Path) -> None:
    south = grid.clusters["south"]
    victims = south.job_ids("-t", "besteffort", "-l", "/core=4,walltime=1:0:0", "sleep 600")
    south.wait_for(victims, ["Running"], DEADLINE)
    job = submit(grid, folder, "coallocated", *[NewGridComponent("/core=4", 4)] * 2)
    reaches(grid, job, "Running")
    instants = begun(folder, 2)
    assert max(instants) - min(instants) < 1
    assert south.states(victims)[victims[0]] in ("Error", "Terminated")
    delete(grid, job)


def test_parts_on_named_clusters_begin_at_their_date(grid: LocalGrid, folder: Path) -> None:
    asked = [NewGridComponent("/core=1", 1, "south"), NewGridComponent("/core=2", 2, "north")]
    job = submit(grid, folder, "named", *asked)
    reaches(grid, job, "Mapped")
    row = reaches(grid, job, "Running")
    instants = begun(folder, 2)
    assert row.deadline is not None
    assert all(0 <= one - row.deadline < 2 for one in instants)
    delete(grid, job)
