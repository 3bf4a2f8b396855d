"""For which users a node may vouch, and that its knocks reach the gateway and hold up nobody."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import pytest

from oarpy.gateway.call_session import vouched_user
from oarpy.model.errors import NotAllowed
from oarpy.modules.launcher.call_requests import CallRequests
from oarpy.wire.frames import HEADER, KNOCK
from oarpy.wire.messages import Knocked
from oarpy.wire.openings import Knock, read_knock
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster, with_settings

SETTINGS = with_settings(jobs={"deploy_host": "frontend"}, nodes={"lost_timeout": 0.0})
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, SETTINGS)
    made.add_nodes("n1", "n2")
    return made


def may(cluster: SmallCluster, node: str, name: str = "games") -> bool:
    """Say whether a node may vouch for a user."""
    try:
        return vouched_user(cluster.connection, SETTINGS, node, name) > 0
    except NotAllowed:
        return False


def test_while_the_user_has_a_job_there(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1", user="games")
    assert not may(cluster, "n1")
    cluster.settle()
    assert (cluster.state(job), set(cluster.hosts(job))) == ("Running", {"n1"})
    assert may(cluster, "n1")
    assert not may(cluster, "n2")
    assert not may(cluster, "n1", "daemon")
    cluster.end(job)
    cluster.settle()
    assert cluster.state(job) == "Terminated"
    assert not may(cluster, "n1")


@pytest.mark.parametrize("name", ["root", "", "nobody-of-this-name", "games\0", "x" * 5000])
def test_never_for_root_or_for_nobody(cluster: SmallCluster, name: str) -> None:
    cluster.submit("/nodes=1", user="root")
    cluster.settle()
    assert not may(cluster, "n1", name)


def test_a_job_on_a_host_of_the_site_is_there_and_not_on_its_nodes(cluster: SmallCluster) -> None:
    cluster.submit("/nodes=1", user="games", types=("deploy",))
    cluster.settle()
    assert may(cluster, "frontend")
    assert not may(cluster, "n1")


def test_knocks_are_passed_on_and_nothing_waits(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    for knocks in (CallRequests(""), CallRequests(str(path))):
        assert list(knocks.hears()) == [Knocked]
        knocks.note("n1", Knocked(TOKEN))
        knocks.pass_on()  # nobody is there
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.bind(str(path))
        gateway.listen(2)
        knocks = CallRequests(str(path))
        for _ in range(1000):
            knocks.note("n1", Knocked(TOKEN))
        knocks.pass_on()  # it is slow
        with gateway.accept()[0] as connection:
            data = connection.recv(1 << 16)
    assert HEADER.unpack(data[: HEADER.size])[0] == KNOCK
    assert read_knock(data[HEADER.size :]) == Knock("n1", TOKEN)


def test_a_node_where_many_knock_takes_no_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    many = [("n1", Knocked(f"{number:032x}")) for number in range(100)]
    with socket.socket(socket.AF_UNIX) as gateway:
        gateway.bind(str(path))
        gateway.listen(200)
        knocks = CallRequests(str(path))
        for node, report in [*many, ("n2", Knocked(TOKEN))]:
            knocks.note(node, report)
        knocks.pass_on()
        gateway.setblocking(False)
        heard = []
        with suppress(BlockingIOError):
            while True:
                with gateway.accept()[0] as connection:
                    heard.append(read_knock(connection.recv(1 << 16)[HEADER.size :]).node)
    assert heard == ["n1"] * 16 + ["n2"]
