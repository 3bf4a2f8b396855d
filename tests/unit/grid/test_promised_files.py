"""Files of systems with planned starts that are none: a line each, which names the job and the key."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from oarpy.grid.simulation.command import run_grid

JOB = {"id": 1, "procs": 2, "run": 10, "deadline": 30}
WINDOWS: dict[str, Any] = {"system": "windows", "clusters": [{"name": "m", "procs": 4}], "jobs": [JOB]}
META = {"id": 1, "procs": 6, "run": 10}
TWO = [{"name": "A", "procs": 4}, {"name": "B", "procs": 4}]
FLEXCO: dict[str, Any] = {"system": "flexco", "clusters": TWO, "jobs": [META]}
BAG = {"id": 1, "tasks": 4, "run": 10}
DATED = {**BAG, "deadline": 30}
OFFERS: dict[str, Any] = {"system": "offers", "clusters": TWO, "jobs": [DATED]}
BAGS: dict[str, Any] = {"system": "bags", "clusters": TWO, "jobs": [BAG]}


def simulated(folder: Path, file: object) -> tuple[int, str, str]:
    path = folder / "file.json"
    path.write_text(json.dumps(file), encoding="utf-8")
    out, err = io.StringIO(), io.StringIO()
    return run_grid([str(path)], out, err), out.getvalue(), err.getvalue().removeprefix(f"{path}: ")


@pytest.mark.parametrize("file", [WINDOWS, FLEXCO, OFFERS, BAGS, {**WINDOWS, "measure": [0, 5]}])
def test_what_is_wrong_below_is_right_without_it(tmp_path: Path, file: object) -> None:
    status, out, err = simulated(tmp_path, file)
    assert (status, err, out.count("\n")) == (0, "", 1)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ({**WINDOWS, "system": "tides"}, "file: key 'system': 'tides' is no system"),
        ({**WINDOWS, "system": 3}, "file: key 'system': 3 is no system"),
        ({**WINDOWS, "flexco": {}}, "key 'flexco': unknown key"),
        ({**WINDOWS, "deadlines": {}}, "key 'deadlines': unknown key"),
        ({**WINDOWS, "clusters": [{"name": "m", "procs": 4, "policy": "easy"}]}, "cluster 'm': key 'policy'"),
        ({**WINDOWS, "clusters": []}, "'clusters'"),
        ({**WINDOWS, "clusters": [{"name": "m", "procs": 4}] * 2}, "cluster 'm': key 'name'"),
        ({**WINDOWS, "measure": [5, 5]}, "'measure'"),
        ({**WINDOWS, "jobs": []}, "'jobs'"),
        ({**WINDOWS, "jobs": [JOB, JOB]}, "job 1: key 'id'"),
        ({**WINDOWS, "jobs": [{**JOB, "procs": 5}]}, "job 1: key 'procs': 5"),
        ({**WINDOWS, "jobs": [{**JOB, "deadline": 9}]}, "job 1: key 'deadline': 9"),
        ({**WINDOWS, "jobs": [{**JOB, "ready": 21}]}, "job 1: key 'deadline': 30"),
        ({**WINDOWS, "jobs": [{**JOB, "cluster": "n"}]}, "job 1: key 'cluster': 'n'"),
        ({**WINDOWS, "jobs": [{**JOB, "overhead": 1}]}, "job 1: key 'overhead': unknown key"),
        ({**WINDOWS, "clusters": TWO}, "job 1: key 'cluster'"),
        ({**WINDOWS, "windows": {"fix": 101}}, "windows: key 'fix'"),
        ({**WINDOWS, "windows": {"order": "sjf"}}, "windows: key 'order'"),
        ({**FLEXCO, "jobs": [{**META, "procs": 9}]}, "job 1: key 'procs': 9"),
        ({**FLEXCO, "jobs": [{**META, "at_most": {"A": 1}}]}, "job 1: key 'procs': 6"),
        ({**FLEXCO, "jobs": [{**META, "at_most": {"C": 1}}]}, "job 1: key 'at_most': 'C'"),
        ({**FLEXCO, "jobs": [{**META, "overhead": -1}]}, "job 1: key 'overhead'"),
        ({**FLEXCO, "jobs": [{**META, "cluster": "A"}]}, "job 1: key 'procs': 6"),
        ({**FLEXCO, "jobs": [{**META, "procs": 1, "cluster": "A", "overhead": 0}]}, "job 1: key 'overhead'"),
        ({**FLEXCO, "flexco": {"operation": "jump"}}, "flexco: key 'operation'"),
        ({**OFFERS, "jobs": [{**DATED, "deadline": 0}]}, "job 1: key 'deadline': 0"),
        ({**OFFERS, "offers": {"shares": []}}, "job 1: key 'tasks': 4"),
        ({**OFFERS, "jobs": [{**DATED, "tasks": 0}]}, "job 1: key 'tasks'"),
        ({**OFFERS, "jobs": [{**DATED, "procs": 5}]}, "job 1: key 'procs': 5"),
        ({**OFFERS, "jobs": [{**DATED, "cluster": "A", "procs": 1}]}, "job 1: key 'tasks': 4"),
        ({**OFFERS, "jobs": [{"id": 1, "run": 1, "deadline": 5}]}, "job 1: key 'tasks'"),
        ({**OFFERS, "jobs": [{"id": 1, "run": 1, "deadline": 5, "cluster": "A"}]}, "job 1: key 'procs'"),
        ({**OFFERS, "offers": {"shares": [10]}}, "job 1: key 'tasks': 4"),
        ({**OFFERS, "offers": {"shares": [0]}}, "offers: key 'shares'"),
        ({**OFFERS, "offers": {"policy": "best"}}, "offers: key 'policy'"),
        ({**OFFERS, "clusters": [{**TWO[0], "estimates": "predicted"}]}, "cluster 'A': key 'estimates'"),
        ({**BAGS, "jobs": [{**BAG, "predicted": 9}]}, "job 1: key 'predicted': 9"),
        ({**BAGS, "jobs": [{**BAG, "deadline": 9}]}, "job 1: key 'deadline': unknown key"),
        ({**BAGS, "bags": {"policy": "dplbv2"}}, "bags: key 'policy'"),
        ({**BAGS, "bags": {"bound": 0}}, "bags: key 'bound'"),
    ],
)
def test_a_file_that_is_no_scenario_gets_a_line(tmp_path: Path, file: object, words: str) -> None:
    status, out, err = simulated(tmp_path, file)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err


def test_a_file_may_name_the_system_of_queues(tmp_path: Path) -> None:
    file = {"clusters": TWO, "jobs": [{"id": 1, "procs": 1, "run": 1}]}
    assert simulated(tmp_path, {"system": "queues", **file})[1] == simulated(tmp_path, file)[1]
    assert "known: " in simulated(tmp_path, {"system": "queues", **file, "windows": {}})[2]


@pytest.mark.parametrize("file", [OFFERS, BAGS])
def test_each_of_very_many_tasks_runs(tmp_path: Path, file: dict[str, Any]) -> None:
    """More rounds of tasks than are planned one by one where only their end is asked for."""
    [bag] = file["jobs"]
    one = [{"name": "A", "procs": 1}]
    status, out, err = simulated(tmp_path, {**file, "clusters": one, "jobs": [{**bag, "tasks": 1500, "run": 1}]})
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["jobs"][0]["state"], found["jobs"][0]["end"]) == ("Terminated", 1500)
    assert found["metrics"]["utilisation"] == 100
