"""Every message of the table is acted on: commands by a part of the agent, reports by a part of the server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.configuration import Configuration
from oarpy.modules.launcher import Launcher
from oarpy.modules.launcher.recording import RECORDED, sort
from oarpy.transport.agent.service import Agent
from oarpy.wire.messages import COMMANDS, REPORTS, Pong, Report
from tests.campaigns.agent_fuzz import SAMPLE_REPORTS


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    source, sink = os.pipe()
    settings = {
        "state": str(tmp_path / "state"),
        "instance": "table",
        "keep_days": 1,
        "kill_patience": 1.0,
        "start_patience": 1.0,
        "isolation": "none",
        "pids_limit": 0,
        "private_directories": (),
        "limit_swap": False,
        "pam_service": "",
        "cgroup_root": "/sys/fs/cgroup",
        "machine_root": "/",
        "device_rules": (),
    }
    made = Agent(settings, source, sink)
    yield made
    for fd in (source, sink, made._bell.fd, made._knocks.fd):
        os.close(fd)
    made._poll.close()


def test_every_command_is_obeyed_by_one_part_of_the_agent(agent: Agent) -> None:
    assert agent._obey.keys() == set(COMMANDS.values())
    parts = [agent._orders.obeys(), agent._scripts.obeys()]
    assert sum(map(len, parts)) == len({kind for part in parts for kind in part})


@pytest.mark.parametrize("report", SAMPLE_REPORTS, ids=[type(one).__name__ for one in SAMPLE_REPORTS])
def test_every_report_is_heard(report: Report) -> None:
    heard = type(report) in Launcher(Configuration())._hears
    assert heard or isinstance(report, Pong), "that one is for the channel"


def test_every_report_that_is_to_be_recorded_is_sorted() -> None:
    recorded = [report for report in SAMPLE_REPORTS if type(report) in RECORDED]
    assert all(sort([("n1", report)]) for report in recorded)


def test_there_is_a_sample_of_every_report() -> None:
    assert {type(one) for one in SAMPLE_REPORTS} == {*REPORTS.values()}
