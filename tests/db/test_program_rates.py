"""Rates of programs for brokers, and parts whose processes are mapped by their brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from oarpy.store.jobs import rates
from oarpy.wire.messages import Start
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import SETTINGS, Connection

pytestmark = pytest.mark.db
TYPES = replace(SETTINGS, scheduler=replace(SETTINGS.scheduler, node_type="kind"))
PROGRAM = {"path": "/home/ann/program", "size": 10, "date": 1000, "arguments": "--quiet"}


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    """Two nodes of two cores: n1 is slow, n2 is fast."""
    connection.execute("ALTER TABLE resources ADD kind text")
    connection.execute("INSERT INTO resource_properties VALUES ('kind', 'text', false)")
    with brokers_door(dsn, small_cluster(connection, "n1", "n2", settings=TYPES)) as made:
        connection.execute("UPDATE resources SET kind = CASE network_address WHEN 'n2' THEN 'fast' ELSE 'slow' END")
        yield made


def measure(door: BrokersDoor, key: str = "", **fields: Any) -> Any:
    """Return the answer to ``measure``."""
    asked = {"program": PROGRAM, "sizes": ["a", "b"], "script": "/home/ann/rate.sh", **fields}
    return door.ask("measure", key=key, request=door.request(), **asked)


def told(door: BrokersDoor, **fields: Any) -> dict[str, Any]:
    """Return the answer to ``rates`` by type of nodes."""
    found = door.ask("rates", request=door.request(), **{"program": PROGRAM, "sizes": ["a", "b"], **fields})
    return {one["name"]: one for one in found}


def measurers(door: BrokersDoor) -> dict[str, int]:
    """Return the jobs that measure, by type of nodes."""
    return dict(door.cluster.sql("SELECT node_type, job_id FROM rate_measurements"))


def test_a_program_is_measured_once_by_jobs_of_the_local_user_and_told_by_type(door: BrokersDoor) -> None:
    assert door.ask("describe")["abilities"]["rate"]
    assert [one["reason"] for one in told(door).values()] == ["there is no rate of its program"] * 2
    assert measure(door, "m") is None
    assert measure(door, "m") is None
    assert measure(door) is None
    rows = door.cluster.sql("SELECT user_name, command, properties FROM jobs ORDER BY job_id")
    command = "oarrates --measure /home/ann/rate.sh a,b"
    assert [row[:2] for row in rows] == [("nobody", command)] * 2
    jobs = measurers(door)
    assert [one["measuring"] for one in told(door).values()] == [True, True]
    door.cluster.settle()
    with door.cluster.connection.transaction():
        rates.tell(door.cluster.connection, jobs["fast"], {"a": 4, "b": 2})
        rates.fail(door.cluster.connection, jobs["slow"], "no such file")
    for job in jobs.values():
        door.cluster.end(job)
    door.cluster.settle()
    known = told(door)
    assert known["fast"]["rates"] == {"a": 4, "b": 2}
    assert (known["slow"]["rates"], known["slow"]["measuring"]) == ({}, False)
    assert known["slow"]["reason"] == f"no rate, as job {jobs['slow']} tells: no such file"
    assert told(door, program={**PROGRAM, "date": 1001})["fast"]["rates"] == {}
    assert told(door, sizes=["a", "c"])["fast"]["rates"] == {}


def test_free_processors_are_told_by_type(door: BrokersDoor) -> None:
    conditions = {name: one["condition"] for name, one in told(door).items()}
    door.cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n2' AND core = 201")
    begin = time.time()
    for name, free in (("fast", 1), ("slow", 2)):
        request = door.request(properties=conditions[name])
        assert [one["procs"] for one in door.ask("slots", request=request, begin=begin, end=begin + 9)] == [free]


def mapped(**more: Any) -> dict[str, Any]:
    """Return the map of a part that has one slow core and two fast ones."""
    return {
        "program": PROGRAM,
        "processes": 6,
        "iterations": 100,
        "sizes": ["a", "b"],
        "model": "sync",
        "seconds": 75,
        "cores": {"slow": 1, "fast": 2},
        "assigned": {"slow": [["a", 1, 50, 1]], "fast": [["b", 2, 50, 1], ["a", 1, 25, 1]]},
        **more,
    }


def test_a_part_begins_with_its_processes_and_those_of_other_clusters(
    door: BrokersDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = time.time() + 1000
    resources = "{kind IN ('slow')}/core=1+{kind IN ('fast')}/core=2"
    part = door.part("p1", "reserved", 3, 83, begin=begin, patience=600, map=mapped())
    part["request"]["resources"] = resources
    job = int(door.prepare("t", part)["job"])
    assert door.ask("commit", transaction="t") is None
    row = door.cluster.sql("SELECT live, seconds, node_property, node_types FROM mapped_jobs WHERE job_id = %s", job)
    assert row == [(False, 75, "kind", {"slow": 1, "fast": 2})]
    door.cluster.sql("UPDATE jobs SET reservation_start = now() WHERE job_id = %s", job)
    door.held(job)
    others = ["south1 0 b 1"]
    too_many = door.ask("begin", part="p1", hosts=["s"], map=["s 0 b 999999"] * 200)
    assert (too_many["code"], too_many["message"]) == ("usage", "a map of 199999800 processes")
    monkeypatch.setattr("oarpy.grid.door.answers.parts._START_TIME", 0.0)
    assert door.ask("begin", part="p1", hosts=["south1"], map=others)["message"] == "part 'p1' does not run yet"
    door.cluster.settle()
    answer = door.ask("begin", part="p1", hosts=["south1"], map=others)
    own = ("n1 0 a 1", "n2 0 b 1", "n2 0 a 1", "n2 1 b 1")
    assert (answer["hosts"], answer["map"]) == (["n1", "n2", "n2"], list(own))
    ((_, start),) = door.cluster.sent(Start)
    assert isinstance(start, Start)
    (spec,) = start.jobs
    assert (spec.process_map, spec.grid_map, spec.iterations) == (own, (*own, *others), 100)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seconds": 0},
        {"sizes": []},
        {"sizes": ["a b"]},
        {"iterations": 10**9},
        {"assigned": {"fast": [["a", 0, 5, 1]]}},
        {"assigned": {"fast": [["a", 1, -5, 1]]}},
        {"cores": {"": 1}},
        {"cores": {}},
        {"cores": {f"t{number}": 1 for number in range(101)}},
        {"processes": 10**6},
        {"assigned": {"fast": [["a", 7, 5, 1]]}},
        {"assigned": {"fast": [["a", 3, 5, 1]] * 3}},
        {"assigned": {"other": [["a", 1, 5, 1]]}},
        {"program": {**PROGRAM, "path": "a\nb"}},
        {"more": 1},
    ],
)
def test_a_map_that_is_none_changes_nothing(door: BrokersDoor, wrong: dict[str, Any]) -> None:
    part = door.part("p1", "reserved", 2, begin=time.time() + 1000, map=mapped(**wrong))
    assert door.ask("prepare", transaction="t", part=part, ttl=60)["code"] == "usage"
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(0,)]


def test_who_has_no_grant_measures_nothing(door: BrokersDoor) -> None:
    request = {**door.request(), "user": "bob"}
    asked: dict[str, Any] = {"request": request, "program": PROGRAM, "sizes": ["a"]}
    assert door.ask("measure", script="/home/ann/rate.sh", **asked)["code"] == "not_allowed"
    assert door.ask("rates", **asked)["code"] == "not_allowed"
    assert measurers(door) == {}


def test_jobs_that_measure_keep_within_the_grant(door: BrokersDoor) -> None:
    door.cluster.sql("UPDATE grid_grants SET longest_walltime = '100 s'")
    refused = door.ask("measure", **_asked(door, walltime=60))
    assert refused["code"] == "not_allowed"
    assert "walltime 0:5:0 is above the 0:1:40 of the grant" in refused["message"]
    assert measurers(door) == {}
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(0,)]
    door.cluster.sql("UPDATE grid_grants SET longest_walltime = '300 s'")
    assert door.ask("measure", **_asked(door, walltime=60)) is None
    assert measurers(door).keys() == {"fast", "slow"}


def _asked(door: BrokersDoor, walltime: float) -> dict[str, Any]:
    request = door.request(walltime=walltime)
    return {"request": request, "program": PROGRAM, "sizes": ["a", "b"], "script": "/home/ann/rate.sh"}


def killed(door: BrokersDoor) -> set[int]:
    """Return the jobs whose end is asked for."""
    return {job for (job,) in door.cluster.sql("SELECT job_id FROM kill_requests")}


def stop(door: BrokersDoor, measure: str) -> Any:
    """Return the answer to ``stop_measuring``."""
    return door.ask("stop_measuring", measure=measure)


def test_jobs_measure_as_long_as_somebody_waits_for_their_rates(door: BrokersDoor) -> None:
    assert measure(door, "m1") is None
    assert measure(door, "m2") is None
    jobs = measurers(door)
    assert len(jobs) == 2
    assert stop(door, "unknown") is None
    assert stop(door, "m1") is None
    assert stop(door, "m1") is None
    assert killed(door) == set()
    own = door.cluster.submit("core=1")
    door.cluster.sql("INSERT INTO job_dependencies (job_id, required_job_id) VALUES (%s, %s)", own, jobs["fast"])
    assert stop(door, "m2") is None
    assert killed(door) == {jobs["slow"]}
    assert measure(door, "m3") is None
    new = measurers(door)
    assert new["slow"] > jobs["slow"]
    door.cluster.sql("UPDATE rate_measurements SET awaited_by = '{other m3}'")
    assert stop(door, "m3") is None
    assert killed(door) == {jobs["slow"]}
