"""A bag over real clusters while one of them is killed: between its offer and the award, or for good while it runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg
import pytest

from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from oarpy.local_cluster.sandbox import Sandbox
from research.benchmarks.server_processes import server_processes
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
CORES = {"north": 4, "south": 4, "west": 2}
TASKS = 24
"""Tasks of a bag: each starts processes on a node."""
MANY = 500
"""Tasks of a bag of which a cluster that is killed has some that ran, some that run, and some that wait."""
LONG = 600.0
"""Seconds, many times what a bag takes."""


@pytest.fixture
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Three clusters, of which a silent one is lost soon."""
    site = {"scheduler": {"security_time": 1, "promised_share": 100}}
    rules = {"watch_period": 0.3, "provider_lost": 5.0}
    with brokered_clusters(CORES, cluster_databases, site=site, **rules) as found:
        add_clusters(found)
        until(lambda: knows(found), "what the clusters can do")
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told what all clusters can do."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'offer' = ANY(abilities)") == [(len(CORES),)]


def submitted(grid: LocalGrid, tasks: int, *words: str, seconds: float = 3) -> subprocess.Popen[str]:
    """Submit a bag whose tasks write their numbers; the promise is awaited by the process."""
    request = ("-d", str(grid.home), "--bag", str(tasks), "-l", "core=1,walltime=0:1:0", "--policy", "plb", *words)
    command = grid.command("oargridsub", *request, "-J", f"echo $OAR_GRID_TASK >> lines; sleep {seconds}")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=grid.home)


def promised(asking: subprocess.Popen[str]) -> int:
    """Return the number of a bag that was promised."""
    printed, errors = asking.communicate(timeout=LONG)
    assert asking.returncode == 0, errors
    told = json.loads(printed)
    assert told["promise"] is not None
    return int(told["id"])


def kill(cluster: Sandbox) -> None:
    """Kill all processes of a cluster's server."""
    assert cluster.server is not None
    for pid in [pid for pids in server_processes(cluster.server.pid).values() for pid in pids]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    cluster.stop_server(signal.SIGKILL)


def asked(cluster: Sandbox) -> bool:
    """Whether a cluster holds a part that it has not answered for."""
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        return bool(connection.execute("SELECT 1 FROM door_parts").fetchall())


def over(grid: LocalGrid, job: int) -> tuple[str, str]:
    """Wait until a bag is over; return its state and message."""
    query = "SELECT state, message FROM grid_jobs WHERE id = %s AND state IN ('Terminated', 'Error')"
    ((state, message),) = until(lambda: grid.sql(query, job), lambda: shown(grid), LONG)
    return state, message


def shown(grid: LocalGrid) -> str:
    """What is known of all bags."""
    rows = [grid.sql(f"SELECT * FROM {name}") for name in ("grid_jobs", "grid_bags", "grid_bag_parts")]  # noqa: S608
    parts = grid.sql("SELECT name, state, message, end_asked FROM grid_parts ORDER BY name")
    tasks = grid.sql("SELECT part, state, count(*) FROM grid_bag_tasks GROUP BY 1, 2 ORDER BY 1, 2")
    return f"{rows}\n{parts}\n{tasks}"


def lines(grid: LocalGrid) -> Counter[int]:
    """Return how often tasks have written their numbers."""
    return Counter(map(int, (grid.home / "lines").read_text().split()))


def test_a_cluster_killed_between_offer_and_award_delays_no_bag(grid: LocalGrid) -> None:
    west = grid.clusters["west"]
    assert west.server is not None
    (planner,) = server_processes(west.server.pid)["metascheduler"]
    os.kill(planner, signal.SIGSTOP)  # it makes offers, and awards wait for a pass
    asking = submitted(grid, TASKS, "-t", "idempotent")
    until(lambda: asked(west), lambda: f"an award at west: {asking.poll()} {shown(grid)}")
    kill(west)
    job = promised(asking)
    assert grid.sql("SELECT rounds >= 1 FROM grid_bags WHERE job = %s", job) == [(True,)]
    west.start()
    assert over(grid, job) == ("Terminated", "")
    assert lines(grid) == Counter(range(1, TASKS + 1))


def tasks_at(grid: LocalGrid, job: int, cluster: str) -> Counter[str]:
    """Return how many tasks of a bag that a cluster got are in each state."""
    query = (
        "SELECT t.state, count(*) FROM grid_bag_tasks t JOIN grid_parts p ON p.name = t.part"
        " WHERE p.job = %s AND p.cluster = %s GROUP BY 1"
    )
    return Counter(dict(grid.sql(query, job, cluster)))


def killed_for_good(grid: LocalGrid, *types: str) -> int:
    """Have a cluster of a bag's killed while some of its tasks have run and others have not; return the bag."""
    job = promised(submitted(grid, MANY, *types, seconds=0.2))
    until(lambda: tasks_at(grid, job, "south")["Over"] >= 4, lambda: shown(grid))
    kill(grid.clusters["south"])
    return job


def come_again(grid: LocalGrid) -> None:
    """Start the killed cluster, and wait until it has nothing of the bag any more."""
    grid.clusters["south"].start()
    left = "SELECT count(*) FROM grid_parts WHERE state NOT IN ('Ended', 'Gone')"
    until(lambda: grid.sql(left) == [(0,)], lambda: shown(grid), LONG)


def test_an_idempotent_bag_loses_no_task_with_a_cluster(grid: LocalGrid) -> None:
    job = killed_for_good(grid, "-t", "idempotent")
    assert over(grid, job) == ("Terminated", "")
    assert set(lines(grid)) == set(range(1, MANY + 1))
    come_again(grid)


def test_tasks_that_may_run_once_are_told_lost_with_a_cluster_and_none_runs_twice(grid: LocalGrid) -> None:
    job = killed_for_good(grid)
    state, message = over(grid, job)
    tasks = Counter(dict(grid.sql("SELECT state, count(*) FROM grid_bag_tasks WHERE job = %s GROUP BY 1", job)))
    assert tasks["Lost"] > 0
    assert tasks["Over"] + tasks["Lost"] == MANY
    assert (state, message.startswith(f"{tasks['Lost']} tasks (")) == ("Error", True), message
    assert message.endswith(" lost with a cluster")
    come_again(grid)
    written = lines(grid)
    ran = {task for (task,) in grid.sql("SELECT task FROM grid_bag_tasks WHERE job = %s AND state = 'Over'", job)}
    assert max(written.values()) == 1
    assert ran <= written.keys() <= set(range(1, MANY + 1))
