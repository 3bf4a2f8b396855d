"""Nodes that are created for jobs and deleted when idle: machines are real sshd daemons, which a program starts."""

from __future__ import annotations

import getpass
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox
from research.benchmarks.server_processes import is_running, server_processes
from tests.harness import elastic_machines
from tests.harness.passable_folder import passable_folder
from tests.harness.sshd_nodes import find_sshd, make_key
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e

MOST = 2
IMPATIENCE = 8.0
ROOT = Path(__file__).parents[2]


class Cloud:
    """A cluster all of whose nodes are elastic, and the provider of its machines."""

    def __init__(self, folder: Path, database: Mapping[str, str], patience: float) -> None:
        self.provider = folder / "provider"
        self.provider.mkdir()
        (self.provider / "known_hosts").touch()
        (self.provider / "sshd").write_text(find_sshd())
        (self.provider / "authorized_keys").write_text(make_key(folder / "client_key") + "\n")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        program = f"cd {ROOT} && exec {sys.executable} -m tests.harness.elastic_machines"
        self.settings: dict[str, Any] = {
            "database": dict(database),
            "nodes": {
                "user": getpass.getuser(),
                "key_file": str(folder / "client_key"),
                "known_hosts": str(self.provider / "known_hosts"),
                "lost_timeout": 2.0,
                "ping_interval": 0.5,
            },
            "scheduler": {"security_time": 0},
            "energy": {
                "enabled": True,
                "wake_command": f"{program} create {self.provider}",
                "sleep_command": f"{program} delete {self.provider}",
                "idle_time": 1.0,
                "sleep_time": 1.0,
                "wakeup_time": 1.0,
                "wakeup_timeout": patience,
                "nodes_per_command": 1,
            },
            "elastic": {"most": MOST, "name": "cloud", "resources": "/cpu={1}/core={2}"},
            "modules": {"metascheduler": 0.5, "energy": 0.5, "monitor": 0.5},
        }
        self.sandbox = Sandbox(folder / "cluster", self.settings)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Ask the database."""
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def submit(self, *arguments: str) -> int:
        (job,) = self.sandbox.job_ids(*arguments)
        return job

    def states(self) -> dict[str, str]:
        return dict(self.sql("SELECT DISTINCT network_address, state FROM resources ORDER BY 1"))

    def standing(self) -> list[str]:
        folder = self.provider / "machines"
        return sorted(home.name for home in folder.iterdir() if (home / "where").exists()) if folder.exists() else []

    def log(self) -> list[str]:
        path = self.provider / "log"
        return path.read_text().splitlines() if path.exists() else []

    def most_at_once(self) -> int:
        """The most machines that ever stood at once."""
        standing = most = 0
        for line in self.log():
            standing += 1 if line.startswith("created") else -1
            most = max(most, standing)
        return most

    def events(self, kind: str) -> list[str]:
        return [row[0] for row in self.sql("SELECT description FROM event_logs WHERE type = %s", kind)]

    def gone(self) -> None:
        """Wait until no machine stands, and the cluster knows it."""
        idle = dict.fromkeys((f"cloud{number + 1}" for number in range(MOST)), "Absent")
        until(lambda: self.standing() == [] and self.states() == idle, lambda: f"{self.standing()} {self.states()}")

    def end(self) -> None:
        self.sandbox.stop()
        (self.provider / "hold").unlink(missing_ok=True)
        for name in self.standing():
            elastic_machines.delete(self.provider, name)


@contextmanager
def running(database: Mapping[str, str], patience: float) -> Iterator[Cloud]:
    """Run such a cluster; a node that is created has ``patience`` seconds to come up."""
    with passable_folder("oarpy-elastic-") as folder:
        cloud = Cloud(folder, database, patience)
        try:
            cloud.sandbox.create()
            cloud.sandbox.start()
            cloud.sandbox.wait_for_gateway(DEADLINE)
            until(lambda: len(cloud.states()) == MOST, "the rows of elastic nodes are there")
            yield cloud
        finally:
            cloud.end()


@pytest.fixture
def cloud(cluster_database: dict[str, str]) -> Iterator[Cloud]:
    with running(cluster_database, 600.0) as made:
        yield made


@pytest.fixture
def impatient(cluster_database: dict[str, str]) -> Iterator[Cloud]:
    with running(cluster_database, IMPATIENCE) as made:
        yield made


def ended(cloud: Cloud, jobs: list[int]) -> None:
    query = "SELECT count(*) FROM jobs WHERE job_id = ANY(%s) AND state = 'Terminated'"
    messages = "SELECT job_id, state, message FROM jobs WHERE job_id = ANY(%s)"
    until(lambda: cloud.sql(query, jobs) == [(len(jobs),)], lambda: f"{cloud.sql(messages, jobs)} {cloud.log()}")


def test_nodes_are_created_for_jobs_and_deleted_when_idle(cloud: Cloud) -> None:
    assert cloud.standing() == []
    assert cloud.states() == {"cloud1": "Absent", "cloud2": "Absent"}
    work = cloud.sandbox.directory / "work"
    first = cloud.submit("-l", "/nodes=1,walltime=0:5:0", "echo $OAR_JOB_ID >> ran")
    ended(cloud, [first])
    assert cloud.log() == ["created cloud1"], "one node is enough"
    daemon = int((cloud.provider / "machines" / "cloud1" / "pid").read_text())
    cloud.gone()
    assert cloud.log() == ["created cloud1", "deleted cloud1"]
    assert not is_running(daemon)
    where = "SELECT host, port FROM nodes WHERE elastic"
    until(lambda: cloud.sql(where) == [(None, None)] * MOST, "their addresses are forgotten")
    jobs = [cloud.submit("-l", "/nodes=1,walltime=0:5:0", "echo $OAR_JOB_ID >> ran") for _ in range(5)]
    ended(cloud, jobs)
    cloud.gone()
    assert sorted(map(int, (work / "ran").read_text().split())) == [first, *jobs], "each ran once"
    assert cloud.most_at_once() == MOST
    print(f"6 jobs, {len(cloud.log())} lines of the provider, at most {cloud.most_at_once()} machines at once")


def test_a_node_that_does_not_come_up_is_told_and_tried_again(impatient: Cloud) -> None:
    (impatient.provider / "broken").write_text("cloud1")
    job = impatient.submit("-l", "/nodes=1,walltime=0:5:0", "true")
    ended(impatient, [job])
    assert impatient.log()[0] == "created cloud2", "another node is tried"
    assert "not awake 8 s after it was woken" in impatient.events("WAKEUP_NODE_TIMEOUT")
    both = impatient.submit("-l", "/nodes=2,walltime=0:5:0", "true")
    (impatient.provider / "broken").unlink()
    ended(impatient, [both])
    assert "created cloud1" in impatient.log()
    impatient.gone()


def test_a_node_that_is_lost_is_deleted_and_may_come_again(impatient: Cloud) -> None:
    command = "[ -e second ] || { touch second; sleep 600; }"
    job = impatient.submit("-l", "/nodes=1,walltime=0:5:0", "-t", "idempotent", command)
    until(lambda: (impatient.sandbox.directory / "work" / "second").exists(), "the job runs")
    elastic_machines.delete(impatient.provider, "cloud1")
    until(lambda: impatient.sql("SELECT state FROM jobs WHERE job_id = %s", job) == [("Error",)], "the job is lost")
    query = "SELECT job_id FROM jobs WHERE resubmit_of = %s"
    ((copy,),) = until(lambda: impatient.sql(query, job), "it is submitted again")
    ended(impatient, [copy])
    impatient.gone()
    assert impatient.log().count("created cloud1") + impatient.log().count("created cloud2") >= 2


@pytest.mark.parametrize("whole", [True, False], ids=["server", "energy"])
def test_nothing_is_lost_when_the_server_is_killed_while_a_node_is_created(cloud: Cloud, whole: bool) -> None:
    (cloud.provider / "hold").touch()
    job = cloud.submit("-l", "/nodes=1,walltime=0:5:0", "echo $OAR_JOB_ID >> ran")
    asked = "SELECT network_address FROM node_power WHERE asked = 'wake'"
    until(lambda: cloud.sql(asked) == [("cloud1",)], "the node is asked for")
    if whole:
        cloud.sandbox.stop_server(signal.SIGKILL)
        cloud.sandbox.start()
    else:
        server = cloud.sandbox.server
        assert server is not None
        (pid,) = server_processes(server.pid)["energy"]
        os.kill(pid, signal.SIGKILL)
    (cloud.provider / "hold").unlink()
    ended(cloud, [job])
    assert (cloud.sandbox.directory / "work" / "ran").read_text() == f"{job}\n"
    cloud.gone()
    assert cloud.most_at_once() == 1


def test_a_deletion_that_fails_is_not_forgotten_when_the_server_is_killed(cloud: Cloud) -> None:
    (cloud.provider / "stuck").write_text("cloud1")
    ended(cloud, [cloud.submit("-l", "/nodes=1,walltime=0:5:0", "true")])
    until(lambda: cloud.events("ENERGY_COMMAND_FAILED"), "the command fails")
    cloud.sandbox.stop_server(signal.SIGKILL)
    assert cloud.sql(
        "SELECT tries > 0, sent_at, failure LIKE '%%cloud1 cannot be deleted' FROM node_power"
        " WHERE network_address = %s",
        "cloud1",
    ) == [(True, None, True)]
    assert cloud.standing() == ["cloud1"]
    ((before,),) = cloud.sql("UPDATE node_power SET retry_at = now() WHERE tries > 0 RETURNING tries")
    cloud.sandbox.start()
    tries = "SELECT tries FROM node_power WHERE network_address = 'cloud1'"
    until(lambda: cloud.sql(tries) > [(before,)], "it is tried again")
    (cloud.provider / "stuck").unlink()
    cloud.sql("UPDATE node_power SET retry_at = now() WHERE tries > 0")
    cloud.gone()
    assert cloud.log() == ["created cloud1", "deleted cloud1"]
