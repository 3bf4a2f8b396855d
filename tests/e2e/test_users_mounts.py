"""Jobs on a file system that their user mounted for that user alone: root, and root's threads, are refused."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from tests.harness.dead_file_system import why_not
from tests.harness.passable_folder import passable_folder
from tests.harness.transport_driver import Driver, end_all
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
