"""What a job used is measured by the supervisor on its node, with real processes that use it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import Steps
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Ended, Started
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

MIB = 1 << 20
BURN = 'python3 -c "import os\nwhile sum(os.times()[:2]) < {}: pass"'
HOG = 'python3 -c "import sys; kept = bytearray(int(sys.argv[1]) << 20); {}" {}'


@pytest.fixture(params=["auto", "none"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path, request.param) as made:
        made.connect()
        yield made


def cpu(ended: Ended | Cleaned) -> float:
    assert ended.cpu_seconds is not None
    return ended.cpu_seconds


def memory(ended: Ended) -> int:
    assert ended.memory_peak is not None
    return ended.memory_peak


def test_a_busy_loop_uses_one_core(driver: Driver) -> None:
    ended = driver.run(driver.spec(1, BURN.format(0.5)))
    assert ended.start is not None
    assert 0.5 <= cpu(ended) < 0.5 + 2.0
    assert cpu(ended) <= (ended.end - ended.start) * 2


def test_an_idle_job_uses_hardly_any(driver: Driver) -> None:
    ended = driver.run(driver.spec(1, "sleep 0.5"))
    assert cpu(ended) < 0.3


def test_a_tree_of_processes_is_summed_up(driver: Driver) -> None:
    burn = BURN.format(0.3)
    # one that is waited for, one that is not, and one that leaves its parent behind
    ended = driver.run(driver.spec(1, f"{burn} & {burn} & (setsid {burn} &); wait; {burn}; sleep 0.2"))
    assert cpu(ended) >= 0.9


def test_each_job_of_a_supervisor_is_measured_for_itself(driver: Driver) -> None:
    first = driver.run(driver.spec(1, BURN.format(0.5)))
    second = driver.run(driver.spec(2, "true"))
    assert cpu(second) < 0.5 <= cpu(first)


def test_the_most_memory_is_told(driver: Driver) -> None:
    ended = driver.run(driver.spec(1, HOG.format("pass", 200)))
    assert 200 * MIB <= memory(ended) < 400 * MIB


def test_memory_of_several_processes_is_taken_together(driver: Driver) -> None:
    hog = HOG.format("open(sys.argv[2], 'w'); sys.stdin.read()", 100)
    hold = "mkfifo both; (until [ -e one ] && [ -e two ]; do sleep 0.1; done; sleep $((SECONDS + 3))) > both"
    # samples come ever more seldom: from any moment on, the next one is less than twice as far from the start
    command = f"{hold} & until [ -p both ]; do sleep 0.1; done; {hog} one < both & {hog} two < both & wait"
    ended = driver.run(driver.spec(1, command, shell="/bin/bash"))
    assert memory(ended) >= 200 * MIB


def test_a_killed_job_is_measured(driver: Driver) -> None:
    driver.start(driver.spec(1, f"{BURN.format(0.3)}; touch burnt; exec sleep 600"))
    until((driver.directory / "burnt").exists, "it has burnt")
    ended = driver.kill(1, 0)
    assert ended.reason == "killed"
    assert cpu(ended) >= 0.2


def test_the_outcome_is_told_by_the_next_agent(driver: Driver) -> None:
    driver.start(driver.spec(1, f"until [ -e go ]; do sleep 0.05; done; {BURN.format(0.3)}; touch burnt"))
    driver.expect(Started)
    driver.transport.disconnect(driver.node.name)
    (driver.directory / "go").touch()
    until((driver.directory / "burnt").exists, "it has burnt")
    driver.connect()
    assert cpu(driver.expect(Ended)) >= 0.2


def test_a_node_that_only_has_steps_tells_of_them_when_it_is_cleaned(driver: Driver) -> None:
    job, burnt = driver.spec(1, "true"), driver.directory / "burnt"
    steps = Steps(lambda node: PipeStream, ChannelConfig(instance=driver.instance))
    steps.start(driver.node, StepSpec(job, f"{BURN.format(0.3)}; touch {burnt}", job.directory, head=False))
    until(burnt.exists, "it has burnt")
    note = Path(driver.node.state_directory) / "files" / f"{job.key}.steps"
    until(lambda: bool(note.read_text()), "the step has left what it used")
    steps.close()
    driver.send(Clean((JobKey(1, 1),)))
    assert 0.2 <= cpu(driver.expect(Cleaned)) < 3.0
    driver.send(Clean((JobKey(1, 1),)))
    assert driver.expect(Cleaned).cpu_seconds is None, "it counts once"


def test_the_use_of_a_job_whose_supervisor_was_killed_is_what_its_group_counted(driver: Driver) -> None:
    wait = "until [ -e go ]; do sleep 0.05; done"
    driver.start(driver.spec(1, f"echo $PPID $$ > pids; {wait}; {BURN.format(0.3)}; touch burnt; sleep 600"))
    driver.expect(Started)
    pids = driver.directory / "pids"
    until(lambda: pids.exists() and pids.read_text().endswith("\n"), "it tells its processes")
    boss, shell = map(int, pids.read_text().split())
    until(lambda: driver.is_grouped(1, shell), "what it uses is counted by its group")
    (driver.directory / "go").touch()
    until((driver.directory / "burnt").exists, "it has burnt")
    os.kill(boss, signal.SIGKILL)
    ended = driver.expect(Ended)
    assert ended.reason == "lost"
    assert ended.cpu_seconds is None or ended.cpu_seconds >= 0.2
