"""What a running job holds changes by resizes alone, whoever writes."""

from __future__ import annotations

import psycopg
import pytest

from oarpy.store.jobs import resizes
from tests.harness.small_cluster import Connection, SmallCluster

pytestmark = pytest.mark.db

HELD = "SELECT resource_id FROM assigned_resources WHERE job_id = %s AND upper_inf(during) ORDER BY 1"


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Three nodes of two cores, resources 1 to 6."""
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2", "n3")
    return made


@pytest.fixture
def job(cluster: SmallCluster) -> int:
    """A job that runs on the first two nodes."""
    number = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    assert held(cluster, number) == [1, 2, 3, 4]
    return number


def held(cluster: SmallCluster, job: int) -> list[int]:
    return [resource for (resource,) in cluster.sql(HELD, job)]


def granting(cluster: SmallCluster, job: int) -> int:
    """An extension that is being granted, with its resize."""
    added = "INSERT INTO extensions (job_id, kind, hosts) VALUES (%s, 'firm', '{\"\": 1}') RETURNING extension_id"
    ((extension,),) = cluster.sql(added, job)
    cluster.sql("UPDATE extensions SET state = 'Granting' WHERE extension_id = %s", extension)
    cluster.sql(
        "INSERT INTO resizes (job_id, kind, resource_ids, extension_id) VALUES (%s, 'grant', '{5,6}', %s)",
        job,
        extension,
    )
    cluster.sql(
        "INSERT INTO assigned_resources (job_id, resource_id, during, extension_id)"
        " SELECT %s, r, tstzmultirange(tstzrange(now(), NULL)), %s FROM unnest('{5,6}'::int[]) AS r",
        job,
        extension,
    )
    return int(extension)


def state(cluster: SmallCluster, extension: int) -> str:
    ((found,),) = cluster.sql("SELECT state FROM extensions WHERE extension_id = %s", extension)
    return str(found)


def test_a_grant_is_an_order_until_it_is_confirmed(cluster: SmallCluster, job: int) -> None:
    extension = granting(cluster, job)
    (opened,) = resizes.opened(cluster.connection)
    assert (opened.job, opened.kind, opened.resources, opened.extension) == (job, "grant", (5, 6), extension)
    for _ in range(2):
        resizes.confirm(cluster.connection, [opened.id])
        assert (held(cluster, job), state(cluster, extension)) == ([1, 2, 3, 4, 5, 6], "Granted")
    assert resizes.opened(cluster.connection) == []


def test_what_is_released_is_held_until_nodes_have_confirmed(cluster: SmallCluster, job: int) -> None:
    number = resizes.order(cluster.connection, job, "release", [3, 4, 5])
    assert number is not None
    assert resizes.order(cluster.connection, job, "take", [3, 4]) is None
    assert held(cluster, job) == [1, 2, 3, 4]
    resizes.confirm(cluster.connection, [number])
    assert held(cluster, job) == [1, 2]
    other = cluster.submit("/nodes=2,walltime=1:0:0")
    cluster.settle()
    assert held(cluster, other) == [3, 4, 5, 6]


def test_an_extension_of_which_nothing_is_left_is_over(cluster: SmallCluster, job: int) -> None:
    extension = granting(cluster, job)
    resizes.confirm(cluster.connection, [one.id for one in resizes.opened(cluster.connection)])
    for resources, expected in (([5], "Granted"), ([6], "Over")):
        number = resizes.order(cluster.connection, job, "take", resources)
        assert number is not None
        resizes.confirm(cluster.connection, [number])
        assert state(cluster, extension) == expected


def test_a_job_that_ended_meanwhile_leaves_nothing_behind(cluster: SmallCluster, job: int) -> None:
    number = resizes.order(cluster.connection, job, "release", [3, 4])
    assert number is not None
    cluster.end(job)
    cluster.settle()
    before = cluster.sql("SELECT during FROM assigned_resources ORDER BY resource_id")
    resizes.confirm(cluster.connection, [number])
    assert resizes.opened(cluster.connection) == []
    assert cluster.sql("SELECT during FROM assigned_resources ORDER BY resource_id") == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE assigned_resources SET during = held_until(during, now()) WHERE resource_id = 4",
        "UPDATE extensions SET state = 'Over'; UPDATE extensions SET state = 'Waiting'",
        "INSERT INTO extensions (job_id, kind, hosts, state) SELECT job_id, 'firm', '{}', 'Granted' FROM jobs",
        "INSERT INTO assigned_resources (job_id, resource_id, during, extension_id)"
        " SELECT job_id, 6, tstzmultirange(tstzrange(now(), NULL)), 1 FROM jobs",
        "UPDATE assigned_resources SET reclaim_at = now()",
        "INSERT INTO resizes (job_id, kind, resource_ids) SELECT job_id, 'grant', '{6}' FROM jobs",
        "INSERT INTO extensions (job_id, kind, hosts) SELECT job_id, 'firm', '{}' FROM jobs",
    ],
)
def test_sql_by_hand_cannot_do_otherwise(cluster: SmallCluster, job: int, statement: str) -> None:
    cluster.sql("INSERT INTO extensions (job_id, kind, hosts) VALUES (%s, 'firm', '{\"\": 1}')", job)
    with pytest.raises(psycopg.IntegrityError):
        cluster.connection.execute(statement.encode())
