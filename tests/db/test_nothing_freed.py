"""No move by hand frees what still runs, and oardel ends every job, whatever was done to its rows."""

from __future__ import annotations

import pytest
from psycopg.errors import CheckViolation, RaiseException

from oarpy.model.job_types import NOOP, ON_A_HOST
from oarpy.model.states import FINAL_STATES, JobState
from oarpy.wire.messages import Kill
from tests.harness.hand_written import Connection, add_job, move, path_to
from tests.harness.small_cluster import SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

ON_NODES = [JobState.LAUNCHING, JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING, JobState.FINISHING]


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    cluster.add_consumable("memory", n1=8, n2=8)
    cluster.launch()
    return cluster


@pytest.fixture
def running(cluster: SmallCluster) -> int:
    job = cluster.submit("/nodes=1/core=2,memory=2")
    cluster.settle()
    assert cluster.state(job) == "Running"
    return job


def without_triggers(cluster: SmallCluster, statement: str, *values: object) -> None:
    """What an admin can do who switches off triggers and foreign keys."""
    with cluster.connection.transaction():
        cluster.sql("SET LOCAL session_replication_role = replica")
        cluster.sql(statement, *values)


def test_a_job_that_runs_is_not_over_by_hand(cluster: SmallCluster, running: int) -> None:
    with pytest.raises(CheckViolation, match=f"job {running} is Running and may have programs") as refused:
        cluster.sql("UPDATE jobs SET state = 'Terminated', ended_at = now() WHERE job_id = %s", running)
    assert refused.value.diag.message_hint == f"end it with oardel {running}"
    cluster.settle()
    assert set(cluster.held().values()) == {running}
    assert cluster.node("n1").jobs[cluster.key(running)].ended is None


@pytest.mark.parametrize("state", ON_NODES)
def test_what_may_have_programs_comes_to_no_state_that_frees_its_resources(
    connection: Connection, state: JobState
) -> None:
    job = add_job(connection)
    move(connection, job, *path_to(state))
    for target in (*FINAL_STATES, JobState.WAITING, JobState.TO_ERROR, JobState.HOLD):
        with pytest.raises(CheckViolation, match=f"job {job} "):
            connection.execute(
                "UPDATE jobs SET state = %s, started_at = CASE WHEN %s IN ('Waiting', 'Hold') THEN NULL ELSE now() END,"
                " ended_at = CASE WHEN %s IN ('Terminated', 'Error') THEN clock_timestamp() END WHERE job_id = %s",
                [target, target, target, job],
            )


def test_a_job_moved_to_finishing_by_hand_is_ended_on_its_nodes_first(cluster: SmallCluster, running: int) -> None:
    cluster.sql("UPDATE jobs SET state = 'Finishing', final_state = 'Error' WHERE job_id = %s", running)
    with pytest.raises(CheckViolation, match="may have programs"):
        cluster.sql("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = %s", running)
    cluster.settle()
    assert cluster.state(running) == "Error"
    assert {name for name, command in cluster.nodes.sent if command.WORD == "clean"} == {"n1"}


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM assigned_resources WHERE job_id = %s",
        "UPDATE assigned_resources SET during = tstzmultirange(tstzrange(lower(during), now())) WHERE job_id = %s",
        "DELETE FROM assigned_amounts WHERE job_id = %s",
        "UPDATE assigned_amounts SET during = tstzrange(lower(during), now()) WHERE job_id = %s",
        "UPDATE jobs SET attempt = attempt + 1 WHERE job_id = %s",
        "UPDATE jobs SET types = '{noop}' WHERE job_id = %s",
        "UPDATE jobs SET types = '{deploy}' WHERE job_id = %s",
        "DELETE FROM jobs WHERE job_id = %s",
        "INSERT INTO assigned_resources (job_id, resource_id, during, suspended)"
        " VALUES (%s, 3, '{[2021-01-01,2021-01-02)}', true)",
        "INSERT INTO assigned_resources (job_id, resource_id, during) VALUES (%s, 3, '{[2021-01-01,2021-01-02)}')",
    ],
)
def test_nothing_is_taken_from_a_job_that_runs(cluster: SmallCluster, running: int, statement: str) -> None:
    with pytest.raises((CheckViolation, RaiseException), match=f"job {running} "):
        cluster.sql(statement, running)


@pytest.mark.parametrize("table", ["jobs", "submissions", "moldable_descriptions"])
def test_jobs_are_not_emptied_while_one_is_live(cluster: SmallCluster, running: int, table: str) -> None:
    with pytest.raises(CheckViolation) as refused:
        cluster.sql(f"TRUNCATE {table} CASCADE")
    assert "oardel" in (refused.value.diag.message_hint or "")
    assert cluster.state(running) == "Running"


def test_nobody_says_that_a_job_which_runs_has_left_nothing(cluster: SmallCluster, running: int) -> None:
    with pytest.raises(CheckViolation, match="left_nothing_when_off_nodes"):
        cluster.sql("UPDATE jobs SET left_nothing = true WHERE job_id = %s", running)


