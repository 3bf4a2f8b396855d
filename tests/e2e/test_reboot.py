"""A node of a real cluster is rebooted: a command of the site ends its agent, and the node comes back."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
DEADLINE = 60.0

# What has files of the node open, its agent above all, is gone after a reboot.
_REBOOT = """\
#!{python}
import os, signal, sys
from contextlib import suppress
from pathlib import Path

for node in sys.stdin.read().split():
    with open("{folder}/rebooted", "a") as log:
        print(node, file=log)
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            opened = os.readlink(file)
            if opened.startswith("{folder}/cluster/") and "/" + node + "/" in opened:
                os.kill(int(file.parts[2]), signal.SIGKILL)
"""


@pytest.fixture
def cluster(tmp_path: Path, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    command = tmp_path / "reboot"
    command.write_text(_REBOOT.format(python=sys.executable, folder=tmp_path))
    command.chmod(0o755)
    settings: Settings = {
        "database": cluster_database,
        "energy": {"reboot_command": str(command)},
        "modules": {"energy": 0.5, "launcher": 0.5},
    }
    with running_sandbox(tmp_path / "cluster", settings, local_nodes("/host=n[1-2]/core={2}")) as made:
        yield made


def away(cluster: Sandbox) -> str | None:
    """Who has taken node n1 away."""
    found = json.loads(cluster.run("oarnodes", "-J").stdout).values()
    (by,) = {resource["away_by"] for resource in found if resource["network_address"] == "n1"}
    assert by is None or isinstance(by, str)
    return by


def test_a_node_is_rebooted_after_its_job_and_works_again(cluster: Sandbox) -> None:
    go = cluster.directory.parent / "go"
    (job,) = cluster.job_ids("-l", "{host='n1'}/nodes=1", f"until test -e {go}; do sleep 0.1; done")
    cluster.wait_for([job], ["Running"], DEADLINE)
    assert cluster.run("oarnodesetting", "n1", "--reboot").stdout == "to be rebooted without jobs: n1\n"
    (later,) = cluster.job_ids("-l", "{host='n1'}/nodes=1", "date")
    rebooted = cluster.directory.parent / "rebooted"
    assert away(cluster) == "reboot"
    assert not rebooted.exists()
    go.touch()
    cluster.wait_for([job, later], ["Terminated"], DEADLINE)
    assert rebooted.read_text() == "n1\n"
    until(lambda: away(cluster) is None, "the node is back")
