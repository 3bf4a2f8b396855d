"""What admission rules are told about the cluster."""

from __future__ import annotations

import grp
import os
from datetime import UTC, datetime

import pytest

from oarpy.admission.rules.site import Holding, JobInfo, QueueInfo
from oarpy.client.session import Session
from oarpy.client.submission.site import DatabaseSite, unix_groups
from oarpy.configuration import Configuration, SubmissionSettings
from oarpy.model.errors import UsageError
from tests.harness.sample_cluster import ME, Connection, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def site(connection: Connection) -> DatabaseSite:
    configuration = Configuration(
        submission=SubmissionSettings(default_walltime=60, rule_tables=("jobs", "teams")), site={"deadline": 3}
    )
    return DatabaseSite(Session(connection, configuration, ME, 1000, is_admin=False), NOW)


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


def test_what_jobs_hold_is_counted_in_jobs_and_cores(connection: Connection, site: DatabaseSite) -> None:
    cores = add_nodes(connection, "n1", "n2")
    add_job(connection, "Terminated", user="ann", resources=cores)
    add_job(connection, "Running", user="ann", project="p", resources=cores[:3])
    add_job(connection, "Running", user="bob", queue_name="admin", resources=cores[3:])
    add_job(connection, user="ann")
    assert site.held() == Holding(2, 4)
    assert site.held(user="ann") == Holding(1, 3)
    assert site.held(user="ann", project="other") == Holding()
    assert site.held(queue="admin") == Holding(1, 1)


def test_the_cores_of_a_request_are_those_the_planner_would_take(connection: Connection, site: DatabaseSite) -> None:
    add_nodes(connection, "n1", "n2", cores=4)
    assert site.cores("/nodes=2") == 8
    assert site.cores("/nodes=2/core=3") == 6
    assert site.cores("/core=1", "host = 'n1'") == 1
    assert site.cores("/nodes=3") == 0
    assert site.cores("/nodes=ALL", "host = 'n2'") == 4
    with pytest.raises(UsageError, match="unknown resource level 'rack'"):
        site.cores("/rack=1")


def test_a_query_reads_the_tables_that_are_listed(connection: Connection, site: DatabaseSite) -> None:
    connection.execute("CREATE TABLE teams (team text, member text)")
    connection.execute("INSERT INTO teams VALUES ('red', 'ann'), ('red', 'bob'), ('blue', 'eve')")
    add_job(connection, user="ann")
    assert site.query("SELECT team FROM teams WHERE member = $1", "eve") == [{"team": "blue"}]
    statement = "SELECT count(*) AS jobs FROM jobs JOIN teams ON member = user_name WHERE team = $1"
    assert site.query(statement, "red") == [{"jobs": 1}]


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("SELECT * FROM resources", "a rule may not read 'resources'"),
        ("SELECT * FROM jobs WHERE EXISTS (SELECT FROM pg_catalog.pg_authid)", "may not read 'pg_catalog.pg_authid'"),
        ("SELECT * FROM nodes WHERE EXISTS (WITH nodes AS (SELECT 1) SELECT 1)", "has no WITH|may not read 'nodes'"),
        ("WITH gone AS (DELETE FROM jobs RETURNING 1) SELECT 1", "has no WITH"),
        ("DELETE FROM jobs", "a rule may ask one SELECT"),
        ("SELECT 1; SELECT 2", "a rule may ask one SELECT"),
        ("SELECT * INTO copy FROM jobs", "a rule may not read 'copy'|has no INTO"),
        ("SELECT 1 FROM jobs FOR UPDATE", "has no FOR UPDATE"),
        ("SELECT pg_read_file('/etc/passwd')", r"may not call pg_read_file\(\)"),
        ("SELECT query_to_xml('SELECT 1 FROM resources', true, true, '')", r"may not call query_to_xml\(\)"),
        ("SELECT count(*) FROM jobs WHERE nothing = 1", "the query failed: column"),
        ("nonsense", "the query is not SQL: syntax error"),
    ],
)
def test_a_query_reads_nothing_else(connection: Connection, site: DatabaseSite, statement: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        site.query(statement)
    assert connection.info.transaction_status.name == "IDLE"
