"""Nodes are rebooted by a command of the site when their jobs have ended, and come back when their agents do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oarpy.configuration import load
from oarpy.modules.energy import EnergySaving
from oarpy.modules.registry import enabled_modules
from oarpy.store.platform import reboots
from tests.harness.sample_cluster import Shell
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db

STATES = "SELECT DISTINCT network_address, state, drain FROM resources ORDER BY 1"
AWAY = "SELECT away_by, away_reason FROM nodes WHERE network_address = 'n1'"
TOLD = "SELECT type, description FROM event_logs WHERE hosts = '{n1}' ORDER BY event_id"


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the site's command writes the nodes that it reboots; it fails while ``broken`` is beside that."""
    path = tmp_path / "rebooted"
    command = f"[ ! -e {tmp_path}/broken ] || {{ echo no power >&2; exit 7; }}; cat >> {path}"
    monkeypatch.setenv("OARPY_ENERGY_REBOOT_COMMAND", command)
    return path


@pytest.fixture
def cluster(connection: Connection, told: Path) -> SmallCluster:
    made = SmallCluster(connection, load())
    made.add_nodes("n1", "n2")
    made.settle()
    return made


def energy(cluster: SmallCluster) -> None:
    module = EnergySaving(cluster.settings)
    while cluster.run(module).again:
        pass


def judge(cluster: SmallCluster) -> None:
    """Have unfit nodes asked whether they are well."""
    cluster.launcher._synced = 0.0
    cluster.settle()
    cluster.settle()


def test_a_node_is_rebooted_after_its_jobs_and_comes_back(cluster: SmallCluster, shell: Shell, told: Path) -> None:
    running = cluster.submit("/nodes=2")
    cluster.settle()
    assert shell.done("oarnodesetting", "n1", "--reboot", "--reason", "a new kernel") == (
        "to be rebooted without jobs: n1\n"
    )
    waiting = cluster.submit("/nodes=2/core=1", properties="drain = 'NO'")
    energy(cluster)
    assert not told.exists(), "a job is there"
    assert cluster.state(running) == "Running"
    assert "a new kernel" in shell.done("oarnodes", "n1")
    cluster.end(running)
    cluster.settle()
    energy(cluster)
    energy(cluster)
    assert told.read_text() == "n1\n"
    judge(cluster)
    assert cluster.sql(STATES) == [("n1", "Suspected", False), ("n2", "Alive", False)], "its old agent still answers"
    assert cluster.state(waiting) == "Waiting"
    cluster.node("n1").unreachable = "cannot reach node n1"
    cluster.nodes.lose("n1")
    cluster.launch()
    cluster.node("n1").unreachable, cluster.node("n1").unhealthy = "", "no network"
    cluster.reconnect("n1")
    judge(cluster)
    assert cluster.sql(STATES)[0] == ("n1", "Suspected", False), "it says that it is not well"
    cluster.node("n1").unhealthy = ""
    judge(cluster)
    assert cluster.sql(STATES) == [("n1", "Alive", False), ("n2", "Alive", False)]
    assert cluster.state(waiting) == "Running"
    assert cluster.sql(AWAY) == [(None, None)]
    assert [kind for kind, _ in cluster.sql(TOLD)] == ["REBOOT_ASKED", "REBOOT_NODE", "FINAUD_RECOVER"]


def test_a_command_that_fails_is_told_and_the_node_stays_drained(
    cluster: SmallCluster, shell: Shell, told: Path
) -> None:
    told.with_name("broken").touch()
    shell.done("oarnodesetting", "-h", "n1", "--reboot")
    energy(cluster)
    judge(cluster)
    assert cluster.sql(STATES)[0] == ("n1", "Alive", True)
    [(by, reason)] = cluster.sql(AWAY)
    assert by == "energy"
    assert reason.startswith("not rebooted: ")
    assert reason.endswith("ended with 7: no power")
    assert cluster.sql(TOLD)[1] == ("REBOOT_FAILED", reason)
    told.with_name("broken").unlink()
    energy(cluster)
    assert not told.exists(), "an admin is to ask again"
    shell.done("oarnodesetting", "-h", "n1", "--reboot")
    energy(cluster)
    assert told.read_text() == "n1\n"


def test_who_takes_a_node_back_wants_no_reboot(cluster: SmallCluster, shell: Shell, told: Path) -> None:
    assert json.loads(shell.done("oarnodesetting", "-h", "n[1-2]", "--reboot", "-J")) == {"rebooted": ["n1", "n2"]}
    shell.done("oarnodesetting", "-h", "n1", "-d", "off")
    energy(cluster)
    assert told.read_text() == "n2\n"
    assert cluster.sql(STATES)[0] == ("n1", "Alive", False)


def test_a_command_that_was_cut_off_is_run_again(cluster: SmallCluster, shell: Shell, told: Path) -> None:
    shell.done("oarnodesetting", "-h", "n1", "--reboot")
    reboots.due(cluster.connection)
    judge(cluster)
    assert cluster.sql(STATES)[0] == ("n1", "Suspected", True)
    energy(cluster)
    assert told.read_text() == "n1\n"


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--reboot"], 2, "no resource given"),
        (["-h", "n9", "--reboot"], 4, "n9"),
        (["-h", "n1", "--reboot"], 1, "node 'n1' is Absent"),
        (["-h", "n2", "--reboot", "-d", "on"], 2, "--reboot goes with -h, -r, --sql, --reason and -J only"),
        (["-h", "n2", "--reboot", "-a"], 2, "--reboot goes with -h, -r, --sql, --reason and -J only"),
    ],
)
def test_what_is_refused_changes_nothing(
    cluster: SmallCluster, shell: Shell, arguments: list[str], status: int, complaint: str
) -> None:
    cluster.sql("UPDATE resources SET state = 'Absent', state_by = 'monitor' WHERE network_address = 'n1'")
    before = cluster.sql("SELECT r.*, n.* FROM resources r JOIN nodes n USING (network_address) ORDER BY 1")
    refused = shell("oarnodesetting", *arguments)
    assert (refused.status, complaint in refused.err, refused.err.count("\n")) == (status, True, 1), refused.err
    assert cluster.sql("SELECT r.*, n.* FROM resources r JOIN nodes n USING (network_address) ORDER BY 1") == before
    assert cluster.sql("SELECT count(*) FROM event_logs WHERE type LIKE 'REBOOT%%'") == [(0,)]


def test_without_a_command_nothing_is_rebooted(connection: Connection, shell: Shell) -> None:
    SmallCluster(connection).add_nodes("n1")
    refused = shell("oarnodesetting", "-h", "n1", "--reboot")
    assert (refused.status, refused.err) == (
        2,
        "oarnodesetting: this site has no command that reboots nodes (energy.reboot_command names it)\n",
    )
    assert connection.execute("SELECT bool_or(drain) FROM resources").fetchall() == [(False,)]


def test_the_module_runs_where_there_is_a_command(told: Path) -> None:
    assert "energy" in enabled_modules(load())
