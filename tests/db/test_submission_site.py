"""What admission rules are told about the cluster."""

from __future__ import annotations

import grp
import os
from datetime import UTC, datetime

import pytest

from oarpy.admission.rules.site import JobInfo, QueueInfo
from oarpy.client.submission.site import DatabaseSite, unix_groups
from oarpy.configuration import Configuration, SubmissionSettings
from tests.harness.sample_cluster import ME, Connection, add_job, add_nodes

pytestmark = pytest.mark.db

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def site(connection: Connection) -> DatabaseSite:
    return DatabaseSite(
        connection, Configuration(submission=SubmissionSettings(default_walltime=60), site={"deadline": 3}), NOW
    )


def test_settings(site: DatabaseSite) -> None:
    assert site.now() == NOW
    assert site.settings["default_walltime"] == 60
    assert site.settings["deadline"] == 3


def test_groups(site: DatabaseSite) -> None:
    assert grp.getgrgid(os.getgid()).gr_name in site.groups(ME)
    assert unix_groups("no such user") == ()


def test_queues_and_properties(connection: Connection, site: DatabaseSite) -> None:
    connection.execute("INSERT INTO queues (queue_name, priority, active) VALUES ('night', 7, false)")
    assert site.queue("night") == QueueInfo("night", 7, active=False)
    assert site.queue("day") is None
    assert site.properties()["core"] == "integer"
    assert site.properties()["host"] == "text"


def test_jobs_are_live_ones(connection: Connection, site: DatabaseSite) -> None:
    resources = add_nodes(connection, "n1")
    over = add_job(connection, "Terminated", user="ann", resources=resources, types=["container=c"])
    held = add_job(connection, "Hold", user="ann", project="p", types=["container=c", "besteffort"])
    reserved = add_job(
        connection,
        user="bob",
        queue_name="admin",
        job_name="n",
        reservation_start=NOW,
        reservation_state="toSchedule",
    )
    assert site.job(over) is None
    assert site.job(held) == JobInfo(held, "ann", project="p", state="Hold", types=("container=c", "besteffort"))
    assert site.job(reserved) == JobInfo(reserved, "bob", queue="admin", name="n", reservation=True)
    assert [job.id for job in site.containers("c")] == [held]
    assert site.containers("other") == []


def test_counts(connection: Connection, site: DatabaseSite) -> None:
    add_job(connection, "Error", user="ann")
    add_job(connection, "Hold", user="ann", project="p")
    add_job(connection, user="ann", queue_name="admin", types=["besteffort"])
    add_job(connection, user="bob", reservation_start=NOW, reservation_state="toSchedule")
    assert site.count_jobs() == 3
    assert site.count_jobs(user="ann") == 2
    assert site.count_jobs(user="ann", states=["Hold", "Running"]) == 1
    assert site.count_jobs(states=[]) == 0
    assert site.count_jobs(queue="admin") == 1
    assert site.count_jobs(project="p") == 1
    assert site.count_jobs(job_type="besteffort") == 1
    assert site.count_jobs(reservation=True) == 1
    assert site.count_jobs(reservation=False) == 2
    assert site.count_jobs(user="bob", queue="admin") == 0
