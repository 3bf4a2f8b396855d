"""One program over two real clusters: it begins earlier when local jobs end early, and dies as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Two clusters of four cores."""
    with brokered_clusters({"north": 4, "south": 4}, cluster_databases) as found:
        add_clusters(found)
        until(lambda: knows(found), "what the clusters can do")
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told what both clusters can do."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'foresee' = ANY(abilities)") == [(2,)]


def state(grid: LocalGrid, job: int) -> tuple[str, str]:
    """State and message of a job."""
    (found,) = grid.sql("SELECT state, message FROM grid_jobs WHERE id = %s", job)
    return found[0], found[1]


def shown(grid: LocalGrid) -> str:
    """What is known of all jobs."""
    parts = grid.sql("SELECT job, component, cluster, state, message FROM grid_parts ORDER BY name")
    jobs, shifts = grid.sql("SELECT id, state, message FROM grid_jobs"), grid.sql("SELECT * FROM grid_shifts")
    return f"{jobs} {parts} {shifts}"


def nothing_is_left(grid: LocalGrid) -> bool:
    """Whether no job of the user is on any cluster."""
    return not any(grid.run("oarstat", "-J", on=name).stdout.strip() not in ("{}", "[]") for name in grid.clusters)


def test_it_begins_earlier_on_both_clusters_after_early_ends(grid: LocalGrid) -> None:
    local = {}
    for name, cluster in grid.clusters.items():
        words = ("oarsub", "-d", str(grid.home), "-l", "/core=4,walltime=0:20:0", "sleep 3600")
        local[name] = int(grid.run(*words, on=name).stdout.rpartition("OAR_JOB_ID=")[2].split()[0])
        cluster.wait_for([local[name]], ["Running"], DEADLINE)
    program = "cp $OAR_GRID_NODEFILE nodes.$OAR_GRID_COMPONENT; exit 3"
    (job,) = grid.submit("--parts", "any", "-l", "core=6,walltime=0:1:0", "--overhead", "20%", program)
    ((promised,),) = grid.sql(
        "SELECT extract(epoch FROM promised_start)::float8 FROM grid_metajobs WHERE job = %s", job
    )
    for name in grid.clusters:
        grid.run("oardel", str(local[name]), on=name)
    until(lambda: state(grid, job)[0] in ("Terminated", "Error"), lambda: shown(grid))
    rows = grid.sql(
        "SELECT state, exit_status, extract(epoch FROM started_at)::float8 FROM grid_jobs WHERE id = %s", job
    )
    assert rows[0][:2] == ("Terminated", 3), shown(grid)
    assert rows[0][2] < promised - 600
    hosts = Counter((grid.home / "nodes.0").read_text().split())
    assert hosts == {"north1": 4, "south1": 2}
    assert not (grid.home / "nodes.1").exists(), "the program runs once"
    moves = grid.run("oargridstat", "--moves", str(job)).stdout
    assert "shift north 4, south 2 at " in moves
    assert moves.splitlines()[-1].endswith(": moved")
    until(lambda: nothing_is_left(grid), lambda: shown(grid))


def test_a_part_that_is_killed_ends_the_others(grid: LocalGrid) -> None:
    (job,) = grid.submit("--parts", "any", "-l", "core=6,walltime=0:10:0", "sleep 600")
    until(lambda: state(grid, job)[0] == "Running", lambda: shown(grid))
    rows = grid.sql("SELECT cluster, cluster_job FROM grid_parts WHERE job = %s AND component = 1", job)
    ((cluster, there),) = rows
    grid.run("oardel", str(there), on=cluster)
    until(lambda: state(grid, job)[0] == "Error", lambda: shown(grid))
    assert state(grid, job)[1].startswith(f"its part on cluster {cluster} failed"), shown(grid)
    until(lambda: nothing_is_left(grid), lambda: shown(grid))


def test_decisions_are_taken_again_alike(grid: LocalGrid) -> None:
    grid.broker.run("oarpy", "grid", "replay")  # status 1 if one comes out differently
