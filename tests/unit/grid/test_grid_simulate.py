"""``oarpy grid simulate``: the example of the guide, files that are none, and what the rules say of single cases."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from oarpy.grid.simulation.command import run_grid

EXAMPLE: dict[str, Any] = {
    "engine": "counting",
    "clusters": [
        {"name": "north", "procs": 8, "policy": "fcfs"},
        {"name": "south", "procs": 6, "policy": "fcfs"},
    ],
    "jobs": [
        {"id": "n1", "procs": 8, "run": 5000, "cluster": "north"},
        {"id": "s1", "procs": 6, "run": 2000, "walltime": 9000, "cluster": "south"},
        {"id": "m", "submit": 10, "procs": 2, "run": 400},
        {"id": "g", "submit": 100, "procs": 3, "run": 300, "components": 3, "deadline": 4100},
    ],
    "deadlines": {"lp": 0.5, "tries": 1, "wait": 200},
    "reallocation": {"algorithm": 1},
}


def simulated(folder: Path, *files: object) -> tuple[int, list[dict[str, Any]], list[str]]:
    """Return the status, the objects that are printed, and the lines on standard error."""
    paths = []
    for number, file in enumerate(files):
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(file if isinstance(file, str) else json.dumps(file))
    out, err = io.StringIO(), io.StringIO()
    status = run_grid([str(path) for path in paths], out, err)
    return status, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue().splitlines()


@pytest.mark.parametrize("engine", ["counting", "production"])
def test_the_example_of_the_guide(tmp_path: Path, engine: str) -> None:
    status, (found,), errors = simulated(tmp_path, {**EXAMPLE, "engine": engine})
    assert (status, errors) == (0, [])
    jobs = {job["id"]: job for job in found["jobs"]}
    assert found["moves"] == [{"at": 3600, "job": "m", "from": "north", "to": "south", "old": 5400, "new": 4000}]
    assert jobs["g"] == {
        "id": "g",
        "state": "Terminated",
        "clusters": ["south", "south", "north"],
        "claimed": 4100,
        "start": 4100,
        "end": 4400,
        "tries": [4000, 4050, 4100],
        "killed": ["n1"],
    }
    assert (jobs["n1"]["state"], jobs["n1"]["start"], jobs["n1"]["end"]) == ("Killed", 0, 4100)
    assert (jobs["m"]["clusters"], jobs["m"]["start"], jobs["m"]["end"]) == (["south"], 3600, 4000)
    metrics = found["metrics"]
    assert {key: round(value, 4) for key, value in metrics.items()} == {
        "success": 100,
        "local_killed": 50,
        "total_load": 78.4091,
        "global_load": 4.3831,
        "wasted": 0,
        "wasted_processor_seconds": 0,
        "local_response": 2000,
        "moves": 1,
        "impacted": 100,
        "early": 100,
        "rel": 0.8886,
        "mean_response": 3990,
    }


def test_a_claim_holds_processors_that_nobody_else_gets(tmp_path: Path) -> None:
    file = {
        "engine": "counting",
        "clusters": [{"name": "one", "procs": 4, "policy": "easy"}],
        "jobs": [
            {"id": "g", "procs": 3, "run": 10, "components": 1, "deadline": 100},
            {"id": "l", "submit": 80, "procs": 2, "run": 5, "cluster": "one"},
        ],
        "deadlines": {"lp": 0.5},
    }
    _, (found,), _ = simulated(tmp_path, file)
    assert [(job["claimed"], job["start"], job["end"]) for job in found["jobs"]] == [(50, 100, 110), (None, 110, 115)]
    assert found["metrics"]["wasted_processor_seconds"] == 150


def test_a_cluster_whose_owner_evicts_nobody_keeps_its_jobs(tmp_path: Path) -> None:
    clusters = [{**EXAMPLE["clusters"][0], "evict": False}, EXAMPLE["clusters"][1]]
    _, (found,), _ = simulated(tmp_path, {**EXAMPLE, "clusters": clusters})
    assert [job["state"] for job in found["jobs"]] == ["Terminated", "Terminated", "Terminated", "Missed"]
    missed = found["jobs"][3]
    assert (missed["start"], missed["end"], missed["claimed"], missed["clusters"]) == (None, None, None, [])


def test_one_job_and_nothing_to_judge(tmp_path: Path) -> None:
    _, (found,), _ = simulated(tmp_path, {**EXAMPLE, "jobs": [{"id": 1, "procs": 2, "run": 5, "cluster": "north"}]})
    metrics = found["metrics"]
    assert (metrics["success"], metrics["mean_response"]) == (None, None)
    assert (metrics["global_load"], metrics["wasted"], metrics["rel"], metrics["impacted"]) == (0, 0, 1, 0)


@pytest.mark.parametrize("policy", ["fcfs", "conservative", "easy"])
def test_processors_that_are_counted_may_be_more_than_a_million(tmp_path: Path, policy: str) -> None:
    """Times are those of as many processors by two."""
    found = []
    for procs in (2, 2 * 10**12):
        clusters = [{"name": name, "procs": procs, "policy": policy} for name in ("a", "b")]
        mapped = [{"id": number, "procs": procs // (1 + number % 2), "run": 10 + number} for number in range(7)]
        jobs = [*mapped, {"id": "g", "procs": procs // 2, "run": 5, "components": 3, "deadline": 50}]
        file = {"engine": "counting", "clusters": clusters, "jobs": jobs, "reallocation": {"algorithm": 1, "period": 9}}
        status, (one,), errors = simulated(tmp_path, file)
        assert (status, errors) == (0, [])
        found.append(one)
    assert found[0]["jobs"] == found[1]["jobs"]
    assert found[0]["moves"] == found[1]["moves"]


def test_components_that_never_fit_are_missed_however_many_they_are(tmp_path: Path) -> None:
    large = {"id": "wide", "procs": 10**30, "run": 5, "components": 2, "deadline": 50}
    many = {"id": "many", "procs": 1, "run": 5, "components": 10**30, "deadline": 50}
    _, (found,), errors = simulated(tmp_path, {**EXAMPLE, "jobs": [*EXAMPLE["jobs"], large, many]})
    assert errors == []
    assert [one["state"] for one in found["jobs"][-2:]] == ["Missed", "Missed"]
    assert found["jobs"][-1]["tries"][-1] == 50


def test_a_pass_withdraws_hundreds_of_jobs(tmp_path: Path) -> None:
    """Each job that is put anew asks for the ECTs of those left, one question after the other."""
    jobs = [{"id": f"j{number}", "procs": 1, "run": 100} for number in range(400)]
    passes = {"algorithm": 2, "period": 1000}
    clusters = [{"name": name, "procs": 1} for name in ("a", "b")]
    status, (found,), errors = simulated(
        tmp_path, {"engine": "counting", "clusters": clusters, "jobs": jobs, "reallocation": passes}
    )
    assert (status, errors) == (0, [])
    assert max(one["end"] for one in found["jobs"]) == 200 * 100


def cluster(**changes: Any) -> dict[str, Any]:
    """Return the example with another first cluster; None leaves a key out."""
    return _with("clusters", changes)


def job(**changes: Any) -> dict[str, Any]:
    """Return the example with another first job; None leaves a key out."""
    return _with("jobs", changes)


def null(key: str) -> dict[str, Any]:
    """Return the example with null for a key of the first job."""
    first, *others = EXAMPLE["jobs"]
    return {**EXAMPLE, "jobs": [{**first, key: None}, *others]}


def _with(part: str, changes: dict[str, Any]) -> dict[str, Any]:
    first, *others = EXAMPLE[part]
    changed = {key: value for key, value in (first | changes).items() if value is not None}
    return {**EXAMPLE, part: [changed, *others]}


BAD: dict[str, tuple[object, list[str]]] = {
    "no JSON": ("{", ["not JSON"]),
    "no object": ([], ["object"]),
    "unknown key": ({**EXAMPLE, "period": 1}, ["period", "unknown key"]),
    "no clusters": ({**EXAMPLE, "clusters": []}, ["clusters", "at least one"]),
    "no jobs": ({**EXAMPLE, "jobs": []}, ["jobs", "at least one"]),
    "no engine": ({**EXAMPLE, "engine": "diesel"}, ["engine", "diesel", "production"]),
    "cluster without a name": (cluster(name=""), ["cluster at place 1", "name"]),
    "two of one name": (cluster(name="south"), ["cluster 'south'", "name", "twice"]),
    "cluster without processors": (cluster(procs=0), ["cluster 'north'", "procs", "0"]),
    "cluster that stands still": (cluster(speed=0), ["cluster 'north'", "speed", "0"]),
    "no policy": (cluster(policy="luck"), ["cluster 'north'", "policy", "luck", "fcfs"]),
    "no truth": (cluster(evict=1), ["cluster 'north'", "evict", "1"]),
    "unknown key of a cluster": (cluster(cores=1), ["cluster 'north'", "cores", "unknown key"]),
    "job without an id": (job(id=None), ["job at place 1", "id", "missing"]),
    "two of one id": (job(id="m"), ["job 'm'", "id", "twice"]),
    "no run time": (job(run=0), ["job 'n1'", "run", "0"]),
    "no walltime": (job(walltime=-5), ["job 'n1'", "walltime", "-5"]),
    "endless": (json.dumps(EXAMPLE).replace('"run": 5000', '"run": 1e999'), ["out of range"]),
    "no processors": (job(procs=0), ["job 'n1'", "procs", "0"]),
    "part of a processor": (job(procs=1.5), ["job 'n1'", "procs", "1.5"]),
    "a walltime of null": (null("walltime"), ["job 'n1'", "walltime", "None is not a number"]),
    "a cluster of null": (null("cluster"), ["job 'n1'", "cluster", "None"]),
    "components of null": (null("components"), ["job 'n1'", "components", "None is not a whole number"]),
    "a deadline of null": (null("deadline"), ["job 'n1'", "deadline", "None is not a number"]),
    "too many to be named": (
        {**cluster(procs=1_000_001), "engine": "production"},
        ["cluster 'north'", "procs", "1000001 is too large", "1 to 1000000"],
    ),
    "too many to be counted": (cluster(procs=10**15 + 1), ["cluster 'north'", "procs", "too large"]),
    "too many components": (
        {
            "engine": "counting",
            "clusters": [{"name": "wide", "procs": 10**9}],
            "jobs": [{"id": "n1", "procs": 9, "run": 1, "components": 1_000_001, "deadline": 9}],
        },
        ["job 'n1'", "components", "1000001 is too large"],
    ),
    "a period that instants do not show": (
        {**job(submit=1e15), "reallocation": {"algorithm": 1, "period": 0.01}},
        ["reallocation", "period", "0.01"],
    ),
    **{
        f"no finite {key}": (json.dumps(EXAMPLE | changed).replace('"?"', "1" + 400 * "0"), [key, "too large"])
        for key, changed in {
            "run": job(run="?"),
            "submit": job(submit="?"),
            "speed": cluster(speed="?"),
            "lp": {"deadlines": {"lp": "?"}},
            "period": {"reallocation": {"algorithm": 1, "period": "?"}},
        }.items()
    },
    "nowhere": (job(cluster="east"), ["job 'n1'", "cluster", "east", "north, south"]),
    "larger than its cluster": (job(procs=9), ["job 'n1'", "procs", "9", "at most 8"]),
    "larger than all": (job(procs=9, cluster=None), ["job 'n1'", "procs", "9", "largest cluster"]),
    "components alone": (job(components=2), ["job 'n1'", "components", "deadline"]),
    "a deadline alone": (job(deadline=9, cluster=None), ["job 'n1'", "deadline", "components"]),
    "a local deadline": (job(deadline=9, components=1), ["job 'n1'", "cluster", "deadline"]),
    "too late": (job(deadline=9, components=1, submit=10, cluster=None), ["job 'n1'", "deadline", "submit", "9"]),
    "Lp of nothing": ({**EXAMPLE, "deadlines": {"lp": 0}}, ["deadlines", "lp", "0"]),
    "Lp beyond": ({**EXAMPLE, "deadlines": {"lp": 1.1}}, ["deadlines", "lp", "1.1"]),
    "tries back": ({**EXAMPLE, "deadlines": {"tries": -1}}, ["deadlines", "tries", "-1"]),
    "wait back": ({**EXAMPLE, "deadlines": {"wait": -1}}, ["deadlines", "wait", "-1"]),
    "no instant": ({**EXAMPLE, "deadlines": {"evict_at": "noon"}}, ["deadlines", "evict_at", "noon", "last_try"]),
    "no algorithm": ({**EXAMPLE, "reallocation": {"algorithm": 3}}, ["reallocation", "algorithm", "3"]),
    "no heuristic": ({**EXAMPLE, "reallocation": {"heuristic": "gut"}}, ["reallocation", "heuristic", "gut"]),
    "no period": ({**EXAMPLE, "reallocation": {"period": 0}}, ["reallocation", "period", "0"]),
    "passes without end": (
        {**EXAMPLE, "reallocation": {"algorithm": 1, "period": 1e-9}},
        ["reallocation", "period", "1e-09", "100,000,000 passes"],
    ),
    "longer than anything": (job(run=1e16), ["job 'n1'", "run", "1e+16", "too large"]),
    "before anything": (job(submit=-(10**30)), ["job 'n1'", "submit", "too large"]),
    "slower than anything": (cluster(speed=1e-308), ["cluster 'north'", "speed", "1e-308", "1e+15 seconds"]),
    "one key twice": (json.dumps(EXAMPLE).replace('"procs": 8, ', '"procs": 8, "procs": 4, ', 1), ["'procs'", "twice"]),
    "threshold back": ({**EXAMPLE, "reallocation": {"threshold": -1}}, ["reallocation", "threshold", "-1"]),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_scenario_gets_one_line_and_the_others_are_simulated(tmp_path: Path, name: str) -> None:
    bad, words = BAD[name]
    status, found, errors = simulated(tmp_path, bad, EXAMPLE)
    assert status == 2
    assert len(found) == 1
    (line,) = errors
    assert [word for word in [*words, "0.json"] if word not in line] == []
