"""What the launcher tells the nodes of running jobs whose hosts come and go, whatever is lost meanwhile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from oarpy.modules.launcher.running import resizing
from oarpy.negotiation.modules.resize_messages import ResizeMessages
from oarpy.negotiation.store import growth
from oarpy.store.jobs import resizes
from oarpy.wire.messages import Admit, Clean, Cleaned, Kill, Release, Resize, Welcome
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db

NODES = ("n1", "n2", "n3", "n4")


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Four nodes of two cores."""
    return made(connection)


def made(connection: Connection, **jobs: object) -> SmallCluster:
    cluster = SmallCluster(connection, with_settings(jobs=jobs))
    cluster.add_nodes(*NODES)
    return cluster


def running(cluster: SmallCluster, *nodes: str, **values: Any) -> int:
    """A job that runs on these nodes."""
    names = ", ".join(f"'{node}'" for node in nodes)
    job = cluster.submit(f"{{host IN ({names})}}/nodes={len(nodes)},walltime=1:0:0", **values)
    cluster.settle()
    assert cluster.state(job) == "Running"
    return job


def cores(*nodes: str) -> list[int]:
    """The resources of nodes."""
    return [2 * NODES.index(node) + number for node in nodes for number in (1, 2)]


def grant(cluster: SmallCluster, job: int, *nodes: str) -> int:
    """Do as a pass that grants an extension; return its number."""
    asked = "INSERT INTO extensions (job_id, kind, hosts) VALUES (%s, 'firm', '{\"all\": 1}') RETURNING extension_id"
    ((extension,),) = cluster.sql(asked, job)
    cluster.sql("UPDATE extensions SET state = 'Granting' WHERE extension_id = %s", extension)
    cluster.sql(
        "INSERT INTO resizes (job_id, kind, resource_ids, extension_id) VALUES (%s, 'grant', %s, %s)",
        job,
        cores(*nodes),
        extension,
    )
    cluster.sql(
        "INSERT INTO assigned_resources AS a (job_id, resource_id, during, extension_id)"
        " SELECT %s, r, tstzmultirange(tstzrange(clock_timestamp(), NULL)), %s FROM unnest(%s::int[]) AS r"
        " ON CONFLICT (job_id, resource_id) DO UPDATE"
        " SET during = a.during + excluded.during, extension_id = excluded.extension_id",
        job,
        extension,
        cores(*nodes),
    )
    return int(extension)


def release(cluster: SmallCluster, job: int, *nodes: str) -> None:
    assert resizes.order(cluster.connection, job, "release", cores(*nodes)) is not None


def extension_state(cluster: SmallCluster, extension: int) -> str:
    ((state,),) = cluster.sql("SELECT state FROM extensions WHERE extension_id = %s", extension)
    return str(state)


def told(cluster: SmallCluster) -> list[str]:
    """Who was told of resizes, in order: ``+n1`` comes, ``-n1`` leaves, ``n1`` stays."""
    words = {True: "+", False: ""}
    return [
        f"-{node}" if isinstance(command, Clean) else words[command.enters] + node
        for node, command in cluster.nodes.sent
        if isinstance(command, Resize | Clean)
    ]


def files(cluster: SmallCluster, job: int) -> dict[str, str]:
    """What the job reads on which node: the names of its nodes."""
    found = {name: cluster.node(name).node_files.get(cluster.key(job)) for name in NODES}
    return {name: " ".join(dict.fromkeys(lines)) for name, lines in found.items() if lines}


