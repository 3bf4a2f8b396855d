"""Agents behind real sshd daemons: the same promises, checked host keys, and a dead host that delays nobody."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode, SshConfig
from oarpy.transport.ssh import SshTransport
from oarpy.wire.messages import ChannelLost, Clean, Cleaned, Ping, Pong, Start
from research.benchmarks.server_processes import is_running, parent_of
from tests.harness.sshd_nodes import SshdCluster, make_key, start_nodes
from tests.harness.transport_conformance import FIRST, Conformance
from tests.harness.transport_driver import Driver, end_all
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshdCluster]:
    with start_nodes(4, tmp_path_factory.mktemp("nodes")) as cluster:
        yield cluster


Make = Callable[..., Driver]


@pytest.fixture
def make_driver(cluster: SshdCluster, tmp_path: Path) -> Iterator[Make]:
    """Makes drivers of the first node; ``changes`` are those to the channel's configuration."""
    drivers: list[Driver] = []

    def make(ssh: SshConfig | None = None, **changes: float) -> Driver:
        inbox = Inbox()
        config = replace(ChannelConfig(instance=f"ssh-{tmp_path.name}-{os.getpid()}"), **changes)  # type: ignore[arg-type]
        transport = SshTransport(inbox, config, ssh or cluster.ssh_config())
        node = replace(cluster.nodes[0].node(), state_directory=str(tmp_path / "state"))
        drivers.append(Driver(transport, node, tmp_path, config.instance, cluster.user))
        return drivers[-1]

    yield make
    for driver in drivers:
        driver.transport.close()
        driver.transport.inbox.close()
        end_all(driver.instance)


@pytest.fixture
def driver(make_driver: Make) -> Driver:
    return make_driver()


class TestSshTransport(Conformance):
    def unreachable(self, driver: Driver) -> NodeAddress:
        with socket.socket() as probe:
            probe.bind(("127.0.1.1", 0))
            port = probe.getsockname()[1]
        return replace(driver.node, name="broken", port=port)


def _loss(driver: Driver) -> str:
    driver.transport.connect(driver.node)
    return driver.expect(ChannelLost).reason


