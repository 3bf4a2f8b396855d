"""Agents and supervisors killed at any point: nothing starts twice, nothing is lost, no process is left."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import marshal
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport, PipeStream
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.stream import StreamTransport
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    ChannelLost,
    Ended,
    Forget,
    Kill,
    Refused,
    Resume,
    Resumed,
    Start,
    Started,
    Suspend,
    Suspended,
)
from research.benchmarks.server_processes import is_running
from tests.harness.transport_driver import Driver, end_all
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

FIRST = JobKey(1, 1)
POINTS = int(os.environ.get("OARPY_TEST_CRASH_POINTS", "16"))


class _PreludedStream(PipeStream):
    """Runs a prelude before the agent; the agent's program is the first thing written."""

    def __init__(self, prelude: str, node: NodeAddress, program: bytes) -> None:
        text, *rest = marshal.loads(program)
        self._first = marshal.dumps((prelude + text, *rest))
        super().__init__(node, self._first)

    def write(self, content: bytes) -> None:
        super().write(self._first or content)
        self._first = b""


@dataclass
class Bench:
    """Agents on one state directory, each with a transport of its own."""

    directory: Path
    instance: str
    _drivers: list[Driver] = field(default_factory=list)

    @property
    def state(self) -> Path:
        return self.directory / "state"

    def driver(self, prelude: str = "") -> Driver:
        """A driver for one more agent; ``prelude`` runs in the agent's process before the agent."""
        inbox = Inbox()
        config = ChannelConfig(instance=self.instance)
        transport: StreamTransport = LocalTransport(inbox, config)
        if prelude:
            transport = StreamTransport(partial(_PreludedStream, prelude), inbox, config)
        work = self.directory / "work"
        work.mkdir(parents=True, exist_ok=True)
        driver = Driver(transport, NodeAddress("node1", str(self.state)), work, self.instance, getpass.getuser())
        self._drivers.append(driver)
        return driver

    def supervisor(self, job: int) -> int:
        """The process that runs a job."""
        lines = (self.state / "jobs" / f"{job}.1").read_text().split("\n")
        return int(next(entry["pid"] for entry in map(json.loads, filter(None, lines)) if entry["event"] == "started"))

    def close(self) -> None:
        for driver in self._drivers:
            driver.transport.close()
            driver.transport.inbox.close()
        end_all(self.instance)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, f"crash-{tmp_path.name}-{os.getpid()}")
    yield bench
    bench.close()


# Kills a process at its Nth line of agent code, once: the flag file makes the second time harmless.
PRELUDE = """
import os, sys
AGENT = os.getpid()
COUNT = [0, False]
def enter(frame, event, argument):
    if not frame.f_globals.get("__name__", "").startswith(("oarpy.transport.agent.", "oarpy.wire.")):
        return None
    if frame.f_code.co_name in ({begin!r},):
        COUNT[1] = True
    return line
def line(frame, event, argument):
    if COUNT[1] and (os.getpid() == AGENT) == ({victim!r} == "agent"):
        COUNT[0] += 1
        if COUNT[0] == {limit}:
            try:
                os.close(os.open({flag!r}, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return line
            if {victim!r} == "both":
                os.kill(AGENT, 9)
            os.kill(os.getpid(), 9)
        elif {limit} == 0:
            fd = os.open({flag!r}, os.O_CREAT | os.O_WRONLY)
            os.write(fd, b"%d" % COUNT[0])
            os.close(fd)
    return line
sys.settrace(enter)
"""


def _prelude(victim: str, limit: int, flag: Path) -> str:
    begin = "_on_start" if victim == "agent" else "_run"
    return PRELUDE.format(begin=begin, victim=victim, limit=limit, flag=str(flag)) + "\n"


def _one_job(bench: Bench, prelude: str) -> Ended:
    """Start a job with an agent that may die, do as a server would, check what must hold; return the outcome."""
    driver = bench.driver(prelude)
    driver.connect()
    spec = driver.spec(1, "echo effect >> effects; (sleep 600 &) ; exit 3", nodes=("node1",))
    driver.start(spec)
    outcome = driver.expect((Ended, ChannelLost))
    assert isinstance(outcome, Ended | ChannelLost)
    driver = bench.driver()
    driver.connect()
    if isinstance(outcome, ChannelLost):
        driver.start(spec)
        outcome = driver.ended(1)
    effects = driver.directory / "effects"
    count = len(effects.read_text().split()) if effects.exists() else 0
    assert count <= 1
    if outcome.reason == "exited":
        assert (outcome.status, count) == (3 << 8, 1)
    else:
        assert outcome.reason == "lost"
    assert driver.processes(1) == []
    driver.start(spec)
    assert driver.ended(1) == outcome
    assert (len(effects.read_text().split()) if effects.exists() else 0) == count
    driver.send(Forget((FIRST,)))
    until(lambda: os.listdir(bench.state / "jobs") == os.listdir(bench.state / "files") == [], "state removed")
    return outcome


