"""Nodes asked over a real sshd: what they are made of, and what ``oarpy doctor`` says of those that do not answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from oarpy.transport.node import ChannelConfig
from oarpy.transport.probing import NodeProbe, probe
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
