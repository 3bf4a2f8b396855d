"""A broker and two clusters, each with its own server: jobs run where they end first, once, whatever is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from research.benchmarks.server_processes import server_processes
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
MODULES = ("mapper", "watcher", "gateway")
COPIES = 12


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """North is small, south has more cores."""
    with brokered_clusters({"north": 1, "south": 4}, cluster_databases) as found:
        add_clusters(found)
        yield found


def ended(grid: LocalGrid, first: int) -> list[tuple[str, int | None]] | None:
    """State and exit status of the jobs from ``first`` on, when all are over."""
    rows = grid.sql("SELECT state, exit_status FROM grid_jobs WHERE id >= %s", first)
    return [(row[0], row[1]) for row in rows] if all(row[0] in ("Terminated", "Error") for row in rows) else None


def shown(grid: LocalGrid) -> str:
    """What is known of all jobs."""
    return str(
        grid.sql(
            "SELECT j.id, j.state, j.message, p.cluster, p.state FROM grid_jobs j LEFT JOIN grid_parts p"
            " ON p.job = j.id ORDER BY j.id"
        )
    )


def test_a_job_runs_on_the_best_of_two_clusters(grid: LocalGrid) -> None:
    first = grid.submit("-l", "/core=1,walltime=0:10:0", "sleep 600")[0]
    until(lambda: grid.sql("SELECT id FROM grid_jobs WHERE state = 'Running'"), lambda: shown(grid))
    second = grid.submit("-l", "/core=1,walltime=0:1:0", "date; exit 3")[0]
    assert until(lambda: ended(grid, second), lambda: shown(grid)) == [("Terminated", 3)]
    found = grid.sql("SELECT job, cluster, hosts FROM grid_parts ORDER BY job")
    assert found == [(first, "north", ["north1"]), (second, "south", ["south1"])]


def test_users_are_told_by_their_own_command(grid: LocalGrid) -> None:
    script, said = grid.home / "told.sh", grid.home / "said"
    script.write_text(f'#!/bin/sh\necho "$(id -un) $1 $3" >>{said}\n')
    script.chmod(0o755)
    notice = f"exec:{script}"
    (runs,) = grid.submit("--notify", notice, "-l", "/core=1,walltime=0:1:0", "true")
    # more cores than there are
    too_large = ("--components", "2", "-l", "/core=4", "--deadline", "+15s", "-w", "0:1:0", "true")
    (missed,) = grid.submit("--notify", notice, *too_large)
    who = grid.user.pw_name
    news = {f"{who} {runs} RUNNING", f"{who} {runs} END", f"{who} {missed} ERROR"}
    until(lambda: said.exists() and len(said.read_text().splitlines()) >= len(news), lambda: shown(grid))
    lines = said.read_text().splitlines()
    assert set(lines) == news
    assert lines.index(f"{who} {runs} RUNNING") < lines.index(f"{who} {runs} END")
    assert grid.sql("SELECT state FROM grid_jobs WHERE id = %s", missed) == [("Missed",)]


def test_jobs_run_once_while_the_broker_is_killed_again_and_again(grid: LocalGrid) -> None:
    program = f"echo ran >>{grid.home}/$OAR_GRID_JOB_ID"
    first = grid.submit("-l", "/core=1,walltime=0:1:0", "--array", str(COPIES), program)[0]
    assert grid.broker.server is not None
    killed: Counter[str] = Counter()

    def over_while_killing() -> object:
        assert grid.broker.server is not None
        running = server_processes(grid.broker.server.pid)
        for name in MODULES:
            # each is killed a few times, one after the other
            if killed[name] < 3 and killed[name] == min(killed[one] for one in MODULES) and running.get(name):
                with suppress(ProcessLookupError):
                    os.kill(running[name][0], signal.SIGKILL)
                    killed[name] += 1
                break
        return min(killed[one] for one in MODULES) >= 3 and ended(grid, first)

    states = until(over_while_killing, lambda: f"{killed} {shown(grid)}")
    assert states == [("Terminated", 0)] * COPIES
    ran = {one: (grid.home / str(one)).read_text() for one in range(first, first + COPIES)}
    assert ran == dict.fromkeys(range(first, first + COPIES), "ran\n")
