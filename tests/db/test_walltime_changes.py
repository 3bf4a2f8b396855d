"""``oarwalltime``: who may ask for what, what a pass grants, and that the node hears of it whoever dies in between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from oarpy.client.jobs.running import walltime_changes as client
from oarpy.client.session import Session
from oarpy.configuration import Configuration
from oarpy.model.errors import NotAllowed, OarpyError, UsageError
from oarpy.store import notifications
from oarpy.wire.messages import ChangeWalltime
from tests.harness.sample_cluster import Shell, add_job, add_nodes
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]

RULES: Mapping[str, Any] = {"enabled": True, "max_increase": ("7200",)}


def settings(**rules: Any) -> Configuration:
    return with_settings(walltime={**RULES, **rules}, scheduler={"security_time": 10})


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, settings())
    made.add_nodes("n1", "n2")
    return made


def session(cluster: SmallCluster, user: str = "ann", **rules: Any) -> Session:
    return Session(cluster.connection, settings(**rules), user, 1000, is_admin=False)


def ask(cluster: SmallCluster, job: int, amount: str, **options: Any) -> int:
    rules = options.pop("rules", {})
    return client.change(session(cluster, **rules), job, client.WalltimeQuestion(amount, **options))


def walltime(cluster: SmallCluster, job: int) -> int:
    return int(cluster.job(job, "walltime").total_seconds())


def standing(cluster: SmallCluster, job: int) -> tuple[int, int]:
    """What was granted and what is pending."""
    found = client.show(session(cluster), job)
    return found.granted, found.pending


def node_walltime(cluster: SmallCluster, job: int) -> int:
    return cluster.node(cluster.hosts(job)[0]).jobs[cluster.key(job)].walltime


def test_an_increase_is_granted_at_the_next_pass_and_the_node_follows(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    assert ask(cluster, job, "+0:30:0") == 1800
    cluster.settle()
    assert walltime(cluster, job) == node_walltime(cluster, job) == 5400
    assert standing(cluster, job) == (1800, 0)
    assert cluster.events(job) == ["WALLTIME_REQUEST", "WALLTIME_REQUEST"]
    assert cluster.sql("SELECT description FROM event_logs ORDER BY event_id") == [
        ("asked by ann: +0:30:0",),
        ("walltime changed: 01:30:00 (granted: 00:30:00, pending: 00:00:00)",),
    ]
    assert cluster.sql("SELECT node_told FROM walltime_changes") == [(True,)]


def test_the_message_tells_the_walltime_that_was_granted(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=1:0:0", message="R=1,W=1:0:0,J=B,N=W=1:0:0")
    cluster.settle()
    ask(cluster, job, "+1:0:30")
    cluster.settle()
    assert cluster.sql("SELECT message FROM jobs WHERE job_id = %s", job) == [("R=1,W=2:0:30,J=B,N=W=1:0:0",)]


def test_the_gantt_follows(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    ask(cluster, job, "+1:0:0")
    cluster.settle()
    later = cluster.submit("/nodes=2,walltime=1:0:0", user="bob")
    cluster.settle()
    assert cluster.predicted(later) == pytest.approx(7200 + 10, abs=60)


def test_a_waiting_job_limits_what_is_granted_and_the_rest_follows_when_it_is_gone(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    short = cluster.submit("/nodes=1,walltime=0:10:0", user="bob")
    cluster.settle()
    before = cluster.predicted(short)
    assert before is not None
    ask(cluster, job, "+1:0:0")
    cluster.settle()
    assert standing(cluster, job) == (0, 3600)
    cluster.delete(short)
    cluster.settle()
    assert standing(cluster, job) == (3600, 0)


def test_a_part_is_granted_unless_it_is_to_be_whole(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    first = cluster.submit("/nodes=1,walltime=1:30:0", user="bob")
    cluster.settle()
    assert cluster.state(first) == "Running"
    later = cluster.submit("/nodes=2,walltime=1:0:0", user="bob")
    cluster.settle()
    ask(cluster, job, "+1:0:0", whole=True)
    cluster.settle()
    assert standing(cluster, job) == (0, 3600)
    ask(cluster, job, "+1:0:0")
    cluster.settle()
    granted, pending = standing(cluster, job)
    assert granted + pending == 3600
    assert granted == pytest.approx(1800, abs=60)
    assert cluster.predicted(later) == pytest.approx(5400 + 10, abs=60)
    assert node_walltime(cluster, job) == 3600 + granted


def test_delaying_others_is_for_those_who_may_and_moves_predictions_alone(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    later = cluster.submit("/nodes=2,walltime=1:0:0", user="bob")
    cluster.settle()
    with pytest.raises(NotAllowed, match="may not use --delay-next-jobs"):
        ask(cluster, job, "+1:0:0", delay_next_jobs=True)
    ask(cluster, job, "+1:0:0", delay_next_jobs=True, rules={"users_to_delay_next_jobs": ("ann",)})
    cluster.settle()
    assert standing(cluster, job) == (3600, 0)
    assert cluster.predicted(later) == pytest.approx(7200 + 10, abs=60)
    assert cluster.sql("SELECT granted_with_delay_next_jobs = granted FROM walltime_changes") == [(True,)]


def test_a_reduction_makes_room_at_once_and_ends_a_job_that_has_run_for_longer(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    later = cluster.submit("/nodes=2,walltime=1:0:0", user="bob")
    cluster.settle()
    ask(cluster, job, "-0:30:0")
    cluster.settle()
    assert node_walltime(cluster, job) == 1800
    assert cluster.predicted(later) == pytest.approx(1800 + 10, abs=60)
    cluster.sql("UPDATE jobs SET started_at = started_at - interval '20 minutes' WHERE job_id = %s", job)
    ask(cluster, job, "0:5:0")
    cluster.settle()
    assert walltime(cluster, job) == node_walltime(cluster, job) == pytest.approx(1200, abs=60)


def test_what_was_said_into_a_dead_channel_is_said_again(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.node("n1").deaf = True
    ask(cluster, job, "+0:30:0")
    cluster.plan()
    cluster.launch()
    assert cluster.sql("SELECT node_told FROM walltime_changes") == [(False,)]
    # the launcher is killed before the node has answered
    cluster.restart_launcher()
    cluster.node("n1").deaf = False
    cluster.settle()
    assert node_walltime(cluster, job) == 5400
    assert cluster.sql("SELECT node_told FROM walltime_changes") == [(True,)]
    told = len(cluster.sent(ChangeWalltime))
    cluster.restart_launcher()
    cluster.settle()
    assert len(cluster.sent(ChangeWalltime)) == told


def test_no_node_is_to_be_told_of_a_job_that_is_over(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=1:0:0")
    cluster.settle()
    cluster.node(cluster.hosts(job)[0]).deaf = True
    ask(cluster, job, "+0:30:0")
    cluster.settle()
    cluster.node(cluster.hosts(job)[0]).deaf = False
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT node_told FROM walltime_changes") == [(True,)]


def test_a_walltime_changed_by_hand_reaches_the_node_and_the_gantt(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    ear = notifications.Ear(cluster.connection, notifications.EVENTS)
    ear.listen()
    cluster.sql("UPDATE jobs SET walltime = '2 hours' WHERE job_id = %s", job)
    assert "walltime changed" in list(ear.drain())
    cluster.settle()
    assert node_walltime(cluster, job) == 7200


def test_a_request_is_granted_near_the_end_and_in_steps_unless_it_is_forced(connection: Connection) -> None:
    cluster = SmallCluster(connection, settings(apply_time=("0.5",), increment=("600",), users_to_force=("*",)))
    cluster.add_nodes("n1")
    job = cluster.submit("/nodes=1")
    cluster.settle()
    ask(cluster, job, "+0:20:0")
    outcome = cluster.plan()
    assert standing(cluster, job) == (0, 1200)
    assert outcome.wake_at == pytest.approx(cluster.now().timestamp() + 1800, abs=60)
    cluster.offset = 1900.0
    cluster.plan()
    assert standing(cluster, job) == (600, 600)
    cluster.plan()
    assert standing(cluster, job) == (600, 600)
    ask(cluster, job, "+0:30:0", force=True, rules={"users_to_force": ("*",)})
    cluster.plan()
    assert standing(cluster, job) == (2400, 0)


def test_a_request_is_dropped_when_its_time_is_over_or_its_job(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2,walltime=1:0:0")
    later = cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    ask(cluster, job, "+1:0:0", timeout=30)
    outcome = cluster.plan()
    assert outcome.wake_at is not None
    assert outcome.wake_at <= cluster.now().timestamp() + 31
    cluster.offset = 60.0
    cluster.plan()
    assert standing(cluster, job) == (0, 0)
    assert cluster.events(job)[-1] == "WALLTIME_REQUEST_CANCELLATION"
    cluster.offset = 0.0
    ask(cluster, job, "+1:0:0")
    cluster.delete(later)
    cluster.end(job)
    cluster.settle()
    assert cluster.sql("SELECT pending::text FROM walltime_changes") == [("00:00:00",)]


def test_limits_are_those_of_the_queue_and_of_the_first_walltime(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=2:0:0")
    cluster.settle()
    rules = {"max_increase": ("600", "default=0.5"), "minimum": ("0",)}
    with pytest.raises(NotAllowed, match="can grow by 1:0:0 at most, not by 1:0:1"):
        ask(cluster, job, "3:0:1", rules=rules)
    ask(cluster, job, "+0:45:0", rules=rules)
    cluster.settle()
    with pytest.raises(NotAllowed, match="can grow by 0:15:0 at most"):
        ask(cluster, job, "+0:20:0", rules=rules)
    with pytest.raises(NotAllowed, match="its walltime is too short"):
        ask(cluster, job, "+0:1:0", rules={"minimum": ("36000",)})
    with pytest.raises(NotAllowed, match="cannot be made shorter here"):
        ask(cluster, job, "-0:1:0", rules={"reduction": False})
    with pytest.raises(NotAllowed, match="not enabled"):
        ask(cluster, job, "+0:1:0", rules={"enabled": False})
    with pytest.raises(UsageError, match="is no limit"):
        ask(cluster, job, "+0:1:0", rules={"max_increase": ("much",)})


def test_what_makes_no_sense_is_refused(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1", types=("container",))
    plain = cluster.submit("/nodes=1")
    waiting = cluster.submit("/nodes=2")
    cluster.settle()
    with pytest.raises(OarpyError, match="is a container"):
        ask(cluster, job, "-0:1:0")
    with pytest.raises(UsageError, match="cannot be made shorter by 2:0:0"):
        ask(cluster, plain, "-2:0:0")
    with pytest.raises(OarpyError, match="only the walltime of a running job"):
        ask(cluster, waiting, "+1:0:0")
    with pytest.raises(UsageError, match="is not a duration"):
        ask(cluster, job, "+soon")
    with pytest.raises(NotAllowed, match="belongs to 'ann'"):
        client.change(session(cluster, "eve"), job, client.WalltimeQuestion("+1:0:0"))
    assert cluster.sql("SELECT FROM walltime_changes") == []


def test_cancelling(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.submit("/nodes=2", user="bob")
    cluster.settle()
    ask(cluster, job, "+1:0:0")
    cluster.settle()
    assert ask(cluster, job, "+0") == 0
    assert standing(cluster, job) == (0, 0)


def test_the_command(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Running", resources=cores, user="somebody")
    assert shell.done("oarwalltime", "1") == (
        "Walltime change status for job 1 (job is running):\n"
        "  Current walltime:         1:0:0\n"
        "  Possible increase:    NO (walltime changes are not enabled)\n"
        "  Already granted:          0:0:0\n"
        "  Pending/unsatisfied:      0:0:0\n"
    )
    assert shell("oarwalltime", "1", "+1:0:0").status == 5
    monkeypatch.setenv("OARPY_WALLTIME_ENABLED", "true")
    assert shell.done("oarwalltime", "1", "-0:30:0", "--whole") == (
        "Accepted: walltime change request registered for job 1, it will be handled shortly.\n"
    )
    assert "  Pending/unsatisfied:    -0:30:0 (whole)\n" in shell.done("oarwalltime", "1")
    assert json.loads(shell.done("oarwalltime", "-J", "1")) == {
        "job": 1,
        "state": "Running",
        "walltime": 3600,
        "possible_increase": None,
        "why_not": "",
        "granted": 0,
        "pending": -1800,
        "forced": False,
        "whole": True,
        "delay_next_jobs": False,
    }
    assert json.loads(shell.done("oarwalltime", "-J", "1", "+0")) == {"action": "walltime", "job": 1, "pending": 0}
    for words, status in (
        (["1", "--force"], 2),
        (["4242"], 4),
        (["x"], 2),
        (["1", "--forse"], 2),
        (["1", "+1:0:0", "--timeout", "-1"], 2),
        ([], 2),
    ):
        assert shell("oarwalltime", *words).status == status, words
