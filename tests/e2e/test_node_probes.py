"""Nodes asked over a real sshd: what they are made of, and what ``oarpy doctor`` says of those that do not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oarpy.transport.node import ChannelConfig
from oarpy.transport.probing import NodeProbe, probe
from tests.harness.sample_cluster import Connection
from tests.harness.sshd_nodes import SshdCluster, start_nodes

pytestmark = pytest.mark.e2e

CONFIG = ChannelConfig(connect_timeout=10.0)


def asked(cluster: SshdCluster) -> dict[str, NodeProbe]:
    return probe([node.node() for node in cluster.nodes], CONFIG, cluster.ssh_config())


def test_a_node_tells_what_it_is_made_of_and_one_with_another_key_is_not_asked(tmp_path: Path) -> None:
    with start_nodes(2, tmp_path / "sshd") as cluster:
        lines = cluster.known_hosts.read_text().splitlines()
        # the second node has another key than the one that is known
        lines[1] = lines[1].rpartition(" ")[0] + " " + lines[0].rpartition(" ")[2]
        cluster.known_hosts.write_text("\n".join(lines) + "\n")
        found = asked(cluster)
    report = found["node1"].report
    assert report is not None, found
    threads = [thread for core in report.cores for thread in core.threads]
    assert len(threads) == os.cpu_count()
    listed = subprocess.run(["lscpu", "-p=SOCKET,CORE"], capture_output=True, text=True, check=True).stdout
    assert len(report.cores) == len({line for line in listed.splitlines() if not line.startswith("#")})
    assert report.memory == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    assert report.disk.writable
    assert found["node1"].clock_offset() == 0
    assert "has changed" in found["node2"].error


def test_nodes_without_sshd_and_without_python_say_so(tmp_path: Path) -> None:
    with start_nodes(1, tmp_path / "sshd") as cluster:
        (node,) = cluster.nodes
        address = node.node()
        broken = type(address)(
            "node1", address.state_directory, address.mode, address.address, address.port, "/no/python"
        )
        without = probe([broken], CONFIG, cluster.ssh_config())["node1"]
    away = probe([address], CONFIG, cluster.ssh_config())["node1"]
    assert (without.report, away.report) == (None, None)
    assert "/no/python" in without.error
    assert "cannot reach node node1" in away.error


def test_resources_are_made_of_what_nodes_tell(
    tmp_path: Path, connection: Connection, cluster_environment: dict[str, str]
) -> None:
    with start_nodes(2, tmp_path / "sshd") as cluster:
        ports = ",".join(str(node.port) for node in cluster.nodes)
        environment = {
            **cluster_environment,
            "OARPY_NODES_KEY_FILE": str(cluster.key_file),
            "OARPY_NODES_KNOWN_HOSTS": str(cluster.known_hosts),
            "OARPY_SUBMISSION_ADMINS": cluster.user,
        }

        def add(*more: str) -> subprocess.CompletedProcess[str]:
            words = ["resources", "add", "--probe", "node[1-2]", "--address", "127.0.1.[1-2]", "--port", ports, *more]
            command = [str(Path(sys.executable).parent / "oaradmin"), *words]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

        shown = add("--dry-run", "-J")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert connection.execute("SELECT count(*) FROM resources").fetchall() == [(0,)]
        done = add("-p", "deploy=YES")
        again = add()
    rows = json.loads(shown.stdout)["rows"]
    assert (done.returncode, done.stdout) == (0, f"{len(rows)} resources added on 2 nodes\n")
    assert "has resources of type 'default' already" in again.stderr
    found = connection.execute(
        "SELECT network_address, count(*), count(DISTINCT core), min(memnode), bool_and(deploy), max(port)::text"
        " FROM resources JOIN nodes USING (network_address) GROUP BY 1 ORDER BY 1"
    ).fetchall()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    half = len(rows) // 2
    assert found == [
        (f"node{number}", half, half, memory, True, port) for number, port in enumerate(ports.split(","), 1)
    ]
    ((lowest, highest),) = connection.execute("SELECT min(core), max(core) FROM resources").fetchall()
    assert (lowest, highest) == (1, len(rows))
