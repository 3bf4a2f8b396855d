"""Reallocation passes over clusters with databases of their own, asked through their doors: for ``grid``.

Nothing runs there, so that every plan sees the same queues. Sizes of jobs are log-uniform, from one core to a quarter
of a cluster, and so are walltimes, 5 minutes to 24 hours. They are spread unevenly, so many of them have a better place
elsewhere.
"""

from __future__ import annotations

import math
import os
import pwd
import random
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.conversations import ClusterCall, Conversations
from oarpy.grid.broker.move_checks import PlannedPass, plan_pass
from oarpy.grid.broker.mover import Mover, movable
from oarpy.grid.calls.parts import ClusterDescription, GridPart, PartRequest
from oarpy.grid.calls.table import Cluster, Commit, Describe, Prepare
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.local_cluster.sandbox import Sandbox, Settings
from oarpy.model.states import GridJobState
from oarpy.postgres import embedded_server
from oarpy.store import database
from oarpy.store.grid import broker_jobs, broker_parts, clusters, reallocation_passes, transactions
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.transactions import NewGridPart
from oarpy.transport.wakeup import readable

NAMES = ("c1", "c2", "c3", "c4", "c5")
_WEIGHTS = (8, 5, 4, 2, 1)
"""The shares of the clusters in the jobs."""
_DOOR = f"import sys; from {__package__}.door_session import answer; answer(sys.argv[1])"
_USER = "bench"
"""The broker, and its user."""
_CORES_A_NODE = 16
_GRANT = "INSERT INTO grid_grants (broker, broker_user, local_user, granted_by) VALUES (%s, %s, %s, 'bench')"


@dataclass(frozen=True, slots=True)
class ReallocationFigures:
    """The cost of a pass: wall-clock seconds, and processor seconds of the broker and the doors together."""

    algorithm: int
    heuristic: str
    jobs: int
    moves: int
    seconds: float
    processor_seconds: float


