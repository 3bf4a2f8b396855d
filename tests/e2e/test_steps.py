"""Steps at the node: programs inside a running job, their streams, their limits in time."""

from __future__ import annotations

import getpass
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport, PipeStream
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, StepOutput, Steps, StepStarted
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import Clean, Cleaned, Ended, Kill, Started
from oarpy.wire.steps import StepSpec, StepTerminal
from research.benchmarks.server_processes import is_running
from tests.harness.transport_driver import DEADLINE, Driver, end_all, marked
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


@dataclass(slots=True)
class Bench:
    """A node with a running job, and the steps of a test."""

    driver: Driver
    job: JobSpec
    config: ChannelConfig
    steps: Steps
    log: list[StepEvent] = field(default_factory=list)

    def start(self, command: str, **changes: object) -> int:
        """Start a step of the job."""
        spec = StepSpec(self.job, command, self.job.directory)
        return self.steps.start(self.driver.node, spec.replace(**changes))

    def last(self, step: int) -> StepEnded | StepFailed:
        """Wait for the end of a step."""
        self._until(lambda: self._last(step) is not None)
        found = self._last(step)
        assert found is not None
        return found

    def output(self, step: int, stream: int = 1) -> bytes:
        """What a step has written so far."""
        return b"".join(
            one.data for one in self.log if isinstance(one, StepOutput) and (one.step, one.stream) == (step, stream)
        )

    def wait_for_output(self, step: int, wanted: bytes) -> None:
        """Wait until a step has written this."""
        self._until(lambda: wanted in self.output(step))

    def _last(self, step: int) -> StepEnded | StepFailed | None:
        return next((one for one in self.log if isinstance(one, StepEnded | StepFailed) and one.step == step), None)

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + DEADLINE
        while not holds():
            assert time.monotonic() < end, self.log
            select.select([self.steps.fileno()], [], [], 0.2)
            self.log += self.steps.events()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    inbox = Inbox()
    config = ChannelConfig(instance=f"test-{tmp_path.name}-{os.getpid()}")
    transport = LocalTransport(inbox, config)
    work = tmp_path / "work"
    work.mkdir()
    driver = Driver(transport, NodeAddress("node1", str(tmp_path / "state")), work, config.instance, getpass.getuser())
    driver.connect()
    job = driver.spec(1, "exec sleep 600", nodes=("node1",))
    driver.start(job)
    driver.expect(Started)
    steps = Steps(lambda node: PipeStream, config)
    yield Bench(driver, job, config, steps)
    steps.close()
    transport.close()
    inbox.close()
    end_all(config.instance)


def test_a_step_has_the_environment_of_its_job_and_its_own_streams_and_status(bench: Bench) -> None:
    step = bench.start(
        "echo $OAR_JOB_ID $MORE $(cat $OAR_NODEFILE); pwd; echo error >&2; exit 7", variables={"MORE": "x"}
    )
    assert bench.last(step) == StepEnded(step, 7 << 8)
    assert bench.log[0] == StepStarted(step)
    assert bench.output(step) == f"1 x node1\n{bench.job.directory}\n".encode()
    assert bench.output(step, 2) == b"error\n"


def test_input_arrives_and_ends(bench: Bench) -> None:
    step = bench.start("cat; echo over")
    content = os.urandom(3_000_000)
    bench.steps.send_input(step, content)
    bench.steps.end_input(step)
    assert bench.last(step) == StepEnded(step, 0)
    assert bench.output(step) == content + b"over\n"


def test_a_step_that_reads_nothing_holds_back_its_input_only(bench: Bench) -> None:
    deaf, other = bench.start("sleep 600"), bench.start("cat")
    for _ in range(32):  # more than all buffers on the way hold, frame by frame
        bench.steps.send_input(deaf, bytes(1 << 20))
    bench.steps.end_input(other)
    assert bench.last(other) == StepEnded(other, 0)
    assert not bench.steps.takes_input


def test_output_that_nobody_takes_stops_the_step_and_not_the_group(bench: Bench) -> None:
    flood = bench.start("yes")
    bench.wait_for_output(flood, b"y\n" * 1000)
    quiet = bench.start("echo quiet")
    assert bench.last(quiet) == StepEnded(quiet, 0)
    bench.steps.signal(flood, signal.SIGKILL)
    assert bench.last(flood) == StepEnded(flood, signal.SIGKILL)


def test_signals_reach_the_processes_of_a_step(bench: Bench) -> None:
    step = bench.start("trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.1; done")
    bench.wait_for_output(step, b"ready")
    bench.steps.signal(step, signal.SIGTERM)
    assert bench.last(step) == StepEnded(step, 3 << 8)
    assert bench.output(step) == b"ready\ncaught\n"


