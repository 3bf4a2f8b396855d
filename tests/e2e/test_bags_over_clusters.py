"""A bag of tasks over real clusters: each task runs once, by the promise."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
CORES = {"north": 4, "south": 4, "west": 2}
TASKS = 24
"""Of the 500 that a faster machine may have: each starts processes on a node."""


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Three clusters that tell their load."""
    site = {"door": {"disclose": "load"}, "scheduler": {"security_time": 1, "promised_share": 100}}
    with brokered_clusters(CORES, cluster_databases, site=site, watch_period=0.3) as found:
        add_clusters(found)
        until(lambda: knows(found), "what the clusters can do")
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told what all clusters can do."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'offer' = ANY(abilities)") == [(len(CORES),)]


def shown(grid: LocalGrid) -> str:
    """What is known of all bags."""
    what = ("grid_jobs", "grid_bags", "grid_bag_parts")
    rows = {name: grid.sql(f"SELECT * FROM {name} ORDER BY 1") for name in what}  # noqa: S608 - names above
    parts = grid.sql("SELECT name, state, message, end_asked FROM grid_parts ORDER BY name")
    tasks = grid.sql("SELECT job, part, state, count(*) FROM grid_bag_tasks GROUP BY 1, 2, 3 ORDER BY 1, 2, 3")
    return f"{rows}\n{parts}\n{tasks}"


def over(grid: LocalGrid, job: int) -> tuple[str, str, int]:
    """Wait until a bag is over; return its state, message and status."""

    def ended() -> bool:
        return grid.sql("SELECT state IN ('Terminated', 'Error') FROM grid_jobs WHERE id = %s", job) == [(True,)]

    until(ended, lambda: shown(grid))
    return grid.sql("SELECT state, message, exit_status FROM grid_jobs WHERE id = %s", job)[0]


def lines(grid: LocalGrid, name: str = "lines") -> Counter[int]:
    """The numbers that tasks have written, and forget them."""
    path = grid.home / name
    found = Counter(map(int, path.read_text().split())) if path.exists() else Counter[int]()
    path.unlink(missing_ok=True)
    return found


def test_each_task_of_a_bag_runs_once_over_three_clusters_by_its_promise(grid: LocalGrid) -> None:
    rehearsed = json.loads(
        grid.run("oargridsub", "--bag", str(TASKS), "-l", "core=1,walltime=0:1:0", "--dry-run", "-J", "true").stdout
    )
    assert sum(rehearsed["parts"].values()) == TASKS
    printed = grid.run(
        *("oargridsub", "-d", str(grid.home), "--bag", str(TASKS), "-l", "core=1,walltime=0:1:0", "--policy", "dplbv2"),
        *("-J", "echo $OAR_GRID_TASK >> lines"),
    ).stdout
    told = json.loads(printed)
    job = told["id"]
    assert told["promise"] > time.time()
    assert (told["deadline"], told["meets"]) == (None, None)
    clusters = grid.sql("SELECT count(DISTINCT cluster) FROM grid_parts WHERE job = %s AND state <> 'Gone'", job)
    assert clusters == [(3,)]
    assert over(grid, job)[::2] == ("Terminated", 0), shown(grid)
    assert lines(grid) == Counter(range(1, TASKS + 1))
    ((ended,),) = grid.sql("SELECT extract(epoch FROM ended_at)::float8 FROM grid_jobs WHERE id = %s", job)
    ((used,),) = grid.sql("SELECT used_policy FROM grid_bags WHERE job = %s", job)
    assert ended <= told["promise"]
    assert used == "dplbv2"
    why = grid.run("oargridstat", "--why", str(job)).stdout
    assert all(f"when it was placed, {name} : " in why for name in CORES)
    assert f"tasks : {TASKS} ({TASKS} Over)" in grid.run("oargridstat", str(job)).stdout


def test_decisions_are_taken_again_alike(grid: LocalGrid) -> None:
    grid.broker.run("oarpy", "grid", "replay")  # status 1 if one comes out differently
