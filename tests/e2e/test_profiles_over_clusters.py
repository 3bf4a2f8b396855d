"""Profiles of bags over real clusters: jobs measure a task on each, and frames are rendered by POV-Ray."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from oarpy.examples import rendered_frames

from oarpy.grid.local.island_job import commands_of_nodes, let_users_run
from oarpy.grid.local.local_grid import LocalGrid, add_clusters
from tests.harness.brokered_clusters import brokered_clusters
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
CORES = {"north": 2, "south": 2}
_FILM = ("frames.py", "spheres.pov")
_FRAMES = "/usr/bin/python3 frames.py --frames 4 --width 64 --height 48"
_PROFILE = f"""began=$(date +%s.%N)
{_FRAMES} 1
date +%s.%N | awk -v began="$began" '{{ print $1 - began }}'
"""


@pytest.fixture(scope="module")
def grid(cluster_databases: Callable[[], dict[str, str]]) -> Iterator[LocalGrid]:
    """Two clusters whose jobs can tell what they measure."""
    site = {"scheduler": {"security_time": 1, "promised_share": 100}}
    with brokered_clusters(CORES, cluster_databases, site=site, watch_period=0.3) as found:
        add_clusters(found)
        scripts = commands_of_nodes(found)
        until(lambda: all(map(Path.exists, scripts)), "the commands of nodes")
        let_users_run(scripts)
        until(lambda: knows(found), "what the clusters can do")
        yield found


def knows(grid: LocalGrid) -> bool:
    """Whether the broker was told that all clusters take profiles."""
    return grid.sql("SELECT count(*) FROM grid_clusters WHERE 'profile' = ANY(abilities)") == [(len(CORES),)]


def shown(grid: LocalGrid) -> str:
    """What is known of all bags."""
    jobs, rows = grid.sql("SELECT id, state, message FROM grid_jobs"), grid.sql("SELECT * FROM grid_bags")
    told = {path.name: path.read_text()[-500:] for path in grid.home.glob("OAR.*")}
    return f"{jobs} {rows} {told}"


def script(grid: LocalGrid, name: str, text: str) -> str:
    """Write a script into the home of the user; return its path."""
    path = grid.home / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def submitted(grid: LocalGrid, profile: str, *words: str) -> dict[str, Any]:
    """Submit a bag of four tasks with a profile; return what is told when it has its promise."""
    request = ("-d", str(grid.home), "--bag", "4", "-l", "core=1,walltime=0:10:0", "--answer-timeout", "300")
    answer: dict[str, Any] = json.loads(grid.run("oargridsub", *request, "--profile", profile, "-J", *words).stdout)
    return answer


def terminated(grid: LocalGrid, job: int) -> bool:
    """Whether a bag is over, with all its tasks."""
    return grid.sql("SELECT state FROM grid_jobs WHERE id = %s", job) == [("Terminated",)]


def test_a_bag_is_promised_by_walltimes_and_expected_by_what_each_cluster_measures(grid: LocalGrid) -> None:
    answer = submitted(grid, script(grid, "seconds", "echo 30"), "sleep 1")
    (bag,) = [job["bag"] for job in answer["jobs"]]
    assert answer["warnings"] == []
    seconds = {name: list(kinds.values()) for name, kinds in bag["profile"]["seconds"].items()}
    assert seconds == {"north": [30], "south": [30]}
    assert all("(expected by " in words for words in bag["told"].values())
    until(lambda: terminated(grid, answer["id"]), lambda: shown(grid))
    shown = grid.run("oargridstat", str(answer["id"])).stdout
    assert "profile : north: 30 s on nodes of type " in shown


def test_what_tells_no_time_is_a_warning_and_walltimes_count(grid: LocalGrid) -> None:
    answer = submitted(grid, script(grid, "wrong", "echo nan"), "true")
    assert len(answer["warnings"]) == 2
    for warning in answer["warnings"]:
        assert warning.startswith("tasks count with their walltime on nodes of type ")
        assert warning.endswith("prints the seconds 'nan', which is no number above 0")
    assert "prints the seconds 'nan'" in grid.run("oargridstat", "--why", str(answer["id"])).stdout
    until(lambda: terminated(grid, answer["id"]), lambda: shown(grid))


@pytest.mark.skipif(shutil.which("povray") is None, reason="there is no povray: apt install povray")
def test_frames_are_profiled_and_rendered_on_two_clusters(grid: LocalGrid) -> None:
    for name in _FILM:
        shutil.copy(rendered_frames.__path__[0] + f"/{name}", grid.home / name)
    answer = submitted(grid, script(grid, "profile.sh", _PROFILE), f"{_FRAMES} $OAR_GRID_TASK")
    assert answer["warnings"] == []
    until(lambda: terminated(grid, answer["id"]), lambda: shown(grid))
    rendered = [(grid.home / f"frame-{frame}.png").read_bytes()[:4] for frame in range(1, 5)]
    assert rendered == [b"\x89PNG"] * 4