def test_a_step_may_have_a_terminal_of_a_size(bench: Bench) -> None:
    step = bench.start("tty; stty size; echo $TERM; read line; stty size", terminal=StepTerminal("vt100", 30, 90))
    bench.wait_for_output(step, b"vt100")
    bench.steps.resize(step, 40, 120)
    bench.steps.send_input(step, b"\n")
    assert bench.last(step) == StepEnded(step, 0)
    lines = bench.output(step).decode().split()
    assert lines[0].startswith("/dev/pts/")
    assert lines[1:] == ["30", "90", "vt100", "40", "120"]


def test_what_a_step_leaves_behind_ends_with_it(bench: Bench) -> None:
    step = bench.start("setsid sleep 601 & setsid nohup sh -c 'trap \"\" HUP TERM; sleep 602; sleep 603' & exit 5")
    assert bench.last(step) == StepEnded(step, 5 << 8)
    key = JobKey(1, 1)
    assert len(marked(key, bench.config.instance)) == 1, "only the job itself is left"


def test_the_end_of_the_channel_ends_the_step(bench: Bench) -> None:
    step = bench.start("trap '' HUP; echo $$; while :; do sleep 0.1; done")
    bench.wait_for_output(step, b"\n")
    pid = int(bench.output(step))
    bench.steps.close()
    until(lambda: not is_running(pid), "the step is gone")
    bench.steps = Steps(lambda node: PipeStream, bench.config)


def test_steps_end_with_their_job(bench: Bench) -> None:
    step = bench.start("echo $$; sleep 600")
    bench.wait_for_output(step, b"\n")
    bench.driver.send(Kill((bench.job.key,), 0))
    bench.driver.expect(Ended)
    assert marked(bench.job.key, bench.config.instance) == []
    assert isinstance(bench.last(step), StepEnded)


def test_a_killed_step_program_leaves_nothing_beyond_the_job(bench: Bench) -> None:
    step = bench.start("echo $$ $PPID; sleep 600")
    bench.wait_for_output(step, b"\n")
    pid, parent = map(int, bench.output(step).split())
    os.kill(parent, signal.SIGKILL)
    failed = bench.last(step)
    assert isinstance(failed, StepFailed)
    assert failed.reason == "UNREACHABLE"
    assert is_running(pid), "nobody ended it yet"
    bench.driver.send(Kill((bench.job.key,), 0))
    bench.driver.expect(Ended)
    assert not is_running(pid)


def test_a_job_that_is_over_or_unknown_takes_no_step(bench: Bench) -> None:
    unknown = bench.start("true", job=bench.job.replace(job=2))
    bench.driver.send(Kill((bench.job.key,), 0))
    bench.driver.expect(Ended)
    over = bench.start("true")
    for step in (unknown, over):
        assert bench.last(step) == StepFailed(step, "JOB_OVER", "the job does not run on this node any more")


def test_on_another_node_of_the_job_steps_run_until_it_is_cleaned(bench: Bench) -> None:
    other = bench.job.replace(job=3, nodes=("node0", "node1"))
    step = bench.start("cat $OAR_NODEFILE; sleep 600", job=other, head=False)
    bench.wait_for_output(step, b"node0\nnode1\n")
    bench.driver.send(Clean((other.key,)))
    cleaned = bench.driver.expect(Cleaned)
    assert (cleaned.key, cleaned.left) == (other.key, 0)
    assert marked(other.key, bench.config.instance) == []
    bench.last(step)
    late = bench.start("true", job=other, head=False)
    assert bench.last(late) == StepFailed(late, "JOB_OVER", "the job does not run on this node any more")
    assert not any(Path(bench.driver.node.state_directory, "files").glob("3.*"))


def test_what_cannot_be_started_says_why(bench: Bench) -> None:
    step = bench.start("true", directory="/no/such/place")
    assert bench.last(step) == StepFailed(step, "WORKING_DIRECTORY", "/no/such/place: No such file or directory")
    step = bench.start("true", job=bench.job.replace(user="nobody-at-all"))
    assert bench.last(step) == StepFailed(step, "NO_SUCH_USER", "user 'nobody-at-all' does not exist on this node")
    broken = bench.steps.start(
        replace(bench.driver.node, python="/no/such/python3"), StepSpec(bench.job, "true", bench.job.directory)
    )
    failed = bench.last(broken)
    assert isinstance(failed, StepFailed)
    assert failed.reason == "UNREACHABLE"
