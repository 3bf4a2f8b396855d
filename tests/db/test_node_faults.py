"""A node that answers and cannot run jobs: suspected at its first refusal, taken back when it can, or by an admin."""

from __future__ import annotations

from datetime import timedelta

import pytest

from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Check, Cleaned, Ended, Stuck
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster, with_settings

STATE = "SELECT DISTINCT network_address, state, state_by FROM resources WHERE state <> 'Alive'"
TOLD = "SELECT type, hosts, job_id IS NOT NULL FROM event_logs WHERE hosts <> '{}' ORDER BY event_id"


WHOLE = ["Waiting", "toLaunch", "Launching", "Running", "Finishing", "Terminated"]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    return made


@pytest.mark.parametrize("reason", ["STATE_DIRECTORY", "SUPERVISOR"])
def test_a_node_that_refuses_for_its_own_fault_is_no_black_hole(cluster: SmallCluster, reason: str) -> None:
    cluster.node("n1").refusal = reason
    cluster.node("n1").problem = "state directory: No space left on device"
    jobs = [cluster.submit("/nodes=1", types=("idempotent",), command="true") for _ in range(6)]
    cluster.settle()
    assert cluster.sql(STATE) == [("n1", "Suspected", "node")]
    assert cluster.sql(TOLD) == [(reason, ["n1"], True)]
    # one job met the node, waited again and ran elsewhere
    assert cluster.states(jobs) == ["Terminated"] * 6
    ((met,),) = cluster.sql("SELECT job_id FROM jobs WHERE attempt > 1")
    assert cluster.path(met) == ["Waiting", "toLaunch", "Launching", "Finishing", *WHOLE]
    assert cluster.events(met) == [reason, "REQUEUED"]
    assert cluster.job(met, "message") == ""
    assert cluster.hosts(met) == ["n2", "n2"]


def test_a_job_that_no_node_can_start_ends_after_some_launches(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(jobs={"launch_limit": 3}))
    cluster.add_nodes("n1")
    cluster.node("n1").refusal = "SUPERVISOR"  # and it says that it is well
    job = cluster.submit()
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "attempt")) == ("Error", 3)
    assert cluster.events(job).count("REQUEUED") == 2
    assert cluster.job(job, "message") == "not started, too often: as the test wants"
    assert cluster.held() == {}


def test_a_job_that_waits_again_can_be_deleted(cluster: SmallCluster) -> None:
    for node in ("n1", "n2"):
        cluster.node(node).refusal, cluster.node(node).problem = "STATE_DIRECTORY", "full"
    job = cluster.submit()
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    assert cluster.job(job, "message") == "waits again, not started: as the test wants"
    assert cluster.held() == {}
    cluster.delete(job)
    cluster.settle()
    assert cluster.state(job) == "Error"


def test_a_reservation_that_could_not_be_started_keeps_its_resources(cluster: SmallCluster) -> None:
    cluster.node("n1").refusal, cluster.node("n1").problem = "STATE_DIRECTORY", "full"
    start = cluster.now() + timedelta(seconds=100)
    job = cluster.submit("/nodes=2", reservation=start)
    cluster.settle()
    cluster.offset += 101
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "attempt")) == ("Waiting", 1)
    assert cluster.sql("SELECT count(*) FROM reserved_resources WHERE job_id = %s", job) == [(4,)]
    cluster.node("n1").refusal = cluster.node("n1").problem = ""
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "attempt")) == ("Running", 2)


def test_a_node_is_taken_back_when_it_says_that_its_fault_is_over(cluster: SmallCluster) -> None:
    cluster.node("n1").refusal = "STATE_DIRECTORY"
    cluster.node("n1").problem = "state directory: No space left on device"
    cluster.submit("/nodes=1")
    cluster.settle()
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.sent(Check)
    assert cluster.sql(STATE) == [("n1", "Suspected", "node")]
    cluster.node("n1").refusal = cluster.node("n1").problem = ""
    cluster.settle()
    assert cluster.sql(STATE) == []
    assert [kind for kind, _, _ in cluster.sql(TOLD)] == ["STATE_DIRECTORY", "FINAUD_RECOVER"]
    cluster.nodes.sent.clear()
    cluster.settle()
    assert cluster.sent(Check) == []


