"""Supervisors that are stopped, or wait for a file system that does not answer: told, and their jobs ended."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import ChannelLost, Check, Checked, Ended, Kill, Stuck
from research.benchmarks.server_processes import children_of
from tests.harness.dead_file_system import dead_file_system, why_not
from tests.harness.passable_folder import passable_folder
from tests.harness.transport_driver import Driver, end_all
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
needs_dead_files = pytest.mark.skipif(bool(why_not()), reason=why_not())


@pytest.fixture
def driver() -> Iterator[Driver]:
    inbox = Inbox()
    with passable_folder("oarpy-hung-") as folder:
        config = ChannelConfig(instance=f"test-{folder.name}", kill_patience=5.0, start_patience=2.0)
        transport = LocalTransport(inbox, config)
        (folder / "work").mkdir(mode=0o777)
        (folder / "work").chmod(0o777)
        node = NodeAddress("node1", str(folder / "state"))
        yield Driver(transport, node, folder / "work", config.instance, getpass.getuser())
        transport.close()
        inbox.close()
        end_all(config.instance)


def supervisor(driver: Driver, job: int) -> int:
    lines = (Path(driver.node.state_directory) / "jobs" / f"{job}.1").read_text().split("\n")
    return int(next(entry["pid"] for entry in map(json.loads, filter(None, lines)) if entry["event"] == "started"))


def is_unfit(driver: Driver) -> str:
    driver.send(Check())
    return driver.expect(Checked).problem


def test_a_stopped_supervisor_is_told_and_goes_on(driver: Driver) -> None:
    driver.connect()
    driver.start(driver.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    driver.started(1)
    os.kill(supervisor(driver, 1), signal.SIGSTOP)
    told = driver.expect(Stuck)
    assert told.key == JobKey(1, 1)
    assert "stopped" in told.detail
    (driver.directory / "go").touch()
    assert driver.ended(1).status == 5 << 8
    until(lambda: not is_unfit(driver), "the node is well again")


@pytest.mark.parametrize("new_agent", [False, True])
def test_a_job_is_killed_whatever_stops_its_supervisor(driver: Driver, new_agent: bool) -> None:
    driver.connect()
    driver.start(driver.spec(1, "trap '' TERM; while :; do sleep 0.1; done", kill_grace=0.2))
    driver.started(1)
    pid = supervisor(driver, 1)
    if new_agent:
        driver.connect()
    stopper = os.fork()
    if stopper == 0:
        with os.fdopen(os.open(os.devnull, os.O_RDONLY)):
            while True:  # whatever lets it go on
                try:
                    os.kill(pid, signal.SIGSTOP)
                except OSError:
                    os._exit(0)
    driver.send(Kill((JobKey(1, 1),), None))
    ended = driver.ended(1)
    os.kill(stopper, signal.SIGKILL)
    os.waitpid(stopper, 0)
    assert (ended.reason, ended.left) == ("killed", 0)
    assert driver.processes(1) == []
    assert driver.run(driver.spec(2, "true")).status == 0


def test_a_start_whose_supervisor_was_stopped_is_begun_by_another(driver: Driver) -> None:
    """Stopped before it wrote anything, under an agent that is gone: nothing but the lock of the record tells."""
    ready = driver.connect()
    assert driver.run(driver.spec(1, "true")).status == 0
    (idle,) = children_of(ready.pid)
    os.kill(idle, signal.SIGSTOP)
    driver.start(driver.spec(2, "echo begun"))
    driver.said_until_pong()
    os.kill(ready.pid, signal.SIGKILL)
    driver.expect(ChannelLost)
    driver.connect()
    driver.start(driver.spec(2, "echo begun"))
    assert driver.expect(Stuck).key == JobKey(2, 1)
    assert driver.ended(2).status == 0
    assert driver.output(2) == "begun\n"


@needs_dead_files
@pytest.mark.parametrize("what", ["directory", "stdout"])
def test_a_job_on_a_file_system_that_does_not_answer_ends(driver: Driver, what: str) -> None:
    driver.connect()
    user = pwd.getpwnam("nobody").pw_name
    with dead_file_system(driver.directory / "away") as place:
        value = str(place) if what == "directory" else f"{place}/out"
        driver.start(driver.spec(1, "true", **{"user": user, what: value}))
        told = driver.expect(Stuck)
        assert str(place) in told.detail
        ended = driver.ended(1)
        assert ended.reason == ("WORKING_DIRECTORY" if what == "directory" else "OUTPUT_FILES")
        assert "no answer" in ended.detail
        assert ended.by_node, "another node may have an answer"
        assert str(place) in is_unfit(driver)
        assert driver.run(driver.spec(2, "true", user=user)).status == 0, "others are not held up"
        assert str(place) in is_unfit(driver)
    until(lambda: not is_unfit(driver), "the node is well again")


@needs_dead_files
def test_a_kill_reaches_a_job_that_waits_for_a_file_system(driver: Driver) -> None:
    driver.connect()
    with dead_file_system(driver.directory / "away") as place:
        # as the agent's own user, whose programs no thread starts: nothing but SIGKILL reaches the supervisor
        driver.start(driver.spec(1, "true", directory=str(place), kill_grace=0.2))
        record = Path(driver.node.state_directory) / "jobs" / "1.1"
        until(lambda: record.exists() and record.stat().st_size, "it is started")
        driver.send(Kill((JobKey(1, 1),), None))
        ended = driver.expect(Ended)
        assert (ended.key, ended.reason) == (JobKey(1, 1), "killed")
        assert driver.processes(1) == []
