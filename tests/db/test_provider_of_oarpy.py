"""A cluster of oarpy promises a broker what every cluster promises: through the answers of its door and its modules.

The session of the door runs in a thread; the modules run by hand, as long as somebody waits for something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from oarpy.grid.providers.oarpy_cluster import OarpyCluster
from tests.harness.brokers_door import BrokersDoor, brokers_door
from tests.harness.provider_conformance import ProviderConformance, ProviderStage
from tests.harness.small_cluster import Connection, SmallCluster
from tests.harness.waiting import until

pytestmark = pytest.mark.db


class _OpenDoor:
    """In place of the channel to a door: lines are answered while the modules of the cluster run."""

    def __init__(self, door: BrokersDoor, turn: Callable[[], None]) -> None:
        self._door = door
        self._turn = turn

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Return the answer to a line."""
        answers: list[bytes] = []
        asking = Thread(target=lambda: answers.append(self._door.session.reply(line)))
        asking.start()
        asking.join(0.05)
        while asking.is_alive():
            self._turn()
            asking.join(0.02)
        return answers[0]

    def close(self) -> None:
        """Stay open."""


class OarpyStage(ProviderStage):
    """A small cluster; programs that sleep end when their time is over."""

    procs = 8

    def __init__(self, door: BrokersDoor) -> None:
        cluster = OarpyCluster("here", ["no", "command"])
        cluster._channel = _OpenDoor(door, self._turn)  # type: ignore[assignment]
        super().__init__(cluster)
        self._cluster = door.cluster

    def occupy(self, procs: int) -> str:
        """Run a local job."""
        job = self._cluster.submit(f"/core={procs},walltime=1:0:0")
        self.wait(lambda: self._cluster.state(job) == "Running", "a local job")
        return str(job)

    def vacate(self, local: str) -> None:
        """End a local job."""
        self._cluster.delete(int(local))

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        """Run the modules until something is true."""

        def tried() -> Any:
            self._turn()
            return condition()

        return until(tried, what)

    def _turn(self) -> None:
        cluster = self._cluster
        for step in (cluster.plan, cluster.cancel, cluster.launch, cluster.watch):
            step()
        for name in ("n1", "n2"):
            for key, job in list(cluster.node(name).jobs.items()):
                if job.spec and job.started and not job.ended and job.state == "running":
                    length = float(job.spec.command.split()[1])
                    if job.started.start + length <= time.time():
                        cluster.nodes.finish(name, key)


@pytest.fixture
def stage(connection: Connection, dsn: str) -> Iterator[OarpyStage]:
    cluster = SmallCluster(connection)
    cluster.add_nodes("n1", "n2", cores=4)
    with brokers_door(dsn, cluster, evict="default") as door:
        yield OarpyStage(door)


class TestProviderOfOarpy(ProviderConformance):
    """The suite, on a cluster of oarpy."""