@pytest.mark.parametrize("victim", ["agent", "supervisor", "both"])
def test_a_crash_at_any_line(tmp_path: Path, victim: str) -> None:
    counter = tmp_path / "lines"
    reasons: dict[str, int] = {}
    with contextlib.closing(Bench(tmp_path / "dry", f"dry-{os.getpid()}")) as bench:
        assert _one_job(bench, _prelude(victim, 0, counter)).reason == "exited"
    lines = int(counter.read_text())
    assert lines > POINTS
    for number in range(POINTS):
        point = random.Random(number).randrange(number * lines // POINTS, (number + 1) * lines // POINTS) + 1
        run = tmp_path / f"run{number}"
        with contextlib.closing(Bench(run, f"{victim}-{number}-{os.getpid()}")) as bench:
            reason = _one_job(bench, _prelude(victim, point, run / "flag")).reason
        reasons[reason] = reasons.get(reason, 0) + 1
    assert sum(reasons.values()) == POINTS
    if victim == "agent":
        assert reasons == {"exited": POINTS}


def test_the_walltime_holds_without_an_agent(bench: Bench) -> None:
    driver = bench.driver()
    ready = driver.connect()
    driver.start(driver.spec(1, "trap '' TERM; sleep 600; sleep 600", walltime=1, kill_grace=0.2))
    driver.started(1)
    os.kill(ready.pid, signal.SIGKILL)
    driver.expect(ChannelLost)
    until(lambda: driver.processes(1) == [], "the job was ended")
    again = bench.driver()
    again.connect()
    ended = again.ended(1)
    assert (ended.reason, ended.left) == ("walltime", 0)


def test_an_end_without_an_agent_is_told_by_the_next(bench: Bench) -> None:
    driver = bench.driver()
    ready = driver.connect()
    driver.start(driver.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    driver.started(1)
    os.kill(ready.pid, signal.SIGKILL)
    driver.expect(ChannelLost)
    supervisor = bench.supervisor(1)
    (driver.directory / "go").write_text("")
    until(lambda: not is_running(supervisor), "the supervisor ended with its last job")
    again = bench.driver()
    assert [report.state for report in again.connect().jobs] == ["ended"]
    assert again.ended(1).status == 5 << 8


def test_a_killed_supervisor_loses_its_job_and_all_its_processes(bench: Bench) -> None:
    driver = bench.driver()
    driver.connect()
    # One process without the mark, in a session of its own: only its adoption by the agent gives it away.
    script = "env -i setsid sh -c 'echo $$ > hidden.new; mv hidden.new hidden; exec sleep 600' & sleep 600"
    driver.start(driver.spec(1, script))
    hidden = driver.directory / "hidden"
    until(hidden.exists, "the hidden process runs")
    os.kill(bench.supervisor(1), signal.SIGKILL)
    ended = driver.ended(1)
    assert (ended.reason, ended.status, ended.left) == ("lost", None, 0)
    assert driver.processes(1) == []
    pid = int(hidden.read_text())
    until(lambda: not is_running(pid), "the hidden process is dead")


def test_supervisor_and_agent_killed_together(bench: Bench) -> None:
    driver = bench.driver()
    ready = driver.connect()
    driver.start(driver.spec(1, "(setsid sleep 600 &); sleep 600"), driver.spec(2, "sleep 600"))
    assert {driver.expect(Started).key.job for _ in range(2)} == {1, 2}
    supervisor = bench.supervisor(1)
    os.kill(ready.pid, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    again = bench.driver()
    again.connect()
    assert again.ended(1).reason == "lost"
    assert again.processes(1) == []
    assert again.processes(2)
    assert again.kill(2).reason == "killed"


def test_all_agents_of_a_directory_hear_of_a_job(bench: Bench) -> None:
    first, second = bench.driver(), bench.driver()
    first.connect()
    first.start(first.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    first.started(1)
    second.connect()
    second.started(1)
    second.send(Suspend((FIRST,)))
    assert first.expect(Suspended) == second.expect(Suspended)
    second.send(Kill((FIRST,), 0))
    assert second.ended(1) == first.ended(1)


def test_a_job_that_an_order_was_about_is_followed(bench: Bench) -> None:
    first, second = bench.driver(), bench.driver()
    first.connect()
    second.connect()
    first.start(first.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    first.started(1)
    second.send(Resume((FIRST,)))
    second.expect(Resumed)
    (first.directory / "go").write_text("")
    assert second.ended(1) == first.ended(1)


def test_many_agents_given_the_same_jobs_start_each_once(bench: Bench) -> None:
    drivers = [bench.driver() for _ in range(4)]
    for driver in drivers:
        driver.connect()
    count = 40
    specs = tuple(drivers[0].spec(job, f"echo {job} >> effects; exit 0") for job in range(count))
    for driver in drivers:
        driver.send(Start(specs))
    for driver in drivers:
        ended: set[int] = set()
        while len(ended) < count:
            ended.add(driver.expect(Ended).key.job)
    assert sorted(map(int, (drivers[0].directory / "effects").read_text().split())) == list(range(count))


def test_a_claim_without_a_start_is_taken_over(bench: Bench) -> None:
    driver = bench.driver()
    driver.connect()
    (bench.state / "jobs" / "1.1").write_text("")
    (bench.state / "jobs" / "2.1").write_text('\n{"event": "star')
    driver.send(Resume((FIRST,)))
    assert driver.run(driver.spec(1, "exit 4")).status == 4 << 8
    assert driver.run(driver.spec(2, "exit 4")).status == 4 << 8


def test_a_claim_held_by_another_is_started_when_that_one_dies(bench: Bench) -> None:
    driver = bench.driver()
    driver.connect()
    path = bench.state / "jobs" / "1.1"
    path.write_text("")
    holder = open(path)  # noqa: SIM115 - closed in the middle of the test
    fcntl.flock(holder, fcntl.LOCK_EX)
    driver.start(driver.spec(1, "exit 4"))
    driver.send(Resume((FIRST,)))
    assert driver.run(driver.spec(2, "exit 0")).status == 0
    assert not [report for _, report in driver.log if isinstance(report, Started) and report.key == FIRST]
    holder.close()
    assert driver.ended(1).status == 4 << 8


def test_a_claim_that_is_killed_is_not_started(bench: Bench) -> None:
    driver = bench.driver()
    driver.connect()
    path = bench.state / "jobs" / "1.1"
    path.write_text("")
    assert driver.kill(1).reason == "killed"
    driver.start(driver.spec(1, "echo > effect"))
    assert driver.ended(1).reason == "killed"
    assert not (driver.directory / "effect").exists()


DIE = """
import os, sys
def die(frame, event, argument):
    if frame.f_code.co_name == "_run" and frame.f_globals["__name__"].endswith("job.supervisor"):
        os.kill(os.getpid(), 9)
sys.setprofile(die)
"""


def test_supervisors_that_die_before_the_start_are_not_tried_for_ever(bench: Bench) -> None:
    driver = bench.driver(DIE)
    driver.connect()
    driver.start(driver.spec(1, "exit 0"))
    assert driver.expect(Refused).reason == "SUPERVISOR"
    again = bench.driver()
    again.connect()
    assert again.run(again.spec(1, "exit 0")).status == 0


def test_a_reboot_loses_what_had_not_ended(bench: Bench) -> None:
    driver = bench.driver()
    before = driver.connect()
    driver.run(driver.spec(1, "exit 6"))
    driver.transport.disconnect("node1")
    until(lambda: not is_running(before.pid), "the agent ended")
    jobs = bench.state / "jobs"
    (jobs / "2.1").write_text('\n{"event": "started", "at": 5.0, "pid": 1, "mark": "x"}\n')
    (jobs / "3.1").write_text("")
    incarnation = bench.state / "incarnation"
    incarnation.write_text(json.dumps({**json.loads(incarnation.read_text()), "boot": "an earlier one"}))
    after = driver.connect()
    assert after.incarnation != before.incarnation
    outcomes = {ended.key.job: ended.reason for ended in (driver.expect(Ended) for _ in range(3))}
    assert outcomes == {1: "exited", 2: "lost", 3: "lost"}
    driver.start(driver.spec(3, "echo > effect"))
    assert driver.ended(3).reason == "lost"
    driver.start(driver.spec(4, "exit 0"), incarnation=before.incarnation)
    assert driver.refused(4).reason == "INCARNATION"


def test_a_lost_state_directory_is_fenced(bench: Bench) -> None:
    driver = bench.driver()
    before = driver.connect()
    driver.transport.disconnect("node1")
    until(lambda: not is_running(before.pid), "the agent ended")
    bench.state.rename(bench.directory / "lost")
    assert driver.connect().incarnation != before.incarnation
    driver.start(driver.spec(1, "exit 0"), incarnation=before.incarnation)
    assert driver.refused(1).reason == "INCARNATION"


@pytest.fixture
def tiny_disk(bench: Bench) -> Iterator[Path]:
    bench.state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=80k,mode=711", "tmpfs", str(bench.state)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.decode().strip()}")
    yield bench.state
    bench.close()
    subprocess.run(["umount", "-l", str(bench.state)], check=True)


def test_a_full_disk_refuses_starts_and_keeps_outcomes(bench: Bench, tiny_disk: Path) -> None:
    driver = bench.driver()
    driver.connect()
    driver.start(driver.spec(1, "while [ ! -e go ]; do sleep 0.02; done; exit 5"))
    driver.started(1)
    ballast = tiny_disk / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    driver.start(driver.spec(2, "echo > effect"))
    refused = driver.refused(2)
    assert refused.reason == "STATE_DIRECTORY"
    assert "No space left" in refused.detail
    (driver.directory / "go").write_text("")
    assert driver.ended(1).status == 5 << 8
    ballast.unlink()
    assert driver.run(driver.spec(2, "exit 0")).status == 0
