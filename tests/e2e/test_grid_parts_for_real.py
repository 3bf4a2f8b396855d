"""A real cluster behind its door: it promises a broker what every cluster promises, and its programs begin at D."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.grid.calls.table import Commit, Describe
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from oarpy.local_cluster.user_commands import user_command
from tests.harness.cluster_conformance import LONG, ClusterConformance, ClusterStage
from tests.harness.ordinary_users import ordinary_users
from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import DEADLINE, until

pytestmark = pytest.mark.e2e

END_ALL = """
    INSERT INTO kill_requests (job_id, reason) SELECT job_id, 'the test is over' FROM jobs WHERE is_live(state)
    ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True)
class RealCluster:
    """A running cluster of two nodes with four cores each, and the door by which the broker enters it."""

    sandbox: Sandbox
    cluster: OarpyCluster
    home: Path

    def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Return what the database answers."""
        with psycopg.connect(self.sandbox.dsn(), autocommit=True) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def cluster(cluster_database: dict[str, str]) -> Iterator[RealCluster]:
    """The cluster; the broker's user ann is an ordinary one."""
    if os.getuid() != 0:
        pytest.skip("only root can make users")
    with ordinary_users("broker", "ann") as (broker, ann), passable_folder("oarpy-parts-") as folder:
        settings: Settings = {
            "database": cluster_database,
            "scheduler": {"security_time": 0},
            "door": {"evict": "local", "brokers": {"campus": broker.pw_name}},
        }
        home = folder / "home"
        home.mkdir()
        os.chown(home, ann.pw_uid, ann.pw_gid)
        nodes = local_nodes("/host=n[1-2]/cpu={1}/core={4}")
        grant = ("oargridctl", "grant", "campus", "ann", "--user", ann.pw_name)
        queue = ("oarqueue", "--add", "local,3,fifo")
        with running_sandbox(folder, settings, nodes, grant, queue) as sandbox:
            sandbox.wait_for_gateway(DEADLINE)
            socket = sandbox.directory / "gateway" / "socket"
            words = user_command(broker.pw_uid, "oargriddoor", "campus")
            door = ["env", "-i", f"OARPY_GATEWAY_SOCKET={socket}", *words]
            with closing(OarpyCluster("real", door)) as cluster:
                yield RealCluster(sandbox, cluster, home)


class RealStage(ClusterStage):
    """The cluster between two tests."""

    procs = 8

    def __init__(self, cluster: RealCluster) -> None:
        super().__init__(cluster.cluster)
        self.real = cluster
        self._word = f"{time.monotonic_ns():x}"

    def unique(self, word: str) -> str:
        """Return a name that no test had."""
        return f"{super().unique(word)}-{self._word}"

    def prepared(self, kind: Any = "queued", procs: int = 1, *, ttl: float = LONG, **more: Any) -> tuple[str, str]:
        """Prepare a part in a directory of its user."""
        return super().prepared(kind, procs, ttl=ttl, **{"directory": str(self.real.home), **more})

    def occupy(self, procs: int) -> str:
        """Run a job of the queue whose jobs give way."""
        request = f"/core={procs},walltime=1:0:0"
        (job,) = self.real.sandbox.job_ids("-q", "local", "-l", request, "sleep 1000")
        self.real.sandbox.wait_for([job], ["Running"], DEADLINE)
        return str(job)

    def vacate(self, local: str) -> None:
        """End a local job."""
        self.real.sandbox.run("oardel", local)
        self.real.sandbox.wait_for([int(local)], ["Error"], DEADLINE)


@pytest.fixture
def stage(cluster: RealCluster) -> Iterator[RealStage]:
    """The cluster; whatever runs there at the end goes."""
    made = RealStage(cluster)
    until(lambda: made.idle() == made.procs, "idle processors")
    yield made
    cluster.sql(END_ALL)
    until(lambda: cluster.sql("SELECT count(*) FROM jobs WHERE is_live(state)") == [(0,)], "all jobs are over")


class TestOarpyCluster(ClusterConformance):
    """All promises, kept by a real cluster."""


def test_a_part_that_is_told_to_begin_just_before_its_date_begins_at_it(stage: RealStage) -> None:
    begin = float(int(stage.cluster.ask(Describe()).clock) + 6)
    name, transaction = stage.prepared("reserved", 8, begin=begin, program="sleep 1", patience=600)
    stage.commit(transaction, begin)
    stage.wait(lambda: stage.cluster.ask(Describe()).clock > begin - 0.8, "almost its date")
    assert len(stage.begin(name).hosts) == 8
    assert stage.event(name, "started").at >= begin


def test_a_claimed_program_begins_at_its_date_and_knows_the_others(stage: RealStage) -> None:
    begin = stage.cluster.ask(Describe()).clock + 4
    program = 'date +%s; cat "$OAR_GRID_NODEFILE"; echo "$OAR_GRID_JOB_ID"'
    name, transaction = stage.prepared("claim", 2, begin=begin, program=program, environment={"OAR_GRID_JOB_ID": "7"})
    stage.cluster.ask(Commit(transaction, begin, ["n1", "far1", "far2"], key=stage.unique("key")))
    ended = stage.event(name, "ended")
    began, *told = (stage.real.home / f"OAR.{ended.job}.stdout").read_text().splitlines()
    assert int(begin) <= int(began)
    assert told == ["n1", "far1", "far2", "7"]
    assert ended.status == 0
