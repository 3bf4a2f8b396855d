"""The planner gives the plan of a naive reference on random small cases with all features mixed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oarpy.cluster_state.trace import placement_json, scenario_of
from oarpy.model.reasons import Show
from oarpy.scheduler.plan import Plan, plan
from oarpy.simulation.scenarios.reader import read_scenario
from tests.harness.examples import examples
from tests.prop.scheduler.naive_planner import Reference

REQUESTS = [
    "/core=1",
    "/core=2",
    "/core=3",
    "/resource_id=2",
    "/network_address=1",
    "/nodes=2",
    "/nodes=1/core=1",
    "/nodes=2/core=1",
    "/switch=1/nodes=1",
    "/switch=1/nodes=1/core=2",
    "/switch=2/core=1",
    "/core=ALL",
    "/core=BEST",
    "/core=BESTHALF",
    "/nodes=BEST",
    "/nodes=BESTHALF/core=1",
    "/nodes=ALL/core=1",
    "{gpu = 1}/core=1",
    "{gpu = 0}/nodes=1",
    "{gpu IS NULL}/core=1",
    "{type = 'licence'}/licence=1",
    "/core=1+{type = 'licence'}/licence=1",
    "/core=1+/core=1",
    "/core=1+{gpu = 1}/core=1",
    "/core=2+/nodes=1",
    "/core=9",
]
TYPES = [
    "besteffort",
    "container",
    "container=c",
    "inner=c",
    "inner=1",
    "placeholder=p",
    "allowed=p",
    "timesharing=*,*",
    "timesharing=user,*",
    "timesharing=user,name",
    "no_quotas",
    "odd",
    "exclusive",
]
users = st.sampled_from(["ann", "bob"])
types: st.SearchStrategy[list[str]] = st.one_of(
    st.just([]), st.just([]), st.lists(st.sampled_from(TYPES), max_size=2, unique=True)
)


@st.composite
def resources(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number in range(1, draw(st.integers(1, 7)) + 1):
        row: dict[str, Any] = {"id": number, "core": number}
        if draw(st.integers(0, 7)):
            row["network_address"] = f"n{draw(st.integers(1, 3))}"
        if draw(st.booleans()):
            row["switch"] = f"s{draw(st.integers(1, 2))}"
        if draw(st.booleans()):
            row["gpu"] = draw(st.sampled_from([0, 1, None]))
        row["state"] = draw(st.sampled_from(["Alive"] * 6 + ["Absent", "Suspected", "Dead"]))
        rows.append(row)
    licences = range(draw(st.integers(0, 2)))
    rows += [{"id": 20 + number, "type": "licence", "licence": number} for number in licences]
    return draw(st.permutations(rows))


def queues_or_none(draw: st.DrawFn) -> list[dict[str, Any]] | None:
    """Three queues in any order, or none: the planner's own."""
    return draw(
        st.one_of(
            st.none(),
            st.permutations(
                [
                    {
                        "name": "default",
                        "priority": draw(st.integers(0, 2)),
                        "policy": draw(st.sampled_from(["fifo", "smallest", "largest"])),
                    },
                    {"name": "besteffort", "priority": 0, "policy": "fifo"},
                    {
                        "name": "fast",
                        "priority": draw(st.integers(0, 2)),
                        "policy": draw(st.sampled_from(["fifo", "largest"])),
                    },
                ]
            ),
        )
    )


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    rows = draw(resources())
    ids = [row["id"] for row in rows]
    queues = queues_or_none(draw)
    names = ["default"] * 4 + ["besteffort", "fast" if queues else "default"]
    consumables = draw(consumables_or_none())
    running = [
        {
            "id": 100 + rank,
            "user": draw(users),
            "queue": draw(st.sampled_from(names)),
            "types": draw(types),
            "start": draw(st.integers(-4, 4)),
            "walltime": draw(st.integers(1, 8)),
            "resources": draw(st.lists(st.sampled_from(ids), min_size=1, max_size=4, unique=True)),
        }
        for rank in range(draw(st.integers(0, 3)))
    ]
    if consumables:
        for job in running:
            job["consumes"] = draw(st.dictionaries(st.sampled_from(["mem", "net"]), st.integers(0, 2), max_size=2))
    jobs = [draw(waiting(number, names, bool(consumables))) for number in range(1, draw(st.integers(1, 6)) + 1)]
    patterns = st.sampled_from(["*", "*", "/"])
    quotas = [
        {
            "set": draw(st.sampled_from(["default", "users"])),
            "queue": draw(st.one_of(patterns, st.just("default"))),
            "project": draw(patterns),
            "type": draw(st.one_of(st.just("*"), st.just("/"), st.just("odd"))),
            "user": draw(st.one_of(patterns, users)),
            "resources": draw(st.sampled_from([-1, 1, 2, 4])),
            "jobs": draw(st.sampled_from([-1, -1, 0, 1, 2])),
            "resource_hours": draw(st.sampled_from([-1, -1, 4 / 3600, 10 / 3600])),
        }
        for _ in range(draw(st.sampled_from([0, 0, 1, 2])))
    ]
    scenario: dict[str, Any] = {
        "now": 0,
        "security_time": draw(st.integers(0, 2)),
        "policy": draw(st.sampled_from(["conservative", "conservative", "fcfs", "easy", "first_fit"])),
        "resources": rows,
        "quotas": quotas,
        "running": running,
        "jobs": jobs,
    }
    if consumables:
        scenario["consumables"] = consumables
    if queues:
        scenario["queues"] = queues
    if draw(st.integers(0, 5)) == 0:
        scenario["hierarchy"] = ["core"]
    if draw(st.integers(0, 3)) == 0:
        scenario["projects"] = draw(projects())
        for job in (*jobs, *running):
            job["project"] = draw(st.sampled_from(["default", "fire", "flame"]))
    return scenario


