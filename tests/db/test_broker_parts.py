"""Parts of a broker: queued, claimed, reserved and withdrawn ones, from their preparation to their end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import psycopg
import pytest

from oarpy.grid.door.answers import parts
from oarpy.store.grid import part_events
from oarpy.wire.messages import Start
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import SETTINGS, Connection

pytestmark = [pytest.mark.db, pytest.mark.kept]
_LIMITED = replace(SETTINGS.submission, waiting_jobs_per_user=3)


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    with brokers_door(dsn, small_cluster(connection, "n1", "n2")) as made:
        yield made


def test_what_is_queued_waits_for_its_commit_and_then_runs_as_the_local_user(door: BrokersDoor) -> None:
    prepared = door.prepare("t1", door.part("p1", procs=2, environment={"OAR_GRID_JOB_ID": "7"}))
    job = int(prepared["job"])
    door.cluster.settle()
    assert (door.cluster.state(job), door.cluster.job(job, "user_name")) == ("Hold", "nobody")
    assert door.ask("waiting") == []
    assert door.ask("commit", transaction="t1", hosts=["a1", "b1"]) is None
    assert [(one["name"], one["job"]) for one in door.ask("waiting")] == [("p1", str(job))]
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"
    ((_, start),) = door.cluster.sent(Start)
    assert isinstance(start, Start)
    (spec,) = start.jobs
    assert (spec.grid_hosts, spec.environment["OAR_GRID_JOB_ID"]) == (("a1", "b1"), "7")
    (started,) = door.ask("events", after=0)
    assert (started["kind"], started["job"], started["hosts"]) == ("started", str(job), ["n1", "n1"])
    assert door.ask("waiting") == []


def test_what_is_asked_twice_is_done_once(door: BrokersDoor) -> None:
    part = door.part("p1")
    first, again = (door.prepare("t1", part, key="same") for _ in range(2))
    assert first == again
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(1,)]
    assert door.prepare("t1", part)["code"] == "cluster_refuses"
    assert [door.ask("commit", transaction="t1") for _ in range(2)] == [None, None]


def test_an_abort_ends_what_was_prepared_and_refuses_what_comes_later(door: BrokersDoor) -> None:
    job = int(door.prepare("t1", door.part("p1"))["job"])
    assert door.ask("abort", transaction="t1") is None
    door.cluster.settle()
    assert door.cluster.state(job) == "Error"
    assert door.events() == []
    assert door.ask("abort", transaction="t2") is None
    assert "t2" in door.prepare("t2", door.part("p2"))["message"]
    assert door.ask("commit", transaction="t1")["code"] == "parts_undone"
    assert door.ask("commit", transaction="t3")["code"] == "cluster_refuses"


def test_what_is_committed_is_not_aborted(door: BrokersDoor) -> None:
    job = door.queued("p1")
    assert door.ask("abort", transaction="of-p1")["code"] == "cluster_refuses"
    door.cluster.settle()
    assert door.cluster.state(job) == "Running"


@pytest.mark.parametrize("kind", ["queued", "claim"])
def test_what_is_not_committed_in_time_lapses(door: BrokersDoor, kind: str) -> None:
    begin = time.time() + 300 if kind == "claim" else None
    job = int(door.prepare("t1", door.part("p1", kind, begin=begin), ttl=600)["job"])
    outcome = door.cluster.cancel()
    assert outcome.wake_at is not None
    assert outcome.wake_at <= time.time() + 600
    door.cluster.sql("UPDATE door_parts SET lapses_at = now()")
    door.cluster.cancel()
    assert door.cluster.state(job) == "Error"
    assert door.events() == [("p1", "lapsed")]
    assert door.ask("commit", transaction="t1")["code"] == "parts_undone"
    assert door.cluster.cancel().wake_at is None


def test_a_withdrawn_part_keeps_its_rank_until_it_is_deleted_or_goes_on(door: BrokersDoor) -> None:
    busy = door.cluster.submit("/core=4")
    door.cluster.settle()
    first, second = door.queued("p1", 4), door.queued("p2", 4)
    assert door.prepare("t1", door.part("p1", "withdrawn"))["job"] == str(first)
    assert door.cluster.state(first) == "Hold"
    assert [one["name"] for one in door.ask("waiting")] == ["p1", "p2"]
    assert door.ask("abort", transaction="t1") is None
    door.cluster.delete(busy)
    door.cluster.settle()
    assert (door.cluster.state(first), door.cluster.state(second)) == ("Running", "Waiting")
    assert door.prepare("t2", door.part("p1", "withdrawn"))["code"] == "cluster_refuses"
    door.prepare("t3", door.part("p2", "withdrawn"))
    assert door.ask("commit", transaction="t3") is None
    door.cluster.settle()
    assert door.cluster.state(second) == "Error"
    assert door.events() == [("p1", "started")]


def test_a_frozen_part_goes_on_when_its_withdrawal_lapses(door: BrokersDoor) -> None:
    door.cluster.submit("/core=4")
    door.cluster.settle()
    job = door.queued("p1", 4)
    door.prepare("t1", door.part("p1", "withdrawn"))
    door.cluster.sql("UPDATE door_parts SET lapses_at = now()")
    door.cluster.cancel()
    assert (door.cluster.state(job), door.events()) == ("Waiting", [])
    assert door.ask("commit", transaction="t1")["code"] == "cluster_refuses"


def test_a_cancelled_part_ends_whatever_it_does(door: BrokersDoor) -> None:
    job = door.queued("p1")
    door.cluster.settle()
    assert door.ask("cancel", part="p1", reason="asked by ann") is None
    door.cluster.settle()
    assert door.cluster.state(job) == "Error"
    assert door.ask("cancel", part="p1") is None
    assert door.ask("cancel", part="unknown") is False
    failed = door.ask("events", after=1)[0]
    assert (failed["kind"], failed["number"], failed["reason"]) == ("failed", 2, "killed: asked by ann")


def test_events_are_told_in_order_from_any_point_on(door: BrokersDoor) -> None:
    door.queued("p1")
    door.cluster.settle()
    assert door.events() == [("p1", "started")]
    door.queued("p2")
    door.cluster.settle()
    assert door.events() == [("p1", "started"), ("p2", "started")]
    assert door.events(1) == [("p2", "started")]
    assert door.events(2) == []


def test_nobody_without_a_grant_is_acted_for(door: BrokersDoor) -> None:
    part = door.part("p1")
    part["request"]["user"] = "eve"
    assert door.prepare("t1", part)["code"] == "not_allowed"
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(0,)]
    door.cluster.sql("UPDATE grid_grants SET most_resources = 1")
    assert door.prepare("t1", door.part("p1", procs=2))["code"] == "not_allowed"


def prepare_all(door: BrokersDoor, *parts: Any) -> list[str]:
    """Prepare parts for a transaction; return why each is refused, or nothing."""
    wanted = [{"transaction": "t1", "part": part} for part in parts]
    answers = door.ask("prepare_all", parts=wanted, ttl=600)
    return ["" if "prepared" in one else one["refused"]["message"] for one in answers]


def test_many_parts_are_those_that_each_alone_would_be(door: BrokersDoor) -> None:
    stranger = door.part("p3")
    stranger["request"]["user"] = "eve"
    claim = door.part("p5", "claim", begin=time.time() + 300)
    copies = [door.part(f"c{number}", environment={"NUMBER": str(number)}) for number in (1, 2)]
    refused = prepare_all(door, *copies, door.part("p1", procs=2), door.part("p2", procs=9), stranger, claim, copies[0])
    assert [bool(why) for why in refused] == [False] * 3 + [True] * 4
    words = ("4 exist", "'eve'", "claim", "already")
    assert [word in why for word, why in zip(words, refused[3:], strict=True)] == [True] * 4, refused
    assert door.ask("commit", transaction="t1") is None
    assert [one["name"] for one in door.ask("waiting")] == ["c1", "c2", "p1"]
    door.cluster.settle()
    started = [job for _, start in door.cluster.sent(Start) if isinstance(start, Start) for job in start.jobs]
    assert sorted(job.environment.get("NUMBER", "") for job in started) == ["", "1", "2"]


def test_rules_and_limits_count_the_parts_before(connection: Connection, dsn: str) -> None:
    cluster = small_cluster(connection, "n1", settings=replace(SETTINGS, submission=_LIMITED))
    with brokers_door(dsn, cluster) as door:
        names = [f"p{number}" for number in range(5)]
        refused = prepare_all(door, *map(door.part, names))
        assert [bool(why) for why in refused] == [False] * 3 + [True] * 2
        assert "3 may" in refused[3]
        assert door.cluster.sql("SELECT count(*) FROM jobs") == [(3,)]
        assert door.ask("abort", transaction="t1") is None


def test_a_session_that_dies_while_a_claim_is_answered_leaves_one_claim(
    door: BrokersDoor, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = door.part("c1", "claim", 2, begin=time.time() + 300)
    with monkeypatch.context() as hurry:
        hurry.setattr(parts, "_ANSWER_TIME", 0.0)
        unanswered = door.ask("prepare", key="k", transaction="t1", part=part, ttl=600)
    assert unanswered["code"] == "unreachable"
    assert door.ask("commit", transaction="t1")["code"] == "cluster_refuses"
    with door.another(dsn) as later:
        claimed = later.prepare("t1", part, key="k")
        assert claimed["hosts"] == ["n1", "n1"]
        assert later.ask("commit", transaction="t1") is None
    assert door.cluster.sql("SELECT job_id::text FROM jobs") == [(claimed["job"],)]


def test_sessions_that_prepare_at_once_make_one_part(door: BrokersDoor, dsn: str) -> None:
    answers: list[object] = []
    with door.another(dsn) as first, door.another(dsn) as second:
        asking = [
            Thread(target=lambda one=one: answers.append(one.prepare("t1", door.part("p1"), key="k")))
            for one in (first, second)
        ]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
    assert answers[0] == answers[1]
    assert door.cluster.sql("SELECT count(*) FROM jobs") == [(1,)]


def test_a_reservation_that_a_pass_starts_at_this_moment_is_not_amended(door: BrokersDoor) -> None:
    begin = int(time.time()) + 300
    old = int(door.prepare("t1", door.part("p1", "reserved", begin=begin))["job"])
    assert door.ask("commit", transaction="t1") is None
    part = door.part("p2", "reserved", begin=begin + 600)
    new = int(door.while_it_plans("amend", transaction="t2", instead_of="p1", part=part, ttl=600)["job"])
    answers: list[Any] = []
    asking = Thread(target=lambda: answers.append(door.ask("commit", transaction="t2")))
    with door.cluster.connection.transaction():
        door.cluster.offset = 301
        door.cluster.plan()
        assert door.cluster.state(old) == "toLaunch"
        asking.start()
        asking.join(1)
    asking.join()
    assert answers[0]["code"] == "cluster_refuses"
    assert door.cluster.sql("SELECT job_id FROM kill_requests") == []
    assert door.ask("abort", transaction="t2") is None
    door.cluster.settle()
    assert door.cluster.states([old, new]) == ["toLaunch", "Error"]  # its gate opens at its date


def test_moves_that_are_none_are_refused_to_everybody(door: BrokersDoor) -> None:
    door.prepare("t1", door.part("p1"))
    for statement in (
        "UPDATE door_parts SET state = 'Frozen', held_at = now()",
        "UPDATE door_transactions SET state = 'Committed'; UPDATE door_transactions SET state = 'Aborted'",
        "INSERT INTO door_transactions VALUES ('campus', 't9', 'Committed')",
        "DELETE FROM door_moves",
        "UPDATE door_parts SET lapses_at = NULL",
    ):
        with pytest.raises(psycopg.errors.CheckViolation):
            door.cluster.sql(statement)


def test_told_events_are_forgotten_but_for_the_last(door: BrokersDoor) -> None:
    for name in ("p1", "p2"):
        door.queued(name)
    door.cluster.settle()
    assert [kind for _, kind in door.events()] == ["started", "started"]
    part_events.prune(door.cluster.connection, datetime.now(UTC) + timedelta(seconds=1))
    assert door.events() == [("p2", "started")]
    door.queued("p3")
    door.cluster.settle()
    assert door.events(2) == [("p3", "started")]


def test_a_reservation_hears_that_a_job_ended_early_after_the_pass_that_knows_it(door: BrokersDoor) -> None:
    on_time, early = (door.cluster.submit("/core=1,walltime=2:0:0") for _ in range(2))
    door.cluster.settle()
    assert "job" in door.prepare("t1", door.part("r1", "reserved", 4, begin=time.time() + 7300))
    assert door.ask("commit", transaction="t1") is None
    door.cluster.sql("UPDATE jobs SET walltime = interval '1 second' WHERE job_id = %s", on_time)
    for job, told in ((on_time, []), (early, [("r1", "idle")])):
        door.cluster.end(job)
        door.cluster.settle()
        door.cluster.plan()
        assert door.events() == told
        assert door.events() == told, "each end is told once"
