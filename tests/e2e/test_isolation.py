"""Jobs in control groups and on their processors: on this machine's kernel, and on plain files where it has none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.agent.job.isolation import Isolation, lack_of_swap_limits
from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import Steps
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Ended, Kill, Started
from oarpy.wire.steps import StepSpec
from research.benchmarks.server_processes import is_running
from tests.harness.transport_driver import GROUPS, Driver, local_driver, marked
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

TRIED = f"{os.getpid()}.0"
"""The group in which this process tries what the kernel can do: who ends it kills all that is in it."""


def _allowed() -> bool:
    isolation = Isolation("auto", str(GROUPS), "/test-of-isolation")
    try:
        return isolation.enter(TRIED, ())
    finally:
        isolation.leave()
        isolation.end(TRIED, 1.0)


@pytest.fixture(params=["auto", "affinity", "none"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path, request.param) as made:
        made.connect()
        yield made


def _mode(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["driver"])


def test_a_job_keeps_to_its_processors(request: pytest.FixtureRequest, driver: Driver) -> None:
    ours = sorted(os.sched_getaffinity(0))
    shown = "grep Cpus_allowed_list /proc/self/status"
    driver.start(driver.spec(1, shown, processors=(ours[-1],)))
    driver.expect(Ended)
    driver.start(driver.spec(2, shown, processors=(ours[-1], 4000)))
    driver.expect(Ended)
    driver.start(driver.spec(3, shown))
    driver.expect(Ended)
    said = [(driver.directory / f"out.{job}").read_text().split()[1] for job in (1, 2, 3)]
    whole = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "allowed_list" in line and "Cpus" in line
    )
    everything = whole.split()[1]
    assert said == [everything if _mode(request) == "none" else str(ours[-1]), everything, everything]


def test_processes_that_hide_die_with_the_job(request: pytest.FixtureRequest, driver: Driver) -> None:
    if _mode(request) != "auto" or not _allowed():
        pytest.skip("this kernel, or this user, has no control groups to make")
    # no mark in its environment, and its parent is not the supervisor: only the group knows it
    command = "sleep 700 & echo $! > pid; exec sleep 600"
    driver.start(driver.spec(1, command))
    driver.expect(Started)
    until(lambda: bool(driver.groups(1)), "the job has a group")
    steps = Steps(lambda node: PipeStream, ChannelConfig(instance=driver.instance))
    job = driver.spec(1, command)
    steps.start(driver.node, StepSpec(job, "env -i sh -c 'echo $$ > hidden; exec sleep 700'", job.directory))
    hidden = driver.directory / "hidden"
    until(lambda: hidden.exists() and hidden.read_text().endswith("\n"), "the step runs")
    pid = int(hidden.read_text())
    groups = driver.groups(1)
    assert any(str(pid) in (group / "cgroup.procs").read_text().split() for group in groups)
    driver.send(Kill((JobKey(1, 1),), 0))
    assert driver.expect(Ended).left == 0
    assert not is_running(pid)
    assert marked(JobKey(1, 1), driver.instance) == []
    assert driver.groups(1) == []
    steps.close()


def test_version_2_on_plain_files(tmp_path: Path) -> None:
    """What is written where; a plain file stands for each one that the kernel would make."""
    (tmp_path / "cgroup.controllers").write_text("cpuset memory")
    (tmp_path / "cgroup.procs").write_text("")
    Isolation("cgroup", str(tmp_path), "/state")
    (base,) = (tmp_path / "oarpy").iterdir()
    (base / "cpuset.cpus").write_text("")
    group = base / "7.1"
    group.mkdir()
    for name in ("cgroup.procs", "cpuset.cpus"):
        (group / name).write_text("")
    isolation = Isolation("cgroup", str(tmp_path), "/state")
    first = min(os.sched_getaffinity(0))
    assert isolation.enter("7.1", (first,))
    assert (group / "cpuset.cpus").read_text() == str(first)
    assert (group / "cgroup.procs").read_text() == "0"
    isolation.leave()
    assert (tmp_path / "cgroup.procs").read_text() == "0"


def _plain_group(tmp_path: Path, version: int) -> tuple[Path, str]:
    """A node's folder of groups made of plain files, and the name of the file of a limit."""
    mount = tmp_path if version == 2 else tmp_path / "memory"
    mount.mkdir(exist_ok=True)
    (mount / "cgroup.procs").write_text("")
    if version == 2:
        (mount / "cgroup.controllers").write_text("memory")
    Isolation("cgroup", str(tmp_path), "/state")
    (base,) = (mount / "oarpy").iterdir()
    limit = "memory.max" if version == 2 else "memory.limit_in_bytes"
    (base / limit).write_text("")
    for key in ("7.1", "8.1"):
        (base / key).mkdir()
        for name in ("cgroup.procs", limit):
            (base / key / name).write_text("")
    return base, limit


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_of_memory_on_plain_files(tmp_path: Path, version: int) -> None:
    """What is written where; a plain file stands for each one that the kernel would make."""
    base, limit = _plain_group(tmp_path, version)
    isolation = Isolation("cgroup", str(tmp_path), "/state")
    assert isolation.enter("7.1", (), 1 << 30)
    assert (base / "7.1" / limit).read_text() == str(1 << 30)
    assert (base / "7.1" / "cgroup.procs").read_text() == "0"
    assert isolation.enter("8.1", ()) == (version == 2)
    assert (base / "8.1" / limit).read_text() == ""
    isolation.leave()
    assert (tmp_path / ("" if version == 2 else "memory") / "cgroup.procs").read_text() == "0"
    assert isolation.memory_kills("7.1") == 0
    counts = {
        1: ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        2: ("memory.events", "oom_kill 3\n"),
    }
    name, text = counts[version]
    (base / "7.1" / name).write_text(text)
    assert isolation.memory_kills("7.1") == 3
    assert isolation.name_of("7.1") == (f"/oarpy/{base.name}/7.1" if version == 2 else "")


