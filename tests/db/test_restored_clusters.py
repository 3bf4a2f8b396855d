"""A cluster of a broker, or its broker, is restored: events are heard again, and what one side lost can be ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from threading import Lock
from typing import Any

import pytest

from oarpy.grid.administration import stray_parts
from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.mapper import Mapper
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.table import Cluster, ClusterSilent
from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.model.states import GridJobState, GridPartState
from oarpy.store.grid import broker_jobs, broker_parts, clusters
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow
from tests.harness.brokers_door import BrokersDoor, brokers_door, small_cluster
from tests.harness.small_cluster import Connection
from tests.harness.waiting import until

pytestmark = pytest.mark.db


class SessionChannel:
    """Leads the lines of a cluster to a session of the door in this process."""

    def __init__(self, door: BrokersDoor) -> None:
        self._door, self._lock = door, Lock()

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Return the answer."""
        with self._lock:
            return self._door.session.reply(line)

    def close(self) -> None:
        """Do nothing: the session stays."""


class OneCluster:
    """A broker with one cluster of oarpy, both in one database."""

    def __init__(self, connection: Connection, door: BrokersDoor) -> None:
        self.connection, self.door = connection, door
        self._cluster = OarpyCluster("here", ["door"])
        self._cluster._channel = SessionChannel(door)  # type: ignore[assignment]
        clusters.put(connection, "here", "oarpy", ["door"])
        self._ways = [ClusterConnections(lambda row: self._cluster) for _ in range(2)]
        self._modules = (Mapper(ReallocationRules(), 60, self._ways[0]), Watcher(0.01, 3600, self._ways[1]))

    def close(self) -> None:
        """End the connections."""
        for way in self._ways:
            way.close()

    def submit(self) -> int:
        """Submit a job of the user who has a grant."""
        job = NewGridJob("ann", "mapped", "sleep 1000", 3600, (NewGridComponent("/core=1", 1),))
        return broker_jobs.insert(self.connection, job, 1)[0]

    def drive(self, condition: Callable[[], Any], what: str) -> None:
        """Run the broker and the cluster until something is true."""

        def tried() -> Any:
            for module in self._modules:
                module.run_once(self.connection, datetime.now(UTC))
            self.door.cluster.settle()
            return condition()

        until(tried, what)

    def is_in(self, job: int, state: GridJobState) -> Callable[[], bool]:
        """Return whether a job is in a state."""
        return lambda: broker_jobs.read(self.connection, [job])[0].state is state

    def local_job(self, job: int) -> int:
        """Return the number that a job has on the cluster."""
        return int(broker_parts.of_jobs(self.connection, [job])[0].cluster_job)

    def forget_all(self) -> None:
        """Bring the broker back to before its first job: numbers come again."""
        self.connection.execute("TRUNCATE grid_jobs, grid_transactions RESTART IDENTITY CASCADE")
        self.connection.execute("SELECT begin_generation('restored', 1000)")
        clusters.forget_events(self.connection, "here")

    def strays(self, *, end: bool = False) -> list[tuple[str, str]]:
        """Return the strays, with what they do."""
        found = stray_parts.find(self.connection, lambda row: self._cluster, end=end)
        return sorted((one.job, one.state) for one in found)

    def lose_all(self) -> None:
        """Bring the cluster back to before it heard of the broker's parts; it had some jobs since."""
        self.connection.execute("TRUNCATE door_events, door_parts, door_transactions, door_calls CASCADE")


@pytest.fixture
def broker(connection: Connection, dsn: str) -> Iterator[OneCluster]:
    with (
        brokers_door(dsn, small_cluster(connection, "n1", "n2")) as door,
        closing(OneCluster(connection, door)) as made,
    ):
        yield made


def test_events_of_a_restored_cluster_are_heard_from_the_first_and_its_lost_job_can_be_ended(
    broker: OneCluster,
) -> None:
    lost, other = broker.submit(), broker.submit()
    broker.drive(broker.is_in(other, GridJobState.RUNNING), "the start of a job")
    broker.drive(broker.is_in(lost, GridJobState.RUNNING), "the start of the other")
    broker.lose_all()
    new = broker.submit()
    broker.drive(broker.is_in(new, GridJobState.RUNNING), "the start of a job after the restore")
    assert clusters.every(broker.connection)[0].last_event == 1
    broker.door.cluster.end(broker.local_job(new))
    broker.drive(broker.is_in(new, GridJobState.TERMINATED), "its end")
    broker_jobs.ask_deletion(broker.connection, [lost], "ann")
    broker.drive(broker.is_in(lost, GridJobState.ERROR), "the end of the job that the cluster lost")
    (part,) = broker_parts.of_jobs(broker.connection, [lost])
    assert (part.state, part.message) == (GridPartState.ENDED, "cluster 'here' does not know it any more")


def test_parts_that_a_broker_lost_are_named_and_ended_and_change_no_job_of_it(broker: OneCluster) -> None:
    runs, over = broker.submit(), broker.submit()
    broker.drive(broker.is_in(runs, GridJobState.RUNNING), "the start of a job")
    broker.drive(broker.is_in(over, GridJobState.RUNNING), "the start of the other")
    stray, ended = broker.local_job(runs), broker.local_job(over)
    broker.door.cluster.end(ended)
    assert broker.strays() == []
    broker.forget_all()
    new = broker.submit()
    broker.drive(broker.is_in(new, GridJobState.RUNNING), "the start of a job of the new database")
    assert new == runs
    assert broker.strays(end=True) == [(str(stray), "runs")]
    broker.drive(lambda: broker.strays() == [], "the end of the stray")
    broker.drive(lambda: clusters.every(broker.connection)[0].last_event >= 5, "all events")
    assert broker.is_in(new, GridJobState.RUNNING)()
    assert broker.door.cluster.state(stray) == "Error"


def test_a_cluster_that_cannot_be_asked_is_told_with_its_strays(broker: OneCluster) -> None:
    def silent(row: GridClusterRow) -> Cluster:
        raise ClusterSilent(f"no way to {row.name}")

    (one,) = stray_parts.find(broker.connection, silent)
    assert stray_parts.record(one) == {
        **dict.fromkeys(("part", "job", "state"), ""),
        "cluster": "here",
        "since": None,
        "message": "no way to here",
    }
    assert not stray_parts.all_asked([one])
    assert "no way to here" in stray_parts.table([one]).text()