def test_a_job_that_has_started_does_not_wait_again(cluster: SmallCluster, running: int) -> None:
    with pytest.raises(CheckViolation, match="waits_again_unstarted"):
        cluster.sql("UPDATE jobs SET state = 'Finishing', final_state = 'Waiting' WHERE job_id = %s", running)


def test_a_waiting_job_has_not_lent_anything(cluster: SmallCluster) -> None:
    job = cluster.submit(hold=True)
    with pytest.raises(CheckViolation, match=f"job {job} would not hold resource 1"):
        cluster.sql(
            "INSERT INTO assigned_resources (job_id, resource_id, during, suspended)"
            " VALUES (%s, 1, '{[2021-01-01,2021-01-02)}', true)",
            job,
        )


@pytest.mark.parametrize(
    ("during", "suspended"), [("{[2021-01-01,)}", False), ("{[2021-01-01,2021-01-02)}", True)], ids=["open", "lent"]
)
def test_oardel_ends_a_job_where_it_was_sent_whatever_it_is_given(
    cluster: SmallCluster, during: str, suspended: bool
) -> None:
    job = cluster.submit(properties="network_address = 'n2'")
    cluster.settle()
    assert cluster.state(job) == "Running"
    without_triggers(
        cluster,
        "INSERT INTO assigned_resources (job_id, resource_id, during, suspended) VALUES (%s, 1, %s, %s)",
        job,
        during,
        suspended,
    )
    cluster.delete(job)
    cluster.settle()
    assert cluster.state(job) == "Error"
    assert cluster.sent(Kill)[0][0] == "n2"


def test_a_job_starts_on_what_it_holds(cluster: SmallCluster) -> None:
    job = cluster.submit(properties="network_address = 'n2'")
    without_triggers(
        cluster,
        "INSERT INTO assigned_resources (job_id, resource_id, during, suspended)"
        " VALUES (%s, 1, '{[2021-01-01,2021-01-02)}', true)",
        job,
    )
    cluster.settle()
    (spec,) = cluster.node("n2").starts
    assert (cluster.state(job), spec.nodes) == ("Running", ("n2",))


def test_every_type_that_says_where_a_job_runs_stays(connection: Connection) -> None:
    ((definition,),) = connection.execute(
        "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'job_on_nodes_stays'"
    ).fetchall()
    for word in (*NOOP, *ON_A_HOST):
        assert f"{{{word}," in definition or f",{word}}}" in definition, word


@pytest.mark.parametrize("state", [state for state in JobState if state not in FINAL_STATES])
def test_oardel_ends_a_job_in_any_state_without_resources(cluster: SmallCluster, state: JobState) -> None:
    job = add_job(cluster.connection)
    move(cluster.connection, job, *path_to(state))
    cluster.delete(job)
    cluster.settle()
    assert cluster.state(job) in {"Error", "Terminated"}


def test_a_job_moved_to_running_without_resources_is_ended_by_the_monitor(cluster: SmallCluster) -> None:
    job = add_job(cluster.connection)
    move(cluster.connection, job, "toLaunch", "Launching", "Running")
    cluster.settle()
    assert (cluster.state(job), cluster.job(job, "message")) == ("Error", "killed: it holds no resource")


def test_a_job_whose_resources_were_taken_from_under_it_ends_where_it_runs(cluster: SmallCluster, running: int) -> None:
    without_triggers(cluster, "DELETE FROM assigned_resources WHERE job_id = %s", running)
    cluster.delete(running)
    cluster.settle()
    assert cluster.state(running) == "Error"
    (ended,) = [one for one in cluster.nodes._nodes.values() if cluster.sent(Kill) and one.name == "n1"]
    assert cluster.sent(Kill)[0][0] == ended.name


def test_a_job_that_its_node_has_forgotten_is_ended(cluster: SmallCluster, running: int) -> None:
    """Whoever makes a job run again that was over: its node knows that this attempt is."""
    key = cluster.key(running)
    cluster.end(running)
    cluster.settle()
    without_triggers(
        cluster,
        "UPDATE jobs SET state = 'Running', ended_at = NULL, final_state = NULL, accounted = false,"
        " left_nothing = false WHERE job_id = %s",
        running,
    )
    without_triggers(
        cluster,
        "UPDATE assigned_resources SET during = tstzmultirange(tstzrange(lower(during), NULL)) WHERE job_id = %s",
        running,
    )
    cluster.node("n1").jobs.pop(key, None)
    cluster.node("n1").forgotten.add(key)
    cluster.sql("DELETE FROM kill_requests")
    cluster.delete(running)
    cluster.settle()
    assert cluster.state(running) in {"Error", "Terminated"}


def test_the_environment_of_a_submission_may_change_between_two_starts(cluster: SmallCluster) -> None:
    first, second = cluster.submit_array(2, "/nodes=2/core=2")
    cluster.settle()
    cluster.sql('UPDATE submissions SET environment = \'{"COLOUR": "red"}\'')
    cluster.end(first)
    cluster.settle()
    (spec,) = [spec for spec in cluster.node("n1").starts if spec.job == second]
    assert spec.environment["COLOUR"] == "red"