@pytest.mark.parametrize("reason", ["NO_SUCH_USER", "START_DEADLINE", "NOT_PERMITTED", "FORGOTTEN", "INCARNATION"])
def test_what_is_not_the_nodes_fault_does_not_suspect_it(cluster: SmallCluster, reason: str) -> None:
    cluster.node("n1").refusal = reason
    cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.sql(STATE) == []


def test_a_node_where_starts_of_several_users_fail_is_suspected(cluster: SmallCluster) -> None:
    """Its jobs run elsewhere; until it is suspected, each of them tries it once."""
    cluster.node("n1").refusal = "NO_SUCH_USER"
    jobs = [cluster.submit("/nodes=1", user=user, command="true") for user in ("ann", "bob") * 6]
    cluster.settle()
    assert cluster.states(jobs) == ["Terminated"] * 12
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]
    assert cluster.sql(TOLD) == [("START_FAILURES", ["n1"], True)]
    text = "5 starts failed within a minute, the last: as the test wants"
    assert cluster.sql("SELECT away_reason FROM nodes WHERE network_address = 'n1'") == [(text,)]
    tried = [job for job in jobs if cluster.job(job, "attempt") > 1]
    assert len(tried) == 5
    assert all(cluster.job(job, "attempt") == 2 for job in tried)
    assert cluster.events(tried[0]) == ["REQUEUED"]
    assert cluster.job(tried[0], "properties") == "network_address IS NULL OR network_address <> 'n1'"


def test_what_one_user_does_suspects_no_node(cluster: SmallCluster) -> None:
    cluster.node("n1").refusal = "NO_SUCH_USER"
    jobs = [cluster.submit("/nodes=1", "core=1", properties="cpu > 0", command="true") for _ in range(8)]
    cluster.settle()
    assert cluster.states(jobs) == ["Terminated"] * 8
    assert cluster.sql(STATE) == []
    away = "(cpu > 0) AND (network_address IS NULL OR network_address <> 'n1')"
    assert cluster.job(jobs[0], "properties") == away


def test_starts_that_failed_longer_ago_do_not_count(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(nodes={"strikes": 2, "lost_timeout": 3600}))
    cluster.add_nodes("n1", "n2")
    cluster.node("n1").refusal = "NO_SUCH_USER"
    for user in ("ann", "bob"):
        cluster.submit("/nodes=1", user=user, command="true")
        cluster.settle()
        cluster.offset += 61
    assert cluster.sql(STATE) == []
    for user in ("ann", "bob", "ann", "bob"):
        cluster.submit("/nodes=1", user=user, command="true")
    cluster.settle()
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]


@pytest.mark.parametrize(
    ("request_text", "properties"), [("/nodes=2", ""), ("/nodes=1", "network_address = 'n1'")], ids=["all", "that one"]
)
def test_who_can_go_nowhere_else_is_told_why(cluster: SmallCluster, request_text: str, properties: str) -> None:
    cluster.node("n1").refusal = "NO_SUCH_USER"
    job = cluster.submit(request_text, properties=properties)
    cluster.settle()
    assert (cluster.state(job), cluster.events(job)) == ("Error", ["NO_SUCH_USER"])
    assert cluster.job(job, "message") == "not started: as the test wants"


def test_what_a_node_without_memory_may_have_run_is_not_run_again(cluster: SmallCluster) -> None:
    cluster.node("n1").refusal = cluster.node("n2").refusal = "INCARNATION"
    job = cluster.submit("/nodes=1", types=("idempotent",))
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.job(job, "message") == "not known whether it started: as the test wants"
    assert cluster.events(job) == ["START_UNKNOWN"]
    assert cluster.sql("SELECT count(*) FROM jobs") == [(1,)]


