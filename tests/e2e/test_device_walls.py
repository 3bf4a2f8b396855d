"""Jobs open the devices of their own GPUs alone: real device nodes, real control groups of both versions, real ids.

Devices that the kernel always has stand for GPUs: whoever opens one is refused before its driver is asked.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.model.setting_values import DEVICE_RULES, read_device_rules
from oarpy.transport.agent.job import device_walls
from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, Steps
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Ended, Kill, Resize, Resized, Started
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import GROUPS, Driver, local_driver
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes, and control groups of others"),
]

USER = "games"
OPENS = 10_000
NODES = {"nvidia0": (1, 5), "nvidia1": (1, 7), "nvidiactl": (1, 8)}
UNIFIED = next((path for path in (GROUPS, GROUPS / "unified") if (path / "cgroup.controllers").exists()), None)
OLD = GROUPS / "devices" / "cgroup.procs"

HOSTILE = """
import ctypes, os, sys

machine, own_id, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
names = [machine + "/dev/nvidia1", machine + "/second", machine + "/link", "/dev/full"]
FLAGS = (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_NONBLOCK)
tried = opened = 0
errors = set()


def attempt(act):
    global tried, opened
    tried += 1
    try:
        act()
    except OSError as error:
        errors.add(error.errno)
    else:
        opened += 1


def reopen(name, flags):
    handle = os.open(name, os.O_PATH)
    try:
        os.close(os.open("/proc/self/fd/%d" % handle, flags))
    finally:
        os.close(handle)


def make_and_open(number, flags):
    name = "%s/work/made.%d.%d" % (machine, os.getpid(), number)
    os.mknod(name, 0o20666, os.makedev(1, 7))
    os.close(os.open(name, flags))


def all_ways(count):
    for number in range(count):
        for flags in FLAGS:
            for name in names:
                attempt(lambda: os.close(os.open(name, flags)))
                attempt(lambda: reopen(name, flags))
            attempt(lambda: make_and_open(number, flags))


def in_child(before, count):
    reading, writing = os.pipe()
    if os.fork() == 0:
        global tried, opened
        tried = opened = 0
        before()
        all_ways(count)
        os.write(writing, b"%d %d" % (tried, opened))
        os._exit(0)
    os.close(writing)
    told = os.read(reading, 100).split()
    os.close(reading)
    os.wait()
    return int(told[0]), int(told[1])


def become_other():
    if os.getuid() == 0:
        os.setgid(own_id)
        os.setuid(own_id)


def own_namespace():
    ctypes.CDLL(None).unshare(0x10000000)


def own_session():
    os.setsid()


os.close(os.open(machine + "/dev/nvidia0", os.O_RDONLY))
all_ways(rounds)
for before in (own_session, become_other, own_namespace):
    more, successes = in_child(before, rounds)
    tried, opened = tried + more, opened + successes
print(tried, opened, sorted(errors))
"""


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder with device nodes that stand for two GPUs, and with other names of the second one."""
    made = Path(tempfile.mkdtemp(prefix="oarpy-devices-"))
    made.chmod(0o755)
    (made / "dev").mkdir()
    for name, numbers in {**{f"dev/{name}": numbers for name, numbers in NODES.items()}, "second": (1, 7)}.items():
        os.mknod(made / name, 0o20666, os.makedev(*numbers))
        (made / name).chmod(0o666)
    (made / "link").symlink_to("dev/nvidia1")
    (made / "hostile").write_text(HOSTILE)
    yield made
    shutil.rmtree(made)


def _groups(version: int, machine: Path) -> Path:
    """Where the groups of one version alone are mounted; skips where this machine has no walls of it."""
    if version == 2:
        refused = device_walls.takes_programs() if UNIFIED is not None else "it is not mounted"
        if UNIFIED is None or refused:
            pytest.skip(f"no walls of version 2 here: {refused}")
        return UNIFIED
    if not os.access(OLD, os.W_OK):
        pytest.skip("no walls of version 1 here: the controller of devices is not mounted")
    root = machine / "groups"
    root.mkdir()
    for name in ("devices", "freezer", "pids", "memory"):
        (root / name).symlink_to(GROUPS / name)
    return root


@pytest.fixture(params=[1, 2], ids=["version-1", "version-2"])
def driver(request: pytest.FixtureRequest, machine: Path) -> Iterator[Driver]:
    root = _groups(request.param, machine)
    rules = read_device_rules(DEVICE_RULES)
    with local_driver(machine, user=USER, cgroup_root=str(root), machine_root=str(machine), device_rules=rules) as made:
        made.connect()
        yield made


