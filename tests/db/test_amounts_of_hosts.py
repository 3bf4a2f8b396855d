"""Amounts of consumables of jobs that grow and shrink: they go, and come, with the hosts of their blocks."""

from __future__ import annotations

import pytest

from oarpy.store.jobs import extensions, resizes
from tests.harness.small_cluster import Connection, SmallCluster, with_settings
from tests.harness.wrong_rows import wrong_rows

pytestmark = [pytest.mark.db, pytest.mark.kept]

NOTICE = 40


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    """Three nodes of two cores with 8 of memory."""
    made = SmallCluster(connection, with_settings(negotiation={"reclaim_notice": NOTICE}))
    made.add_nodes("n1", "n2", "n3", cores=2)
    made.add_consumable("memory", n1=8, n2=8, n3=8)
    return made


def confirm(cluster: SmallCluster) -> None:
    """What nodes do."""
    resizes.confirm(cluster.connection, [one.id for one in resizes.opened(cluster.connection)])


def release(cluster: SmallCluster, job: int, *resources: int) -> None:
    assert resizes.order(cluster.connection, job, "release", resources) is not None
    confirm(cluster)


def memory(cluster: SmallCluster) -> dict[str, int]:
    """What is held of memory by node."""
    return dict(cluster.sql("SELECT block, held FROM consumable_capacities WHERE consumable = 'memory' ORDER BY block"))


def test_a_host_that_is_released_gives_back_its_amount(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit("/nodes=2,memory=5")
    cluster.settle()
    release(cluster, job, 3)
    assert memory(cluster) == {"n1": 5, "n2": 5, "n3": 0}
    release(cluster, job, 4)
    assert memory(cluster) == {"n1": 5, "n2": 0, "n3": 0}
    others = [cluster.submit("/nodes=1,memory=8") for _ in range(2)]
    cluster.settle()
    assert cluster.states([job, *others]) == ["Running"] * 3
    assert wrong_rows(dsn) == ()


def test_a_host_that_comes_again_has_its_amount_again(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit("/nodes=1,memory=5")
    cluster.settle()
    for _ in range(2):
        assert extensions.ask(cluster.connection, job, "firm", "more", {"": 1}) is not None
        cluster.plan()
        confirm(cluster)
        assert memory(cluster) == {"n1": 5, "n2": 5, "n3": 0}
        release(cluster, job, 3, 4)
        assert memory(cluster) == {"n1": 5, "n2": 0, "n3": 0}
    cluster.end(job)
    cluster.settle()
    assert memory(cluster) == {"n1": 0, "n2": 0, "n3": 0}
    assert wrong_rows(dsn) == ()


def test_an_amount_is_waited_for_that_a_revocable_host_has(cluster: SmallCluster, dsn: str) -> None:
    job = cluster.submit("/nodes=1,memory=5", types=("timesharing=*,*",))
    cluster.settle()
    assert extensions.ask(cluster.connection, job, "revocable", "more", {"": 2}) is not None
    cluster.plan()
    confirm(cluster)
    other = cluster.submit("/nodes=1,memory=4", types=("timesharing=*,*",))
    cluster.plan()
    assert cluster.state(other) == "Waiting"
    cluster.offset = NOTICE + 1
    cluster.plan()
    confirm(cluster)
    cluster.settle()
    assert cluster.states([job, other]) == ["Running", "Running"]
    assert sorted(memory(cluster).values()) == [4, 5, 5]
    assert wrong_rows(dsn) == ()
