"""The rows of applications: moves that the database refuses to everybody, and what ``oarpy db check`` says of them."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from psycopg.types.json import Jsonb

from oarpy.negotiation.store import applications
from oarpy.store.schema.checks.check import check
from tests.harness.hand_written import Connection
from tests.harness.small_cluster import SmallCluster
from tests.harness.wrong_rows import wrong_rows

pytestmark = [pytest.mark.db, pytest.mark.kept]

STATES = ("Submitted", "RequestSent", "Waiting", "Started", "FinishSent", "Ghost", "Finished")
MOVES = {
    ("Submitted", "RequestSent"),
    ("Waiting", "RequestSent"),
    ("RequestSent", "Waiting"),
    ("Waiting", "Started"),
    ("Started", "FinishSent"),
    ("Submitted", "FinishSent"),
    ("RequestSent", "FinishSent"),
    ("Waiting", "FinishSent"),
    ("FinishSent", "Ghost"),
    ("Ghost", "Finished"),
}


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """An application that has not asked (1), one that runs (2), one that waits (3), a batch job that has ended (4)."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    made.launch()
    for asks in (False, True, True):
        job = made.submit("/nodes=2", types=("negotiated",))
        applications.add(connection, job, applications.NewApplication({}, "host", False, "keep", "x"))
        if asks:
            assert applications.ask(connection, job, job, {"all": 2}, 3600, None)
    made.settle()
    ended = made.submit()
    made.delete(ended)
    made.settle()
    assert made.states([1, 2, 3, 4]) == ["Waiting", "Running", "Waiting", "Error"]
    assert made.sql("SELECT state FROM applications ORDER BY job_id") == [("Submitted",), ("Started",), ("Waiting",)]
    return made


def test_the_database_refuses_every_other_move(cluster: SmallCluster) -> None:
    refused = 0
    for before, after in itertools.product(STATES, STATES):
        if before == after:
            continue
        with cluster.connection.transaction(force_rollback=True):
            cluster.sql("SET LOCAL session_replication_role = replica")
            cluster.sql("UPDATE applications SET state = %s WHERE job_id = 2", before)
            cluster.sql("SET LOCAL session_replication_role = origin")
            if (before, after) in MOVES:
                cluster.sql("UPDATE applications SET state = %s WHERE job_id = 2", after)
                continue
            with pytest.raises(psycopg.errors.CheckViolation, match=f"from {before} to {after}"):
                cluster.sql("UPDATE applications SET state = %s WHERE job_id = 2", after)
            refused += 1
    assert refused == len(STATES) * (len(STATES) - 1) - len(MOVES)


REFUSED = (
    "UPDATE applications SET state = 'Resting' WHERE job_id = 2",
    "UPDATE applications SET hosts = NULL, walltime = NULL, tag = NULL WHERE job_id = 3",
    "UPDATE applications SET tag = NULL WHERE job_id = 3",
    "UPDATE applications SET answered = serial + 1 WHERE job_id = 3",
    "UPDATE applications SET first_asked_at = NULL WHERE job_id = 3",
    "UPDATE applications SET walltime = interval '0' WHERE job_id = 3",
    "UPDATE applications SET ended = 'tired' WHERE job_id = 3",
    "UPDATE applications SET if_lost = 'weep' WHERE job_id = 3",
    "INSERT INTO application_moves VALUES ('Finished', 'Waiting', 'again')",
    "DELETE FROM application_moves",
    "UPDATE application_states SET state = 'Resting' WHERE state = 'Ghost'",
    "INSERT INTO ghosts VALUES (4, now(), now() - interval '1 hour', '{}')",
    "INSERT INTO ghosts VALUES (4, now(), now(), '{}', '{1}', '{}')",
    "INSERT INTO cluster_links VALUES ('red', 'red', 1, 1)",
    "INSERT INTO cluster_links VALUES ('red', 'blue', 1, 1)",
    "INSERT INTO cluster_links VALUES ('blue', 'red', -1, 1)",
    "INSERT INTO cluster_links VALUES ('blue', 'red', 'NaN', 1)",
    "INSERT INTO cluster_links VALUES ('blue', 'red', 1, 0)",
    "INSERT INTO cluster_links VALUES ('blue', 'red', 1, 'Infinity')",
)


