"""A broker in a real database, with clusters in memory: its modules are run by hand, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import psycopg

from oarpy.grid.broker.connections import ClusterConnections
from oarpy.grid.broker.mapper import Mapper
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.table import Describe
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.grid.core.broker_state import ReallocationRules
from oarpy.model.states import GridJobState, GridPartState
from oarpy.modules.loop.module import Module
from oarpy.store.grid import broker_jobs, broker_parts, clusters
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.transport.wakeup import readable
from tests.harness.waiting import until

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"


class SimulatedGrid:
    """A broker's database, clusters in memory in configured order, and the mapper and watcher."""

    def __init__(self, connection: Connection, sims: Sequence[SimulatedCluster]) -> None:
        self.connection = connection
        self.clusters: Mapping[str, SimulatedCluster] = {one.name: one for one in sims}
        for place, one in enumerate(sims):
            clusters.put(connection, one.name, "oarpy", ["door"], speed=one.ask(Describe()).speed, place=place)
        self._opened: list[ClusterConnections] = []
        self.mapper, self.watcher = self.new_mapper(), Watcher(0.01, 3600, self.connections())

    def connections(self) -> ClusterConnections:
        """Return connections of their own to the clusters."""
        made = ClusterConnections(lambda row: self.clusters[row.name])
        self._opened.append(made)
        return made

    def new_mapper(self, rules: ReallocationRules | None = None) -> Mapper:
        """Return a mapper that knows nothing: the one before it was killed."""
        return Mapper(rules or ReallocationRules(), 60, self.connections())

    def close(self) -> None:
        """End all connections."""
        for one in self._opened:
            one.close()

    def submit(self, procs: int = 1, walltime: float = 60, copies: int = 1, user: str = "alice") -> list[int]:
        """Submit a mapped job, or an array."""
        component = NewGridComponent(f"/core={procs}", procs)
        return broker_jobs.insert(self.connection, NewGridJob(user, "mapped", "date", walltime, (component,)), copies)

    def once(self, *modules: Module) -> None:
        """Run modules once (the mapper and the watcher)."""
        for module in modules or (self.mapper, self.watcher):
            module.run_once(self.connection, datetime.now(UTC))

    def drive(self, condition: Callable[[], Any], what: str, *modules: Module) -> Any:
        """Run modules (the mapper and the watcher) until something is true, and return it."""
        files = [file for module in modules or (self.mapper, self.watcher) for file in module.files()]

        def tried() -> Any:
            self.once(*modules)
            return condition() or (readable(files, 0.02), False)[1]

        return until(tried, what)

    def job(self, job: int) -> GridJobRow:
        """Return a job."""
        return broker_jobs.read(self.connection, [job])[0]

    def parts(self, *jobs: int) -> list[GridPartRow]:
        """Return all parts that jobs ever had."""
        return broker_parts.of_jobs(self.connection, list(jobs))

    def settled(self, *jobs: int) -> list[str]:
        """Run the modules until jobs wait on a cluster or are further; return where their last parts are."""
        done = (GridPartState.WAITING, GridPartState.RUNNING, GridPartState.ENDED)

        def all_there() -> list[str] | None:
            last = {part.job: part for part in self.parts(*jobs)}
            waits = all(job in last and last[job].state in done for job in jobs)
            ready = all(self.job(job).state is not GridJobState.SUBMITTED for job in jobs)
            return [last[job].cluster for job in jobs] if waits and ready else None

        found: list[str] = self.drive(all_there, "jobs on clusters")
        return found