class DoorGrid:
    """Clusters that answer through doors, and a broker's database, all on one database server."""

    def __init__(self, directory: Path, cores: int) -> None:
        self._directory, self._widest = directory, cores // 4
        self._server = directory / "postgresql"
        embedded_server.start(self._server)
        first = self._make_sandbox(NAMES[0], "template1")
        first.run("oaradmin", "resources", "add", f"/host=n[1-{cores // _CORES_A_NODE}]/core={{{_CORES_A_NODE}}}")
        first.run("oarnodesetting", "-s", "Alive", "--sql", "true")
        for name in (*NAMES[1:], "broker"):
            self._make_sandbox(name, NAMES[0])
        self.broker = database.connect(self._dsn("broker"), "bench")
        for place, name in enumerate(NAMES):
            clusters.put(self.broker, name, "oarpy", self._words(name), dedicated=True, place=place)
            with psycopg.connect(self._dsn(name)) as connection:
                connection.execute(_GRANT, [_USER, _USER, _local_user()])
        self.rows = clusters.every(self.broker)

    def _make_sandbox(self, name: str, template: str) -> Sandbox:
        """Make a database like another one, and a configuration that names it."""
        with psycopg.connect(embedded_server.dsn(self._server), autocommit=True) as connection:
            words = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
            connection.execute(words)
        settings: Settings = {"database": {"url": self._dsn(name)}, "door": {"calls_per_second": 100_000}}
        sandbox = Sandbox(self._directory / name, settings)
        sandbox.create()
        return sandbox

    def _dsn(self, name: str) -> str:
        return make_conninfo(embedded_server.dsn(self._server), dbname=name)

    def _words(self, name: str) -> list[str]:
        """Return the command of a session at a door."""
        configuration = f"OARPY_CONFIG={self._directory / name / 'config.toml'}"
        return ["env", configuration, sys.executable, "-c", _DOOR, _USER]

    def close(self) -> None:
        """End the database server, and remove it."""
        self.broker.close()
        embedded_server.remove(self._server)

    def fill(self, jobs: int, draw: random.Random) -> None:
        """Let jobs wait on the clusters."""
        connections = ClusterConnections(clusters_of("broker"))
        connections.adopt(self.rows)
        futures = [self._wait(connections, number, draw) for number in range(jobs)]
        for future in futures:
            future.result()
        connections.close()

    def _wait(self, connections: ClusterConnections, number: int, draw: random.Random) -> Future[object]:
        """Let one job wait, as far as the broker knows; return the answer of its cluster, to come."""
        (cluster,) = draw.choices(NAMES, _WEIGHTS)
        procs, walltime, name = _log_uniform(draw, 1, self._widest), _log_uniform(draw, 300, 86_400), f"b{number}"
        component = NewGridComponent(f"/core={procs}", procs)
        with self.broker.transaction():
            (job,) = broker_jobs.insert(self.broker, NewGridJob(_USER, "mapped", "date", walltime, (component,)))
            transaction = transactions.begin(self.broker, "place", "mapper", job, 60)
            transactions.add_parts(self.broker, transaction, [NewGridPart(name, job, 0, cluster, "queued", walltime)])
            transactions.note_prepared(self.broker, transaction, {name: ""})
            transactions.decide(self.broker, transaction)
            transactions.note_known(self.broker, transaction, cluster)
            broker_jobs.move(self.broker, [job], GridJobState.MAPPED)
        part = GridPart(name, "queued", PartRequest(_USER, component.resources, procs, walltime), "date", "/")

        def ask(cluster: Cluster) -> None:
            cluster.ask(Prepare(name, part, 600, key=f"{name}-p"))
            cluster.ask(Commit(name, key=f"{name}-c"))

        return connections.submit(ClusterCall(cluster, ask, 600))

    def _connected(self) -> ClusterConnections:
        """Return connections that are made already, as those of a broker that runs are."""
        connections = ClusterConnections(clusters_of("broker"))
        connections.adopt(self.rows)
        calls = [ClusterCall(name, Describe(), 60) for name in NAMES]
        for future in [connections.submit(call) for call in calls]:
            assert isinstance(future.result(), ClusterDescription)
        return connections

    def planned(self, rules: ReallocationRules) -> ReallocationFigures:
        """Plan a pass, and carry out nothing."""
        parts = [movable(row) for row in broker_parts.movable(self.broker)]
        connections = self._connected()
        began, before = time.monotonic(), _processor_seconds()
        conversations = Conversations[object](connections.submit, time.time)
        conversations.begin("pass", plan_pass(self.rows, parts, rules, time.time()))
        while not (over := conversations.go_on()):
            readable(conversations.files(), 1)
        seconds, spent = time.monotonic() - began, _processor_seconds() - before
        connections.close()
        planned = over[0][1]
        assert isinstance(planned, PlannedPass)
        assert not planned.lost, planned.lost
        return ReallocationFigures(rules.algorithm, rules.heuristic, len(parts), len(planned.moves), seconds, spent)

    def make_pass(self, rules: ReallocationRules) -> ReallocationFigures:
        """Make a pass, with all its moves."""
        waiting = len(broker_parts.movable(self.broker))
        connections = self._connected()
        mover = Mover(rules, 3600, connections)
        reallocation_passes.ask(self.broker, _USER)
        began, before = time.monotonic(), _processor_seconds()
        while reallocation_passes.asked(self.broker) or reallocation_passes.unfinished(self.broker):
            mover.run_once(self.broker, datetime.now(UTC))
            readable(mover.files(), 1)
        seconds, spent = time.monotonic() - began, _processor_seconds() - before
        while transactions.open_of(self.broker, mover.name):
            mover.run_once(self.broker, datetime.now(UTC))
            readable(mover.files(), 1)
        mover.close()
        (last,) = reallocation_passes.latest(self.broker, 1)
        return ReallocationFigures(rules.algorithm, rules.heuristic, waiting, last.moved, seconds, spent)


@contextmanager
def door_grid(directory: Path, cores: int, jobs: int) -> Iterator[DoorGrid]:
    """Clusters of so many cores, on which so many jobs wait in all."""
    grid = DoorGrid(directory, cores)
    try:
        grid.fill(jobs, random.Random(15))
        yield grid
    finally:
        grid.close()


def _processor_seconds() -> float:
    """Return what this process and all that it has started, doors and processes of rules, have used so far."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + _of_children(os.getpid())


def _of_children(parent: int) -> float:
    """Return the processor seconds of the processes below one, of those that have ended too."""
    spent, tick = 0.0, os.sysconf("SC_CLK_TCK")
    for path in Path(f"/proc/{parent}").glob("task/*/children"):
        for pid in path.read_text().split():
            with suppress(OSError):  # it may just have ended
                # after the name of the program, which ends with the last parenthesis
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                spent += sum(map(int, fields[11:15])) / tick + _of_children(int(pid))
    return spent


def _local_user() -> str:
    """Return who jobs are submitted as: nobody is granted anything for root."""
    return pwd.getpwuid(os.getuid()).pw_name if os.getuid() else "nobody"


def _log_uniform(draw: random.Random, low: int, high: int) -> int:
    return min(high, int(math.exp(draw.uniform(math.log(low), math.log(high + 1)))))
