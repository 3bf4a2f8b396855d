"""A user of a broker and of two clusters, all with servers of their own, types what the guide shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import psycopg
import pytest

from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
SHOW = "echo $OAR_GRID_JOB_ID $OAR_GRID_COMPONENT; sort -u $OAR_GRID_NODEFILE"


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """North is small, south has more cores."""
    with brokered_clusters({"north": 1, "south": 4}, cluster_databases) as found:
        add_clusters(found)
        yield found


def done(grid: LocalGrid, *words: str) -> str:
    """Run a command that must succeed; return what it prints."""
    result = grid.run(*words, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def reserved(out: str) -> int:
    """Return the id, as known clients find it."""
    found = re.search(r"^\[OAR_GRIDSUB\] Grid reservation id = (\d+)\s*$", out, re.MULTILINE)
    assert found is not None, out
    return int(found[1])


def live(grid: LocalGrid) -> list[tuple[object, ...]]:
    """Return the jobs that any cluster has and that are not over."""
    found: list[tuple[object, ...]] = []
    for cluster in grid.clusters.values():
        with psycopg.connect(cluster.dsn()) as connection:
            rows = connection.execute("SELECT job_id, state FROM jobs WHERE state NOT IN ('Terminated', 'Error')")
            found += rows.fetchall()
    return found


def test_parts_on_named_clusters_run_and_are_deleted(grid: LocalGrid) -> None:
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


def test_one_cluster_refuses_and_nothing_is_left_on_any(grid: LocalGrid) -> None:
    words = ("-s", "+1h", "-w", "0:10:0", "north:rdef=/core=2,south:rdef=/core=1")
    result = grid.run("oargridsub", *words, check=False)
    assert (result.returncode, result.stderr.count("\n")) == (3, 1), result
    assert "Grid reservation id" not in result.stdout
    assert "north" in result.stderr
    until(lambda: live(grid) == [], lambda: str(live(grid)))


def test_a_dry_run_tells_the_expected_ends(grid: LocalGrid) -> None:
    words = ("--dry-run", "-l", "/core=2,walltime=0:10:0", "date")
    told = json.loads(done(grid, "oargridsub", "--json", *words))
    north, south = told["ends"]
    assert (told["best"], told["refused"], north["end"], south["idle"]) == ("south", False, None, 4)
    assert live(grid) == []


def test_a_job_that_waits_is_explained(grid: LocalGrid) -> None:
    words = ("-w", "0:10:0", "-d", str(grid.home))
    first = reserved(done(grid, "oargridsub", "-l", "/core=4", *words, "sleep 600"))
    done(grid, "oargridstat", "-w", str(first))
    second = reserved(done(grid, "oargridsub", "-l", "/core=3", *words, "sleep 600"))
    waits = "waits on south, as job"
    until(lambda: waits in done(grid, "oargridstat", "--why", str(second)), "it waits")
    why = done(grid, "oargridstat", "--why", str(second))
    assert re.search(r"^  on north : expected end never", why, re.MULTILINE)
    assert re.search(r"^  on south : expected end \d{4}-", why, re.MULTILINE)
    done(grid, "oargriddel", str(first), str(second))
    until(lambda: live(grid) == [], lambda: str(live(grid)))
