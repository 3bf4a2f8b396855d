"""Giving way by levels, against a naive reading of the rule: nobody goes where idle resources do, nor for an equal.

Nobody gets what is promised, whatever the levels.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.cluster_state.trace import decisions_json, scenario_of
from oarpy.scheduler.decide import Decisions, decide
from oarpy.scheduler.levels import depths
from oarpy.scheduler.precedence import LOWEST
from oarpy.scheduler.verdicts import Verdict
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.examples import examples

GIVES_WAY = {"guests": ["default"], "spare": ["guests"], "idle": ["guests", "night"]}
LEVEL = {"default": 0, "night": 0, "guests": 1, "spare": 2, "idle": 2, "besteffort": LOWEST}
PROJECTS = [
    {"name": "members"},
    {"name": "visitors", "gives_way_to": ["members"]},
    {"name": "visitors of ann", "parent": "visitors"},
]
LEVEL_OF_PROJECT = {"members": 0, "visitors": 1, "visitors of ann": 1, "default": 0}
QUEUES = [
    {"name": name, "priority": priority, "gives_way_to": GIVES_WAY.get(name, [])}
    for name, priority in (("idle", 9), ("default", 3), ("night", 5), ("guests", 7), ("spare", 4), ("besteffort", 0))
]
CORES = 6
queues = st.sampled_from(sorted(LEVEL))
members = st.sampled_from(sorted(LEVEL.keys() - {"besteffort"}))
projects = st.sampled_from(sorted(LEVEL_OF_PROJECT))


@st.composite
def scenarios(draw: st.DrawFn, most: int) -> dict[str, Any]:
    running, core = [], 1
    while core <= CORES:
        wide = draw(st.integers(1, 3))
        if draw(st.booleans()):
            held = list(range(core, min(core + wide, CORES + 1)))
            one = {"id": 100 + core, "user": "ann", "queue": draw(queues), "project": draw(projects)}
            one["start"] = -draw(st.integers(1, 50))
            running.append({**one, "walltime": draw(st.integers(60, 200)), "resources": held})
        core += wide
    jobs = [
        {
            "id": number,
            "user": "bob",
            "queue": draw(queues),
            "project": draw(projects),
            "submitted": number,
            "requests": [{"resources": f"/core={draw(st.integers(1, CORES))}", "walltime": draw(st.integers(1, 90))}],
        }
        for number in range(1, draw(st.integers(1, most)) + 1)
    ]
    return {
        "now": 0,
        "security_time": 0,
        "resources": [{"id": core, "core": core, "network_address": "n1"} for core in range(1, CORES + 1)],
        "queues": QUEUES,
        "projects": PROJECTS,
        "running": running,
        "jobs": jobs,
        "policy": draw(st.sampled_from(["conservative", "easy"])),
    }


@st.composite
def promised(draw: st.DrawFn, most: int) -> dict[str, Any]:
    """Draw a scenario with accepted reservations behind the running jobs; some of the jobs ask for dates themselves."""
    scenario = draw(scenarios(most))
    free = dict.fromkeys(range(1, CORES + 1), 0)
    for one in scenario["running"]:
        free |= dict.fromkeys(one["resources"], one["start"] + one["walltime"])
    scenario["reservations"] = []
    for number in range(200, 200 + draw(st.integers(1, 4))):
        cores = draw(st.lists(st.integers(1, CORES), min_size=1, max_size=CORES, unique=True))
        start = max(free[core] for core in cores) + draw(st.integers(0, 40))
        walltime = draw(st.integers(1, 60))
        free |= dict.fromkeys(cores, start + walltime)
        asked = {"requests": [{"resources": f"/core={len(cores)}", "walltime": walltime}], "reservation": start}
        job = {"id": number, "user": "eve", "queue": draw(members), "project": draw(projects), **asked}
        scenario["reservations"].append({"job": job, "start": start, "walltime": walltime, "resources": cores})
    for job in scenario["jobs"]:
        job["reservation"] = draw(st.none() | st.integers(0, 200))
    return scenario


def decided(scenario: dict[str, Any]) -> Decisions:
    """Decide about a scenario, and about what is recorded of it, which gives the same."""
    snapshot = read_scenario(json.dumps(scenario))
    made = decide(snapshot)
    again = decide(read_scenario(json.dumps(scenario_of(snapshot))))
    assert decisions_json(made) == decisions_json(again)
    return made


def level_of(job: dict[str, Any]) -> int:
    """Return the level of a job: that of its queue or of its project, whichever is deeper."""
    return max(LEVEL[job["queue"]], LEVEL_OF_PROJECT[job["project"]])


def width(job: dict[str, Any]) -> int:
    return int(job["requests"][0]["resources"].partition("=")[2])


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(most=1))
def test_one_job_takes_what_is_idle_then_from_the_lowest_level(scenario: dict[str, Any]) -> None:
    (job,), running = scenario["jobs"], scenario["running"]
    level, wanted = level_of(job), width(job)
    (placement,) = decided(scenario).plan.placements
    idle = CORES - sum(len(one["resources"]) for one in running)
    limits = sorted({level_of(one) for one in running if level_of(one) > level}, reverse=True)
    free = idle
    for limit in (None, *limits):
        if limit is not None:
            free += sum(len(one["resources"]) for one in running if level_of(one) == limit)
        if free >= wanted:
            victims = [one for one in running if one["id"] in placement.victims]
            assert (placement.verdict is Verdict.STARTS) == (limit is None)
            assert all(limit is not None and level_of(one) >= limit for one in victims)
            assert bool(victims) == (limit is not None)
            return
    assert not placement.victims
    assert placement.start is None or placement.start > 0


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(most=6))
def test_nobody_goes_for_an_equal_nor_where_idle_resources_do(scenario: dict[str, Any]) -> None:
    running = {one["id"]: one for one in scenario["running"]}
    jobs = {job["id"]: job for job in scenario["jobs"]}
    made = decided(scenario)
    busy = {core for one in running.values() for core in one["resources"]}
    assert set(made.victims) == {victim for placement in made.plan.placements for victim in placement.victims}
    for placement in made.plan.placements:
        job = jobs[placement.job]
        for victim in placement.victims:
            assert level_of(running[victim]) > level_of(job)
        if placement.verdict is Verdict.STARTS:
            assert not busy & set(placement.resources)
        if placement.victims:
            end = job["requests"][0]["walltime"]
            others = [other for other in made.plan.placements if other.job != placement.job and other.start is not None]
            taken = {core for other in others if (other.start or 0) < end for core in other.resources}
            assert len(set(range(1, CORES + 1)) - busy - taken) < width(job)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(promised(most=6))
def test_nobody_gets_what_is_promised(scenario: dict[str, Any]) -> None:
    made = decided(scenario)
    promises = {one["job"]["id"]: one for one in scenario["reservations"]}
    assert not promises.keys() & set(made.victims)
    for placement in made.plan.placements:
        for one in promises.values():
            if (
                placement.start is not None
                and placement.end is not None
                and set(one["resources"]) & set(placement.resources)
            ):
                assert placement.end <= one["start"] or one["start"] + one["walltime"] <= placement.start


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(promised(most=1), st.integers(1, 200))
def test_a_reservation_is_accepted_beside_what_is_promised_at_every_level(scenario: dict[str, Any], date: int) -> None:
    (job,) = scenario["jobs"]
    job["reservation"], end = date, date + job["requests"][0]["walltime"]
    running = [one for one in scenario["running"] if level_of(one) <= level_of(job)]
    holds = [one for one in (*running, *scenario["reservations"]) if one["start"] < end]
    busy = {core for one in holds if one["start"] + one["walltime"] > date for core in one["resources"]}
    (placement,) = decided(scenario).plan.placements
    accepted = width(job) <= CORES - len(busy)
    assert placement.verdict is (Verdict.RESERVED if accepted else Verdict.RESERVATION)


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3)))
def test_levels_are_deeper_than_those_they_give_way_to(named: dict[str, list[str]]) -> None:
    found = depths(named)
    for name, depth in found.items():
        assert depth == 1 + max(found.get(other, 0) for other in named[name])
        assert all(other in found or other not in named for other in named[name])
    for name in named.keys() - found.keys():
        assert any(other in named and other not in found for other in named[name]), "it is on or above a circle"


def test_no_project_is_above_its_parent_nor_beside_whom_it_gives_way_to() -> None:
    found = depths({"visitors": ["members"], "spare": ["visitors"]}, {"ann": "visitors", "below ann": "ann"})
    assert found == {"visitors": 1, "spare": 2, "ann": 1, "below ann": 1}
    assert depths({"above": ["below"]}, {"below": "above", "beside": "other"}) == {"beside": 0}
