"""What a user can do to root's supervisors while they start that user's programs: nothing."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oarpy.transport.agent.job.isolation import Isolation
from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import StepEvent, StepFailed, Steps
from oarpy.wire.messages import Ended
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs of other users"),
]

GAMES = pwd.getpwnam("games")
SLOW_PATH = ":".join([*(f"/n/{number}" for number in range(12_000)), "/usr/bin", "/bin"])
"""A search path that takes a while: for so long a program is looked for."""
MANY_VARIABLES = {f"V{number}": "" for number in range(20_000)}
"""An environment that takes a while: for so long a child that is its user's becomes the program."""
MOST_PROCESSES = 100

# As games: {word} on every thread of the processes named; each that the kernel allows is a line of the output.
ATTACK = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
word, pids = sys.argv[1], [int(word) for word in sys.argv[2:]]
os.setgroups([]); os.setresgid({gid}, {gid}, {gid}); os.setresuid({uid}, {uid}, {uid})
limit = (ctypes.c_ulonglong * 2)(1, 1)
def children(pid, thread):
    try:
        return [int(word) for word in open(f"/proc/{{pid}}/task/{{thread}}/children").read().split()]
    except OSError:
        return []
def attack(pid, thread):
    if word == "stop":
        return libc.tgkill(pid, thread, {stop})
    if word == "limit":
        return libc.prlimit(thread, 0, limit, None)
    for child in children(pid, thread):
        if libc.kill(child, {stop}) == 0:
            return 0
    return -1
print("begun", flush=True)
while os.getppid() != 1:
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{{pid}}/task")
        except OSError:
            continue
        for thread in threads:
            if attack(pid, int(thread)) == 0:
                print("hit", pid, thread, flush=True)
                if word == "start":
                    sys.exit()
"""


@pytest.fixture
def driver() -> Iterator[Driver]:
    directory = Path(tempfile.mkdtemp(prefix="oarpy-walls-"))
    directory.chmod(0o755)
    with local_driver(directory, pids_limit=MOST_PROCESSES, user="games") as made:
        yield made
    shutil.rmtree(directory)


def supervisors(driver: Driver, agent: int) -> list[int]:
    """Supervisors of the agent, one at least: that of the job that this runs."""
    assert driver.run(driver.spec(1, "exit 0")).status == 0
    return [int(word) for word in Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]


@contextmanager
def attacked(word: str, pids: list[int]) -> Iterator[Path]:
    """Let games attack these processes meanwhile; yields the file with what it did."""
    text = ATTACK.format(uid=GAMES.pw_uid, gid=GAMES.pw_gid, stop=int(signal.SIGSTOP))
    with tempfile.NamedTemporaryFile() as output:
        command = [sys.executable, "-I", "-c", text, word, *map(str, pids)]
        process = subprocess.Popen(command, stdout=output, cwd="/")
        try:
            until(lambda: Path(output.name).read_text() != "", "the attack begins")
            yield Path(output.name)
        finally:
            process.kill()
            process.wait()
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue


@pytest.mark.parametrize("word", ["stop", "limit"])
def test_no_thread_of_a_supervisor_is_ever_its_users(driver: Driver, word: str) -> None:
    """Stopping one thread stops the process with its walltimes; a limit on it ends the next user's job."""
    agent = driver.connect().pid
    pids = [agent, *supervisors(driver, agent)]
    with attacked(word, pids) as output:
        driver.start(driver.spec(2, "true now", environment={"PATH": SLOW_PATH}))
        ended: list[Ended] = []

        def is_over() -> bool:
            ended.extend(report for _, report in driver.transport.inbox.drain() if isinstance(report, Ended))
            return bool(ended) or "hit" in output.read_text()

        until(is_over, "the job is over, or an attack has come through")
        assert output.read_text() == "begun\n"
    assert [(report.reason, report.status) for report in ended] == [("exited", 0)]


def test_who_stops_the_start_of_their_own_job_has_it_ended_at_its_walltime(driver: Driver) -> None:
    agent = driver.connect().pid
    pids = supervisors(driver, agent)
    with attacked("start", pids) as output:
        driver.start(driver.spec(2, "true now", environment=MANY_VARIABLES, walltime=2, kill_grace=0.0))
        ended = driver.expect(Ended, lambda report: report.key.job == 2)
        assert "hit" in output.read_text()
    assert (ended.reason, ended.left) == ("walltime", 0)
    assert driver.run(driver.spec(3, "exit 3")).status == 3 << 8


def test_each_user_has_supervisors_of_their_own(driver: Driver) -> None:
    driver.connect()
    parents = []
    for job, user in enumerate(("games", "nobody", "games", "nobody"), 1):
        assert driver.run(driver.spec(job, "echo $PPID", user=user)).status == 0
        parents.append((user, driver.output(job)))
    assert parents[0] == parents[2]
    assert parents[1] == parents[3]
    assert parents[0][1] != parents[1][1]


@pytest.mark.skipif(
    not Isolation("auto", "/sys/fs/cgroup", "/test-of-walls", MOST_PROCESSES).limits_processes,
    reason="this kernel, or this user, limits no processes of control groups",
)
def test_a_job_that_forks_without_end_stops_at_its_limit_from_its_first_moment(driver: Driver) -> None:
    driver.connect()
    bomb = driver.spec(1, "(while :; do sleep 600 & done); echo full; exec sleep 600")
    driver.start(bomb)
    out = driver.directory / "out.1"
    until(lambda: out.exists() and out.read_text() == "full\n", "the job can fork no more")
    assert MOST_PROCESSES // 2 < len(driver.processes(1)) < MOST_PROCESSES
    config = ChannelConfig(instance=driver.instance, pids_limit=MOST_PROCESSES)
    steps = Steps(lambda node: PipeStream, config)
    events: list[StepEvent] = []

    def is_answered() -> bool:
        events.extend(steps.events())
        return bool(events)

    steps.start(driver.node, StepSpec(bomb, "echo one more", bomb.directory))
    until(is_answered, "the step is answered")
    assert isinstance(events[0], StepFailed)
    assert "thread" in events[0].detail or "unavailable" in events[0].detail
    steps.close()
    assert driver.kill(1, 0).left == 0
    assert driver.run(driver.spec(2, "exit 3")).status == 3 << 8