@pytest.mark.parametrize(
    ("version", "name", "most"),
    [(1, "memory.memsw.limit_in_bytes", str(1 << 30)), (2, "memory.swap.max", "0")],
)
def test_a_limit_of_swap_on_plain_files(tmp_path: Path, version: int, name: str, most: str) -> None:
    base, limit = _plain_group(tmp_path, version)
    for key in ("7.1", "8.1"):
        (base / key / name).write_text("")
    isolation = Isolation("cgroup", str(tmp_path), "/state", limit_swap=True)
    isolation.enter("7.1", (), 1 << 30)
    assert [(base / "7.1" / file).read_text() for file in (limit, name)] == [str(1 << 30), most]
    isolation.enter("8.1", ())
    assert (base / "8.1" / name).read_text() == ""
    Isolation("cgroup", str(tmp_path), "/state").enter("8.1", (), 1 << 30)
    assert [(base / "8.1" / file).read_text() for file in (limit, name)] == [str(1 << 30), ""]


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_of_memory_stays_where_there_is_none_of_swap(tmp_path: Path, version: int) -> None:
    base, limit = _plain_group(tmp_path, version)
    assert Isolation("cgroup", str(tmp_path), "/state", limit_swap=True).enter("7.1", (), 1 << 30)
    assert (base / "7.1" / limit).read_text() == str(1 << 30)


@pytest.mark.skipif(
    not os.access(GROUPS / "memory" / "memory.memsw.limit_in_bytes", os.W_OK),
    reason="this kernel, or this user, has no limits of swap in control groups of version 1",
)
def test_the_kernel_takes_limits_of_swap_that_rise_and_fall(tmp_path: Path) -> None:
    isolation = Isolation("auto", str(GROUPS), str(tmp_path), limit_swap=True)
    try:
        for memory in (1 << 30, 3 << 30, 2 << 30):
            isolation.enter(TRIED, (), memory)
            (group,) = GROUPS.glob(f"memory/oarpy/*/{TRIED}")
            limits = [
                (group / name).read_text().strip() for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
            ]
            assert limits == [str(memory)] * 2
    finally:
        isolation.leave()
        isolation.end(TRIED, 1.0)
        for node in GROUPS.glob(f"*/oarpy/{isolation.name_of('').split('/')[-2]}"):
            node.rmdir()


