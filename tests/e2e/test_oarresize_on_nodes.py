"""``oarresize`` at work: hosts come, others take revocable ones back after their notice, and jobs run on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

DEADLINE = 90.0
NOTICE = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    settings: Settings = {
        "database": cluster_database,
        "scheduler": {"security_time": 0},
        "negotiation": {"reclaim_notice": NOTICE},
        "jobs": {"kill_grace": 1.0},
    }
    with running_sandbox(tmp_path_factory.mktemp("resize"), settings, local_nodes("/host=n[1-4]/core={1}")) as made:
        yield made


def resize(cluster: Sandbox, job: int, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.run("oarresize", "-J", str(job), *words).stdout)
    return found


def hosts(cluster: Sandbox, job: int) -> list[str]:
    found = json.loads(cluster.run("oarstat", "-J", "-j", str(job)).stdout)[str(job)]
    return sorted(found["assigned_network_address"])


def test_batch_jobs_take_back_revocable_hosts_and_the_job_runs_on(cluster: Sandbox) -> None:
    (job,) = cluster.job_ids("-l", "/nodes=1,walltime=1:0:0", "sleep 600")
    cluster.wait_for([job], ["Running"], DEADLINE)
    assert sorted(resize(cluster, job, "+3", "--revocable")["granted"]) == ["n2", "n3", "n4"]
    (other,) = cluster.job_ids("-l", "/nodes=1,walltime=0:10:0", "sleep 600")
    cluster.wait_for([other], ["Running"], DEADLINE)
    assert len(hosts(cluster, job)) == 3
    (third,) = cluster.job_ids("-l", "/nodes=2,walltime=0:10:0", "sleep 600")
    cluster.wait_for([third], ["Running"], DEADLINE)
    assert hosts(cluster, job) == ["n1"]
    pending = resize(cluster, job, "+1")["pending"]
    assert pending["hosts"] == {"": 1}
    freed = hosts(cluster, other)
    cluster.run("oardel", str(other))
    until(lambda: hosts(cluster, job) == ["n1", *freed], "the firm host comes when it is free")
    assert resize(cluster, job, f"-{freed[0]}")["released"] == freed
    assert hosts(cluster, job) == ["n1"]