def test_the_database_refuses_what_cannot_be(cluster: SmallCluster) -> None:
    for state in STATES[1:]:
        with pytest.raises(psycopg.errors.CheckViolation, match="begins as Submitted"):
            cluster.sql("INSERT INTO applications (job_id, state) VALUES (4, %s)", state)
    for statement in REFUSED:
        with pytest.raises(psycopg.Error):
            cluster.connection.execute(statement.encode())


def test_a_cluster_with_applications_has_no_contradiction(cluster: SmallCluster, dsn: str) -> None:
    assert check(dsn) == ()


MENDED = (
    ("UPDATE jobs SET types = '{}' WHERE job_id = 2", "job 2 is an application, and does not choose"),
    ("UPDATE applications SET first_asked_at = '2900-01-01' WHERE job_id = 3", "application 3 first asked in the"),
    ("INSERT INTO ghosts VALUES (2, now(), now(), '{[1,3)}')", "hosts are kept back for job 2, which is Running"),
    ("INSERT INTO ghosts VALUES (4, now(), now(), '{[1,9)}')", "hosts are kept back for job 4, among them resource"),
    (
        "UPDATE jobs SET types = '{negotiated}' WHERE job_id = 4;"
        " INSERT INTO applications (job_id, state) VALUES (4, 'Finished');"
        " INSERT INTO ghosts VALUES (4, now(), now(), '{[1,3)}')",
        "hosts of application 4 are kept back, which is Finished",
    ),
)
DELETED = (
    ("DELETE FROM applications WHERE job_id = 1", "job 1 chooses its own hosts, and is no application"),
    ("UPDATE applications SET state = 'Finished' WHERE job_id = 1", "application 1 is Finished, its job is Waiting"),
    ("UPDATE applications SET filter = '3' WHERE job_id = 1", "application 1 has a value of filter that cannot"),
    ("UPDATE applications SET state = 'Waiting' WHERE job_id = 2", "application 2 is Waiting, its job is Running"),
    ("UPDATE applications SET state = 'Ghost' WHERE job_id = 2", "application 2 is Ghost, its job is Running"),
    ("UPDATE applications SET state = 'Started' WHERE job_id = 3", "application 3 is Started, its job is Waiting"),
    ("UPDATE applications SET hosts = '[]' WHERE job_id = 3", "application 3 has a value of hosts that cannot"),
    ("UPDATE applications SET view = '{\"all\": 1}' WHERE job_id = 3", "application 3 has a value of view that"),
    ("UPDATE applications SET told = '{}' WHERE job_id = 3", "application 3 has a value of told that cannot"),
)


def contradict(cluster: SmallCluster, wrong: str) -> None:
    """Write what triggers would refuse: they did not always, and a restore goes round them."""
    with cluster.connection.transaction():
        cluster.sql("SET LOCAL session_replication_role = replica")
        cluster.sql(wrong)


def test_what_contradicts_itself_is_named_and_mended_by_the_statement_given(cluster: SmallCluster, dsn: str) -> None:
    for wrong, found in MENDED:
        contradict(cluster, wrong)
        (problem,) = wrong_rows(dsn)
        assert problem.startswith(found)
        cluster.connection.execute(problem.rsplit(": ", 1)[1].encode())
        assert wrong_rows(dsn) == ()


def test_what_nobody_can_mend_is_named_and_goes_with_its_job(cluster: SmallCluster, dsn: str) -> None:
    kept = [row for (row,) in cluster.sql("SELECT to_jsonb(a) FROM applications a")]
    for wrong, found in DELETED:
        contradict(cluster, wrong)
        (problem,) = wrong_rows(dsn)
        assert problem.startswith(found)
        job = found.split()[1]
        assert problem.endswith(f": oardel {job}")
        contradict(cluster, "DELETE FROM applications")
        for row in kept:
            cluster.sql("SET session_replication_role = replica")
            cluster.sql(
                "INSERT INTO applications SELECT * FROM jsonb_populate_record(NULL::applications, %s)", Jsonb(row)
            )
            cluster.sql("SET session_replication_role = origin")
    for wrong, _ in (DELETED[0], DELETED[3], DELETED[5]):
        contradict(cluster, wrong)
    cluster.delete(1, 2, 3)
    cluster.settle()
    assert wrong_rows(dsn) == ()
