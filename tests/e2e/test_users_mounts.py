"""Jobs and steps on a file system that their user mounted for that user alone: root is refused."""

from __future__ import annotations

import os
import pwd
import select
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport, PipeStream
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.steps import StepEnded, StepEvent, StepOutput, Steps
from oarpy.wire.steps import StepSpec, StepTerminal
from tests.harness.dead_file_system import why_not
from tests.harness.passable_folder import passable_folder
from tests.harness.transport_driver import DEADLINE, Driver, end_all
from tests.harness.users_file_system import users_file_system

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(bool(why_not()), reason=why_not())]
GAMES = pwd.getpwnam("games")


@pytest.fixture
def driver() -> Iterator[Driver]:
    inbox = Inbox()
    with passable_folder("oarpy-mounts-") as folder:
        config = ChannelConfig(instance=f"test-{folder.name}")
        transport = LocalTransport(inbox, config)
        (folder / "work").mkdir(mode=0o777)
        (folder / "work").chmod(0o777)
        yield Driver(transport, NodeAddress("node1", str(folder / "state")), folder / "work", config.instance, "games")
        transport.close()
        inbox.close()
        end_all(config.instance)


def test_a_job_runs_in_a_directory_of_its_users_own_mount(driver: Driver) -> None:
    driver.connect()
    place: Path = driver.directory / "mine"
    with users_file_system(place, GAMES) as mounted:
        with pytest.raises(PermissionError):
            os.listdir(place)
        ended = driver.run(driver.spec(1, "pwd; umask; id -u; echo told >&2", directory=str(place)))
        assert (ended.status, ended.detail) == (0, "")
        assert mounted.written("out.1") == f"{place}\n0022\n{GAMES.pw_uid}\n"
        assert mounted.written("err.1") == "told\n"
        assert driver.run(driver.spec(2, "id -u", stdout=f"{place}/there", stderr=f"{place}/err")).status == 0
        assert mounted.written("there") == f"{GAMES.pw_uid}\n"


def test_what_its_user_may_not_enter_either_is_told_as_before(driver: Driver) -> None:
    driver.connect()
    with users_file_system(driver.directory / "theirs", pwd.getpwnam("nobody")):
        theirs = str(driver.directory / "theirs")
        ended = driver.run(driver.spec(1, "true", directory=theirs))
        assert (ended.reason, ended.detail) == ("WORKING_DIRECTORY", f"{theirs}: Permission denied")
        ended = driver.run(driver.spec(2, "true", stdout=f"{theirs}/out"))
        assert (ended.reason, ended.detail) == ("OUTPUT_FILES", f"{theirs}/out: Permission denied")


@pytest.mark.parametrize("terminal", [None, StepTerminal("vt100", 30, 90)])
def test_a_step_runs_there_on_its_streams(driver: Driver, terminal: StepTerminal | None) -> None:
    driver.connect()
    job = driver.spec(1, "exec sleep 600")
    driver.start(job)
    driver.started(1)
    place = driver.directory / "mine"
    steps = Steps(lambda node: PipeStream, ChannelConfig(instance=driver.instance))
    with users_file_system(place, GAMES):
        step = steps.start(driver.node, StepSpec(job, "pwd; exit 7", str(place), terminal=terminal))
        log: list[StepEvent] = []
        end = time.monotonic() + DEADLINE
        while StepEnded(step, 7 << 8) not in log:
            assert time.monotonic() < end, log
            select.select([steps.fileno()], [], [], 0.2)
            log += steps.events()
    steps.close()
    said = b"".join(one.data for one in log if isinstance(one, StepOutput))
    assert said.split() == [str(place).encode()]
