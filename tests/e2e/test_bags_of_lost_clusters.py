"""A bag over real clusters while one of them is killed between its offer and the award."""

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


def submitted(grid: LocalGrid, *words: str) -> subprocess.Popen[str]:
    """Submit a bag whose tasks write their numbers; the promise is awaited by the process."""
    request = ("-d", str(grid.home), "--bag", str(TASKS), "-l", "core=1,walltime=0:1:0", "--policy", "plb", *words)
    command = grid.command("oargridsub", *request, "-J", "echo $OAR_GRID_TASK >> lines; sleep 3")
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
    asking = submitted(grid, "-t", "idempotent")
    until(lambda: asked(west), lambda: f"an award at west: {asking.poll()} {shown(grid)}")
    kill(west)
    job = promised(asking)
    assert grid.sql("SELECT rounds >= 1 FROM grid_bags WHERE job = %s", job) == [(True,)]
    west.start()
    assert over(grid, job) == ("Terminated", "")
    assert lines(grid) == Counter(range(1, TASKS + 1))
