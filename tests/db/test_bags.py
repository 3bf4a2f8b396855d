"""Bags of tasks on one cluster: their promises are kept, come forward, and are told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.harness.small_cluster import Connection, SmallCluster, with_settings

pytestmark = pytest.mark.db
TASK = 600


@pytest.fixture
def cluster(connection: Connection) -> SmallCluster:
    made = SmallCluster(connection, with_settings(scheduler={"security_time": 0, "promised_share": 100}))
    made.add_nodes("n1", "n2")
    return made


def submit(cluster: SmallCluster, tasks: int, until: float | None = None, **values: Any) -> list[int]:
    """Submit a bag of tasks of ten minutes on a core each; it has to be done ``until`` so many minutes from now."""
    deadline = None if until is None else (cluster.now() + timedelta(minutes=until)).replace(microsecond=0)
    return cluster.submit_array(
        tasks, "/core=1,walltime=0:10:0", bag=tasks, types=("bag",), until=deadline, **values
    )


def minutes(cluster: SmallCluster, instant: datetime) -> float:
    return round((instant - cluster.now()).total_seconds() / 60, 1)


def promise(cluster: SmallCluster, bag: int) -> float:
    """Return by when a bag is promised to be done, in minutes from now."""
    ((found,),) = cluster.sql("SELECT promise FROM bags WHERE bag_id = %s", bag)
    return minutes(cluster, found)


def kinds(cluster: SmallCluster, bag: int) -> list[str]:
    return [kind for (kind,) in cluster.sql("SELECT kind FROM bag_changes WHERE bag_id = %s ORDER BY change_id", bag)]


def test_a_bag_is_promised_the_end_of_its_last_task(cluster: SmallCluster) -> None:
    tasks = submit(cluster, 10)
    cluster.settle()
    assert promise(cluster, tasks[0]) == 30
    assert cluster.states(tasks) == ["Running"] * 4 + ["Waiting"] * 6
    assert cluster.events(tasks[0])[0] == "PROMISED"