@st.composite
def projects(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Fire with flame below it, each with hours for some seconds of cores; the project default has no limit."""
    found: list[dict[str, Any]] = [{"name": "fire"}, {"name": "flame", "parent": "fire"}]
    for project in found:
        if draw(st.booleans()):
            project["hours"] = draw(st.integers(0, 12)) / 3600
            project["used"] = draw(st.sampled_from([[], [2 / 3600]]))
        if draw(st.booleans()):
            project["begins"] = draw(st.sampled_from([[-3, 4], [0, 5, 9], [-8]]))
        if draw(st.integers(0, 3)) == 0:
            project["until"] = draw(st.integers(0, 8))
        project["weight"] = draw(st.sampled_from([1, 1, 2, 0]))
    return found


def consumables_or_none() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Memory of hosts and bandwidth of switches, or neither."""
    amounts = st.integers(0, 4)
    some = st.tuples(
        st.fixed_dictionaries({"n1": amounts, "n2": amounts}), st.fixed_dictionaries({"s1": amounts, "s2": amounts})
    ).map(
        lambda pair: [
            {"name": "mem", "level": "network_address", "capacity": pair[0]},
            {"name": "net", "level": "switch", "capacity": pair[1]},
        ]
    )
    return st.one_of(st.just([]), some)


def amounts(consuming: bool) -> st.SearchStrategy[str]:
    """What is asked of consumables, as the end of a request."""
    return st.sampled_from(["", "", ",mem=1", ",mem=2", ",net=1,mem=1", ",net=3"] if consuming else [""])


@st.composite
def waiting(draw: st.DrawFn, number: int, queues: list[str], consuming: bool) -> dict[str, Any]:
    job: dict[str, Any] = {
        "id": number,
        "user": draw(users),
        "queue": draw(st.sampled_from(queues)),
        "name": draw(st.sampled_from(["", "x"])),
        "types": draw(types),
        "submitted": draw(st.integers(0, 3)),
        "requests": [
            {
                "resources": draw(st.sampled_from(REQUESTS)) + draw(amounts(consuming)),
                "walltime": draw(st.integers(1, 6)),
            }
            for _ in range(draw(st.sampled_from([1, 1, 2])))
        ],
    }
    if draw(st.integers(0, 4)) == 0:
        job["depends_on"] = draw(
            st.lists(st.sampled_from([1, 2, 3, 4, 5, 100, "ok:1", "notok:101", "notok:77", 77]), min_size=1, max_size=2)
        )
    if draw(st.integers(0, 5)) == 0:
        job["reservation"] = draw(st.integers(-8, 8))
    if draw(st.integers(0, 7)) == 0:
        job["properties"] = draw(st.sampled_from(["gpu = 1", "gpu = 0"]))
    return job


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[int, int]] | None:
    """When a rule of a calendar is valid: apart, ascending; None is always."""
    if draw(st.integers(0, 2)) == 0:
        return None
    instants = sorted(draw(st.lists(st.integers(-3, 25), min_size=2, max_size=6, unique=True)))
    return list(zip(instants[::2], instants[1::2], strict=False))