def test_nodes_with_swap_that_cannot_be_limited_are_known(tmp_path: Path) -> None:
    groups, swaps = tmp_path / "groups", tmp_path / "proc" / "swaps"
    (groups / "memory").mkdir(parents=True)
    swaps.parent.mkdir()
    settings = {"isolation": "auto", "cgroup_root": str(groups), "machine_root": str(tmp_path)}
    swaps.write_text("Filename Type Size Used Priority\n")
    assert lack_of_swap_limits(settings) == ""
    swaps.write_text("Filename Type Size Used Priority\n/swap file 1024 0 -2\n")
    assert lack_of_swap_limits(settings) == f"the control groups at {groups} know no swap"
    assert lack_of_swap_limits({**settings, "isolation": "none"}) == "nodes.isolation is 'none'"
    (groups / "memory" / "memory.memsw.limit_in_bytes").touch()
    assert lack_of_swap_limits(settings) == ""
    (groups / "memory" / "memory.memsw.limit_in_bytes").unlink()
    (groups / "system.slice").mkdir()
    (groups / "system.slice" / "memory.swap.max").touch()
    (groups / "cgroup.controllers").write_text("memory")
    assert lack_of_swap_limits(settings) == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_of_processes_on_plain_files(tmp_path: Path, version: int) -> None:
    """What is written where; a plain file stands for each one that the kernel would make."""
    mounts = [tmp_path] if version == 2 else [tmp_path / "freezer", tmp_path / "pids"]
    for mount in mounts:
        mount.mkdir(exist_ok=True)
        (mount / "cgroup.procs").write_text("")
        if version == 2:
            (mount / "cgroup.controllers").write_text("pids")
            (mount / "cgroup.subtree_control").write_text("")
        Isolation("cgroup", str(tmp_path), "/state", 500)
        (node,) = (mount / "oarpy").iterdir()
        (node / "pids.max").write_text("")
        for key in ("7.1", "8.1"):
            (node / key).mkdir()
            for name in ("cgroup.procs", "pids.max"):
                (node / key / name).write_text("")
    if version == 2:
        assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+pids")
    isolation = Isolation("cgroup", str(tmp_path), "/state", 500)
    assert isolation.limits_processes
    assert isolation.enter("7.1", ())
    isolation.gather("8.1", 4711)
    assert [(node / key / "pids.max").read_text() for key in ("7.1", "8.1")] == ["500", "500"]
    assert [(node / key / "cgroup.procs").read_text() for key in ("7.1", "8.1")] == ["0", "4711"]
    isolation.leave()
    assert [(mount / "cgroup.procs").read_text() for mount in mounts] == ["0"] * len(mounts)
    unlimited = Isolation("cgroup", str(tmp_path), "/state", 0)
    (node / "7.1" / "pids.max").write_text("")
    unlimited.enter("7.1", ())
    assert not unlimited.limits_processes
    assert (node / "7.1" / "pids.max").read_text() == ""


def test_limits_leave_no_folder_where_there_are_no_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    isolation = Isolation("none", str(tmp_path), "/state", 500)
    assert not isolation.enter("7.1", (), 1 << 30)
    assert list(tmp_path.iterdir()) == []


def _limits_processes() -> bool:
    isolation = Isolation("auto", str(GROUPS), "/test-of-isolation", 500)
    try:
        return isolation.limits_processes and isolation.enter(TRIED, ())
    finally:
        isolation.leave()
        isolation.end(TRIED, 1.0)


@pytest.mark.skipif(not _limits_processes(), reason="this kernel, or this user, limits no processes of control groups")
def test_a_job_forks_no_more_than_it_may(tmp_path: Path) -> None:
    with local_driver(tmp_path, "cgroup", pids_limit=30) as driver:
        driver.connect()
        forks = "for i in $(seq 100); do sleep 600 & done; wait"
        assert driver.run(driver.spec(1, forks, memory=1 << 30)).reason == "exited"
        assert "fork" in (driver.directory / "err.1").read_text()


def _limits_memory() -> bool:
    isolation = Isolation("auto", str(GROUPS), "/test-of-isolation")
    try:
        entered = isolation.enter(TRIED, (), 1 << 30)
        return entered and any(
            (group / name).is_file() and (group / name).read_text().strip() == str(1 << 30)
            for base in (GROUPS, *GROUPS.glob("*"))
            for group in base.glob(f"oarpy/*/{TRIED}")
            for name in ("memory.max", "memory.limit_in_bytes")
        )
    finally:
        isolation.leave()
        isolation.end(TRIED, 1.0)


def test_a_job_without_memory_left_is_ended_by_the_kernel_and_that_is_reported(
    request: pytest.FixtureRequest, driver: Driver
) -> None:
    if _mode(request) != "auto" or not _limits_memory():
        pytest.skip("this kernel, or this user, has no limits of memory for control groups")
    greedy = f"{sys.executable} -S -c 'print(1, flush=True); x = bytearray(300 << 20)'"
    driver.start(driver.spec(1, f"{greedy}; echo $?", memory=64 << 20))
    ended = driver.expect(Ended)
    said = (driver.directory / "out.1").read_text().split()
    if ended.memory_kills == 0 and said == ["1", "0"]:
        pytest.skip("this kernel takes a limit of memory and does not keep to it")
    assert ended.memory_kills == 1
    assert (ended.reason, said) == ("exited", ["1", "137"])
    driver.start(driver.spec(2, f"{greedy}; echo $?", memory=1 << 30))
    assert driver.expect(Ended).memory_kills == 0
    assert (driver.directory / "out.2").read_text().split() == ["1", "0"]
