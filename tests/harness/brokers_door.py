"""A broker at the door of a cluster in memory: its calls are answered in this process, modules run by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from threading import Thread
from typing import Any

from oarpy.configuration import Configuration, DoorSettings
from oarpy.grid.door.session import DoorSession
from tests.harness.small_cluster import SETTINGS, Connection, SmallCluster
from tests.harness.waiting import until

BROKER = "campus"


class BrokersDoor:
    """The calls of a broker for its user ann, who is nobody here."""

    def __init__(self, session: DoorSession, cluster: SmallCluster) -> None:
        self.session, self.cluster = session, cluster
        self._keys = count(1)

    def ask(self, call: str, *, key: str = "", **fields: Any) -> Any:
        """Return the answer to a call, or its error as a dictionary with ``code``."""
        line = json.dumps({"call": call, "key": key or f"k{next(self._keys)}", **fields}).encode()
        reply = json.loads(self.session.reply(line))
        return reply["error"] if "error" in reply else reply["answer"]

    def while_it_plans(self, call: str, **fields: Any) -> Any:
        """Return the answer to a call that waits for passes."""
        answers: list[Any] = []
        asking = Thread(target=lambda: answers.append(self.ask(call, **fields)))
        asking.start()
        while asking.is_alive():
            self.cluster.plan()
            asking.join(0.05)
        return answers[0]

    @contextmanager
    def another(self, dsn: str, **settings: Any) -> Iterator[BrokersDoor]:
        """Open another session of the broker, with the settings of the door."""
        with closing(DoorSession(BROKER, _settings(self.cluster, dsn, **settings))) as session:
            yield BrokersDoor(session, self.cluster)

    def request(self, procs: int = 1, walltime: float = 3600, **more: Any) -> dict[str, Any]:
        """Return what a part asks for."""
        return {"user": "ann", "resources": f"/core={procs}", "procs": procs, "walltime": walltime, **more}

    def part(self, name: str, kind: str = "queued", procs: int = 1, walltime: float = 3600, **more: Any) -> Any:
        """Return a part; its program sleeps."""
        return {"name": name, "kind": kind, "request": self.request(procs, walltime), "program": "sleep 1000", **more}

    def prepare(self, transaction: str, part: Any, ttl: float = 600, key: str = "") -> Any:
        """Return the answer to ``prepare``."""
        asking = self.while_it_plans if part["kind"] in ("claim", "reserved", "bag") else self.ask
        return asking("prepare", key=key, transaction=transaction, part=part, ttl=ttl)

    def queued(self, name: str, procs: int = 1, walltime: float = 3600) -> int:
        """Let a job join the queue; return its number."""
        job = int(self.prepare(f"of {name}".replace(" ", "-"), self.part(name, "queued", procs, walltime))["job"])
        assert self.ask("commit", transaction=f"of-{name}") is None
        return job

    def claim(self, name: str, procs: int = 1, walltime: float = 3600, *, after: float = 300, ttl: float = 600) -> Any:
        """Claim processors for a part that begins so many seconds later; its transaction has its name."""
        begin = time.time() + after
        return self.prepare(name, self.part(name, "claim", procs, walltime, begin=begin), ttl)

    def held(self, job: int) -> None:
        """Wait until a claim, or a reservation whose date has come, holds its resources."""

        def holds() -> bool:
            self.cluster.settle()
            return self.cluster.state(job) == "toLaunch"

        until(holds, f"job {job} holds its resources")

    def events(self, after: int = 0) -> list[tuple[str, str]]:
        """Return (part, kind) of the events of parts."""
        return [(one["part"], one["kind"]) for one in self.ask("events", after=after) if "part" in one]


@contextmanager
def brokers_door(dsn: str, cluster: SmallCluster, **settings: Any) -> Iterator[BrokersDoor]:
    """Let a broker in, with the settings of the door."""
    configuration = _settings(cluster, dsn, **settings)
    cluster.sql(
        "INSERT INTO grid_grants (broker, broker_user, local_user, granted_by) VALUES (%s, 'ann', 'nobody', 'root')",
        BROKER,
    )
    with closing(DoorSession(BROKER, configuration)) as session:
        yield BrokersDoor(session, cluster)


def _settings(cluster: SmallCluster, dsn: str, **settings: Any) -> Configuration:
    door = DoorSettings(brokers={BROKER: "games"}, **settings)
    return replace(cluster.settings, door=door, database=replace(cluster.settings.database, url=dsn))


def small_cluster(connection: Connection, *nodes: str, settings: Configuration = SETTINGS) -> SmallCluster:
    """Return a cluster with nodes of two cores."""
    cluster = SmallCluster(connection, settings)
    cluster.add_nodes(*nodes)
    return cluster