@given(scenarios())
@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_equals_the_naive_reference(scenario: dict[str, Any]) -> None:
    snapshot = read_scenario(json.dumps(scenario))
    check(plan(snapshot), scenario, snapshot.show_instant)


@given(scenarios(), st.data())
@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_equals_the_naive_reference_with_a_quota_calendar(scenario: dict[str, Any], data: st.DataObject) -> None:
    """Rules as scenario files have them, each of them valid at certain times; the files themselves know no times."""
    every = dict.fromkeys(("queue", "project", "type"), "*")
    for _ in range(data.draw(st.integers(1, 2))):
        limits = data.draw(st.sampled_from([(1, -1, -1), (2, -1, -1), (-1, 1, -1), (-1, -1, 6 / 3600)]))
        users = data.draw(st.sampled_from(["*", "/"]))
        named = dict(zip(("resources", "jobs", "resource_hours"), limits, strict=True))
        scenario["quotas"].append({**every, "user": users, **named})
    snapshot = read_scenario(json.dumps(scenario))
    rules = []
    for rule, read in zip(scenario["quotas"], snapshot.quotas, strict=True):
        rule["valid"] = data.draw(spans())
        rules.append(replace(read, valid=None if rule["valid"] is None else tuple(rule["valid"])))
    check(plan(replace(snapshot, quotas=tuple(rules))), scenario, snapshot.show_instant)


@given(scenarios())
@settings(
    max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_a_snapshot_that_was_written_is_planned_the_same(scenario: dict[str, Any]) -> None:
    snapshot = read_scenario(json.dumps(scenario))
    made, again = plan(snapshot), plan(read_scenario(json.dumps(scenario_of(snapshot))))
    assert (again.kill, again.slots) == (made.kill, made.slots)
    show = snapshot.show_instant
    assert [placement_json(one, show) for one in again.placements] == [
        placement_json(one, show) for one in made.placements
    ]


def check(made: Plan, scenario: dict[str, Any], show: Show) -> None:
    """Compare the plan, as files tell it, with the plan of the reference."""
    reference = Reference(scenario)
    reference.run()
    unforeseen = scenario["policy"] in ("easy", "first_fit")
    got = {
        told["id"]: (
            _word(str(told["verdict"]), unforeseen),
            told["alternative"],
            told["start"],
            told["end"],
            told["resources"],
        )
        for told in (placement_json(placement, show) for placement in made.placements)
    }
    expected = {
        job: (_word(result.verdict, unforeseen), result.alternative, result.start, result.end, result.resources)
        for job, result in reference.results.items()
    }
    assert got == expected
    assert list(made.kill) == sorted(reference.kill)


def _word(verdict: str, unforeseen: bool) -> str:
    """Why a job without a prediction waits depends on how hard the planner tried; ``starts`` does not."""
    return verdict if not unforeseen or verdict in ("starts", "reserved", "reservation") else "waits"
