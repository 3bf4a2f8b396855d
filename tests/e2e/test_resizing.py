"""Jobs that get other nodes while they run: what their files say, and where they may have processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.local import PipeStream
from oarpy.transport.node import ChannelConfig
from oarpy.transport.steps import StepEnded, StepEvent, StepFailed, Steps
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Ended, Forget, Recall, Recalled, Resize, Resized, RunScript, ScriptEnded
from oarpy.wire.steps import StepSpec
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e
LED, GUEST = JobKey(7, 1), JobKey(8, 1)
"""A job whose program runs on the node, and one whose first node is another one."""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path) as made:
        made.connect()
        yield made


def resize(driver: Driver, key: JobKey, order: int, *nodes: str, user: str = "", enters: bool = False) -> Resized:
    """Have a job read these nodes; return what the node answers."""
    lines = tuple(f"host = '{node}'" for node in nodes)
    driver.send(Resize((key,), order, user or driver.user, nodes, lines, enters))
    return driver.expect(Resized, lambda report: report.key == key)


def file_of(driver: Driver, key: JobKey, kind: str = "nodes") -> Path:
    """Where a job reads its nodes, or their properties."""
    return Path(driver.node.state_directory) / "files" / f"{key}.{kind}"


def step(driver: Driver, key: JobKey, command: str) -> StepEnded | StepFailed:
    """Run a step of a job that is led from another node; return how it ended."""
    spec = StepSpec(driver.spec(key.job, "", nodes=("node0", "node1")), command, str(driver.directory), head=False)
    steps = Steps(lambda node: PipeStream, ChannelConfig(instance=driver.instance))
    events: list[StepEvent] = []
    try:
        steps.start(driver.node, spec)

        def is_over() -> bool:
            events.extend(steps.events())
            return bool(events) and isinstance(events[-1], StepEnded | StepFailed)

        until(is_over, lambda: f"the step has ended: {events}")
    finally:
        steps.close()
    last = events[-1]
    assert isinstance(last, StepEnded | StepFailed)
    return last


def test_a_running_job_reads_its_new_nodes_all_at_once(driver: Driver) -> None:
    script = "exec 3<$OAR_NODEFILE; echo; while [ ! -e go ]; do sleep 0.02; done; cat - $OAR_NODEFILE <&3"
    script += "; cat $OAR_RESOURCE_PROPERTIES_FILE"
    driver.start(driver.spec(7, script, nodes=("node1",), resources=("host = 'node1'",)))
    driver.started(7)
    until(lambda: (driver.directory / "out.7").exists() and driver.output(7) == "\n", "the job has its file open")
    mode = file_of(driver, LED).stat().st_mode
    assert resize(driver, LED, 3, "node1", "node2", "node2") == Resized(LED, 3)
    assert file_of(driver, LED).stat().st_mode == mode
    (driver.directory / "go").touch()
    assert driver.ended(7).status == 0
    properties = "host = 'node1'\nhost = 'node2'\nhost = 'node2'\n"
    assert driver.output(7) == f"\nnode1\nnode1\nnode2\nnode2\n{properties}"


def test_an_agent_that_comes_later_knows_the_present_nodes(driver: Driver) -> None:
    driver.start(driver.spec(7, "exec sleep 600", nodes=("node1",)))
    driver.started(7)
    resize(driver, LED, 1, "node1", "node2", "node3")
    driver.transport.disconnect("node1")
    ready = driver.connect()
    assert [(job.key, job.state) for job in ready.jobs] == [(LED, "running")]
    assert file_of(driver, LED).read_text() == "node1\nnode2\nnode3\n"
    driver.send(Recall(0.0))
    (known,) = driver.expect(Recalled).jobs
    assert (known.key, known.resources) == (LED, 3)
    driver.kill(7)


def test_a_job_that_is_over_gets_no_files(driver: Driver) -> None:
    driver.run(driver.spec(7, "true", nodes=("node1",)))
    assert resize(driver, LED, 1, "node1", "node2") == Resized(LED, 1)
    assert file_of(driver, LED).read_text() == "node1\n"
    driver.send(Forget((LED,)))
    assert resize(driver, LED, 2, "node1", "node2") == Resized(LED, 2)
    assert not file_of(driver, LED).exists()
    driver.start(driver.spec(7, "true"))
    assert driver.refused(7).reason == "FORGOTTEN"


def test_a_node_that_a_job_left_is_closed_to_it_until_it_comes_back(driver: Driver) -> None:
    for turn in (1, 2):
        assert resize(driver, GUEST, 2 * turn, "node0", "node1", enters=True).detail == ""
        assert file_of(driver, GUEST).read_text() == "node0\nnode1\n"
        assert isinstance(step(driver, GUEST, "exit 3; sleep 600"), StepEnded)
        assert isinstance(step(driver, GUEST, "(setsid sleep 600 >&- 2>&- &)"), StepEnded)
        driver.send(Clean((GUEST,)))
        assert driver.expect(Cleaned).left == 0
        assert driver.processes(8) == []
        if turn == 2:  # what it is closed by is on the node's disk
            driver.transport.disconnect("node1")
            driver.connect()
        assert resize(driver, GUEST, 2 * turn + 1, "node0").detail == ""
        assert not file_of(driver, GUEST).exists()
        last = step(driver, GUEST, "true")
        assert isinstance(last, StepFailed)
        assert last.reason == "JOB_OVER"
    driver.transport.disconnect("node1")
    driver.connect()
    resize(driver, GUEST, 9, "node0", "node1", enters=True)
    assert step(driver, GUEST, "exit 4") == StepEnded(0, 4 << 8)


def test_scripts_of_the_site_run_again_where_a_job_comes_back(driver: Driver) -> None:
    script = driver.directory / "script"
    script.write_text(f"#!/bin/sh\necho ran >>{driver.directory}/ran\n")
    script.chmod(0o755)

    def ran(kind: str) -> int:
        """Ask for a script, and count how often it ran so far."""
        spec = driver.spec(GUEST.job, "true", nodes=("node0", "node1"))
        driver.send(RunScript(kind, str(script), 60.0, (spec,)))
        assert driver.expect(ScriptEnded).outcome == "ok"
        return (driver.directory / "ran").read_text().count("ran")

    resize(driver, GUEST, 1, "node0", "node1", enters=True)
    assert ran("prologue") == 1
    driver.transport.disconnect("node1")
    driver.connect()
    resize(driver, GUEST, 1, "node0", "node1", enters=True)
    assert ran("prologue") == 1, "the same order, told again"
    driver.send(Clean((GUEST,)))
    driver.expect(Cleaned)
    assert ran("epilogue") == 2
    resize(driver, GUEST, 3, "node0", "node1", enters=True)
    assert (ran("prologue"), ran("epilogue")) == (3, 4), "though nobody ever sent that the first are recorded"


def test_what_keeps_a_node_from_it_is_named(driver: Driver) -> None:
    assert "no-such-user" in resize(driver, GUEST, 1, "node1", user="no-such-user", enters=True).detail
    assert not file_of(driver, GUEST).exists()
    assert not [report for _, report in driver.log if isinstance(report, Ended)]
