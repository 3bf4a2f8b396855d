"""A cluster of oarpy for a broker's tests: the answers of its door and its modules, over nodes in memory.

The session of the door runs in a thread; the modules run by hand, as long as somebody waits for something.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

from oarpy.grid.clusters.oarpy_cluster import OarpyCluster
from tests.harness.brokers_door import BrokersDoor, brokers_door
from tests.harness.cluster_conformance import ClusterStage
from tests.harness.small_cluster import Connection, SmallCluster
from tests.harness.waiting import until

_NODES = ("n1", "n2")


class _OpenDoor:
    """In place of the channel to a door: lines are answered, while ``turn`` runs the modules of the cluster."""

    def __init__(self, door: BrokersDoor, turn: Callable[[], None] | None) -> None:
        self._door = door
        self._turn = turn
        self._guard = Lock()

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Return the answer to a line."""
        if self._turn is None:
            with self._guard:
                return self._door.session.reply(line)
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


class OarpyStage(ClusterStage):
    """A small cluster. Unless it is ``driven``, its calls run the modules; otherwise the test has to."""

    procs = 8

    def __init__(self, door: BrokersDoor, *, driven: bool) -> None:
        cluster = OarpyCluster("here", ["no", "command"])
        cluster._channel = _OpenDoor(door, None if driven else self.turn)  # type: ignore[assignment]
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
            self.turn()
            return condition()

        return until(tried, what)

    def turn(self) -> None:
        """Run each module once; programs that sleep end when their time is over."""
        cluster = self._cluster
        for step in (cluster.plan, cluster.cancel, cluster.launch, cluster.watch):
            step()
        for name in _NODES:
            for key, job in list(cluster.node(name).jobs.items()):
                if job.spec and job.started and job.state == "running":
                    length = float(job.spec.command.removeprefix("sleep "))
                    if job.started.start + length <= time.time():
                        cluster.nodes.finish(name, key)


@contextmanager
def oarpy_stage(connection: Connection, dsn: str, *, driven: bool = False) -> Iterator[OarpyStage]:
    """Let a broker in at a cluster of eight cores, whose local jobs may give way."""
    cluster = SmallCluster(connection)
    cluster.add_nodes(*_NODES, cores=4)
    with brokers_door(dsn, cluster, evict="default") as door:
        yield OarpyStage(door, driven=driven)
