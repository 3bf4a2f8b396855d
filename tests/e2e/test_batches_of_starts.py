"""Many starts in one message: none is lost, the agent goes on answering, and one that is wrong fails alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from oarpy.wire.lines import MAXIMUM_LINE
from oarpy.wire.messages import Ended, Ping, Pong, Started
from tests.harness.transport_driver import Driver, local_driver

pytestmark = pytest.mark.e2e

MANY = 150


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with local_driver(tmp_path) as driver:
        yield driver


def with_few_files(driver: Driver, folder: Path) -> None:
    """Let the node give 64 open files, of which more may be asked for."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nulimit -Sn 64\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    driver.node = replace(driver.node, python=str(python))


def test_more_jobs_run_at_once_than_files_are_given(driver: Driver, tmp_path: Path) -> None:
    with_few_files(driver, tmp_path)
    driver.connect()
    os.mkfifo(tmp_path / "end")
    driver.start(*(driver.spec(job, "ulimit -Sn; read line < ../end", stderr="") for job in range(MANY)))
    running = {driver.expect(Started).key.job for _ in range(MANY)}
    assert running == set(range(MANY))
    with (tmp_path / "end").open("w") as end:
        end.write("\n" * MANY)
        end.flush()
        ended = {driver.expect(Ended).key.job for _ in range(MANY)}
    assert ended == running
    assert {driver.output(job) for job in running} == {"64\n"}


def test_the_agent_answers_in_the_middle_of_a_batch(driver: Driver) -> None:
    driver.connect()
    driver.start(*(driver.spec(job, "sleep 100") for job in range(MANY)))
    driver.send(Ping("are you there?"))
    pong = driver.expect(Pong, lambda report: report.token == "are you there?")
    told = [report for _, report in driver.log if isinstance(report, Started)]
    told += [driver.expect(Started) for _ in range(MANY - len(told))]
    assert sum(report.start > pong.clock for report in told) > MANY / 2


def test_a_batch_that_is_sent_again_starts_each_job_once(driver: Driver) -> None:
    driver.connect()
    specs = [driver.spec(job, "echo begun") for job in range(MANY)]
    for _ in range(3):
        driver.start(*specs)
    missing = set(range(MANY))
    while missing:
        missing.discard(driver.expect(Ended).key.job)
    assert {driver.output(job) for job in range(MANY)} == {"begun\n"}


def test_a_specification_that_cannot_be_read_is_refused_alone(driver: Driver) -> None:
    driver.connect()
    wrong = driver.spec(2, "true", environment={"A=B": "1"})
    driver.start(driver.spec(1, "true"), wrong, driver.spec(3, "true"))
    refusal = driver.refused(2)
    assert refusal.reason == "UNFIT"
    assert "environment" in refusal.detail
    assert {report.key.job for report in (driver.expect(Ended), driver.expect(Ended))} == {1, 3}


def test_environments_that_are_large_together_arrive(driver: Driver) -> None:
    driver.connect()
    value = "x" * 100_000
    number = MAXIMUM_LINE // 1_000_000 + 5
    driver.start(
        *(
            driver.spec(job, "true", environment={f"V{name}": f"{job}{value}" for name in range(10)})
            for job in range(number)
        )
    )
    ended = [driver.expect(Ended) for _ in range(number)]
    assert {(report.key.job, report.status) for report in ended} == {(job, 0) for job in range(number)}
