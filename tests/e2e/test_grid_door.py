"""A broker's key, stolen, over a real sshd and with real users: it reaches nothing beyond its grants."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from msgspec import structs

from oarpy.grid.calls.parts import GridPart, PartRequest
from oarpy.grid.calls.table import (
    Abort,
    CallRefused,
    Cancel,
    ClusterSilent,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evictable,
    Prepare,
    Waiting,
)
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from tests.harness.door_host import DoorHost, door_host
from tests.harness.gateway_process import TIMEOUT
from tests.harness.oarsub_cluster import build
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
Sql = Callable[..., list[Any]]
SECRET = "root:x:0:0:"


@pytest.fixture(scope="module")
def host(cluster_database: dict[str, str]) -> Iterator[DoorHost]:
    """A cluster whose broker comes over SSH. Its user ann lets it act for her in the queue default, a little."""
    with psycopg.connect(cluster_database["url"], autocommit=True) as connection:
        build(connection)
    with door_host({"OARPY_DATABASE_URL": cluster_database["url"], "OARPY_SUBMISSION_ADMINS": "daemon"}) as found:
        limits = ("-q", "default", "--resources", "2", "--walltime", "1h")
        found.as_user(found.ann, "oargridctl", "grant", "campus", "ann", *limits)
        found.as_user(found.bob, "oargridctl", "grant", "lyon", "rob")
        yield found


@pytest.fixture
def thief(host: DoorHost) -> Iterator[OarpyCluster]:
    """The cluster in the hands of who has the key."""
    with closing(host.cluster()) as cluster:
        yield cluster


@pytest.fixture
def sql(cluster_database: dict[str, str]) -> Iterator[Callable[..., list[Any]]]:
    """Ask the database of the cluster."""
    with psycopg.connect(cluster_database["url"], autocommit=True) as connection:
        yield lambda statement, *values: connection.execute(statement, values).fetchall()


def test_the_broker_comes_by_its_key(host: DoorHost) -> None:
    with closing(host.cluster()) as cluster:
        first = cluster.ask(Describe())
        assert first.procs > 0
        assert cluster.ask(Describe()).clock > first.clock


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
            cluster.ask(Describe())
        assert "Host key verification failed" in str(raised.value)
    finally:
        known.write_text(text)
    with closing(host.cluster()) as cluster:
        assert cluster.ask(Describe()).procs > 0


def test_a_connection_that_is_cut_is_made_anew(host: DoorHost) -> None:
    with closing(host.cluster()) as cluster:
        cluster.ask(Describe())
        owned = subprocess.run(["pgrep", "-u", host.broker.pw_name], capture_output=True, text=True, check=True)
        for pid in owned.stdout.split():
            with suppress(ProcessLookupError):  # it ended with the one before
                os.kill(int(pid), signal.SIGKILL)
        assert cluster.ask(Describe()).procs > 0


def test_the_account_of_the_broker_reaches_no_more_than_the_key(host: DoorHost) -> None:
    """A broker that has a shell, too, is a user as others are, and nobody's admin."""
    job = json.loads(host.as_user(host.bob, "oarsub", "-J", "sleep", "1"))["job_id"]
    for words in (("oardel", str(job)), ("oarhold", str(job)), ("oargridctl", "grant", "campus", "x", "--user", "bob")):
        done = host.door.gateway.run(*words, uid=host.broker.pw_uid, cwd="/")
        assert done.status in (4, 5), done


def request(user: str = "ann", **more: Any) -> PartRequest:
    return structs.replace(PartRequest(user, "/core=1", 1, 60.0), **more)


def prepare(cluster: OarpyCluster, name: str, asked: PartRequest, **more: Any) -> str:
    """Prepare a part in a transaction of its name; return its job."""
    return cluster.ask(
        Prepare(name, GridPart(name, "queued", asked, program="sleep 1", **more), 600, key=f"p-{name}")
    ).job


def test_the_thief_acts_as_nobody_without_a_grant(host: DoorHost, thief: OarpyCluster, sql: Sql) -> None:
    before = sql("SELECT count(*) FROM jobs")
    for user in (host.ann.pw_name, host.bob.pw_name, "bob", "rob", "root", "daemon", "' OR 1=1 --", "*"):
        asked = request(user.replace(" ", "_"))
        for call in (
            lambda asked=asked: thief.ask(Estimate([asked])),
            lambda asked=asked: thief.ask(EstimateInTurn(asked, 2)),
            lambda asked=asked: prepare(thief, "x.1", asked),
        ):
            with pytest.raises(CallRefused, match="nobody here lets broker 'campus' act for its user") as raised:
                call()
            assert raised.value.exit_status == 5
    assert sql("SELECT count(*) FROM jobs") == before


