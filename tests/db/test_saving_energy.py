"""Nodes sleep while nobody needs them: decided by the meta-scheduler, done by the commands of the site."""

from __future__ import annotations

import time
from pathlib import Path
from typing import cast

import pytest

from oarpy.client.platform.nodes import state
from oarpy.cluster_state.snapshot_reader import SnapshotReader
from oarpy.modules.energy import CommandOutcome, EnergySaving, run_for
from oarpy.negotiation.passes.shown_clusters import ShownClusters
from oarpy.store.platform import resources
from oarpy.store.platform.resources import ResourceScope
from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = [pytest.mark.db, pytest.mark.kept]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Where the commands write what they were told."""
    return tmp_path / "commands"


@pytest.fixture
def cluster(connection: Connection, spool: Path) -> SmallCluster:
    settings = with_settings(
        energy={
            "enabled": True,
            "sleep_command": f"sed 's/^/sleep /' >> {spool}",
            "wake_command": f"sed 's/^/wake /' >> {spool}",
            "idle_time": 60.0,
        }
    )
    made = SmallCluster(connection, settings)
    made.add_nodes("n1", "n2")
    made.sql("UPDATE resources SET available_upto = now() + interval '1 year'")
    made.settle()
    return made


@pytest.fixture(params=[True, False], ids=["saving", "not_saving"])
def either(request: pytest.FixtureRequest, connection: Connection) -> SmallCluster:
    """A cluster with and one without energy saving: dates of availability mean the same in both."""
    if request.param:
        return cast(SmallCluster, request.getfixturevalue("cluster"))
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    made.settle()
    return made


def energy(cluster: SmallCluster) -> None:
    module = EnergySaving(cluster.settings)
    while cluster.run(module).again:
        pass


def rest(cluster: SmallCluster) -> None:
    """Let the nodes have been idle for two minutes."""
    cluster.sql("UPDATE resources SET state_since = now() - interval '2 minutes'")


def states(cluster: SmallCluster) -> dict[str, str]:
    return dict(cluster.sql("SELECT DISTINCT network_address, state FROM resources"))


def asleep(cluster: SmallCluster) -> None:
    rest(cluster)
    cluster.settle()
    energy(cluster)
    cluster.settle()


def test_idle_nodes_sleep_and_are_woken_for_a_job(cluster: SmallCluster, spool: Path) -> None:
    assert states(cluster) == {"n1": "Alive", "n2": "Alive"}
    running = cluster.submit()
    cluster.settle()
    asleep(cluster)
    assert states(cluster) == {"n1": "Alive", "n2": "Absent"}
    assert spool.read_text() == "sleep n2\n"
    assert cluster.sql("SELECT channel FROM nodes ORDER BY network_address") == [("connected",), ("unknown",)]
    shown = {state(one) for one in resources.resources(cluster.connection, ResourceScope())}
    assert shown == {"Alive", "Absent (standby)"}

    small, large = cluster.submit(), cluster.submit("/nodes=1")
    cluster.plan()
    assert cluster.states([small, large]) == ["toLaunch", "Waiting"]
    assert cluster.verdict(large) == ("resources_down", "its nodes are asleep and have to wake first")
    energy(cluster)
    assert spool.read_text() == "sleep n2\nwake n2\n"
    cluster.settle()
    energy(cluster)
    cluster.settle()
    assert states(cluster) == {"n1": "Alive", "n2": "Alive"}
    assert cluster.states([running, small, large]) == ["Running"] * 3
    assert cluster.sql("SELECT type FROM event_logs WHERE hosts = '{n2}' ORDER BY event_id") == [
        ("HALT_NODE",),
        ("WAKEUP_NODE",),
        ("NODE_AWAKE",),
    ]
    assert cluster.sql("SELECT count(*) FROM node_power") == [(0,)]


def test_a_node_that_does_not_wake_is_suspected_and_comes_back_by_itself(cluster: SmallCluster) -> None:
    asleep(cluster)
    for name in ("n1", "n2"):
        cluster.node(name).unreachable = "off"
    job = cluster.submit("/nodes=2")
    cluster.plan()
    energy(cluster)
    cluster.settle()
    assert states(cluster) == {"n1": "Absent", "n2": "Absent"}
    cluster.sql("UPDATE node_power SET sent_at = sent_at - interval '1 hour'")
    energy(cluster)
    cluster.settle()
    assert states(cluster) == {"n1": "Suspected", "n2": "Suspected"}
    for name in ("n1", "n2"):
        cluster.node(name).unreachable = ""
        cluster.reconnect(name)
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_decision_whose_command_was_not_run_is_carried_out_later(cluster: SmallCluster, spool: Path) -> None:
    rest(cluster)
    cluster.plan()
    # the module is killed here, before its command; then after its command, before that is noted
    assert not spool.exists()
    energy(cluster)
    cluster.sql("UPDATE node_power SET sent_at = NULL")
    energy(cluster)
    assert sorted(spool.read_text().split("\n")) == ["", *["sleep n1"] * 2, *["sleep n2"] * 2]
    energy(cluster)
    assert spool.read_text().count("sleep") == 4


def test_a_reservation_wakes_its_nodes(cluster: SmallCluster, spool: Path) -> None:
    asleep(cluster)
    job = cluster.submit("/nodes=2", reservation=cluster.now().replace(microsecond=0))
    cluster.plan()
    assert cluster.job(job, "reservation_state") == "Scheduled"
    cluster.plan()
    energy(cluster)
    assert spool.read_text().count("wake") == 2
    cluster.settle()
    energy(cluster)
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_nothing_sleeps_that_may_not_or_when_it_is_off(cluster: SmallCluster) -> None:
    cluster.sql("UPDATE resources SET available_upto = NULL WHERE network_address = 'n1'")
    asleep(cluster)
    assert states(cluster) == {"n1": "Alive", "n2": "Absent"}
    plain = SmallCluster(cluster.connection)
    job = plain.submit("/nodes=2")
    plain.plan()
    assert plain.verdict(job)[0] == "resources_down"
    rest(plain)
    plain.plan()
    assert states(plain) == {"n1": "Alive", "n2": "Absent"}


def test_commands_that_fail_say_why(tmp_path: Path) -> None:
    assert run_for("cat >&2; exit 3", ["n1", "n2"], 30).failure == "'cat >&2; exit 3' ended with 3: n1\nn2"
    assert run_for("sleep 1000", ["n1"], 0.1).failure == "'sleep 1000' took more than 0.1 s"
    assert run_for("exit 0", ["n1"], 30) == CommandOutcome("")


def test_nodes_that_meet_a_condition_are_kept_awake(connection: Connection, spool: Path) -> None:
    keep = {"keep_alive": ("network_address = 'n1': 1",), "sleep_command": f"cat >> {spool}", "wake_command": "cat"}
    cluster = SmallCluster(connection, with_settings(energy={"enabled": True, **keep, "idle_time": 60.0}))
    cluster.add_nodes("n1", "n2", "n3")
    cluster.sql("UPDATE resources SET available_upto = now() + interval '1 year'")
    cluster.settle()
    asleep(cluster)
    assert states(cluster) == {"n1": "Alive", "n2": "Absent", "n3": "Absent"}


def test_no_job_is_placed_beyond_the_date_until_which_a_node_is_available(either: SmallCluster) -> None:
    either.sql("UPDATE resources SET available_upto = now() + interval '1 hour' WHERE network_address = 'n1'")
    long, short = either.submit("/nodes=1,walltime=2:0:0"), either.submit("/nodes=1,walltime=0:30:0")
    wide = either.submit("/nodes=2,walltime=1:0:0")
    either.settle()
    assert either.states([long, short]) == ["Running", "Running"]
    assert (either.hosts(long)[0], either.hosts(short)[0]) == ("n2", "n1")
    assert either.verdict(wide) == ("resources_down", "nodes that it needs are not available for long enough")


def test_a_node_whose_date_is_past_gets_no_job(either: SmallCluster) -> None:
    either.sql("UPDATE resources SET available_upto = now() - interval '1 hour' WHERE network_address = 'n1'")
    job, wide = either.submit("/nodes=1"), either.submit("/nodes=2")
    either.settle()
    assert set(either.hosts(job)) == {"n2"}
    assert either.verdict(wide)[0] == "resources_down"


def test_applications_see_hosts_that_sleep_as_those_that_are_awake(cluster: SmallCluster) -> None:
    cluster.submit()
    cluster.settle()
    asleep(cluster)
    assert states(cluster) == {"n1": "Alive", "n2": "Absent"}
    reader = SnapshotReader(cluster.settings)
    platform = reader.platform(cluster.connection, int(time.time()))
    (one,) = ShownClusters(cluster.settings.negotiation, platform, ()).all
    assert (one.name, sorted(one.hosts)) == ("all", ["n1", "n2"])
    assert not any("asleep" in name for name in one.properties)
