"""Prologue and epilogue on a real node: once, in time, with the rights of the agent; what became of them is known."""

from __future__ import annotations

import getpass
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Release, RunScript, ScriptEnded
from research.benchmarks.server_processes import pids_with
from tests.harness.transport_driver import Driver, local_driver
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path, "none") as made:
        made.connect()
        yield made


def program(driver: Driver, text: str) -> str:
    """Write the site's program."""
    path = driver.directory / "script"
    path.write_text(f"#!/bin/sh\ncd {driver.directory}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def ask(driver: Driver, kind: str, script: str, *, timeout: float = 60.0, job: int = 1, after: bool = False) -> None:
    """Ask for a script of a job."""
    spec = driver.spec(job, "true", nodes=("node1", "node1"), walltime=600, environment={"LD_PRELOAD": "x", "OAR": "x"})
    driver.send(RunScript(kind, script, timeout, (spec,), after))


def answer(driver: Driver) -> tuple[str, str]:
    """Wait for how a script ended."""
    said = driver.expect(ScriptEnded)
    return said.outcome, said.detail


def runners(driver: Driver) -> list[int]:
    """The processes of scripts."""
    prefix = f"OARPY_JOB={driver.instance}/".encode()
    return pids_with(lambda entry: entry.startswith(prefix) and entry.endswith(b"logue"))


def test_arguments_and_rights_are_the_sites_own(driver: Driver) -> None:
    script = program(driver, 'echo "$#" "$1" "$2" "$4" >> said; cat "$3" >> said; env > environment')
    ask(driver, "prologue", script)
    assert answer(driver) == ("ok", "")
    ask(driver, "epilogue", script)
    assert answer(driver) == ("ok", "")
    user = getpass.getuser()
    assert (driver.directory / "said").read_text() == (f"4 1 {user} 600\nnode1\nnode1\n3 1 {user} \nnode1\nnode1\n")
    assert "LD_PRELOAD" not in (driver.directory / "environment").read_text()
    assert list((Path(driver.node.state_directory) / "files").iterdir()) == []


def test_a_script_runs_once_however_often_it_is_asked_for(driver: Driver) -> None:
    script = program(driver, "echo ran >> said")
    for _ in range(3):
        ask(driver, "prologue", script)
        assert answer(driver) == ("ok", "")
    driver.connect()
    ask(driver, "prologue", script)
    assert answer(driver) == ("ok", "")
    assert (driver.directory / "said").read_text() == "ran\n"


@pytest.mark.parametrize(
    ("text", "timeout", "outcome", "detail"),
    [
        ("echo wrong; exit 3", 60, "failed", "ended with exit status 3: wrong"),
        ("kill -9 $$", 60, "failed", "ended with signal 9"),
        ("echo slow; sleep 600", 0.3, "timeout", "took more than 0.3 s: slow"),
    ],
)
def test_how_it_failed_is_said(driver: Driver, text: str, timeout: float, outcome: str, detail: str) -> None:
    ask(driver, "prologue", program(driver, text), timeout=timeout)
    said, why = answer(driver)
    assert said == outcome
    assert why.endswith(detail)
    assert runners(driver) == []


def test_a_program_that_is_not_there(driver: Driver) -> None:
    ask(driver, "epilogue", "/no/such/program")
    assert answer(driver) == ("failed", "epilogue /no/such/program: No such file or directory")


def test_what_it_leaves_behind_is_ended(driver: Driver) -> None:
    ask(driver, "prologue", program(driver, "setsid sleep 600 > /dev/null 2>&1 & sleep 600 & exit 0"))
    assert answer(driver) == ("ok", "")
    assert runners(driver) == []


def test_a_script_outlives_its_agent_and_the_next_one_tells_of_it(driver: Driver) -> None:
    script = program(driver, "echo ran >> said; until test -e go; do sleep 0.05; done")
    ask(driver, "prologue", script)
    until((driver.directory / "said").exists, "the script runs")
    driver.transport.close()
    driver.transport = LocalTransport(driver.transport.inbox, ChannelConfig(instance=driver.instance, isolation="none"))
    driver.connect()
    ask(driver, "prologue", script)
    (driver.directory / "go").touch()
    assert answer(driver) == ("ok", "")
    assert (driver.directory / "said").read_text() == "ran\n"


def test_a_script_that_was_cut_off_is_known_for_that_and_not_run_again(driver: Driver) -> None:
    script = program(driver, "echo ran >> said; echo $PPID > runner; exec sleep 600")
    ask(driver, "prologue", script)
    runner = driver.directory / "runner"
    until(lambda: runner.exists() and runner.read_text().endswith("\n"), "the script runs")
    os.kill(int(runner.read_text()), signal.SIGKILL)
    outcome, detail = answer(driver)
    assert outcome == "lost"
    assert "nobody saw the prologue end" in detail
    assert runners(driver) == []
    ask(driver, "prologue", script)
    assert answer(driver)[0] == "lost"
    assert (driver.directory / "said").read_text() == "ran\n"


def test_the_epilogue_waits_for_the_prologue_and_needs_one(driver: Driver) -> None:
    script = program(driver, "echo $# >> said; until test -e go; do sleep 0.05; done")
    ask(driver, "epilogue", script, job=2, after=True)
    assert answer(driver) == ("skipped", "no prologue was begun here")
    ask(driver, "prologue", script)
    until((driver.directory / "said").exists, "the prologue runs")
    driver.send(Clean((JobKey(1, 1),)))
    driver.expect(Cleaned)
    ask(driver, "epilogue", script, after=True)
    assert (driver.directory / "said").read_text() == "4\n"
    (driver.directory / "go").touch()
    first, second = driver.expect(ScriptEnded), driver.expect(ScriptEnded)
    assert [first.kind, second.kind] == ["prologue", "epilogue"]
    assert (driver.directory / "said").read_text() == "4\n3\n"


def test_a_prologue_of_a_job_that_is_over_is_refused_and_releasing_leaves_nothing(driver: Driver) -> None:
    script = program(driver, "echo ran >> said")
    ask(driver, "prologue", script)
    assert answer(driver)[0] == "ok"
    driver.send(Clean((JobKey(1, 1),)))
    driver.expect(Cleaned)
    driver.send(Release((JobKey(1, 1),)))
    ask(driver, "prologue", script)
    assert answer(driver) == ("FORGOTTEN", "this attempt is over")
    assert list((Path(driver.node.state_directory) / "scripts").iterdir()) == []
    assert (driver.directory / "said").read_text() == "ran\n"


def test_the_process_that_ran_it_is_reaped(driver: Driver) -> None:
    ask(driver, "prologue", program(driver, "echo $PPID > runner"))
    assert answer(driver) == ("ok", "")
    runner = Path("/proc", (driver.directory / "runner").read_text().strip())
    end = time.monotonic() + 60
    while runner.exists():
        assert time.monotonic() < end, f"{runner} is still there"
        time.sleep(0.05)
