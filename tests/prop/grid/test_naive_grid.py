"""Several clusters in virtual time come out as in a naive simulation, and both engines agree where they must."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oarpy.grid.simulation.grid_run import GridRun
from oarpy.grid.simulation.queues_run import outcome_entry
from oarpy.grid.simulation.reader import read_grid
from tests.harness.examples import examples
from tests.prop.grid.naive_grid import NaiveGrid

POLICIES = ("fcfs", "conservative", "easy")
HEURISTICS = ("mct", "minmin", "maxmin", "maxgain", "maxrelgain", "sufferage")
TIMES = st.integers(0, 60)
LENGTHS = st.one_of(st.integers(1, 40), st.sampled_from([2.5, 7.25]))


@st.composite
def grid_files(draw: st.DrawFn, policies: tuple[str, ...] = POLICIES) -> dict[str, Any]:
    """A file whose jobs meet often: few processors, short times, many equal instants."""
    clusters = [
        {
            "name": f"c{number}",
            "procs": draw(st.integers(2, 6)),
            "speed": draw(st.sampled_from([1, 1, 2, 0.5])),
            "policy": draw(st.sampled_from(policies)),
            "evict": draw(st.booleans()),
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    jobs = [draw(grid_jobs(number, clusters)) for number in range(draw(st.integers(1, 14)))]
    reallocation = {
        "mapping": draw(st.sampled_from(["mct", "mct", "random", "round_robin"])),
        "algorithm": draw(st.sampled_from([0, 1, 2])),
        "heuristic": draw(st.sampled_from(HEURISTICS)),
        "period": draw(st.sampled_from([5, 10, 17])),
        "threshold": draw(st.sampled_from([0, 3])),
        "age_limit": draw(st.sampled_from([None, 15])),
    }
    deadlines = {
        "lp": draw(st.sampled_from([0.5, 0.7, 1])),
        "tries": draw(st.integers(0, 3)),
        "wait": draw(st.sampled_from([None, 0, 10])),
        "evict_at": draw(st.sampled_from(["deadline", "last_try"])),
    }
    return {
        "engine": "counting",
        "clusters": clusters,
        "jobs": jobs,
        "reallocation": reallocation,
        "deadlines": deadlines,
    }


@st.composite
def grid_jobs(draw: st.DrawFn, number: int, clusters: list[dict[str, Any]]) -> dict[str, Any]:
    """A local, mapped or co-allocated job."""
    kind = draw(st.sampled_from(["local", "mapped", "mapped", "together"]))
    largest = max(cluster["procs"] for cluster in clusters)
    job = {"id": number, "submit": draw(TIMES), "run": draw(LENGTHS)}
    if draw(st.booleans()):
        job["walltime"] = draw(LENGTHS)
    if kind == "local":
        cluster = draw(st.sampled_from(clusters))
        return {**job, "cluster": cluster["name"], "procs": draw(st.integers(1, cluster["procs"]))}
    job["procs"] = draw(st.integers(1, largest))
    if kind == "together":
        job |= {"components": draw(st.integers(1, 3)), "deadline": job["submit"] + draw(TIMES)}
    return job


def simulated(file: dict[str, Any]) -> dict[str, Any]:
    """What the product prints for a file."""
    scenario = read_grid(json.dumps(file))
    found: dict[str, Any] = json.loads(json.dumps(outcome_entry(scenario, GridRun(scenario).run())))
    return found


@settings(deadline=None, max_examples=examples(300))
@given(grid_files())
def test_it_comes_out_as_in_a_naive_simulation(file: dict[str, Any]) -> None:
    naive = NaiveGrid(file)
    naive.run()
    found = simulated(file)
    assert found["jobs"] == [{"id": job["id"], **one} for job, one in zip(naive.jobs, naive.out, strict=True)]
    assert [tuple(move.values()) for move in found["moves"]] == naive.moves


@settings(deadline=None, max_examples=examples(60))
@given(grid_files(("fcfs",)))
def test_first_come_first_served_is_the_same_on_named_processors(file: dict[str, Any]) -> None:
    counted, named = simulated(file), simulated({**file, "engine": "production"})
    assert counted == named


@settings(deadline=None, max_examples=examples(60))
@given(grid_files())
def test_what_it_is_judged_by_follows_from_the_jobs(file: dict[str, Any]) -> None:
    found = simulated(file)
    metrics, jobs = found["metrics"], file["jobs"]
    out = dict(zip(range(len(jobs)), found["jobs"], strict=True))
    mapped = [number for number, job in enumerate(jobs) if not job.keys() & {"cluster", "components"}]
    still = NaiveGrid(file, algorithm=0)
    still.run()
    changed = [number for number in mapped if abs(out[number]["end"] - still.out[number]["end"]) > 0.000001]
    assert metrics["impacted"] == (100 * len(changed) / len(mapped) if mapped else 0)
    earlier = [number for number in changed if out[number]["end"] < still.out[number]["end"]]
    assert metrics["early"] == (100 * len(earlier) / len(changed) if changed else 0)
    together = [number for number, job in enumerate(jobs) if "components" in job]
    begun = [number for number in together if out[number]["start"] is not None]
    assert metrics["success"] == (100 * len(begun) / len(together) if together else None)
    wasted = sum(
        jobs[number]["components"] * jobs[number]["procs"] * (jobs[number]["deadline"] - out[number]["claimed"])
        for number in begun
    )
    assert abs(metrics["wasted_processor_seconds"] - wasted) < 0.000001
