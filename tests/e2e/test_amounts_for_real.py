"""Amounts of memory with real processes: asked for, told to the job, never too much, whoever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.store.schema.checks.check import check
from research.benchmarks.server_processes import server_processes
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

JOBS = 8
MEGA = 2**20

# What was held of a block at the instants at which a job took some of it.
_HELD_AT_ONCE = """
    SELECT a.block, sum(b.amount)
    FROM assigned_amounts a JOIN assigned_amounts b ON b.block = a.block AND b.during @> lower(a.during)
    GROUP BY a.job_id, a.block
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[Sandbox]:
    """A running server and two local nodes of four cores and 64M of memory."""
    settings: Settings = {"modules": {"restart_delay": 0.1, "restart_delay_limit": 1.0}, "database": {"url": dsn}}
    memory = ("oaradmin", "consumables", "add", "memory", "--unit", "bytes")
    nodes = local_nodes("/host=n[1-2]/core={4}", "-p", "memory=64M")
    with running_sandbox(tmp_path_factory.mktemp("cluster"), settings, memory, nodes) as made:
        yield made


def test_no_node_gives_more_memory_than_it_has_whoever_is_killed(cluster: Sandbox) -> None:
    first = cluster.job_ids("-l", "/nodes=2/core=1,memory=24M", "-O", "first.txt", 'echo "$OAR_AMOUNT_MEMORY"')
    jobs = cluster.job_ids("--array", str(JOBS), "-l", "/nodes=1/core=1,memory=24M", "sleep 0.2")
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:

        def over() -> int:
            row = connection.execute("SELECT count(*) FROM jobs WHERE state IN ('Terminated', 'Error')").fetchone()
            assert row is not None
            return int(row[0])

        for ended, victim in ((1, "metascheduler"), (4, "launcher")):
            until(lambda: over() >= ended, f"{ended} jobs are over")  # noqa: B023
            server = cluster.server
            assert server is not None
            for pid in server_processes(server.pid).get(victim, []):
                os.kill(pid, signal.SIGKILL)
        until(lambda: over() == JOBS + 1, "all jobs are over")
        states = connection.execute("SELECT DISTINCT state FROM jobs").fetchall()
        together = connection.execute(_HELD_AT_ONCE).fetchall()
        held = connection.execute("SELECT sum(held) FROM consumable_capacities").fetchall()
    assert states == [("Terminated",)]
    assert {block for block, _ in together} == {"n1", "n2"}
    # two jobs of 24M fit into 64M, three do not, whatever the number of free cores
    assert max(int(amount) for _, amount in together) == 48 * MEGA
    assert held == [(0,)]
    assert check(cluster.dsn()) == ()
    assert (cluster.directory / "work" / "first.txt").read_text() == f"{24 * MEGA}\n"
    shown = json.loads(cluster.run("oarstat", "-J", "-j", str(first[0])).stdout)[str(first[0])]
    assert shown["assigned_amounts"] == {"memory": {"n1": 24 * MEGA, "n2": 24 * MEGA}}
    assert len(jobs) == JOBS