BEYOND = [
    ({"queue": "admin"}, 3, "queue"),
    ({"resources": "/core=3", "procs": 1}, 5, "3 resources are above the 2 of the grant"),
    ({"resources": "/nodes=1", "procs": 1}, 5, "4 resources are above the 2 of the grant"),
    ({"walltime": 3601.0}, 5, "walltime 1:0:1 is above the 1:0:0 of the grant"),
    ({"resources": "/core=1,walltime=0:1:0"}, 2, "walltime"),
    ({"types": ("besteffort",)}, 5, "queue 'besteffort' is none of the grant"),
    ({"properties": "host IN (SELECT user_name FROM jobs)"}, 2, "a subselect is not allowed"),
    ({"properties": "1=1); DELETE FROM jobs; --"}, 2, "syntax error"),
]


@pytest.mark.parametrize(("more", "status", "reason"), BEYOND, ids=lambda one: str(one)[:40])
def test_a_grant_has_its_limits(thief: OarpyCluster, sql: Sql, more: Any, status: int, reason: str) -> None:
    before = sql("SELECT count(*) FROM jobs")
    with pytest.raises(CallRefused, match=reason) as raised:
        prepare(thief, "y.1", request(**more))
    assert raised.value.exit_status == status
    assert sql("SELECT count(*) FROM jobs") == before


def test_what_is_submitted_is_the_users_and_has_no_more_rights(host: DoorHost, thief: OarpyCluster, sql: Sql) -> None:
    job = prepare(thief, "z.1", request(), directory="/", environment={"A": "$(id)"}, job_name="x")
    assert sql("SELECT user_name, state, queue_name FROM jobs WHERE job_id = %s", job) == [
        (host.ann.pw_name, "Hold", "default")
    ]
    thief.ask(Abort("z.1", key="a-z.1"))


def test_jobs_of_users_and_of_other_brokers_are_out_of_reach(host: DoorHost, thief: OarpyCluster, sql: Sql) -> None:
    own = [host.as_user(user, "oarsub", "sleep 1").split("=")[1].strip() for user in (host.ann, host.bob)]
    with closing(host.other_broker()) as other:
        prepare(other, "7.1", request("rob"))
        part = prepare(other, "7.2", request("rob"))
        other.ask(Commit("7.1", key="c-7.1"))
        states = (
            "SELECT job_id, j.state, j.message, k.state FROM jobs j LEFT JOIN kill_requests k USING (job_id) ORDER BY 1"
        )
        before = sql(states), other.ask(Waiting())
        for name in (*own, "7.1", "7.2", part):
            thief.ask(Cancel(name, key=f"c-{name}"))
        thief.ask(Abort("7.2", key="a-7.2"))
        for transaction in ("7.1", "7.2"):
            with pytest.raises(CallRefused):
                thief.ask(Commit(transaction, key=f"c-{transaction}"))
        with pytest.raises(CallRefused, match=r"part '7\.1' does not wait here"):
            thief.ask(Prepare("f", GridPart("7.1", "withdrawn", request()), 60, key="f-7.1"))
        assert (sql(states), other.ask(Waiting())) == before
        assert (thief.ask(Waiting()), thief.ask(Evictable(request())), thief.ask(Events(0))) == ([], [], [])
        other.ask(Commit("7.2", key="c-7.2"))


def test_a_grant_that_is_taken_back_counts_at_once(host: DoorHost, thief: OarpyCluster) -> None:
    host.as_user(host.ann, "oargridctl", "grant", "campus", "ann2")
    prepare(thief, "w.1", request("ann2"))
    host.as_user(host.ann, "oargridctl", "revoke", "campus", "ann2")
    with pytest.raises(CallRefused, match="nobody here lets"):
        prepare(thief, "w.2", request("ann2"))
    thief.ask(Abort("w.1", key="a-w.1"))


def test_a_grant_for_an_admin_opens_nothing_whoever_wrote_it(thief: OarpyCluster, sql: Sql) -> None:
    sql("INSERT INTO grid_grants (broker, broker_user, local_user) VALUES ('campus', 'adm', 'daemon') RETURNING 1")
    with pytest.raises(CallRefused, match="no broker acts for 'daemon', an admin"):
        prepare(thief, "v.1", request("adm"))
    with pytest.raises(psycopg.errors.CheckViolation):
        sql("INSERT INTO grid_grants (broker, broker_user, local_user) VALUES ('campus', 'r', 'root') RETURNING 1")
