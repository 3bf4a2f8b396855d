"""The launcher: what it tells nodes, what it records; a crash or a lost channel changes no outcome."""

from __future__ import annotations

import psycopg
import pytest

from oarpy.modules.launcher.loads import NodeLoads
from oarpy.store.jobs import scripts
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    APPLICATION_DONE,
    Checkpointed,
    Clean,
    Command,
    Forget,
    JobOrder,
    Kill,
    Load,
    Signal,
    Start,
    TellGpus,
    TellLoad,
    Terminate,
    Welcome,
)
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.waiting import until

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

WHOLE = ["Waiting", "toLaunch", "Launching", "Running", "Finishing", "Terminated"]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2", "n3")
    return made


def nodes_told(cluster: SmallCluster, kind: type[Command], job: int) -> set[str]:
    """The nodes that were sent a command of this kind about a job."""
    told = set()
    for name, command in cluster.sent(kind):
        assert isinstance(command, Start | JobOrder)
        jobs = [spec.job for spec in command.jobs] if isinstance(command, Start) else [key.job for key in command.jobs]
        if job in jobs:
            told.add(name)
    return told


def test_nodes_are_told_the_kept_script_of_a_job(cluster: SmallCluster) -> None:
    """Each of those that start at once its own, and who has none nothing."""
    texts = {}
    for command in ("./a.sh one", "./b.sh", "date", "./a.sh two"):
        text = "" if command == "date" else f"#!/bin/sh\n# {command[:6]}\n"
        job = cluster.submit(command=command)
        texts[job] = text
        scripts.keep(cluster.connection, [text])
        cluster.sql(
            "UPDATE submissions s SET script = %s FROM jobs j WHERE j.submission_id = s.submission_id AND job_id = %s",
            scripts.digest(text),
            job,
        )
    cluster.settle()
    starts = [command for _, command in cluster.sent(Start)]
    assert {spec.job: spec.script for one in starts if isinstance(one, Start) for spec in one.jobs} == texts


def test_a_job_goes_through_every_state(cluster: SmallCluster) -> None:
    job = cluster.submit(command="exit 3")
    cluster.settle()
    assert cluster.path(job) == WHOLE
    assert cluster.job(job, "exit_status") == 3 << 8
    assert cluster.held() == {}
    cluster.launcher.close()  # what it had in no hurry to say is said then
    assert nodes_told(cluster, Forget, job) == {"n1"}


