"""What exists, as submissions see it: remembered while only states change, whatever the state."""

from __future__ import annotations

import psycopg
import pytest

from oarpy.cluster_state.existing_resources import ExistingReader, ExistingResources
from oarpy.model.request import Group, Level
from tests.harness.small_cluster import SmallCluster

pytestmark = pytest.mark.db


@pytest.fixture
def cluster(connection: psycopg.Connection[tuple[object, ...]]) -> SmallCluster:
    """Two nodes of two cores."""
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2")
    return cluster


def count(existing: ExistingResources, condition: str = "") -> int:
    return existing.admitted(condition).bit_count()


def test_what_is_down_or_drained_exists(cluster: SmallCluster) -> None:
    reader = ExistingReader()
    before = reader.read(cluster.connection)
    cluster.sql("UPDATE resources SET state = 'Absent', drain = true WHERE host = 'n1'")
    after = reader.read(cluster.connection)
    assert after is before
    assert (count(after), count(after, "drain = 'NO'"), count(after, "drain = 'NO' AND host = 'n1'")) == (4, 4, 2)


@pytest.mark.parametrize(
    ("change", "there"),
    [
        ("UPDATE resources SET state = 'Dead' WHERE host = 'n1'", 2),
        ("DELETE FROM resources WHERE host = 'n1'", 2),
        ("INSERT INTO resources (network_address, host) VALUES ('n1', 'n1')", 5),
        ("UPDATE resources SET type = 'spare' WHERE host = 'n1'", 2),
    ],
)
def test_what_comes_or_goes_is_seen_by_the_next_look(cluster: SmallCluster, change: str, there: int) -> None:
    reader = ExistingReader()
    assert count(reader.read(cluster.connection)) == 4
    cluster.sql(change)
    assert count(reader.read(cluster.connection)) == there


def test_a_condition_on_the_state_is_looked_at_anew(cluster: SmallCluster) -> None:
    reader = ExistingReader()
    for state, there in (("Alive", 0), ("Absent", 2), ("Alive", 0)):
        cluster.sql("UPDATE resources SET state = %s WHERE host = 'n1'", state)
        existing = reader.read(cluster.connection, {"state"})
        assert (count(existing, "state = 'Absent'"), count(existing, "state = 'Alive'")) == (there, 4)


def test_a_property_that_is_added_can_be_named(cluster: SmallCluster) -> None:
    reader = ExistingReader()
    reader.read(cluster.connection)
    cluster.sql("ALTER TABLE resources ADD mem integer")
    cluster.sql("INSERT INTO resource_properties VALUES ('mem', 'integer', false)")
    cluster.sql("UPDATE resources SET mem = 64 WHERE host = 'n2'")
    existing = reader.read(cluster.connection)
    assert count(existing, "mem > 32") == 2
    matcher = existing.matcher((Group((Level("mem", 1),)),), (existing.admitted(""),))
    assert matcher.match(matcher.usable).bit_count() == 2


def test_nothing_is_believed_across_connections(cluster: SmallCluster, dsn: str) -> None:
    reader = ExistingReader()
    before = reader.read(cluster.connection)
    with psycopg.connect(dsn, autocommit=True) as another:
        assert reader.read(another) is not before
