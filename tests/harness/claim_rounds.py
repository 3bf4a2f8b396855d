"""A broker's claimer and watcher on clusters in memory: a test turns the clock, and kills them where it likes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import Any, TypeAlias

import psycopg

from oarpy.grid.broker.claimer import Claimer
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.coallocated.metajobs import MetajobRules
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.parts import PartEvent
from oarpy.grid.calls.table import Call
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster, VirtualClock
from oarpy.grid.core.broker_state import DeadlineRules
from oarpy.store.grid import bags, broker_jobs, broker_parts, clusters, metajobs, programs
from oarpy.store.grid.bags import NewGridBag
from oarpy.store.grid.broker_jobs import GridJobRow, NewGridComponent, NewGridJob
from oarpy.store.grid.broker_parts import GridPartRow
from oarpy.store.grid.metajobs import NewMetajob, Operation
from oarpy.store.grid.programs import NewGridProgram
from tests.harness.inline_calls import InlineConnections, answer_instead

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

TIMES = ClaimTimes(kill_grace=20)
RULES = DeadlineRules(lp=0.5, tries=3)
PROGRAM = {"model", "own_walltime"}
"""What a test may say of a program that is mapped."""


class BrokerKilled(BaseException):
    """The broker is killed where this is raised."""


class ClaimRounds:
    """Clusters of 8 processors, ``north`` and ``south``, and the claimer, at ``clock``."""

    def __init__(
        self,
        connection: Connection,
        names: Iterable[str] = ("north", "south"),
        procs: int = 8,
        metajobs: MetajobRules | None = None,
        **traits: Any,
    ) -> None:
        self.connection, self._metajobs = connection, metajobs
        self.clock = VirtualClock(float(int(time.time())))
        self.began = self.clock()
        self.clusters = {name: SimulatedCluster(name, procs, clock=self.clock, **traits) for name in names}
        for place, name in enumerate(self.clusters):
            clusters.put(connection, name, "oarpy", ["oargriddoor", "campus"], place=place)
            clusters.note_description(connection, name, procs, ["claim", "evict"], 0)
        self.kill()

    def kill(self) -> None:
        """Have the modules replaced by ones that know what the database knows."""
        self._watcher = Watcher(1, 3600, InlineConnections(self.clusters), self.clock)
        self._claimer = Claimer(RULES, TIMES, 0.5, InlineConnections(self.clusters), self.clock, self._metajobs)

    def submit(
        self, deadline: float, components: int = 2, procs: int = 4, walltime: float = 100, notify: str = ""
    ) -> int:
        """Submit a job whose components start ``deadline`` seconds from now; return its id."""
        asked = (NewGridComponent(f"/core={procs}", procs),) * components
        date = self.clock() + deadline
        return self._inserted(NewGridJob("alice", "coallocated", "date", walltime, asked, deadline=date, notify=notify))

    def reserve(self, date: float, *names: str, procs: int = 4, walltime: float = 100, notify: str = "") -> int:
        """Submit a job with a part on each of these clusters, ``date`` seconds from now; return its id."""
        asked = tuple(NewGridComponent(f"/core={procs}", procs, name) for name in names)
        begin = self.clock() + date
        job = NewGridJob("alice", "named", "date", walltime, asked, deadline=begin, notify=notify)
        return self._inserted(job)

    def spread(self, procs: int, walltime: float = 100, operation: Operation = "shift", **asked: Any) -> int:
        """Submit a job of one program over clusters that the broker chooses; return its id."""
        component = NewGridComponent(f"/core={procs}", procs)
        number = self._inserted(NewGridJob("alice", "metajob", "date", walltime, (component,)))
        metajobs.add(self.connection, number, NewMetajob("/core", procs, operation, **asked))
        return number

    def mapped(self, procs: int, processes: int = 8, operation: Operation = "shift", **asked: Any) -> int:
        """Submit a program whose processes, of sizes ``a`` and ``b`` and 100 iterations, are mapped; return its id."""
        program = {"model": "sync", "own_walltime": False, **{name: asked.pop(name) for name in PROGRAM & asked.keys()}}
        number = self.spread(procs, 7200, operation, **asked)
        key = ("/home/alice/program", 10, 1000, "--quiet")
        request = NewGridProgram(*key, "/home/alice/rate.sh", processes, 100, ("a", "b"), **program)
        programs.add(self.connection, number, request)
        return number

    def bag(self, tasks: int, walltime: float = 100, *types: str, **asked: Any) -> int:
        """Submit a bag of tasks of one processor; return its id."""
        component = NewGridComponent("/core=1", 1, None, "", types)
        number = self._inserted(NewGridJob("alice", "bag", "date", walltime, (component,)))
        bags.add(self.connection, number, NewGridBag(tasks, **{"policy": "plb", **asked}))
        return number

    def disable_when_asked(self, kind: type[Call[Any]], *names: str) -> None:
        """Have clusters disabled while they answer a call of this kind."""

        def disabled(call: Any, real: Any) -> Any:
            for name in names:
                clusters.set_active(self.connection, name, active=False)
            return real(call)

        for name in names:
            answer_instead(self.clusters[name], kind, disabled)

    def _inserted(self, job: NewGridJob) -> int:
        (number,) = broker_jobs.insert(self.connection, job)
        values = [self.clock(), number]
        self.connection.execute("UPDATE grid_jobs SET submitted_at = to_timestamp(%s) WHERE id = %s", values)
        return number

    def round(self) -> float:
        """Hear the clusters' events, and let the claimer work; return when it wants to work again."""
        self.hear()
        outcome = self._claimer.run_once(self.connection, datetime.fromtimestamp(self.clock(), UTC))
        return inf if outcome.wake_at is None else outcome.wake_at

    def hear(self) -> None:
        """Hear the clusters' events."""
        self._watcher.run_once(self.connection, datetime.fromtimestamp(self.clock(), UTC))

    def until(self, seconds: float, step: float = 10) -> None:
        """Let time go on to so many seconds after the beginning; a killed claimer is replaced."""
        end = self.began + seconds
        while True:
            try:
                wake_at = self.round()
            except BrokerKilled:
                self.kill()
                wake_at = self.clock()
            if self.clock() >= end:
                return
            self.clock.now = max(self.clock() + 0.25, min(end, wake_at, self.clock() + step))

    # what a test looks at

    def job(self, job: int) -> GridJobRow:
        """The row of a job."""
        return broker_jobs.read(self.connection, [job])[0]

    def parts(self, job: int) -> list[GridPartRow]:
        """The rows of all parts that a job ever had."""
        return broker_parts.of_jobs(self.connection, [job])

    def there(self) -> dict[str, dict[str, str]]:
        """What is on the clusters, by cluster: the state of each job."""
        return {name: cluster.states() for name, cluster in self.clusters.items()}

    def events(self, kind: str) -> list[PartEvent]:
        """Events of a kind on all clusters."""
        told = (one for cluster in self.clusters.values() for one in cluster._events)
        return [one for one in told if isinstance(one, PartEvent) and one.kind == kind]