def holds(cluster: SmallCluster, job: int) -> set[str]:
    return {NODES[(resource - 1) // 2] for resource, holder in cluster.held().items() if holder == job}


def test_nodes_that_come_are_ready_before_the_others_name_them(cluster: SmallCluster) -> None:
    job = running(cluster, "n1", "n2")
    cluster.node("n3").deaf = True
    extension = grant(cluster, job, "n3", "n4")
    cluster.settle()
    assert (sorted(told(cluster)), extension_state(cluster, extension)) == (["+n3", "+n4"], "Granting")
    cluster.node("n3").deaf = False
    cluster.nodes.lose("n3")
    cluster.reconnect("n3")
    cluster.settle()
    assert sorted(told(cluster)[3:]) == ["n1", "n2"]
    assert files(cluster, job) == dict.fromkeys(NODES, "n1 n2 n3 n4")
    assert extension_state(cluster, extension) == "Granted"


def test_a_job_that_leaves_a_node_is_ended_there_before_the_node_is_free(cluster: SmallCluster) -> None:
    job = running(cluster, "n1", "n2", "n3")
    cluster.node("n3").deaf = True
    release(cluster, job, "n2", "n3")
    cluster.settle()
    assert sorted(told(cluster)) == ["-n2", "-n3", "n1"]
    ((_, clean), _) = cluster.sent(Clean)
    assert isinstance(clean, Clean)
    assert clean.grace == cluster.settings.jobs.kill_grace
    assert holds(cluster, job) == {"n1", "n2", "n3"}
    cluster.nodes.inbox.put("n3", [Cleaned(cluster.key(job), 1, 0, 0, 1.5, 4096)])
    cluster.settle()
    assert (holds(cluster, job), files(cluster, job)) == ({"n1"}, {"n1": "n1"})
    assert (cluster.job(job, "cpu_seconds"), cluster.job(job, "memory_peak")) == (1.5, 4096)
    cluster.end(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "cpu_seconds")) == ("Terminated", 1.5)


def test_the_first_node_stays_the_first_whatever_comes_before_it(cluster: SmallCluster) -> None:
    job = running(cluster, "n3")
    grant(cluster, job, "n1", "n2")
    cluster.settle()
    assert files(cluster, job) == dict.fromkeys(("n1", "n2", "n3"), "n3 n1 n2")
    cluster.restart_launcher(slow_nodes=True)
    cluster.launch()
    cluster.answer()
    cluster.settle()
    assert cluster.state(job) == "Running"
    cluster.delete(job)
    cluster.cancel()
    cluster.restart_launcher()
    cluster.settle()
    assert {node for node, _ in cluster.sent(Kill)} == {"n3"}
    assert (cluster.state(job), cluster.held()) == ("Error", {})


@pytest.mark.parametrize("kind", ["grant", "release"])
def test_a_launcher_that_comes_later_goes_on(cluster: SmallCluster, kind: str) -> None:
    job = running(cluster, "n1", "n2")
    for name in NODES:
        cluster.node(name).deaf = True
    if kind == "grant":
        grant(cluster, job, "n3")
    else:
        release(cluster, job, "n2")
    cluster.launch()
    for name in NODES:
        cluster.node(name).deaf = False
    cluster.restart_launcher()
    cluster.settle()
    wanted = "n1 n2 n3" if kind == "grant" else "n1"
    assert files(cluster, job) == dict.fromkeys(wanted.split(), wanted)
    assert (holds(cluster, job), resizes.opened(cluster.connection)) == (set(wanted.split()), [])


def test_a_job_comes_back_to_a_node_and_each_resize_waits_for_the_one_before(cluster: SmallCluster) -> None:
    job = running(cluster, "n1", "n2")
    release(cluster, job, "n2")
    cluster.settle()
    extensions = [grant(cluster, job, "n2"), grant(cluster, job, "n4")]
    release(cluster, job, "n2")
    cluster.settle()
    assert told(cluster) == ["n1", "-n2", "+n2", "n1", "+n4", "n1", "n2", "n1", "n4", "-n2"]
    assert [extension_state(cluster, one) for one in extensions] == ["Over", "Granted"]
    assert (files(cluster, job), holds(cluster, job)) == ({"n1": "n1 n4", "n4": "n1 n4"}, {"n1", "n4"})


def test_a_node_that_is_lost_is_not_waited_for_and_cleaned_when_it_is_back(cluster: SmallCluster) -> None:
    job = running(cluster, "n1", "n2")
    cluster.node("n2").unreachable = "its switch is off"
    cluster.nodes.lose("n2")
    cluster.launch()
    release(cluster, job, "n2")
    cluster.settle()
    assert (holds(cluster, job), told(cluster)) == ({"n1"}, ["n1"])
    cluster.node("n2").unreachable = ""
    cluster.reconnect("n2")
    assert told(cluster) == ["n1", "-n2"]
    assert cluster.state(job) == "Running"


def test_a_node_that_never_comes_is_given_up_and_the_job_lives(cluster: SmallCluster) -> None:
    cluster.monitor = type(cluster.monitor)(with_settings(nodes={"lost_timeout": 0.0}))
    job = running(cluster, "n1")
    cluster.node("n2").unreachable = "it burns"
    cluster.nodes.lose("n2")
    cluster.launch()
    extension = grant(cluster, job, "n2")
    cluster.launch()
    assert (extension_state(cluster, extension), holds(cluster, job)) == ("Granting", {"n1", "n2"})
    for _ in range(2):
        cluster.watch()
        cluster.launch()
    assert (extension_state(cluster, extension), holds(cluster, job)) == ("Over", {"n1"})
    assert cluster.sql("SELECT kind, done_at IS NULL FROM resizes") == [("take", False)]
    rows = cluster.sql("SELECT state FROM extensions WHERE job_id = %s ORDER BY extension_id", job)
    assert rows == [("Over",), ("Waiting",)]
    assert cluster.state(job) == "Running"
    assert cluster.events(job)[-1] == "EXTENSION_FAILED"


def test_a_job_that_ends_meanwhile_ends_everywhere(cluster: SmallCluster) -> None:
    job = running(cluster, "n1", "n2")
    cluster.node("n3").deaf = True
    grant(cluster, job, "n3")
    cluster.launch()
    cluster.node("n3").deaf = False
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert {node for node, _ in cluster.sent(Clean)} == {"n1", "n2", "n3"}
    assert (cluster.held(), resizes.opened(cluster.connection)) == ({}, [])


def test_what_a_node_cannot_do_is_given_up_for_good(cluster: SmallCluster) -> None:
    job = running(cluster, "n1")
    cluster.node("n2").resize_problem = "user 'ann' does not exist on this node"
    extension = grant(cluster, job, "n2")
    cluster.settle()
    assert cluster.sql("SELECT extension_id, state FROM extensions") == [(extension, "Over")]
    ((text,),) = cluster.sql("SELECT description FROM event_logs WHERE type = 'EXTENSION_FAILED'")
    assert text == "node n2: user 'ann' does not exist on this node"
    found = growth.growth(cluster.connection, [job])[job]
    assert found.resizes == [], "nobody is told that it was granted, nor that it is gone"
    assert found.extensions[extension].told == {"refused": text}
    assert [(one["of"], one["code"], one["reason"]) for one in ResizeMessages().news(found, {})] == [
        ("extend", 6, text)
    ]
    assert (holds(cluster, job), files(cluster, job), cluster.state(job)) == ({"n1"}, {"n1": "n1"}, "Running")


@pytest.mark.parametrize("kind", ["silent", "unable"])
def test_a_node_that_stays_holds_up_its_job_for_some_time_only(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    job = running(cluster, "n1", "n2")
    cluster.node("n1").deaf = kind == "silent"
    cluster.node("n1").resize_problem = "its disk is full"
    release(cluster, job, "n2")
    cluster.settle()
    assert holds(cluster, job) == {"n1", "n2"}, "it is waited for"
    monkeypatch.setattr(resizing, "_PATIENCE", -math.inf)
    cluster.settle()
    assert (holds(cluster, job), resizes.opened(cluster.connection)) == ({"n1"}, [])
    ((text,),) = cluster.sql("SELECT description FROM event_logs WHERE type = 'RESIZE_NOT_FOLLOWED'")
    assert text == f"node n1: {'no answer' if kind == 'silent' else 'its disk is full'}"
    assert cluster.state(job) == "Running"


def test_scripts_of_the_site_run_where_hosts_come_and_leave(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue", epilogue="/site/epilogue")
    job = running(cluster, "n1", "n2")
    cluster.node("n3").script_outcomes["prologue"] = None
    extension = grant(cluster, job, "n3")
    cluster.settle()
    assert told(cluster) == ["+n3"]
    cluster.node("n3").script_outcomes.clear()
    cluster.nodes.lose("n3")
    cluster.reconnect("n3")
    cluster.settle()
    assert extension_state(cluster, extension) == "Granted"
    release(cluster, job, "n2")
    cluster.settle()
    ran = {name: [kind for kind, _ in cluster.node(name).scripts] for name in NODES[:3]}
    assert ran == {"n1": ["prologue"], "n2": ["prologue", "epilogue"], "n3": ["prologue"]}
    assert {name for name, _ in cluster.sent(Release)} == {"n2"}


def test_a_prologue_that_fails_keeps_the_node_out_and_not_the_job(connection: Connection) -> None:
    cluster = made(connection, prologue="/site/prologue")
    job = running(cluster, "n1")
    cluster.node("n2").script_outcomes["prologue"] = "failed"
    extension = grant(cluster, job, "n2")
    cluster.settle()
    assert (extension_state(cluster, extension), cluster.state(job)) == ("Over", "Running")
    assert holds(cluster, job) == {"n1", "n3"}, "another host was found"
    assert cluster.sql("SELECT DISTINCT state FROM resources WHERE host = 'n2'") == [("Suspected",)]


def test_the_key_of_a_job_opens_nodes_that_come(cluster: SmallCluster) -> None:
    job = running(cluster, "n1")
    cluster.sql("INSERT INTO job_keys (job_id, public_key, private_key) VALUES (%s, 'ssh-ed25519 AAAA', 'x')", job)
    grant(cluster, job, "n2")
    cluster.settle()
    assert [(node, one.node) for node, one in cluster.sent(Admit) if isinstance(one, Admit)] == [("n2", "n2")]


def test_the_user_of_a_job_may_log_in_on_nodes_that_come(connection: Connection) -> None:
    cluster = SmallCluster(connection, with_settings(nodes={"log_ins": True, "isolation": "cgroup"}))
    cluster.add_nodes(*NODES)
    cluster.sql("UPDATE resources SET cpuset = resource_id")
    job = running(cluster, "n1", environment={"COLOUR": "blue"})
    grant(cluster, job, "n2")
    cluster.settle()
    told = [(node, order) for node, order in cluster.sent(Welcome) if isinstance(order, Welcome)]
    assert [(node, order.head) for node, order in told] == [("n1", True), ("n2", False), ("n1", True)]
    assert {order.job.environment["COLOUR"] for _, order in told} == {"blue"}
    assert all(order.job.processors for _, order in told)
    release(cluster, job, "n2")
    cluster.settle()
    node, order = cluster.sent(Welcome)[-1]
    assert isinstance(order, Welcome)
    assert (node, order.head, set(order.job.nodes)) == ("n1", True, {"n1"})


def test_a_job_on_a_host_of_the_site_is_told_there_alone(connection: Connection) -> None:
    settings = with_settings()
    settings = replace(settings, jobs=replace(settings.jobs, deploy_host="frontend"))
    cluster = SmallCluster(connection, settings)
    cluster.add_nodes(*NODES)
    job = running(cluster, "n1", types=("deploy",))
    grant(cluster, job, "n2")
    cluster.settle()
    release(cluster, job, "n2")
    cluster.settle()
    assert told(cluster) == ["frontend", "frontend"]
    assert holds(cluster, job) == {"n1"}
