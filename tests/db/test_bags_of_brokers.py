"""Bags of tasks at the door of a cluster: offers, parts that take them up, and what their broker hears of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from oarpy.model.node_types import ONE_TYPE
from oarpy.modules.accounting import Accounting
from oarpy.store.grid import part_events
from oarpy.store.jobs import bag_profiles
from oarpy.wire.messages import Start
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection, with_settings

pytestmark = pytest.mark.db
_SITE = {"security_time": 60, "promised_share": 100}


@pytest.fixture
def door(connection: Connection, dsn: str) -> Iterator[BrokersDoor]:
    cluster = small_cluster(connection, "n1", "n2", settings=with_settings(scheduler=_SITE))
    with brokers_door(dsn, cluster, disclose="load") as made:
        cluster.settle()
        yield made


def offers(door: BrokersDoor, tasks: int = 8, walltime: float = 540, **more: Any) -> Any:
    """What is offered for tasks, which take ten minutes with the security time."""
    return door.ask("offers", request=door.request(1, walltime), tasks=tasks, **more)


def minutes(told: Any, now: float) -> list[tuple[int, int]]:
    """Offers as the most tasks, and minutes until they are done; cores may come free some seconds apart."""
    by_minute = {round((one["end"] - now) / 60): one["tasks"] for one in told["offers"]}
    return [(tasks, minute) for minute, tasks in by_minute.items()]


def bag(door: BrokersDoor, name: str, tasks: list[int], end_by: float, **more: Any) -> Any:
    """A part that is a bag."""
    return door.part(name, "bag", 1, 540, bag={"tasks": tasks, "end_by": end_by, **more})


def dump(door: BrokersDoor) -> Any:
    """All that calls might change."""
    tables = ("jobs", "bags", "door_parts", "door_calls", "door_transactions", "door_events", "gantt_predictions")
    return [door.cluster.sql(f"SELECT * FROM {name} ORDER BY 1") for name in tables]  # noqa: S608 - names above


def test_offers_are_what_fits_beside_the_plan_and_change_nothing(door: BrokersDoor) -> None:
    door.cluster.submit("/core=4,walltime=0:9:0")
    door.cluster.submit("/core=2,walltime=0:9:0")
    door.cluster.settle()
    before, now = dump(door), time.time()
    told = offers(door)
    assert minutes(told, now) == [(2, 20), (6, 30), (8, 40)]
    assert told["power"] == 4
    assert 4 * 500 + 2 * 540 < told["pending"] <= 4 * 600 + 2 * 600
    assert "slots" not in told or told["slots"] is False
    assert now + 55 < told["until"] <= time.time() + 61
    by_then = offers(door, end_by=now + 35 * 60)
    assert minutes(by_then, now) == [(8, 35)], "jobs without a promise give way"
    assert dump(door) == before


def test_a_bag_is_held_by_its_promise_and_begins_once_committed(door: BrokersDoor) -> None:
    (offer,) = [one for one in offers(door, 6)["offers"] if one["tasks"] == 6]
    part = bag(door, "p1", [7, 3, 4, 1, 9, 2], offer["end"], offer=offer["name"])
    prepared = door.prepare("t1", part)
    assert prepared["end"] == offer["end"]
    tasks = range(int(prepared["job"]), int(prepared["job"]) + 6)
    door.cluster.settle()
    assert door.cluster.states(list(tasks)) == ["toLaunch"] * 4 + ["Waiting"] * 2
    assert door.ask("commit", transaction="t1") is None
    door.cluster.settle()
    assert door.cluster.states(list(tasks)) == ["Running"] * 4 + ["Waiting"] * 2
    starts = [start for _, start in door.cluster.sent(Start) if isinstance(start, Start)]
    numbers = [spec.variables["OAR_GRID_TASK"] for start in starts for spec in start.jobs]
    assert sorted(numbers) == ["1", "3", "4", "7"]
    assert [kind for _, kind in door.events()] == ["started", "completion"]


def plans(door: BrokersDoor) -> list[int]:
    """The plans that were told as newer than those of offers, and of no part."""
    told = [one for one in door.ask("events", after=0) if one["kind"] == "changed"]
    assert all(set(one) == {"kind", "number", "at", "plan"} for one in told)
    return [one["plan"] for one in told]


def test_a_broker_with_open_offers_hears_of_newer_plans_once_a_second_at_most(door: BrokersDoor) -> None:
    door.cluster.plan()
    assert plans(door) == [], "it has no offers"
    first = offers(door)["plan"]
    assert plans(door) == []
    door.cluster.plan()
    assert plans(door) == [first + 1]
    offers(door)
    door.cluster.plan()
    door.cluster.sql("UPDATE door_offers SET told_at = clock_timestamp() + interval '1 hour'")
    assert plans(door) == [first + 1], "it was told a moment ago"
    door.cluster.sql("UPDATE door_offers SET told_at = clock_timestamp() - interval '1 second'")
    assert plans(door) == [first + 1, first + 2]
    door.cluster.sql("UPDATE door_offers SET told_at = NULL, until = clock_timestamp() - interval '1 second'")
    door.cluster.plan()
    assert plans(door) == [first + 1, first + 2], "its offers are over"


def test_offers_on_an_older_plan_stay_outdated_when_newer_ones_are_made(door: BrokersDoor) -> None:
    first = offers(door)["plan"]
    door.cluster.plan()
    assert offers(door)["plan"] == first + 1
    assert plans(door) == [first + 1]


def test_a_bag_that_nobody_commits_is_gone_with_all_its_tasks(door: BrokersDoor) -> None:
    end = time.time() + 3600
    jobs = [int(door.prepare(f"t{n}", bag(door, f"p{n}", [1, 2], end))["job"]) for n in (1, 2)]
    assert door.ask("abort", transaction="t1") is None
    door.cluster.sql("UPDATE door_parts SET lapses_at = now() WHERE part = 'p2'")
    door.cluster.cancel()
    door.cluster.settle()
    assert door.cluster.states([job + n for job in jobs for n in (0, 1)]) == ["Error"] * 4
    assert door.events() == [("p2", "lapsed")]
    assert door.ask("commit", transaction="t2")["code"] == "parts_undone"


def test_an_offer_is_taken_up_once_in_time_and_no_further(door: BrokersDoor, dsn: str) -> None:
    with door.another(dsn, offer_time=-60) as late:
        over = offers(late, 4)["offers"][-1]
    offer = offers(door, 4)["offers"][-1]
    end, name = offer["end"], offer["name"]
    refused = {
        "more": bag(door, "p1", [1, 2, 3, 4, 5], end, offer=name),
        "earlier": bag(door, "p2", [1], end - 1, offer=name),
        "forged": bag(door, "p3", [1], end, offer=name.replace("-4-", "-5-")),
        "twice": bag(door, "p4", [1, 1], end, offer=name),
        "none": door.part("p5", "bag"),
        "late": bag(door, "p11", [1], over["end"], offer=over["name"]),
        "past": bag(door, "p6", [1], time.time() + 60),
        "shorter": {**bag(door, "p9", [1], end, offer=name), "request": door.request(1, 300)},
        "another's": {**bag(door, "p10", [1], end, offer=name), "request": {**door.request(1, 540), "user": "eve"}},
    }
    before = dump(door)
    codes = {why: door.prepare(f"t{place}-refused", part)["code"] for place, (why, part) in enumerate(refused.items())}
    assert codes == {
        "more": "cluster_refuses",
        "earlier": "cluster_refuses",
        "forged": "cluster_refuses",
        "twice": "usage",
        "none": "usage",
        "late": "offer_changed",
        "past": "offer_changed",
        "shorter": "cluster_refuses",
        "another's": "cluster_refuses",
    }
    assert dump(door) == before
    door.prepare("t7", bag(door, "p7", [1, 2, 3, 4], end, offer=name))
    assert "taken up" in door.prepare("t8", bag(door, "p8", [5], end, offer=name))["message"]


def test_an_offer_can_be_taken_up_again_after_an_abort(door: BrokersDoor) -> None:
    offer = offers(door, 4)["offers"][-1]
    for number, undo in enumerate(("abort", "lapse", "commit")):
        part = bag(door, f"p{number}", [1, 2], offer["end"] + 60, offer=offer["name"])
        assert "end" in door.prepare(f"t{number}", part)
        if undo == "lapse":
            door.cluster.sql("UPDATE door_parts SET lapses_at = now() WHERE state = 'Prepared'")
        else:
            assert door.ask(undo, transaction=f"t{number}") is None
        door.cluster.cancel()
        door.cluster.settle()
    assert "taken up" in door.prepare("t9", bag(door, "p9", [5], offer["end"], offer=offer["name"]))["message"]


def test_equal_offers_are_told_apart_and_each_is_taken_up_once(door: BrokersDoor) -> None:
    until = time.time() + 7200
    first, second = ({one["tasks"]: one["name"] for one in offers(door, 2, end_by=until)["offers"]} for _ in range(2))
    for number, name in enumerate((first[2], second[2])):
        assert "end" in door.prepare(f"t{number}", bag(door, f"p{number}", [1, 2], until + 60, offer=name))
        again = door.prepare(f"again{number}", bag(door, f"q{number}", [3, 4], until + 60, offer=name))
        assert (again["code"], "taken up" in again["message"]) == ("offer_changed", True)


def test_what_a_broker_was_told_of_a_bag_that_goes_on_is_not_told_again(door: BrokersDoor) -> None:
    first = int(door.prepare("t1", bag(door, "p1", [5, 6, 7, 8, 9], time.time() + 7200))["job"])
    door.ask("commit", transaction="t1")
    door.cluster.settle()
    for task in range(4):
        door.cluster.end(first + task)
    door.cluster.settle()
    told = door.ask("events", after=0)
    assert [one["task"] for one in told if one["kind"] == "task"] == [5, 6, 7, 8]
    later = datetime.now(UTC) + timedelta(seconds=1)
    part_events.prune(door.cluster.connection, later)
    assert door.ask("events", after=told[-1]["number"]) == []
    door.cluster.end(first + 4)
    door.cluster.settle()
    last = door.ask("events", after=told[-1]["number"])
    assert [one["kind"] for one in last if one["kind"] != "completion"] == ["task", "ended"]
    part_events.prune(door.cluster.connection, later + timedelta(hours=1))
    assert door.ask("events", after=last[-1]["number"]) == []


def test_what_became_worse_has_changed_unless_any_end_will_do(door: BrokersDoor) -> None:
    offer = offers(door, 4)["offers"][-1]
    door.prepare("t1", bag(door, "p1", [1, 2, 3, 4], offer["end"]))
    changed = door.prepare("t2", bag(door, "p2", [5, 6, 7, 8], offer["end"], offer=offer["name"]))
    assert changed["code"] == "offer_changed"
    late = door.prepare("t3", bag(door, "p3", [5, 6, 7, 8], offer["end"], strict=False))
    assert offer["end"] + 500 < late["end"] < offer["end"] + 700


def test_an_offer_on_an_older_plan_is_made_anew_when_it_is_taken_up(door: BrokersDoor) -> None:
    offer = offers(door, 4)["offers"][-1]
    assert (offer["tasks"], int(offer["name"].split("-")[0])) == (4, offers(door, 4)["plan"])
    door.cluster.plan()
    assert offers(door, 4)["plan"] != int(offer["name"].split("-")[0])
    prepared = door.prepare("t1", bag(door, "p1", [1, 2, 3, 4], offer["end"], offer=offer["name"]))
    assert prepared["end"] == offer["end"], "as good as before, on another plan"


@pytest.mark.parametrize("strict", [True, False])
def test_an_offer_that_became_worse_is_refused_before_a_task_is_made(door: BrokersDoor, strict: bool) -> None:
    (older,) = [one for one in offers(door, 4)["offers"] if one["tasks"] == 4]
    door.prepare("t1", bag(door, "p1", [1, 2, 3, 4], older["end"]))
    before = door.cluster.sql("SELECT count(*) FROM jobs")
    part = bag(door, "p2", [5, 6, 7, 8], older["end"], offer=older["name"], strict=strict)
    if strict:
        changed = door.ask("prepare", transaction="t2", part=part, ttl=600)  # and no pass looks at it
        assert (changed["code"], "cannot be had any more" in changed["message"]) == ("offer_changed", True)
        assert door.cluster.sql("SELECT count(*) FROM jobs") == before
    else:
        assert door.prepare("t2", part)["end"] > older["end"]


def test_its_broker_hears_of_tasks_of_the_plan_and_of_the_end(door: BrokersDoor) -> None:
    end = time.time() + 7200
    first = int(door.prepare("t1", bag(door, "p1", [5, 6, 7, 8, 9], end))["job"])
    door.ask("commit", transaction="t1")
    door.cluster.settle()
    begun = door.ask("events", after=0)
    assert [one["kind"] for one in begun] == ["started", "completion"]
    for task in range(4):
        door.cluster.end(first + task, 0 if task else 256)
    door.cluster.settle()
    told = door.ask("events", after=begun[-1]["number"])
    assert [(one["task"], one["status"]) for one in told if one["kind"] == "task"] == [(5, 1), (6, 0), (7, 0), (8, 0)]
    assert [one["kind"] for one in told if one["kind"] != "task"] == ["completion"]
    assert told[-1]["completion"] < begun[-1]["completion"]
    assert door.ask("events", after=told[-1]["number"]) == []
    assert door.ask("cancel", part="p1") is None
    door.cluster.cancel()
    door.cluster.settle()
    last = door.ask("events", after=told[-1]["number"])
    assert [(one["kind"], one["task"] if one["kind"] == "task" else one["status"]) for one in last] == [
        ("task", 9),
        ("ended", 1),
    ]


def test_the_last_word_on_completions_counts(door: BrokersDoor) -> None:
    end = float(int(time.time()) + 7200)
    door.prepare("t1", bag(door, "p1", [1, 2], end))
    door.ask("commit", transaction="t1")
    for version, hours in ((2, 3), (1, 9), (2, 4)):
        told = {"part": "p1", "completion": end + hours * 3600, "version": version}
        assert door.ask("tell_completions", bags=[told, {**told, "part": "unknown"}]) is None
    ((found, version),) = door.cluster.sql(
        "SELECT extract(epoch FROM completion)::float8, completion_version FROM door_parts WHERE part = 'p1'"
    )
    assert (found, version) == (end + 3 * 3600, 2)
    assert door.ask("tell_completions", bags=[]) is None


def profile(door: BrokersDoor, name: str, **more: Any) -> Any:
    """Have a profile taken of tasks of nine minutes."""
    asked = {"request": door.request(1, 540), "script": "/home/ann/seconds", "limit": 300, **more}
    return door.ask("take_profile", key=f"key-{name}", profile=name, **asked)


def test_a_profile_is_taken_by_jobs_of_the_user_and_tells_when_tasks_are_expected(door: BrokersDoor) -> None:
    assert door.ask("describe")["abilities"]["profile"] is True
    assert profile(door, "p1") is None
    assert profile(door, "p1") is None, "a call that comes again is the same"
    ((job, user, name, types),) = door.cluster.sql("SELECT job_id, user_name, job_name, types FROM jobs")
    assert (user, name) == ("nobody", "profile")
    assert [word.partition("=")[0] for word in types] == ["expire"]
    ((kind, why),) = [(one["name"], one["reason"]) for one in door.ask("profiled", profile="p1")]
    assert why == f"job {job} takes their profile"
    door.cluster.sql("UPDATE bag_profiles SET seconds = 60 WHERE job_id = %s", job)
    (told,) = door.ask("profiled", profile="p1")
    assert told == {"name": kind, "seconds": 60.0, "reason": "", "measuring": True}
    assert door.ask("profiled", profile="p2") == []
    door.cluster.sql("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", job)
    now = time.time()
    by_walltime, by_profile = offers(door), offers(door, profile={kind: 60})
    assert minutes(by_walltime, now) == [(4, 11), (8, 21)]
    expected = [(one["tasks"], round((one["expected"] - now) / 60)) for one in by_profile["offers"]]
    assert expected == [(4, 2), (8, 3)]
    assert minutes(by_profile, now) == minutes(by_walltime, now)


def test_a_profile_is_forgotten_some_time_after_its_job_ended(door: BrokersDoor) -> None:
    assert profile(door, "p1") is None
    prune, now = bag_profiles.prune, datetime.now(UTC)
    ((job,),) = door.cluster.sql("SELECT job_id FROM bag_profiles")
    prune(door.cluster.connection, now + timedelta(hours=1))
    assert door.cluster.sql("SELECT job_id FROM bag_profiles") == [(job,)], "its job is not over"
    door.cluster.sql("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", job)
    prune(door.cluster.connection, now - timedelta(hours=1))
    assert door.cluster.sql("SELECT job_id FROM bag_profiles") == [(job,)], "its job has just ended"
    accounting = Accounting(door.cluster.settings)
    for _ in ("count the job", "look at what is old"):
        accounting.run_once(door.cluster.connection, now + timedelta(days=2))
    assert door.ask("profiled", profile="p1") == []


def test_a_part_with_a_profile_is_promised_by_walltimes_and_expected_by_the_profile(door: BrokersDoor) -> None:
    offer = offers(door, profile={ONE_TYPE: 60})["offers"][-1]
    taken = {"offer": offer["name"], "profile": {ONE_TYPE: 60}}
    prepared = door.prepare("t1", bag(door, "p1", list(range(1, 9)), offer["end"], **taken))
    assert prepared["end"] == offer["end"]
    assert door.ask("commit", transaction="t1") is None
    door.cluster.settle()
    ((promise, expected),) = door.cluster.sql("SELECT promise, expected FROM bags")
    assert promise - expected > timedelta(minutes=15)
    (told,) = [one for one in door.ask("events", after=0) if one["kind"] == "completion"]
    assert told["completion"] == expected.timestamp()