def test_an_unknown_host_key_is_refused(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("".join(cluster.known_hosts.read_text().splitlines(keepends=True)[1:]))
    driver = make_driver(replace(cluster.ssh_config(), known_hosts=str(known_hosts)))
    node = cluster.nodes[0]
    assert _loss(driver) == (
        f"host key of node node1 ({node.address} port {node.port}) is unknown"
        f" (verify it and add '[{node.address}]:{node.port}' to {known_hosts})"
    )


def test_a_changed_host_key_is_refused(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    known_hosts = tmp_path / "known_hosts"
    kind, key = make_key(tmp_path / "other").split()[:2]
    node = cluster.nodes[0]
    known_hosts.write_text(f"[{node.address}]:{node.port} {kind} {key}\n")
    driver = make_driver(replace(cluster.ssh_config(), known_hosts=str(known_hosts)))
    assert f"host key of node node1 ({node.address} port {node.port}) has changed: SHA256:" in _loss(driver)


def test_a_key_that_does_not_open_is_named(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    make_key(tmp_path / "stranger")
    ssh = cluster.ssh_config()
    reason = _loss(make_driver(replace(ssh, key_file=str(tmp_path / "stranger"))))
    assert reason.startswith("cannot log in on node node1")
    assert f"as {cluster.user}: Authentication failed" in reason
    assert "cannot use the key /no/such/key" in _loss(make_driver(replace(ssh, key_file="/no/such/key")))
    reason = _loss(make_driver(replace(ssh, known_hosts="/no/such/file")))
    assert "cannot read /no/such/file" in reason


def test_a_node_without_python_is_named(driver: Driver) -> None:
    driver.node = replace(driver.node, python="/no/such/python3")
    assert "/no/such/python3" in _loss(driver)


def test_all_nodes_run_jobs_and_are_cleaned(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    """A job reaches every node by SSH and leaves a process on each; cleaning the nodes finds them by the mark."""
    driver = make_driver()
    for node in cluster.nodes:
        driver.transport.connect(node.node())
    for node in cluster.nodes:
        until(lambda name=node.name: driver.transport.connected(name), f"{node.name} is ready")  # type: ignore[misc]
    ssh = " ".join(["ssh", *cluster.ssh_options()])
    leave = "echo $OARPY_JOB; exec >&- 2>&- <&-; setsid sleep 600 &"
    script = f"for node in $(cat $OAR_NODEFILE); do echo $node $({ssh} $node '{leave}'); done"
    spec = driver.spec(1, script, nodes=tuple(node.name for node in cluster.nodes))
    driver.send(Start((spec,)))
    assert driver.ended(1).status == 0
    mark = f"{driver.instance}/1/1"
    assert (tmp_path / "err.1").read_text() == ""
    assert driver.output(1) == "".join(f"{node.name} {mark}\n" for node in cluster.nodes)
    assert len(driver.processes(1)) >= 4
    for node in cluster.nodes:
        driver.send(Clean((FIRST,)), node.name)
        assert driver.expect(Cleaned, name=node.name).left == 0
    assert driver.processes(1) == []


@pytest.fixture
def mute_host(cluster: SshdCluster, tmp_path: Path) -> Iterator[tuple[NodeAddress, SshConfig]]:
    """A host that takes connections and never says a word, and a log-in that knows its key."""
    with socket.create_server(("127.0.1.100", 0)) as server:
        port = server.getsockname()[1]
        known = cluster.known_hosts.read_text()
        key = known.splitlines()[0].split(maxsplit=1)[1]
        (tmp_path / "known_hosts").write_text(f"{known}[127.0.1.100]:{port} {key}\n")
        node = NodeAddress("mute", "/nowhere", NodeMode.SSH, "127.0.1.100", port)
        yield node, replace(cluster.ssh_config(), known_hosts=str(tmp_path / "known_hosts"))


def test_dead_hosts_delay_nobody(
    cluster: SshdCluster, tmp_path: Path, mute_host: tuple[NodeAddress, SshConfig], make_driver: Make
) -> None:
    mute, ssh = mute_host
    driver = make_driver(ssh, connect_timeout=60.0)
    for number in range(2 * ssh.handshakes):
        driver.transport.connect(replace(mute, name=f"mute{number}"))
    for node in cluster.nodes:
        driver.transport.connect(node.node())
    ready: set[str] = set()
    while len(ready) < len(cluster.nodes):
        select.select([driver.transport.inbox], [], [])
        for name, report in driver.transport.inbox.drain():
            assert not isinstance(report, ChannelLost), (name, report)
            ready.add(name)


def test_a_mute_host_is_given_up(
    cluster: SshdCluster, tmp_path: Path, mute_host: tuple[NodeAddress, SshConfig], make_driver: Make
) -> None:
    mute, ssh = mute_host
    driver = make_driver(ssh, connect_timeout=0.5)
    driver.node = mute
    assert _loss(driver) == f"cannot log in on node mute (127.0.1.100 port {mute.port}): no SSH server answers"


def test_a_half_open_connection_is_noticed(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    driver = make_driver(ping_period=0.1, silence_timeout=2.0)
    ready = driver.connect()
    driver.start(driver.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    driver.started(1)
    connection = parent_of(ready.pid)
    os.kill(connection, signal.SIGSTOP)
    try:
        assert driver.expect(ChannelLost).reason == "no answer for 2 s"
        (tmp_path / "go").write_text("")
        driver.connect()
        assert driver.ended(1).status == 5 << 8
    finally:
        os.kill(connection, signal.SIGCONT)


def test_a_cut_connection_is_told_at_once_and_jobs_go_on(driver: Driver) -> None:
    ready = driver.connect()
    driver.start(driver.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    driver.started(1)
    os.kill(parent_of(ready.pid), signal.SIGKILL)
    assert driver.expect(ChannelLost).reason
    until(lambda: not is_running(ready.pid), "the agent ended with its channel")
    (driver.directory / "go").write_text("")
    driver.connect()
    assert driver.ended(1).status == 5 << 8


def test_closing_leaves_no_thread_and_no_connection(cluster: SshdCluster, tmp_path: Path, make_driver: Make) -> None:
    before = set(threading.enumerate())
    driver = make_driver()
    ready = driver.connect()
    driver.send(Ping("x"))
    driver.expect(Pong)
    connection = parent_of(ready.pid)
    driver.transport.close()
    until(lambda: not is_running(ready.pid) and not is_running(connection), "agent and connection ended")
    until(lambda: set(threading.enumerate()) <= before, "threads ended")
