"""The site's check of a node, by a real agent: its words, its time limit, and that nothing of it holds up the agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.wire.messages import Check, Checked, CheckHealth, Health, Ping, Pong
from tests.harness.transport_driver import Driver, local_driver

pytestmark = pytest.mark.e2e


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path, "none") as made:
        made.connect()
        yield made


def check(driver: Driver, text: str, timeout: float = 60.0) -> str:
    """Have the agent run a check, and return what it says."""
    path = driver.directory / "check"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    driver.send(CheckHealth(str(path), timeout))
    return driver.expect(Health).problem


def checked(driver: Driver) -> str:
    driver.send(Check())
    return driver.expect(Checked).problem


def test_the_words_of_a_check_that_fails_are_kept_until_one_succeeds(driver: Driver) -> None:
    words = "health check ended with exit status 3: the disk is full, and old"
    assert check(driver, "echo the disk is full,; echo and old; exit 3") == words
    assert checked(driver) == words
    driver.transport.disconnect(driver.node.name)
    driver.connect()
    assert checked(driver) == words, "another agent knows it"
    assert check(driver, "true") == ""
    assert checked(driver) == ""
    assert check(driver, "exit 1") != ""
    driver.send(CheckHealth(""))
    assert checked(driver) == "", "the site has no check any more"


def test_programs_that_hang_talk_without_end_or_are_missing(driver: Driver) -> None:
    assert check(driver, "echo still there; exec sleep 600", 0.2) == "health check took more than 0.2 s: still there"
    assert check(driver, "yes | tr -d '\\n'", 0.3).startswith("health check took more than 0.3 s: y")
    assert check(driver, "head -c 100000000 /dev/zero | tr '\\0' x; exit 1").endswith("x" * 100)
    driver.send(CheckHealth(str(driver.directory / "none"), 60.0))
    assert driver.expect(Health).problem.endswith("none: No such file or directory")


def test_the_agent_goes_on_meanwhile(driver: Driver) -> None:
    path = driver.directory / "check"
    path.write_text(f"#!/bin/sh\nuntil [ -e {driver.directory}/go ]; do sleep 0.05; done\n")
    path.chmod(0o755)
    driver.send(CheckHealth(str(path), 60.0))
    driver.send(Ping("there"))
    assert driver.expect(Pong).token == "there"
    (driver.directory / "go").touch()
    assert driver.expect(Health).problem == ""
