"""What a broker, or the user of its parts, cannot do with them: begin them early, hold or evict too much."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.store.jobs import submissions
from oarpy.store.platform import admission_rules
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.sample_cluster import Shell
from tests.harness.small_cluster import Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]
_DAY = 86400
_WAITING_RESERVATIONS = Path(__file__).parents[2] / "admission_rules" / "12_waiting_reservations.py"


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    with brokers_door(dsn, small_cluster(connection, "n1", "n2"), evict="besteffort") as made:
        yield made


def counted(door: BrokersDoor, *, reservation: bool | None) -> int:
    """Return how many live jobs a rule counts."""
    return submissions.count_live(
        door.cluster.connection,
        user="nobody",
        queue=None,
        project=None,
        job_type=None,
        states=None,
        reservation=reservation,
    )


def test_what_is_prepared_or_frozen_is_not_resumed_by_hand(door: BrokersDoor, shell: Shell) -> None:
    door.cluster.submit("/core=4")
    door.cluster.settle()
    frozen, prepared = door.queued("p1"), int(door.prepare("t2", door.part("p2"))["job"])
    assert "job" in door.prepare("t1", door.part("p1", "withdrawn"))
    for job in (frozen, prepared):
        refused = shell("oarresume", str(job))
        assert refused.status != 0
        assert f"job {job} is held for broker 'campus'" in refused.err
    assert door.cluster.states([frozen, prepared]) == ["Hold", "Hold"]
    assert door.ask("abort", transaction="t1") is None
    assert door.ask("commit", transaction="t2") is None
    assert door.cluster.states([frozen, prepared]) == ["Waiting", "Waiting"]
    shell.done("oarhold", str(prepared))
    shell.done("oarresume", str(prepared))
    assert door.cluster.state(prepared) == "Waiting"


def test_what_is_not_frozen_any_more_is_not_withdrawn(door: BrokersDoor) -> None:
    job = door.queued("p1")
    door.prepare("t1", door.part("p1", "withdrawn"))
    door.cluster.sql("UPDATE jobs SET state = 'Waiting'")
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"
    assert door.ask("commit", transaction="t1")["code"] == "cluster_refuses"
    assert door.cluster.sql("SELECT count(*) FROM kill_requests") == [(0,)]


def test_a_claim_does_not_hold_for_long_before_it_begins(door: BrokersDoor) -> None:
    assert "86400 s" in door.claim("c1", after=_DAY + 60)["message"]
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(0,)]
    begin = time.time() + _DAY - 60
    assert "job" in door.prepare("c2", door.part("c2", "claim", begin=begin))
    assert "put off" in door.ask("commit", transaction="c2", begin=begin + _DAY + 60)["message"]
    assert door.ask("commit", transaction="c2", begin=begin + 60) is None


def test_no_more_is_evicted_than_the_grant_gives(door: BrokersDoor) -> None:
    victim = door.cluster.submit("/core=3", types=("besteffort",))
    door.cluster.settle()
    door.cluster.sql("UPDATE grid_grants SET most_resources = 2")
    assert door.ask("evict", transaction="t1", request=door.request(), procs=3)["code"] == "not_allowed"
    assert door.cluster.sql("SELECT count(*) FROM kill_requests") == [(0,)]
    assert door.ask("evict", transaction="t1", request=door.request(), procs=2) == [str(victim)]


def test_dates_of_parts_are_no_reservations_of_users(door: BrokersDoor) -> None:
    text = _WAITING_RESERVATIONS.read_text()
    admission_rules.add(door.cluster.connection, "reservations", text, priority=12, enabled=True, by="root")
    begin = time.time() + 3600
    for name in ("r1", "r2", "r3"):
        prepared = door.prepare(name, door.part(name, "reserved", begin=begin))
        assert "job" in prepared, prepared
    assert "job" in door.claim("c1", after=60)
    assert (counted(door, reservation=True), counted(door, reservation=None)) == (0, 4)
