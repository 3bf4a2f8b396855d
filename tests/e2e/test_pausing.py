"""What stops a job on a node: frozen control groups together with processes that are outside of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.agent.job import suspending
from oarpy.transport.agent.job.isolation import Isolation
from tests.harness.transport_driver import is_stopped
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

ROOT = "/sys/fs/cgroup"
KEY = "5.1"


@pytest.fixture
def isolation(tmp_path: Path) -> Iterator[Isolation]:
    made = Isolation("auto", ROOT, str(tmp_path))
    yield made
    made.end(KEY, 5.0)


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[bytes]]]:
    started = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
    yield started
    for one in started:
        one.kill()
        one.wait()


@pytest.mark.parametrize("gathered", [0, 1, 2])
def test_all_of_a_job_stands_still_in_and_out_of_its_group(
    isolation: Isolation, programs: list[subprocess.Popen[bytes]], gathered: int
) -> None:
    pids = [one.pid for one in programs]
    for pid in pids[:gathered]:
        isolation.gather(KEY, pid)
    groups = isolation.freezers(KEY)
    for _ in range(2):
        suspending.stop(groups, lambda: pids)
        until(lambda: all(map(is_stopped, pids)), "all stand still")
    suspending.go_on(groups, lambda: pids)
    until(lambda: not any(map(is_stopped, pids)), "all go on")
    suspending.stop(groups, lambda: pids)
    suspending.thaw(groups)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert [one.wait(10) for one in programs] == [-signal.SIGKILL] * 2


def test_groups_that_are_plain_files_are_told_and_believed_only_when_they_stand_still(tmp_path: Path) -> None:
    """Both versions; a plain file never says that it is frozen unless it is what was written."""
    first, second = tmp_path / "v1", tmp_path / "v2"
    for group in (first, second):
        group.mkdir()
        (group / "cgroup.procs").write_text("1\n")
    (first / "freezer.state").write_text("THAWED")
    (second / "cgroup.freeze").write_text("0")
    (second / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    groups = [str(first), str(second)]
    suspending.stop(groups, list)
    assert (first / "freezer.state").read_text() == "FROZEN"
    assert (second / "cgroup.freeze").read_text() == "1"
    suspending.thaw(groups)
    assert (first / "freezer.state").read_text() == "THAWED"
    assert (second / "cgroup.freeze").read_text() == "0"