def test_a_job_runs_on_the_first_of_its_nodes_and_is_cleaned_on_all(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=3")
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert nodes_told(cluster, Start, job) == {"n1"}
    (spec,) = cluster.node("n1").starts
    assert spec.nodes == ("n1", "n1", "n2", "n2", "n3", "n3")
    cluster.end(job)
    cluster.settle()
    assert cluster.path(job) == WHOLE
    assert nodes_told(cluster, Clean, job) == {"n1", "n2", "n3"}


def test_a_node_looks_once_for_what_jobs_that_ended_together_left(cluster: SmallCluster) -> None:
    jobs = [cluster.submit("/nodes=3/core=1"), cluster.submit("/nodes=2/core=1")]
    cluster.settle()
    for job in jobs:
        cluster.end(job)
    cluster.settle()
    assert cluster.states(jobs) == ["Terminated"] * 2
    keys = tuple(map(cluster.key, jobs))
    assert sorted(cluster.sent(Clean)) == [("n1", Clean(keys)), ("n2", Clean(keys)), ("n3", Clean(keys[:1]))]


LOADS = "SELECT network_address, load_average, available_memory, uptime FROM nodes ORDER BY 1"


def test_loads_are_asked_when_channels_open_then_once_a_minute_and_written_together(cluster: SmallCluster) -> None:
    cluster.node("n1").load = Load(0.5, 2048, 100)
    cluster.node("n2").load = Load(7.0, 10, 3600)
    cluster.submit(command="true")
    cluster.settle()
    cluster.settle()
    assert sorted(node for node, _ in cluster.sent(TellLoad)) == ["n1", "n2", "n3"]
    assert cluster.sql(LOADS) == [("n1", 0.5, 2048, 100), ("n2", 7, 10, 3600), ("n3", 0, 1024, 60)]
    cluster.nodes.inbox.put("n1", [Load(99.0, 0, 0)])  # nobody asked
    cluster.settle()
    assert cluster.sql(LOADS)[0] == ("n1", 0.5, 2048, 100)
    cluster.node("n1").load = Load(0.75, 4096, 160)
    cluster.node("n2").deaf = True
    next(part for part in cluster.launcher._parts if isinstance(part, NodeLoads))._ask_at = 0.0
    cluster.launch()
    cluster.launch()
    assert len(cluster.sent(TellLoad)) == 6
    assert cluster.sql(LOADS)[0] == ("n1", 0.5, 2048, 100)  # n2 may still answer
    cluster.nodes.lose("n2")
    cluster.launch()
    assert cluster.sql(LOADS)[:2] == [("n1", 0.75, 4096, 160), ("n2", 7, 10, 3600)]


def test_a_node_tells_of_its_gpus_whenever_its_channel_opens(cluster: SmallCluster) -> None:
    cluster.node("n1").gpus = 4
    cluster.submit(command="true")
    cluster.settle()
    gpus = "SELECT network_address, gpus FROM nodes ORDER BY 1"
    assert cluster.sql(gpus) == [("n1", 4), ("n2", 0), ("n3", 0)]
    cluster.settle()
    assert sorted(node for node, _ in cluster.sent(TellGpus)) == ["n1", "n2", "n3"]


def test_nodes_are_told_whose_user_may_log_in_where_the_site_wants_it(
    connection: Connection, cluster: SmallCluster
) -> None:
    first = cluster.submit("/nodes=2/core=1")
    cluster.settle()
    assert cluster.sent(Welcome) == []
    cluster.end(first)
    cluster.settle()
    cluster = SmallCluster(connection, with_settings(nodes={"log_ins": True}))
    second = cluster.submit("/nodes=2/core=1")
    cluster.settle()
    told = [(node, order.job.job, order.head) for node, order in cluster.sent(Welcome) if isinstance(order, Welcome)]
    # a node that is heard of once more meanwhile is told once more
    assert set(told) == {("n1", second, True), ("n2", second, False)}
    cluster.nodes.lose("n2")

    def is_told_again() -> bool:
        cluster.settle()
        return len(cluster.sent(Welcome)) > len(told)

    until(is_told_again, "n2 is not connected again")
    again = [node for node, _ in cluster.sent(Welcome)][len(told) :]
    assert set(again) == {"n2"}, "what was on its way may be lost"


def test_a_job_of_one_node_that_ends_by_itself_is_not_cleaned(cluster: SmallCluster) -> None:
    job = cluster.submit(command="true")
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert nodes_told(cluster, Clean, job) == set()


def test_a_killed_job_is_cleaned_on_its_only_node_too(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.delete(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")
    assert nodes_told(cluster, Clean, job) == {"n1"}


def test_two_jobs_ending_in_one_round_are_both_recorded(cluster: SmallCluster) -> None:
    jobs = [cluster.submit("/core=1"), cluster.submit("/nodes=2"), cluster.submit("/core=1")]
    cluster.settle()
    assert cluster.states(jobs) == ["Running"] * 3
    for status, job in enumerate(jobs):
        cluster.end(job, status << 8)
    cluster.launch()
    cluster.settle()
    assert cluster.states(jobs) == ["Terminated"] * 3
    assert [cluster.job(job, "exit_status") for job in jobs] == [0, 256, 512]
    assert cluster.held() == {}


def test_a_launcher_restarted_before_it_sent_a_claimed_job_sends_it(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.launch()
    cluster.plan()
    # killed between claiming and sending: the node never heard of it
    incarnation = cluster.node("n1").incarnation
    cluster.sql("UPDATE jobs SET state = 'Launching', attempt = 1, incarnation = %s", incarnation)
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert len(cluster.node("n1").starts) == 1


def test_a_launcher_restarted_after_it_sent_a_job_does_not_start_it_twice(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.launch()
    cluster.plan()
    cluster.launch()
    assert cluster.state(job) == "Launching"
    assert len(cluster.node("n1").starts) == 1
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert len(cluster.node("n1").starts) == 1


def test_an_end_while_no_launcher_ran_is_recorded_later(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.nodes.close()
    cluster.end(job, 7 << 8)
    cluster.restart_launcher()
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status")) == ("Terminated", 7 << 8)


def test_a_node_that_forgot_everything_does_not_run_a_claimed_job(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.launch()
    cluster.node("n1").deaf = True
    cluster.plan()
    cluster.launch()
    assert cluster.state(job) == "Launching"
    cluster.nodes.reboot("n1", keep_state=False)
    cluster.node("n1").deaf = False
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.node("n1").starts == []
    assert cluster.state(job) == "Error"
    assert cluster.events(job) == ["START_UNKNOWN"]


def test_a_running_job_that_its_node_forgot_is_lost(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.nodes.reboot("n1", keep_state=False)
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert "its node forgot it" in cluster.job(job, "message")


def test_a_running_job_whose_node_restarted_is_lost(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.nodes.reboot("n1")
    cluster.restart_launcher()
    cluster.settle()
    assert (cluster.state(job), cluster.events(job)) == ("Error", ["JOB_LOST"])


def test_a_refused_start_ends_the_job_with_the_reason(cluster: SmallCluster) -> None:
    cluster.node("n1").refusal = "NOT_PERMITTED"
    job = cluster.submit()
    cluster.settle()
    assert cluster.path(job) == ["Waiting", "toLaunch", "Launching", "Finishing", "Error"]
    assert cluster.events(job) == ["NOT_PERMITTED"]


def test_a_launching_job_that_is_deleted_never_starts(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.launch()
    cluster.node("n1").deaf = True
    cluster.plan()
    cluster.launch()
    assert cluster.state(job) == "Launching"
    cluster.delete(job)
    cluster.cancel()
    cluster.node("n1").deaf = False
    cluster.restart_launcher()
    cluster.settle()
    assert cluster.node("n1").starts == []
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")


def test_deleting_a_finishing_job_does_not_change_its_end(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.end(job)
    cluster.launch()
    assert cluster.state(job) == "Finishing"
    cluster.delete(job)
    cluster.cancel()
    cluster.launch()
    assert cluster.state(job) == "Finishing"
    cluster.nodes.lose("n2")
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sql("SELECT state FROM kill_requests") == [("done",)]
    assert nodes_told(cluster, Kill, job) == set()


def test_a_restarted_launcher_cleans_before_it_closes(cluster: SmallCluster) -> None:
    """Its channels are not open yet when it sees the job: it must not take that for nodes which are gone."""
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.end(job)
    cluster.launch()
    cluster.restart_launcher(slow_nodes=True)
    cluster.node("n2").deaf = False
    cluster.nodes.sent.clear()
    cluster.launch()
    assert cluster.state(job) == "Finishing"
    cluster.answer()
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert nodes_told(cluster, Clean, job) == {"n1", "n2"}


def test_a_node_that_comes_back_is_cleaned_of_jobs_that_ended_meanwhile(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.node("n2").unreachable = "cannot reach node n2"
    cluster.nodes.lose("n2")
    cluster.settle()
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert nodes_told(cluster, Clean, job) == {"n1"}
    cluster.node("n2").unreachable = ""
    cluster.restart_launcher()
    cluster.settle()
    assert nodes_told(cluster, Clean, job) == {"n1", "n2"}


def test_a_new_launcher_cleans_what_the_one_before_may_not_have(cluster: SmallCluster) -> None:
    """It wrote that a node is back, and was killed before it told the node; or the node's agent was, which heard it."""
    job, alone = cluster.submit("/nodes=2"), cluster.submit("/nodes=1")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.end(job)
    cluster.end(alone)
    cluster.launch()
    cluster.node("n2").unreachable = "cannot reach node n2"
    cluster.nodes.lose("n2")
    cluster.settle()
    assert cluster.states([job, alone]) == ["Terminated"] * 2
    cluster.node("n2").unreachable = ""
    cluster.reconnect("n2")
    assert cluster.sql("SELECT channel FROM nodes WHERE network_address = 'n2'") == [("connected",)]
    cluster.node("n2").deaf = False
    cluster.restart_launcher()
    cluster.nodes.sent.clear()
    cluster.settle()
    assert nodes_told(cluster, Clean, job) == {"n1", "n2"}
    assert nodes_told(cluster, Clean, alone) == set()


def test_what_runs_on_of_a_job_that_is_over_is_killed(cluster: SmallCluster) -> None:
    settings = with_settings(nodes={"lost_timeout": 0.0})
    cluster = SmallCluster(cluster.connection, settings)
    job = cluster.submit()
    cluster.settle()
    cluster.node("n1").unreachable = "cannot reach node n1"
    cluster.nodes.lose("n1")
    cluster.settle()
    assert cluster.state(job) == "Error"
    cluster.node("n1").unreachable = ""
    cluster.restart_launcher()
    cluster.settle()
    assert nodes_told(cluster, Kill, job) == {"n1"}
    cluster.launcher.close()  # what it had in no hurry to say is said then
    assert nodes_told(cluster, Forget, job) == {"n1"}


def test_a_kill_that_was_on_its_way_when_the_channel_broke_is_said_again(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.node("n1").deaf = True
    cluster.delete(job)
    cluster.cancel()
    cluster.launch()
    assert cluster.state(job) == "Running"
    cluster.node("n1").deaf = False
    cluster.nodes.lose("n1")
    cluster.launch()
    cluster.reconnect("n1")
    cluster.settle()
    assert cluster.state(job) == "Error"


def test_reports_outlive_a_failed_transaction(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.end(job)
    cluster.sql(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'deadlock_detected'; END $$"
    )
    cluster.sql("CREATE TRIGGER fail AFTER UPDATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION fail()")
    with pytest.raises(psycopg.errors.DeadlockDetected):
        cluster.launch()
    cluster.sql("DROP TRIGGER fail ON jobs")
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def test_signals_go_to_all_nodes_and_are_noted(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    cluster.sql("INSERT INTO signal_requests (job_id, signal) VALUES (%s, 12)", job)
    cluster.settle()
    signal = Signal((JobKey(job, 1),), 12)
    assert cluster.sent(Signal) == [("n1", signal), ("n2", signal)]
    assert cluster.sql("SELECT done FROM signal_requests") == [(True,)]


def test_a_signal_of_a_job_that_is_over_is_not_looked_for_again(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    cluster.nodes.lose("n1")
    cluster.sql("INSERT INTO signal_requests (job_id, signal) VALUES (%s, 12)", job)
    cluster.end(job)
    cluster.reconnect("n1")
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert cluster.sent(Signal) == []
    assert cluster.sql("SELECT done FROM signal_requests") == [(True,)]


def test_a_signal_waits_for_the_nodes_that_cannot_be_reached(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    signal = Signal((JobKey(job, 1),), 12)
    cluster.node("n2").connected = False
    cluster.sql("INSERT INTO signal_requests (job_id, signal) VALUES (%s, 12)", job)
    cluster.settle()
    assert cluster.sent(Signal) == [("n1", signal)]
    assert cluster.sql("SELECT done FROM signal_requests") == [(False,)]
    cluster.node("n2").connected = True
    cluster.settle()
    assert cluster.sent(Signal) == [("n1", signal), ("n2", signal)]
    assert cluster.sql("SELECT done FROM signal_requests") == [(True,)]


def test_a_checkpoint_before_the_walltime_is_told_to_the_other_nodes_once(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    key = JobKey(job, 1)
    for at in (1.8e9, 1.8e9, 1.9e9):
        cluster.nodes.inbox.put("n1", [Checkpointed(key, at)])
        cluster.settle()
    cluster.nodes.inbox.put("n2", [Checkpointed(key, 2e9)])  # not for it to say
    cluster.settle()
    assert cluster.sent(Signal) == [("n2", Signal((key,), 12))] * 2


def test_a_node_that_comes_back_while_its_job_is_cleaned_up_is_cleaned_too(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=3")
    cluster.settle()
    cluster.node("n2").deaf = True
    cluster.nodes.lose("n3")
    cluster.launch()
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Finishing"
    if not cluster.node("n3").connected:
        cluster.reconnect("n3")
    cluster.settle()
    assert nodes_told(cluster, Clean, job) == {"n1", "n2", "n3"}
    cluster.nodes.lose("n2")
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def test_a_kill_reaches_all_nodes_and_the_others_give_time_too(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2")
    cluster.settle()
    key = JobKey(job, 1)
    cluster.sql("INSERT INTO kill_requests (job_id) VALUES (%s)", job)
    cluster.settle()
    assert cluster.sent(Kill) == [("n1", Kill((key,), None, "oardel"))]
    assert cluster.sent(Terminate) == [("n2", Terminate((key,)))]
    assert dict(cluster.sent(Clean)) == {"n1": Clean((key,), 0), "n2": Clean((key,), 20)}


# Jobs that run nothing


@pytest.mark.parametrize("kind", ["noop", "noop=standby"])
def test_a_noop_job_holds_its_resources_until_its_walltime(cluster: SmallCluster, kind: str) -> None:
    job = cluster.submit("/nodes=1,walltime=0:10:0", types=(kind,))
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert cluster.sent(Start) == []
    ended_at = cluster.launch().wake_at
    (over,) = cluster.sql("SELECT extract(epoch FROM started_at + walltime)::float8 FROM jobs")[0]
    assert ended_at is not None
    assert ended_at <= over
    cluster.sql("UPDATE jobs SET started_at = started_at - interval '11 minutes'")
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status")) == ("Terminated", 0)
    assert cluster.held() == {}


@pytest.mark.parametrize(
    ("nodes", "types", "reason", "expected"),
    [
        (1, (), APPLICATION_DONE, ("Terminated", 0, "")),
        (2, (), APPLICATION_DONE, ("Terminated", 0, "")),
        (1, ("noop",), APPLICATION_DONE, ("Terminated", 0, "")),
        (2, (), "application lost", ("Error", 15, "killed: application lost")),
    ],
)
def test_a_job_whose_application_is_done_ends_well(
    cluster: SmallCluster, nodes: int, types: tuple[str, ...], reason: str, expected: tuple[str, int, str]
) -> None:
    job = cluster.submit(f"/nodes={nodes}", types=types)
    cluster.settle()
    cluster.sql("INSERT INTO kill_requests (job_id, reason) VALUES (%s, %s)", job, reason)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status"), cluster.job(job, "message")) == expected
    assert cluster.held() == {}


def test_a_deleted_noop_job_ends_in_error(cluster: SmallCluster) -> None:
    job = cluster.submit(types=("noop",))
    cluster.settle()
    cluster.delete(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")


# Nodes that come, go and move


def test_a_node_whose_resources_are_all_dead_has_no_channel(cluster: SmallCluster) -> None:
    cluster.settle()
    assert cluster.node("n3").connected
    cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n3'")
    cluster.launch()
    assert not cluster.node("n3").connected
    assert cluster.sql("SELECT channel FROM nodes ORDER BY 1") == [("connected",), ("connected",), ("unknown",)]
    cluster.sql("UPDATE resources SET state = 'Alive' WHERE network_address = 'n3'")
    cluster.launch()
    assert cluster.node("n3").connected


def test_the_job_on_a_node_set_dead_is_killed_there(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.sql("UPDATE resources SET state = 'Dead' WHERE network_address = 'n1'")
    cluster.launch()
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: n1 set Dead")
    assert nodes_told(cluster, Kill, job) == {"n1"}
    cluster.launch()
    assert not cluster.node("n1").connected


def test_nodes_added_while_running_are_used(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=4")
    cluster.settle()
    assert cluster.state(job) == "Waiting"
    cluster.add_nodes("n4")
    cluster.launch()
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_node_that_moved_is_connected_anew_and_keeps_its_jobs(cluster: SmallCluster) -> None:
    job = cluster.submit()
    cluster.settle()
    cluster.sql("UPDATE nodes SET host = '127.0.1.9', port = 2222 WHERE network_address = 'n1'")
    cluster.launch()
    cluster.settle()
    address = cluster.addresses["n1"][-1]
    assert (address.address, address.port) == ("127.0.1.9", 2222)
    assert cluster.state(job) == "Running"
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"


def test_why_a_node_cannot_be_reached_is_kept_up_to_date(cluster: SmallCluster) -> None:
    cluster.settle()
    cluster.node("n1").unreachable = "host key of node n1 has changed"
    cluster.nodes.lose("n1", "the connection was lost")
    cluster.launch()
    question = "SELECT channel, channel_message, channel_since FROM nodes WHERE network_address = 'n1'"
    ((channel, message, since),) = cluster.sql(question)
    assert (channel, message) == ("lost", "the connection was lost")
    cluster.reconnect("n1")
    cluster.launch()
    assert cluster.sql(question) == [("lost", "host key of node n1 has changed", since)]