def test_what_was_to_be_launched_there_waits_again(cluster: SmallCluster) -> None:
    cluster.settle()
    job = cluster.submit("/nodes=2")
    cluster.plan()
    assert cluster.state(job) == "toLaunch"
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'node' WHERE network_address = 'n2'")
    cluster.watch()
    assert cluster.state(job) == "Waiting"
    assert cluster.held() == {}


def test_a_node_whose_supervisor_does_not_come_on_is_suspected_until_it_does(cluster: SmallCluster) -> None:
    job = cluster.submit("/core=1")
    cluster.settle()
    (node,) = cluster.hosts(job)
    cluster.node(node).problem = "a supervisor was stopped"
    cluster.nodes.inbox.put(node, [Stuck(cluster.key(job), "a supervisor was stopped")])
    cluster.settle()
    assert cluster.sql(STATE) == [(node, "Suspected", "node")]
    assert cluster.events(job) == ["SUPERVISOR_STUCK"]
    assert cluster.state(job) == "Running"
    cluster.node(node).problem = ""
    cluster.settle()
    assert cluster.sql(STATE) == []


def test_processes_that_cannot_be_killed_suspect_the_node_until_an_admin_has_seen_to_it(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.nodes.inbox.put("n1", [Ended(cluster.key(job), 0, "exited", 1.0, 2.0, left=3)])
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]
    ((text,),) = cluster.sql("SELECT description FROM event_logs WHERE type = 'CPUSET_CLEAN_ERROR'")
    assert text == f"3 processes of job {job} resist SIGKILL"
    cluster.nodes.lose("n1")
    cluster.launch()
    cluster.reconnect("n1")
    cluster.settle()
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]


def test_processes_left_on_another_node_suspect_that_one_and_hold_up_nobody(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.end(job)
    cluster.launch()
    assert cluster.state(job) == "Finishing"
    cluster.nodes.inbox.put("n2", [Cleaned(cluster.key(job), 1, 1)])
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql(STATE) == [("n2", "Suspected", "launcher")]


def test_a_lost_node_with_a_fault_is_not_taken_back_by_the_monitor(cluster: SmallCluster) -> None:
    cluster = SmallCluster(cluster.connection, with_settings(nodes={"lost_timeout": 0.0}))
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Suspected', state_by = 'monitor' WHERE network_address = 'n1'")
    cluster.nodes.inbox.put("n1", [Cleaned(cluster.key(job), 0, 2)])
    cluster.settle()
    assert cluster.sql(STATE) == [("n1", "Suspected", "launcher")]


def test_a_job_that_met_the_limit_of_its_memory_says_so_and_blames_nobody(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.nodes.inbox.put("n1", [Ended(cluster.key(job), 137 << 8, "exited", 1.0, 2.0, memory_kills=2)])
    cluster.settle()
    assert (cluster.state(job), cluster.events(job)) == ("Terminated", ["OUT_OF_MEMORY"])
    assert cluster.job(job, "message").startswith("2 of its processes killed by the kernel")
    assert cluster.sql(STATE) == []


def test_memory_that_ran_out_on_another_node_is_told_too(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.end(job)
    cluster.launch()
    cluster.nodes.inbox.put("n2", [Cleaned(cluster.key(job), 0, 0, memory_kills=1), Cleaned(JobKey(999, 1), 0, 0, 1)])
    cluster.settle()
    assert (cluster.state(job), cluster.events(job)) == ("Terminated", ["OUT_OF_MEMORY"])
    assert cluster.job(job, "message").endswith("killed by the kernel: it had no more of the memory it asked for")
    assert cluster.sql("SELECT hosts FROM event_logs WHERE type = 'OUT_OF_MEMORY'") == [(["n2"],)]
