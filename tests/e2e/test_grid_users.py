"""A user of a broker and of two clusters, all with servers of their own, types what the guide shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import psycopg
import pytest

from oarpy.store.grid import clusters
from tests.harness.brokered_clusters import BrokeredClusters, brokered_clusters
from tests.harness.gateway_process import CLIENT, TIMEOUT
from tests.harness.sample_cluster import Result
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
SHOW = "echo $OAR_GRID_JOB_ID $OAR_GRID_COMPONENT; sort -u $OAR_GRID_NODEFILE"


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[BrokeredClusters]:
    """North is small, south has more cores."""
    with brokered_clusters({"north": 1, "south": 4}, cluster_databases) as found:
        with psycopg.connect(found.broker.dsn()) as connection:
            for place, name in enumerate(found.clusters):
                clusters.put(connection, name, "oarpy", found.door(name), place=place)
        yield found


def typed(grid: BrokeredClusters, *words: str) -> Result:
    """Run a command of the user, who knows the broker's gateway and nothing else."""
    socket = grid.broker.directory / "gateway" / "socket"
    command = [sys.executable, "-c", CLIENT, str(grid.user.pw_uid), *words]
    done = subprocess.run(
        ["env", "-i", f"OARPY_GATEWAY_SOCKET={socket}", *command],
        cwd=grid.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def done(grid: BrokeredClusters, *words: str) -> str:
    """Run a command that must succeed; return what it prints."""
    result = typed(grid, *words)
    assert (result.status, result.err) == (0, ""), result
    return result.out


def reserved(out: str) -> int:
    """Return the id, as known clients find it."""
    found = re.search(r"^\[OAR_GRIDSUB\] Grid reservation id = (\d+)\s*$", out, re.MULTILINE)
    assert found is not None, out
    return int(found[1])


def live(grid: BrokeredClusters) -> list[tuple[object, ...]]:
    """Return the jobs that any cluster has and that are not over."""
    found: list[tuple[object, ...]] = []
    for cluster in grid.clusters.values():
        with psycopg.connect(cluster.dsn()) as connection:
            rows = connection.execute("SELECT job_id, state FROM jobs WHERE state NOT IN ('Terminated', 'Error')")
            found += rows.fetchall()
    return found


def test_parts_on_named_clusters_run_and_are_deleted(grid: BrokeredClusters) -> None:
    program = f"({SHOW}) >{grid.home}/part.$OAR_GRID_COMPONENT; sleep 600"
    parts = 'north:rdef="/core=1",south:rdef="/core=2"'
    job = reserved(done(grid, "oargridsub", "-v", "-w", "0:10:0", "-d", str(grid.home), "-p", program, parts))
    assert f"Reservation # {job}:" in done(grid, "oargridstat")
    assert done(grid, "oargridstat", "-wl", str(job)).split() == ["north1", "south1"]
    shown = done(grid, "oargridstat", str(job))
    assert [cluster for cluster, _ in re.findall(r"^\t(\w+) --> (\d+)", shown, re.MULTILINE)] == ["north", "south"]
    assert re.findall(r"walltime : (\d+:\d?\d:\d?\d)", shown) == ["0:10:0"]
    files = [grid.home / f"part.{number}" for number in (0, 1)]
    until(lambda: all(file.exists() and len(file.read_text().split()) == 4 for file in files), "parts wrote")
    assert [file.read_text().split() for file in files] == [
        [str(job), str(number), "north1", "south1"] for number in (0, 1)
    ]
    assert done(grid, "oargriddel", str(job)) == f"Deleting the grid job = {job} ...REGISTERED.\n"
    until(lambda: live(grid) == [], lambda: str(live(grid)))
    assert done(grid, "oargridstat") == ""


def test_one_cluster_refuses_and_nothing_is_left_on_any(grid: BrokeredClusters) -> None:
    result = typed(grid, "oargridsub", "-s", "+1h", "-w", "0:10:0", "north:rdef=/core=2,south:rdef=/core=1")
    assert (result.status, result.err.count("\n")) == (3, 1), result
    assert "Grid reservation id" not in result.out
    assert "north" in result.err
    until(lambda: live(grid) == [], lambda: str(live(grid)))


def test_a_dry_run_tells_the_expected_ends(grid: BrokeredClusters) -> None:
    words = ("--dry-run", "-l", "/core=2,walltime=0:10:0", "date")
    told = json.loads(done(grid, "oargridsub", "--json", *words))
    north, south = told["ends"]
    assert (told["best"], told["refused"], north["end"], south["idle"]) == ("south", False, None, 4)
    assert live(grid) == []


def test_a_job_that_waits_is_explained(grid: BrokeredClusters) -> None:
    words = ("-w", "0:10:0", "-d", str(grid.home))
    first = reserved(done(grid, "oargridsub", "-l", "/core=4", *words, "sleep 600"))
    done(grid, "oargridstat", "-w", str(first))
    second = reserved(done(grid, "oargridsub", "-l", "/core=3", *words, "sleep 600"))
    waits = "waits on south, as job"
    until(lambda: waits in done(grid, "oargridstat", "--why", str(second)), "it waits")
    why = done(grid, "oargridstat", "--why", str(second))
    assert re.search(r"^  on north : .* needs 3 cores, 1 exist", why, re.MULTILINE)
    assert re.search(r"^  on south : expected end \d{4}-", why, re.MULTILINE)
    done(grid, "oargriddel", str(first), str(second))
    until(lambda: live(grid) == [], lambda: str(live(grid)))
