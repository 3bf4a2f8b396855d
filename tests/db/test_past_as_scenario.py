"""``oarpy simulate --from-database --write``: the past as a scenario, whose starts stand beside the recorded ones."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from oarpy.grid.simulation.command import object_of
from oarpy.grid.simulation.scenario_source import ScenarioSource
from oarpy.simulation.charts.processor_rows import processor_rows
from oarpy.simulation.traces.trace import TraceJob
from tests.db.test_history_replay import BIRTH, Past, add, at, starts
from tests.harness.hand_written import rewrite
from tests.harness.sample_cluster import Connection, Shell
from tests.harness.small_cluster import SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.kept]

SINCE = BIRTH.strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    small = SmallCluster(connection)
    small.add_nodes("n1", "n2")
    return small


def cores(request: str) -> int:
    return int(request.partition("=")[2].partition(",")[0])


def some_jobs(seed: int) -> list[Past]:
    """Jobs that ask for cores, more than the cluster can serve at once."""
    draw, now, jobs = random.Random(seed), 0, []
    for number in range(40):
        now += draw.randrange(0, 400)
        request = f"/core={draw.choice([1, 1, 2, 4])},walltime=0:{draw.choice([20, 30, 40])}:0"
        jobs.append(Past(now, draw.randrange(100, 1200), (request,), "ab"[number % 2] * 3))
    return jobs


def hold(cluster: SmallCluster, jobs: list[Past], happened: dict[int, int]) -> None:
    """Note which resources each job held, from its start to its end."""
    ids = [row[0] for row in cluster.connection.execute("SELECT resource_id FROM resources ORDER BY 1")]
    traced = [
        TraceJob(place, past.submit, past.run, past.run, cores(past.requests[0])) for place, past in enumerate(jobs)
    ]
    rows = processor_rows(traced, [float(happened[place]) for place in range(1, len(jobs) + 1)], len(ids))
    for number, (past, own) in enumerate(zip(jobs, rows, strict=True), start=1):
        for row in own:
            cluster.sql(
                "INSERT INTO assigned_resources (job_id, resource_id, during)"
                " VALUES (%s, %s, tstzmultirange(tstzrange(%s, %s)))",
                number,
                ids[row],
                at(happened[number]),
                at(happened[number] + past.run),
            )


def written(shell: Shell, file: Path, *words: str) -> dict[str, Any]:
    shell.done("oarpy", "simulate", "--from-database", "--write", str(file), *words)
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def lived(cluster: SmallCluster, shell: Shell, folder: Path, jobs: list[Past]) -> dict[int, int]:
    """Let production decide on jobs, and record it as what happened."""
    for past in jobs:
        add(cluster, past)
    happened = starts(shell, folder, "--policy", "conservative")
    rewrite(cluster.connection, "TRUNCATE jobs, submissions RESTART IDENTITY CASCADE")
    for number, past in enumerate(jobs, start=1):
        assert add(cluster, Past(past.submit, past.run, past.requests, past.user, happened[number])) == number
    hold(cluster, jobs, happened)
    return happened


def test_the_starts_are_those_that_were_recorded(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    jobs = some_jobs(2)
    happened = lived(cluster, shell, tmp_path, jobs)
    file = tmp_path / "past.json"
    found = written(shell, file, "--since", SINCE)
    assert (found["system"], found["clusters"]) == ("queues", [{"name": "site", "procs": 4, "policy": "conservative"}])
    assert len(found["jobs"]) == len(jobs)
    assert "aaa" not in file.read_text()
    assert {job["id"]: job["recorded"] for job in found["jobs"]} == happened
    simulated = {job["id"]: job["start"] for job in object_of(file.read_text())["jobs"]}
    assert {job: start for job, start in simulated.items() if start != happened[job]} == {}
    assert [job["recorded"] for job in ScenarioSource("past", file.read_text()).jobs()] == [
        job["recorded"] for job in found["jobs"]
    ]


def test_who_ran_already_when_the_period_began_has_what_was_left(
    cluster: SmallCluster, shell: Shell, tmp_path: Path
) -> None:
    jobs = [Past(0, 1000, ("/core=4,walltime=0:30:0",)), Past(200, 50, ("/core=1,walltime=0:5:0",), start=1000)]
    for past in jobs:
        add(cluster, past)
    hold(cluster, jobs, {1: 0, 2: 1000})
    found = written(shell, tmp_path / "past.json", "--since", at(500).strftime("%Y-%m-%d %H:%M:%S"), "--names")
    assert found["jobs"] == [
        {"id": "1 ann", "procs": 4, "submit": 0, "run": 500, "walltime": 1300, "cluster": "site", "recorded": -500},
        {"id": "2 ann", "procs": 1, "submit": 0, "run": 50, "walltime": 300, "cluster": "site", "recorded": 500},
    ]
    simulated = object_of((tmp_path / "past.json").read_text())["jobs"]
    assert [(job["start"], job["end"]) for job in simulated] == [(0, 500), (500, 550)]


def test_a_past_with_windows_has_the_system_windows(cluster: SmallCluster, shell: Shell, tmp_path: Path) -> None:
    jobs = [Past(0, 100, ("/core=4,walltime=0:5:0",)), Past(5, 100, ("/core=4,walltime=0:2:0",), start=300)]
    for past in jobs:
        add(cluster, past)
    hold(cluster, jobs, {1: 0, 2: 300})
    cluster.sql("INSERT INTO reservation_windows (job_id, ready, deadline) VALUES (2, %s, %s)", at(60), at(900))
    found = written(shell, tmp_path / "past.json", "--since", SINCE)
    assert found["system"] == "windows"
    assert [(job.get("ready"), job["deadline"]) for job in found["jobs"]] == [(0, 300), (60, 900)]
    # the first one's early end lets the second come forward, which production did not do here
    simulated = object_of((tmp_path / "past.json").read_text())["jobs"]
    assert [(job["state"], job["start"]) for job in simulated] == [("Terminated", 0), ("Terminated", 100)]


@pytest.mark.parametrize(
    "words",
    [
        ("--write", "FILE"),
        ("--from-database", "--write", "/nowhere/there/past.json"),
        ("--from-database", "--names"),
        ("--from-database", "--write", "FILE", "--policy", "easy"),
        ("--from-database", "--write", "FILE", "--output", "FILE"),
        ("--from-database", "--write", "FILE", "--since", "2001-01-01", "--until", "2000-01-01"),
        ("--from-database", "--write", "FILE", "--since", "2001-01-01", "--until", "2001-01-02"),
    ],
)
def test_what_cannot_be_written_is_refused(
    cluster: SmallCluster, shell: Shell, tmp_path: Path, words: tuple[str, ...]
) -> None:
    add(cluster, Past(0, 10, ("/core=1,walltime=0:5:0",)))
    hold(cluster, [Past(0, 10, ("/core=1,walltime=0:5:0",))], {1: 0})
    file = tmp_path / "past.json"
    refused = shell("oarpy", "simulate", *(str(file) if word == "FILE" else word for word in words))
    assert refused.status in (1, 2)
    assert refused.err.count("\n") == 1
    assert not file.exists()
