"""Claims and reservations of a broker hold their resources, and begin when their gate opens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oarpy.store.jobs.job_listing import listing
from oarpy.store.jobs.scope import JobScope
from oarpy.store.passes.gantt import bars
from oarpy.wire.messages import Start
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.kept]

OPEN_NOW = "UPDATE launch_gates SET opens_at = now(), expected_at = now()"


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    with brokers_door(dsn, small_cluster(connection, "n1", "n2"), evict="besteffort") as made:
        yield made


def starts(door: BrokersDoor) -> list[tuple[int, int]]:
    """Return the jobs that nodes were told to start, with their walltimes."""
    told = [command for _, command in door.cluster.sent(Start)]
    return [(spec.job, spec.walltime) for start in told if isinstance(start, Start) for spec in start.jobs]


def starts_at(door: BrokersDoor, job: int) -> float:
    """Return when the last pass foresaw the start of a job, in epoch seconds."""
    ((start,),) = door.cluster.sql(
        "SELECT extract(epoch FROM start_time)::float8 FROM gantt_predictions WHERE job_id = %s", job
    )
    return float(start)


def test_a_claim_holds_at_once_and_begins_when_its_gate_opens(door: BrokersDoor) -> None:
    claimed = door.claim("c1", 3, 600, after=300)
    job = int(claimed["job"])
    assert claimed["hosts"] == ["n1", "n1", "n2"]
    local = door.cluster.submit("/core=2")
    door.held(job)
    assert door.cluster.state(local) == "Waiting"
    begin = time.time() + 0.7
    assert door.ask("commit", transaction="c1", begin=begin, hosts=["n1", "x1"]) is None
    door.cluster.launch()
    assert starts(door) == []
    outcome = door.cluster.launch()
    assert outcome.wake_at is not None
    assert outcome.wake_at <= begin + 0.5
    until(lambda: door.cluster.launch() and starts(door), "the gate opens")
    assert time.time() >= begin
    assert starts(door) == [(job, 600)]
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"
    assert door.cluster.sql("SELECT walltime = interval '600 seconds' FROM jobs WHERE job_id = %s", job) == [(True,)]
    assert door.cluster.sql("SELECT count(*) FROM launch_gates") == [(0,)]
    assert door.events() == [("c1", "started")]


def test_what_waits_is_planned_behind_the_end_of_a_claim(door: BrokersDoor) -> None:
    begin = time.time() + 300
    door.held(int(door.prepare("c1", door.part("c1", "claim", 4, 600, begin=begin))["job"]))
    local = door.cluster.submit("/core=1")
    door.cluster.settle()
    assert starts_at(door, local) == pytest.approx(begin + 600, abs=10)
    door.ask("commit", transaction="c1", begin=begin + 1000)
    door.cluster.plan()
    assert starts_at(door, local) == pytest.approx(begin + 1600, abs=10)


def test_a_claim_that_does_not_find_enough_is_refused_and_leaves_nothing(door: BrokersDoor) -> None:
    door.cluster.submit("/core=2")
    door.cluster.settle()
    assert door.ask("idle", request=door.request()) == 2
    refused = door.claim("c1", 3)
    assert refused["code"] == "cluster_refuses"
    door.cluster.settle()
    assert door.cluster.sql("SELECT state FROM jobs WHERE user_name = 'nobody'") == [("Error",)]
    assert door.events() == []
    assert door.ask("idle", request=door.request()) == 2
    assert "hosts" in door.claim("c2", 2)
    assert door.ask("idle", request=door.request()) == 0


def test_the_launcher_neither_starts_nor_gives_up_what_was_not_committed(door: BrokersDoor) -> None:
    job = int(door.claim("c1", 1, after=1)["job"])
    door.held(job)
    door.cluster.sql("UPDATE launch_gates SET expected_at = now() - interval '1 day'")
    door.cluster.settle()
    assert door.cluster.state(job) == "toLaunch"
    door.cluster.sql("UPDATE door_parts SET lapses_at = now()")
    door.cluster.settle()
    assert (door.cluster.state(job), door.events()) == ("Error", [("c1", "lapsed")])
    assert starts(door) == []


def test_a_gate_that_is_opened_or_taken_away_by_hand_counts(door: BrokersDoor) -> None:
    jobs = [int(door.claim(name)["job"]) for name in ("c1", "c2")]
    for job in jobs:
        door.held(job)
    door.cluster.sql(OPEN_NOW + " WHERE job_id = %s", jobs[0])
    door.cluster.sql("DELETE FROM launch_gates WHERE job_id = %s", jobs[1])
    door.cluster.settle()
    assert door.cluster.states(jobs) == ["Running", "Running"]


def test_a_new_launcher_waits_for_the_gate_too(door: BrokersDoor) -> None:
    job = int(door.claim("c1")["job"])
    door.held(job)
    door.ask("commit", transaction="c1")
    door.cluster.restart_launcher()
    door.cluster.settle()
    assert door.cluster.state(job) == "toLaunch"
    door.cluster.sql(OPEN_NOW)
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"
    door.cluster.restart_launcher()
    door.cluster.settle()
    assert [one for one, _ in starts(door)].count(job) == 1


def test_a_claim_whose_node_is_lost_before_it_begins_is_lost(door: BrokersDoor) -> None:
    job = int(door.claim("c1", 4)["job"])
    door.held(job)
    door.ask("commit", transaction="c1")
    door.cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n2'")
    door.cluster.settle()
    assert (door.cluster.state(job), door.events()) == ("Error", [("c1", "lost")])


def test_a_reservation_begins_at_its_date_once_it_is_committed(door: BrokersDoor) -> None:
    part = door.part("r1", "reserved", 2, begin=time.time() + 3000)
    job = int(door.prepare("t1", part)["job"])
    door.cluster.settle()
    assert door.cluster.state(job) == "Waiting"
    door.cluster.sql("UPDATE jobs SET reservation_start = now() WHERE job_id = %s", job)
    door.held(job)
    assert starts(door) == []
    assert door.ask("commit", transaction="t1", begin=time.time()) is None
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"


def test_a_part_that_fails_to_start_does_not_count_as_begun(door: BrokersDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oarpy.grid.door.answers.parts._START_TIME", 0.0)
    part = door.part("r1", "reserved", 2, begin=time.time() + 3000, patience=600)
    job = int(door.prepare("t1", part)["job"])
    assert door.ask("commit", transaction="t1") is None
    door.cluster.sql("UPDATE jobs SET reservation_start = now() WHERE job_id = %s", job)
    door.held(job)

    def begun() -> Any:
        return door.ask("begin", key="b1", part="r1")

    assert begun()["message"] == "part 'r1' does not run yet"
    for name in ("n1", "n2"):
        door.cluster.node(name).refusal = "SUPERVISOR"
    told = []
    for _ in range(8):
        door.cluster.launch()
        told.append(begun()["message"])
    assert told[-1] == "part 'r1' does not hold its processors yet", told


def test_a_listing_and_the_gantt_show_when_a_claim_begins_and_ends(door: BrokersDoor) -> None:
    begin = time.time() + 300
    job = int(door.prepare("c1", door.part("c1", "claim", 2, 600, begin=begin))["job"])
    door.held(job)
    (listed,) = listing(door.cluster.connection, JobScope((job,)))
    assert listed.predicted == pytest.approx(begin)
    assert listed.walltime == 600
    now = datetime.now(UTC)
    (bar,) = bars(door.cluster.connection, now - timedelta(hours=1), now + timedelta(hours=1))
    assert (bar.job_id, len(bar.resource_ids)) == (job, 2)
    assert bar.end == pytest.approx(begin + 600)