@pytest.mark.parametrize("user", [USER, "root"])
def test_no_hostile_open_succeeds(driver: Driver, machine: Path, user: str) -> None:
    other = pwd.getpwnam(USER).pw_uid
    rounds = -(-OPENS // (4 * 4 * 9))
    command = f"python3 -I -S {machine}/hostile {machine} {other} {rounds}"
    ended = driver.run(driver.spec(1, command, user=user, gpus=(0,)))
    said = driver.output(1).split()
    assert ended.status == 0, (driver.directory / "err.1").read_text()
    print(f"{user}: {said[0]} hostile opens, {said[1]} succeeded")
    assert int(said[0]) >= OPENS
    assert said[1:] == ["0", "[1]"]
    assert driver.groups(1) == []


SHOWN = "for name in nvidia0 nvidia1 nvidiactl; do (: < {}/dev/$name) 2> /dev/null && echo $name; done; true"


@pytest.mark.parametrize(
    ("gpus", "opens"),
    [((0,), "nvidia0 nvidiactl"), ((0, 1), "nvidia0 nvidia1 nvidiactl"), ((), ""), (None, "nvidia0 nvidia1 nvidiactl")],
)
def test_what_is_opened_is_ones_own(driver: Driver, machine: Path, gpus: tuple[int, ...] | None, opens: str) -> None:
    assert driver.run(driver.spec(1, SHOWN.format(machine), gpus=gpus)).status == 0
    assert driver.output(1).split() == opens.split()


@pytest.mark.parametrize("first", [(0,), (0, 1)])
def test_steps_are_behind_the_wall_and_a_resize_moves_it(driver: Driver, machine: Path, first: tuple[int, ...]) -> None:
    job = driver.spec(1, "exec sleep 600", gpus=first)
    driver.start(job)
    driver.expect(Started)
    config = ChannelConfig(
        instance=driver.instance,
        cgroup_root=str(_mounted(driver, machine)),
        machine_root=str(machine),
        device_rules=read_device_rules(DEVICE_RULES),
    )
    steps = Steps(lambda _: PipeStream, config)
    events: list[StepEvent] = []

    def opened(number: int) -> list[str]:
        command = f"({SHOWN.format(machine)}) > step.{number}"
        step = steps.start(driver.node, StepSpec(job, command, job.directory))

        def over() -> bool:
            events.extend(steps.events())
            return any(isinstance(event, StepEnded | StepFailed) and event.step == step for event in events)

        until(over, "the step has ended")
        return (driver.directory / f"step.{number}").read_text().split()

    assert opened(1) == [*(f"nvidia{gpu}" for gpu in first), "nvidiactl"]
    for number, gpus in ((2, (1,)), (3, (0, 1)), (4, ())):
        driver.send(Resize((JobKey(1, 1),), number, USER, ("node1",), (), gpus=gpus))
        assert driver.expect(Resized).detail == ""
        assert opened(number) == [*(f"nvidia{gpu}" for gpu in gpus), *(["nvidiactl"] if gpus else [])]
    steps.close()
    driver.send(Kill((JobKey(1, 1),), 0))
    driver.expect(Ended)
    assert driver.groups(1) == []


def _mounted(driver: Driver, machine: Path) -> Path:
    return machine / "groups" if (machine / "groups").exists() else UNIFIED or GROUPS


def test_without_rules_or_groups_there_is_no_wall(machine: Path) -> None:
    for isolation, rules in (("none", read_device_rules(DEVICE_RULES)), ("auto", ())):
        folder = machine / isolation
        folder.mkdir()
        with local_driver(folder, isolation, user=USER, machine_root=str(machine), device_rules=rules) as driver:
            driver.connect()
            assert driver.run(driver.spec(1, SHOWN.format(machine), gpus=(0,))).status == 0
            assert driver.output(1).split() == list(NODES)


def test_a_job_is_not_started_where_its_wall_fails(machine: Path) -> None:
    """A node that has walls has them for every job: here its folder of devices is full of what is no group."""
    root = machine / "broken"
    (root / "devices").mkdir(parents=True)
    (root / "devices" / "cgroup.procs").write_text("")
    rules = read_device_rules(DEVICE_RULES)
    with local_driver(
        machine, user=USER, cgroup_root=str(root), machine_root=str(machine), device_rules=rules
    ) as driver:
        driver.connect()
        ended = driver.run(driver.spec(1, "echo ran", gpus=(0,)))
        assert (ended.reason, ended.status, ended.by_node) == ("DEVICES", None, True)
        assert "cannot be kept from devices" in ended.detail
        assert driver.run(driver.spec(2, "echo ran", gpus=(0, 1))).reason == "DEVICES"
        assert driver.run(driver.spec(3, "echo ran")).status == 0
