"""A broker's key, stolen, over a real sshd and with real users: it reaches nothing beyond its grants."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from oarpy.grid.provider import ClusterSilent
from tests.harness.door_host import DoorHost, door_host
from tests.harness.gateway_process import TIMEOUT
from tests.harness.oarsub_cluster import build
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
SECRET = "root:x:0:0:"


@pytest.fixture(scope="module")
def host(cluster_database: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[DoorHost]:
    """A cluster whose broker comes over SSH."""
    with psycopg.connect(cluster_database["url"], autocommit=True) as connection:
        build(connection)
    with door_host({"OARPY_DATABASE_URL": cluster_database["url"]}) as found:
        yield found


def test_the_broker_comes_by_its_key(host: DoorHost) -> None:
    with closing(host.cluster()) as cluster:
        first = cluster.describe()
        assert first.procs > 0
        assert cluster.describe().clock > first.clock


COMMANDS = [
    ("id",),
    ("cat", "/etc/passwd"),
    ("sh", "-c", "'cat /etc/passwd'"),
    ("oargriddoor", "campus", "&&", "cat", "/etc/passwd"),
    ("oargriddoor", "lyon"),
    ("oarstat",),
    ("scp", "-f", "/etc/passwd"),
    (),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_whatever_command_the_key_asks_for_it_has_the_door(host: DoorHost, command: tuple[str, ...]) -> None:
    done = host.ssh(*command, stdin='{"call": "describe", "key": "k"}\ncat /etc/passwd\n')
    assert done.returncode == 0, done
    described, refused = map(json.loads, done.stdout.splitlines())
    assert (described["key"], described["answer"]["speed"], refused["error"]["code"]) == ("k", 1.0, "usage")
    assert SECRET not in done.stdout + done.stderr


def test_the_key_opens_no_terminal_and_no_subsystem(host: DoorHost) -> None:
    done = host.ssh(options=("-tt",))
    assert "PTY allocation request failed" in done.stderr
    served = host.ssh("sftp", options=("-s",), stdin='{"call": "describe", "key": "k"}\n')
    assert served.stdout == "" or json.loads(served.stdout)["key"] == "k", served


def test_the_key_forwards_nothing(host: DoorHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as inside:
        port = inside.getsockname()[1]
        done = host.ssh(options=("-W", f"127.0.0.1:{port}"))
        assert (done.returncode, done.stdout) == (255, "")
        assert "open failed: administratively prohibited" in done.stderr
        inside.settimeout(0)
        with pytest.raises(BlockingIOError):
            inside.accept()
        for way in (("-R", f"0:127.0.0.1:{port}"), ("-R", "/tmp/never.sock:127.0.0.1:1")):
            done = host.ssh(options=("-o", "ExitOnForwardFailure=yes", *way))
            assert done.returncode == 255
            assert "remote port forwarding failed" in done.stderr


def test_the_key_reaches_no_socket_of_the_machine(host: DoorHost, tmp_path: Path) -> None:
    near = tmp_path / "near"
    with subprocess.Popen(host.words("-L", f"{near}:{host.door.gateway.path}"), stdin=subprocess.PIPE) as process:
        until(near.exists, "ssh listens")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT)
            connection.connect(str(near))
            assert connection.recv(1) == b""
        process.kill()


def test_the_environment_of_a_thief_does_not_count(host: DoorHost) -> None:
    variables = "OARPY_GATEWAY_SOCKET=/nowhere PYTHONPATH=/tmp LD_PRELOAD=/tmp/x.so BASH_ENV=/etc/passwd OAR_JOB_ID=1"
    done = host.ssh(options=("-o", f"SetEnv={variables}"), stdin='{"call": "describe", "key": "k"}\n')
    assert json.loads(done.stdout)["answer"]["speed"] == 1.0


def test_another_host_under_the_name_of_the_cluster_is_not_talked_to(host: DoorHost) -> None:
    known = host.sshd.known_hosts
    text = known.read_text()
    other = (host.sshd.key_file.with_suffix(".pub")).read_text().split()
    try:
        known.write_text(f"{text.split()[0]} {other[0]} {other[1]}\n")
        with closing(host.cluster("-o", "StrictHostKeyChecking=no")) as cluster, pytest.raises(ClusterSilent) as raised:
            cluster.describe()
        assert "Host key verification failed" in str(raised.value)
    finally:
        known.write_text(text)
    with closing(host.cluster()) as cluster:
        assert cluster.describe().procs > 0


def test_a_connection_that_is_cut_is_made_anew(host: DoorHost) -> None:
    with closing(host.cluster()) as cluster:
        cluster.describe()
        owned = subprocess.run(["pgrep", "-u", host.broker.pw_name], capture_output=True, text=True, check=True)
        for pid in owned.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        assert cluster.describe().procs > 0


def test_the_account_of_the_broker_reaches_no_more_than_the_key(host: DoorHost) -> None:
    """A broker that has a shell, too, is a user as others are, and nobody's admin."""
    job = json.loads(host.as_user(host.bob, "oarsub", "-J", "sleep", "1"))["job_id"]
    for words in (("oardel", str(job)), ("oarhold", str(job)), ("oargridctl", "grant", "campus", "x", "--user", "bob")):
        done = host.door.gateway.run(*words, uid=host.broker.pw_uid, cwd="/")
        assert done.status in (4, 5), done
