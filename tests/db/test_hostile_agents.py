"""A node that lies: it spoils nothing but its own jobs, and the launcher goes on."""

from __future__ import annotations

import contextlib
import random
import time

import pytest

from oarpy.wire.frames import Malformed
from oarpy.wire.messages import Ended, JobReport, Ready, Refused, Report, Started, decode_reports
from tests.campaigns.agent_fuzz import reports
from tests.harness.sample_cluster import Connection
from tests.harness.small_cluster import SmallCluster


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    return made


def test_the_launcher_survives_whatever_an_agent_says(cluster: SmallCluster) -> None:
    jobs = [cluster.submit("/nodes=1") for _ in range(2)]
    cluster.settle()
    (honest,) = (job for job in jobs if cluster.hosts(job)[0] == "n1")
    chance = random.Random(3)
    for _ in range(150):
        for _ in range(20):
            with contextlib.suppress(Malformed):
                cluster.nodes.inbox.put("n2", decode_reports(reports(chance)))
        cluster.launch()
    assert cluster.state(honest) == "Running"
    cluster.restart_launcher()
    cluster.settle()
    cluster.end(honest)
    cluster.settle()
    assert cluster.state(honest) == "Terminated"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_node_is_not_heard_about_jobs_of_another(cluster: SmallCluster, restarted: bool) -> None:
    job = cluster.submit("/nodes=1")
    cluster.settle()
    assert cluster.hosts(job)[0] == "n1"
    if restarted:
        cluster.restart_launcher()
        cluster.launch()
    key = cluster.key(job)
    lies: list[Report] = [Ended(key, 0, "exited", 1.0, 2.0), Refused(key, "FORGOTTEN", ""), Started(key, 1.0)]
    cluster.nodes.inbox.put("n2", lies)
    cluster.settle()
    assert cluster.state(job) == "Running"


def test_a_node_that_claims_to_know_a_job_of_another_does_not_keep_it_from_starting(cluster: SmallCluster) -> None:
    cluster.launch()
    job = cluster.submit("/nodes=1")
    cluster.plan()
    cluster.sql("UPDATE jobs SET state = 'Launching', attempt = 1, incarnation = %s", cluster.node("n1").incarnation)
    lie = Ready(1, "b", "b:i", 1.0, (JobReport(cluster.key(job), "running"),))
    cluster.nodes.inbox.put("n2", [lie])
    cluster.settle()
    assert cluster.state(job) == "Running"
    assert [spec.job for spec in cluster.node("n1").starts] == [job]


@pytest.mark.parametrize("wrong", [-1e9, 1e9])
def test_a_wrong_clock_of_a_node_does_not_spoil_the_dates_of_its_jobs(cluster: SmallCluster, wrong: float) -> None:
    cluster.nodes._clock = lambda: time.time() + wrong
    job = cluster.submit("/nodes=1", command="true")
    cluster.settle()
    ((sane,),) = cluster.sql(
        "SELECT submitted_at <= started_at AND started_at <= ended_at AND ended_at <= clock_timestamp()"
        " AND (SELECT bool_and(lower(during) <= started_at) FROM assigned_resources a WHERE a.job_id = j.job_id)"
        " FROM jobs j WHERE job_id = %s",
        job,
    )
    assert sane
