"""A reader that is kept sees every change: of jobs, of the platform, of the connection."""

from __future__ import annotations

import psycopg
import pytest

from oarpy.client.caller import KeptReader
from oarpy.cluster_state.snapshot_reader import Reading, SnapshotReader
from tests.harness.small_cluster import SETTINGS, Connection, SmallCluster

pytestmark = [pytest.mark.db, pytest.mark.oldest, pytest.mark.kept]

NOW = 1_900_000_000


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection)
    made.add_nodes("n1", "n2")
    return made


def read(reader: SnapshotReader, connection: Connection) -> Reading:
    with connection.transaction():
        return reader.read(connection, NOW)


def test_only_a_changed_job_is_read_again(cluster: SmallCluster) -> None:
    first, second = cluster.submit(), cluster.submit()
    reader = SnapshotReader(SETTINGS)
    before = {job.id: job for job in read(reader, cluster.connection).snapshot.waiting}
    cluster.sql("UPDATE jobs SET project = 'moon' WHERE job_id = %s", second)
    after = {job.id: job for job in read(reader, cluster.connection).snapshot.waiting}
    assert after[first] is before[first]
    assert (before[second].project, after[second].project) == ("default", "moon")


def test_a_job_that_leaves_the_queue_and_comes_back_is_seen_both_times(cluster: SmallCluster) -> None:
    job = cluster.submit()
    reader = SnapshotReader(SETTINGS)
    assert [one.held for one in read(reader, cluster.connection).snapshot.waiting] == [False]
    cluster.sql("UPDATE jobs SET state = 'Hold' WHERE job_id = %s", job)
    assert [one.held for one in read(reader, cluster.connection).snapshot.waiting] == [True]
    cluster.sql("UPDATE jobs SET state = 'Waiting' WHERE job_id = %s", job)
    assert [one.held for one in read(reader, cluster.connection).snapshot.waiting] == [False]
    cluster.delete(job)
    assert read(reader, cluster.connection).snapshot.waiting == ()


def test_what_a_rolled_back_transaction_read_is_not_believed_afterwards(cluster: SmallCluster) -> None:
    job = cluster.submit()
    reader = SnapshotReader(SETTINGS)
    with cluster.connection.transaction(force_rollback=True):
        cluster.sql("UPDATE jobs SET project = 'moon' WHERE job_id = %s", job)
        assert reader.read(cluster.connection, NOW).snapshot.waiting[0].project == "moon"
    assert read(reader, cluster.connection).snapshot.waiting[0].project == "default"


def test_requests_share_a_reader_that_sees_a_new_job_and_a_changed_platform(cluster: SmallCluster) -> None:
    kept = KeptReader(SETTINGS)
    cluster.submit("{host = 'n1'}/core=1")
    one = read(kept.get(), cluster.connection).snapshot
    job = cluster.submit("{host = 'n2'}/core=1")
    cluster.sql("UPDATE resources SET state = 'Suspected' WHERE host = 'n1'")
    other = read(kept.get(), cluster.connection).snapshot
    assert kept.get() is kept.get()
    assert (one.platform.alive.bit_count(), other.platform.alive.bit_count()) == (4, 2)
    assert job in {waiting.id for waiting in other.waiting}
    assert sorted(bits.bit_count() for bits in other.filters.values()) == [2, 2]


def test_an_unchanged_platform_is_the_same_value(cluster: SmallCluster) -> None:
    reader = SnapshotReader(SETTINGS)
    one, other = read(reader, cluster.connection), read(reader, cluster.connection)
    assert other.snapshot.platform is one.snapshot.platform


def test_a_job_that_was_suspended_for_parts_of_a_second_holds_until_it_has_ended(cluster: SmallCluster) -> None:
    job = cluster.submit("/nodes=1,walltime=0:0:10")
    cluster.settle()
    began = cluster.job(job, "started_at").replace(microsecond=0)
    cluster.sql(
        "UPDATE jobs SET started_at = %s, suspended_time = interval '700 milliseconds' WHERE job_id = %s", began, job
    )
    for second in range(8, 14):
        now = int(began.timestamp()) + second
        with cluster.connection.transaction():
            (found,) = SnapshotReader(SETTINGS).read(cluster.connection, now).snapshot.holding
        assert found.end > now, second


def test_properties_come_while_a_connection_reads_on(cluster: SmallCluster, dsn: str) -> None:
    reader = SnapshotReader(SETTINGS)
    with psycopg.connect(dsn, autocommit=True) as admin:
        for number in range(8):  # the driver prepares what is run more often than five times
            admin.execute(f"ALTER TABLE resources ADD COLUMN added_{number} integer")
            admin.execute("UPDATE resources SET besteffort = NOT besteffort")
            found = read(reader, cluster.connection).snapshot
    assert found.platform.alive.bit_count() == 4


def test_nothing_is_believed_across_connections(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit()
    reader = SnapshotReader(SETTINGS)
    before = read(reader, cluster.connection).snapshot
    with psycopg.connect(dsn, autocommit=True) as another:
        after = read(reader, another).snapshot
    assert after.platform is not before.platform
    assert [one.id for one in after.waiting] == [job]
