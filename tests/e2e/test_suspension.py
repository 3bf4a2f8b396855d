"""Jobs suspended and resumed for real: every process on every node stands still, whoever is killed in between."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.store.platform import site
from oarpy.transport.agent.job.processes import MARK, mark_of
from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Resume, Resumed, Suspend, Suspended
from research.benchmarks.server_processes import children_of, server_processes
from tests.harness.transport_driver import Driver, end_all, is_stopped, marked
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

DEADLINE = 90.0
Truth = psycopg.Connection[tuple[Any, ...]]

# One process below the shell, one that has left it for good.
JOB = """
setsid sh -c 'while sleep 0.05; do echo t >> away; done' > /dev/null 2>&1 &
while sleep 0.05; do echo t >> here; [ -e stop ] && exit 0; done
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[Sandbox]:
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={1}")
    settings: Settings = {"modules": {"restart_delay": 0.1}, "database": {"url": dsn}}
    with running_sandbox(tmp_path_factory.mktemp("cluster"), settings, nodes) as made:
        yield made


@pytest.fixture
def truth(cluster: Sandbox) -> Iterator[Truth]:
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        yield connection


def launcher_of(cluster: Sandbox) -> int:
    assert cluster.server is not None
    supervisor = cluster.server.pid
    until(lambda: "launcher" in server_processes(supervisor), "a launcher")
    return server_processes(supervisor)["launcher"][0]


def processes_of(truth: Truth, job: int) -> list[int]:
    return marked(JobKey(job, 1), site.instance(truth))


def still(truth: Truth, job: int) -> bool:
    pids = processes_of(truth, job)
    return len(pids) >= 3 and all(map(is_stopped, pids))


def grows(*files: Path) -> None:
    """Wait until each file has grown."""
    sizes = {file: file.stat().st_size if file.exists() else 0 for file in files}
    for file, size in sizes.items():
        until(lambda file=file, size=size: file.exists() and file.stat().st_size > size, f"{file.name} grows")  # type: ignore[misc]


def holds(truth: Truth, question: str, job: int) -> bool:
    row = truth.execute(question, [job]).fetchone()
    return bool(row and row[0])


def die_before_telling(cluster: Sandbox, *command: str, truth: Truth, decided: str, job: int) -> None:
    """Run a command, wait for what is decided in the database, and kill launcher and agents before they do it."""
    launcher = launcher_of(cluster)
    os.kill(launcher, signal.SIGSTOP)
    cluster.run(*command)
    until(lambda: holds(truth, decided, job), decided)
    for pid in (*children_of(launcher), launcher):
        os.kill(pid, signal.SIGKILL)


def test_a_suspended_job_stands_still_and_goes_on_whoever_is_killed_between(cluster: Sandbox, truth: Truth) -> None:
    work = cluster.directory / "work"
    (job,) = cluster.job_ids("-l", "/nodes=2,walltime=1:0:0", JOB)
    cluster.wait_for([job], ["Running"], DEADLINE)
    grows(work / "here", work / "away")
    asked = "SELECT count(*) FROM suspend_requests WHERE job_id = %s"
    die_before_telling(cluster, "oarhold", "-r", str(job), truth=truth, decided=asked, job=job)
    cluster.wait_for([job], ["Suspended"], DEADLINE)
    until(lambda: still(truth, job), "all its processes stand still")
    (other,) = cluster.job_ids("-l", "/nodes=2,walltime=0:1:0", "true")
    cluster.wait_for([other], ["Terminated"], DEADLINE)
    assert still(truth, job)
    given = "SELECT bool_and(NOT suspended) FROM assigned_resources WHERE job_id = %s"
    die_before_telling(cluster, "oarresume", str(job), truth=truth, decided=given, job=job)
    cluster.wait_for([job], ["Running"], DEADLINE)
    grows(work / "here", work / "away")
    assert holds(truth, "SELECT suspended_time > '0' AND suspended_at IS NULL FROM jobs WHERE job_id = %s", job)
    (work / "stop").touch()
    assert cluster.wait_for([job], ["Terminated", "Error"], DEADLINE) == {job: "Terminated"}
    assert processes_of(truth, job) == []


def test_a_deleted_suspended_job_leaves_nothing(cluster: Sandbox, truth: Truth) -> None:
    (job,) = cluster.job_ids("-l", "/nodes=2,walltime=1:0:0", JOB)
    cluster.wait_for([job], ["Running"], DEADLINE)
    grows(cluster.directory / "work" / "away")
    cluster.run("oarhold", "-r", str(job))
    cluster.wait_for([job], ["Suspended"], DEADLINE)
    cluster.run("oardel", str(job))
    cluster.wait_for([job], ["Error"], DEADLINE)
    assert processes_of(truth, job) == []


def test_what_runs_of_a_job_on_another_of_its_nodes_stands_still_too(tmp_path: Path) -> None:
    inbox = Inbox()
    config = ChannelConfig(instance=f"test-{tmp_path.name}-{os.getpid()}")
    transport = LocalTransport(inbox, config)
    address = NodeAddress("node2", str(tmp_path / "state"))
    driver = Driver(transport, address, tmp_path, config.instance, getpass.getuser())
    key = JobKey(7, 1)
    step = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: mark_of(config.instance, 7, 1)})
    try:
        driver.connect()
        for _ in range(2):
            driver.send(Suspend((key,)))
            assert driver.expect(Suspended).key == key
            until(lambda: is_stopped(step.pid), "the step stands still")
        driver.send(Resume((key,)))
        assert driver.expect(Resumed).key == key
        until(lambda: not is_stopped(step.pid), "the step goes on")
        driver.send(Suspend((key,)))
        driver.expect(Suspended)
        driver.send(Clean((key,)))
        assert driver.expect(Cleaned) == Cleaned(key, 1, 0)
        assert step.wait(DEADLINE) == -signal.SIGKILL
    finally:
        step.kill()
        step.wait()
        transport.close()
        inbox.close()
        end_all(config.instance)
