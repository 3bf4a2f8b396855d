"""Jobs whose command runs on a host of the site, deploy and cosystem: their nodes are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from oarpy import configuration
from oarpy.client.jobs import job_steps
from oarpy.client.session import Session
from oarpy.transport.node import NodeMode
from oarpy.wire.messages import Clean, RunScript, Start
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster, with_settings

TYPES = ["deploy", "deploy=standby", "cosystem", "cosystem=standby"]
HOSTS = {"deploy_host": "frontend", "cosystem_host": "localhost"}
STATE = "SELECT DISTINCT network_address, state FROM resources WHERE state <> 'Alive' ORDER BY 1"


def host_of(kind: str) -> str:
    """The host of a type."""
    return HOSTS[f"{kind.partition('=')[0]}_host"]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(jobs=HOSTS, nodes={"lost_timeout": 0.0}))
    made.add_nodes("n1", "n2")
    return made


def told(cluster: SmallCluster) -> set[str]:
    """The nodes that were told anything about a job."""
    return {name for kind in (Start, Clean, RunScript) for name, _ in cluster.sent(kind)}


@pytest.mark.parametrize("kind", TYPES)
def test_its_command_runs_on_the_host_and_its_nodes_hear_nothing(cluster: SmallCluster, kind: str) -> None:
    job = cluster.submit("/nodes=2", types=(kind,))
    cluster.settle()
    host = host_of(kind)
    assert (cluster.state(job), cluster.hosts(job)) == ("Running", ["n1", "n1", "n2", "n2"])
    (spec,) = cluster.node(host).starts
    assert spec.nodes == ("n1", "n1", "n2", "n2")
    assert spec.processors == ()
    cluster.nodes.finish(host, cluster.key(job), 5 << 8)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "exit_status")) == ("Terminated", 5 << 8)
    assert told(cluster) == {host}
    assert cluster.held() == {}
    assert cluster.addresses["localhost"][0].mode is NodeMode.LOCAL
    assert cluster.sql(
        "SELECT network_address, transport FROM nodes WHERE network_address IN ('frontend', 'localhost') ORDER BY 1"
    ) == [("frontend", "ssh"), ("localhost", "local")]


def test_its_nodes_may_go_away_meanwhile(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=1", types=("deploy",)), cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.states([job, other]) == ["Running", "Running"]
    for name in ("n1", "n2"):
        cluster.node(name).unreachable = "it restarts"
        cluster.nodes.lose(name)
    cluster.settle()
    assert cluster.states([job, other]) == ["Running", "Error"]
    cluster.delete(job)
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: oardel")


def test_a_lost_host_ends_its_jobs_and_suspects_no_node(cluster: SmallCluster) -> None:
    job, other = cluster.submit("/nodes=1", types=("deploy",)), cluster.submit("/nodes=1")
    cluster.settle()
    cluster.node("frontend").unreachable = "it is off"
    cluster.nodes.lose("frontend")
    cluster.settle()
    assert cluster.states([job, other]) == ["Error", "Running"]
    assert cluster.job(job, "message") == "node frontend was lost while the job was there"
    assert cluster.sql(STATE) == []


@pytest.mark.parametrize("reason", ["STATE_DIRECTORY", "NO_SUCH_USER"])
def test_an_error_on_the_host_blames_no_node_of_the_job(cluster: SmallCluster, reason: str) -> None:
    cluster.node("frontend").refusal = reason
    job = cluster.submit("/nodes=2", types=("deploy",))
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.sql(STATE) == []


def test_it_waits_for_its_host(cluster: SmallCluster) -> None:
    cluster.node("frontend").unreachable = "not yet"
    job = cluster.submit("/nodes=1", types=("deploy",))
    cluster.settle()
    assert cluster.state(job) == "toLaunch"
    cluster.node("frontend").unreachable = ""
    cluster.reconnect("frontend")
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_signals_go_to_the_host(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2", types=("deploy",))
    cluster.settle()
    cluster.sql("INSERT INTO signal_requests (job_id, signal) VALUES (%s, 12)", job)
    cluster.settle()
    assert cluster.sql("SELECT done FROM signal_requests") == [(True,)]
    assert [name for name, command in cluster.nodes.sent if type(command).__name__ == "Signal"] == ["frontend"]


def test_programs_inside_the_job_start_on_the_host(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=2", types=("deploy",))
    cluster.settle()
    session = Session(cluster.connection, cluster.settings, "ann", 1000, is_admin=False)
    found = job_steps.running_job(session, job)
    assert [node.name for node in found.nodes] == ["frontend"]
    assert found.node("frontend").name == "frontend"


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", {"deploy", "cosystem"}),
        ('deploy_host = "frontend"', {"cosystem"}),
        ('deploy_host = "a"\ncosystem_host = "b"', set()),
        ('deploy_host = "a"\n[submission]\ntypes_not_offered = ["deploy"]', {"deploy"}),
    ],
)
def test_types_are_offered_when_they_have_a_host(tmp_path: Path, text: str, missing: set[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"[jobs]\n{text}\n")
    offered = configuration.load({"OARPY_CONFIG": str(path)}).submission.types_not_offered
    assert set(offered) & {"deploy", "cosystem"} == missing
