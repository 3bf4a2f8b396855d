"""A cluster runs through every kind of decision; `oarpy plan` on what each pass recorded decides the same again."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes, running_sandbox
from tests.harness.waiting import until

pytestmark = pytest.mark.e2e

DEADLINE = 90.0
Truth = psycopg.Connection[tuple[Any, ...]]
LONG = "trap '' USR2; exec sleep 600"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, dsn: str) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("cluster")
    settings: Settings = {
        "database": {"url": dsn},
        "scheduler": {
            "security_time": 1,
            "besteffort_minimum_life": 2,
            "besteffort_kill_before_reservation": 2,
            "record_passes": str(folder / "passes"),
        },
        "modules": {"metascheduler": 1.0},
        "walltime": {"enabled": True},
        "energy": {
            "enabled": True,
            "sleep_command": "cat > /dev/null",
            "wake_command": "cat > /dev/null",
            "idle_time": 1.0,
            "sleep_time": 1.0,
            "wakeup_time": 2.0,
            "wakeup_timeout": 80.0,
            "keep_alive": ["core = 1: 1"],
        },
    }
    with running_sandbox(folder, settings, local_nodes("/host=node[1-4]/cpu={1}/core={2}")) as made:
        yield made


@pytest.fixture
def truth(cluster: Sandbox) -> Iterator[Truth]:
    with psycopg.connect(cluster.dsn(), autocommit=True) as connection:
        yield connection


def one(truth: Truth, question: str, *values: object) -> Any:
    """The first column of the first row, None without one."""
    row = truth.execute(question, values).fetchone()
    return row and row[0]


def running(cluster: Sandbox, *arguments: str) -> int:
    """Submit a job and wait until it runs."""
    (job,) = cluster.job_ids(*arguments)
    cluster.wait_for([job], ["Running"], DEADLINE)
    return job


def host_of(truth: Truth, table: str, job: int) -> Any:
    question = "SELECT min(network_address) FROM {} JOIN resources USING (resource_id) WHERE job_id = %s"
    return one(truth, psycopg.sql.SQL(question).format(psycopg.sql.Identifier(table)).as_string(truth), job)


def through_best_effort_jobs_and_containers(cluster: Sandbox) -> list[int]:
    cheap = ("-t", "besteffort", "--checkpoint", "1", "-l", "/nodes=1,walltime=0:10:0", LONG)
    jobs = [running(cluster, *cheap) for _ in range(4)]
    running(cluster, "-t", "container=box", "-l", "/nodes=1,walltime=0:10:0", LONG)
    running(cluster, "-t", "inner=box", "-l", "/core=1,walltime=0:1:0", LONG)
    return jobs


def through_a_reservation_that_moves(cluster: Sandbox, truth: Truth) -> None:
    date = f"{datetime.now() + timedelta(seconds=20):%Y-%m-%d %H:%M:%S}"
    (job,) = cluster.job_ids("-r", date, "-l", "/nodes=1,walltime=0:10:0", LONG)
    assert cluster.run("oarsub", "-r", date, "-l", "/nodes=4,walltime=0:10:0", LONG, check=False).returncode
    until(lambda: host_of(truth, "reserved_resources", job), "it is accepted")
    lost = host_of(truth, "reserved_resources", job)
    cluster.run("oarnodesetting", "-h", lost, "-s", "Absent")
    until(lambda: host_of(truth, "reserved_resources", job) not in (lost, None), "it moves")
    cluster.run("oarhold", str(job))
    reason = "SELECT reason FROM gantt_predictions WHERE job_id = %s"
    until(lambda: one(truth, reason, job) == "held", "it is on hold")
    cluster.run("oarresume", str(job))
    cluster.wait_for([job], ["Running"], DEADLINE)
    cluster.run("oarnodesetting", "-h", lost, "-s", "Alive")


def through_a_suspended_job_with_more_time(cluster: Sandbox, truth: Truth) -> None:
    job = running(cluster, "-l", "/nodes=1,walltime=0:10:0", LONG)
    cluster.run("oarwalltime", str(job), "+0:1:0")
    granted = "SELECT granted > '0' FROM walltime_changes WHERE job_id = %s"
    until(lambda: one(truth, granted, job), "it gets more time")
    host = host_of(truth, "assigned_resources", job)
    cluster.run("oarhold", "-r", str(job))
    cluster.wait_for([job], ["Suspended"], DEADLINE)
    here = ("-p", f"network_address='{host}'", "-l", "/nodes=1,walltime=0:10:0")
    running(cluster, "-t", "besteffort", "--checkpoint", "1", *here, LONG)
    cluster.run("oarresume", str(job))
    cluster.wait_for([job], ["Running"], DEADLINE)


def through_a_node_that_sleeps(cluster: Sandbox, truth: Truth, cheap: list[int]) -> None:
    cluster.run("oardel", *map(str, cheap), check=False)  # most of them are gone
    cluster.wait_for(cheap, ["Error", "Terminated"], DEADLINE)
    free = """
        SELECT min(network_address) FROM resources r WHERE NOT EXISTS
            (SELECT FROM assigned_resources a WHERE a.resource_id = r.resource_id AND upper_inf(a.during))
    """
    host = until(lambda: one(truth, free), "a node is free")
    truth.execute("UPDATE resources SET available_upto = now() + '1 year' WHERE network_address = %s", [host])
    state = "SELECT min(state) FROM resources WHERE network_address = %s"
    until(lambda: one(truth, state, host) == "Absent", "it sleeps")
    (job,) = cluster.job_ids("-p", f"network_address='{host}'", "-l", "/nodes=1,walltime=0:1:0", "true")
    cluster.wait_for([job], ["Terminated"], DEADLINE)


def decided_again(cluster: Sandbox, seen: list[Path]) -> Counter[str]:
    """Let `oarpy plan` decide every recorded pass; return how many decisions of each kind were equal."""
    planned = cluster.run("oarpy", "plan", "--decisions", *map(str, seen)).stdout.splitlines()
    equal: Counter[str] = Counter()
    for file, line in zip(seen, map(json.loads, planned), strict=True):
        told = json.loads(file.with_suffix(".decided").read_text(encoding="utf-8"))
        assert line["jobs"] == told["jobs"], file
        assert line["decisions"] == told["decisions"], file
        decisions = told["decisions"]
        equal["passes"] += 1
        equal["places"] += len(told["jobs"])
        equal.update({kind: len(found) for kind, found in decisions.items() if isinstance(found, list | dict)})
        equal.update({f"walltimes {kind}": len(decisions["walltimes"][kind]) for kind in ("granted", "dropped")})
        equal.update({f"nodes to {kind}": len(decisions["power"][kind]) for kind in ("wake", "sleep")})
        equal["wake-up dates"] += decisions["wake_at"] is not None
    return equal - Counter({"walltimes": equal["walltimes"], "power": equal["power"]})


def test_plan_decides_recorded_passes_as_the_cluster_did(
    cluster: Sandbox, truth: Truth, capsys: pytest.CaptureFixture[str]
) -> None:
    cheap = through_best_effort_jobs_and_containers(cluster)
    through_a_reservation_that_moves(cluster, truth)
    through_a_suspended_job_with_more_time(cluster, truth)
    through_a_node_that_sleeps(cluster, truth, cheap)
    cluster.stop_server(signal.SIGTERM)
    equal = decided_again(cluster, sorted((cluster.directory / "passes").glob("*.json")))
    with capsys.disabled():
        print("\nequal in production and in `oarpy plan`:", ", ".join(f"{equal[kind]} {kind}" for kind in equal))
    recorded = "".join(file.read_text(encoding="utf-8") for file in (cluster.directory / "passes").glob("*.json"))
    for word in ('"checkpoint": 1', "container=box", "inner=box", '"given_back"', '"Absent"'):
        assert word in recorded, word
    wanted = ("starts", "accepted", "refused", "moved", "resumptions", "resumed", "victims", "awaiting")
    for kind in (*wanted, "walltimes granted", "nodes to wake", "nodes to sleep"):
        assert equal[kind], kind
