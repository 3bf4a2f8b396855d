"""Walltimes changed while jobs run, for real; launcher and agents are killed between the grant and the node."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from research.benchmarks.server_processes import children_of, server_processes
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

DEADLINE = 90.0
SHORT = 20


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[Sandbox]:
    modules = {"restart_delay": 0.1}
    settings: Settings = {"walltime": {"enabled": True}, "modules": modules, "database": {"url": dsn}}
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={1}")
    with running_sandbox(tmp_path_factory.mktemp("cluster"), settings, nodes) as made:
        yield made


def test_a_longer_job_survives_and_a_shorter_one_dies_whoever_is_killed_between(cluster: Sandbox) -> None:
    go = cluster.directory / "go"
    (longer,) = cluster.job_ids("-l", f"/nodes=1,walltime=0:0:{SHORT}", f"while [ ! -e {go} ]; do sleep 0.1; done")
    (shorter,) = cluster.job_ids("-l", "/nodes=1,walltime=1:0:0", "sleep 3600")
    cluster.wait_for([longer, shorter], ["Running"], DEADLINE)
    server = cluster.server
    assert server is not None
    (launcher,) = server_processes(server.pid)["launcher"]
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:

        def truth(question: str, *values: object) -> bool:
            row = connection.execute(question, values).fetchone()
            return bool(row and row[0])

        os.kill(launcher, signal.SIGSTOP)
        cluster.run("oarwalltime", str(longer), "+1:0:0")
        cluster.run("oarwalltime", str(shorter), "0:0:2")
        granted = "SELECT count(*) = 2 AND bool_and(NOT node_told AND granted <> '0') FROM walltime_changes"
        until(lambda: truth(granted), "the scheduler grants both")
        for agent in children_of(launcher):
            os.kill(agent, signal.SIGKILL)
        os.kill(launcher, signal.SIGKILL)
        cluster.wait_for([shorter], ["Error"], DEADLINE)
        assert truth("SELECT message = 'killed: its walltime was over' FROM jobs WHERE job_id = %s", shorter)
        until(
            lambda: truth(
                "SELECT now() > started_at + %s * interval '1 second' FROM jobs WHERE job_id = %s", SHORT + 3, longer
            ),
            "its first walltime is over",
        )
        assert cluster.states([longer]) == {longer: "Running"}
        go.touch()
        assert cluster.wait_for([longer], ["Terminated", "Error"], DEADLINE) == {longer: "Terminated"}
