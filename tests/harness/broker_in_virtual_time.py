"""A scenario of several clusters, run by the real modules of a broker: clusters in memory, a real database, one clock.

::

    oarpy grid simulate   the core, asked by an event loop                     -> decisions, courses of jobs, moves
    here                  mapper, claimer, mover, watcher <-> calls <-> clusters -> the same

Within one instant things come in the order of the simulation: ends, arrivals in the order of the file, tries, the pass.
Decisions of an instant are compared without their order, which is that of modules here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import Any
from unittest.mock import patch

from oarpy.grid.broker.claimer import Claimer
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.decisions import of_json
from oarpy.grid.broker.mapper import Mapper
from oarpy.grid.broker.mover import Mover
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.parts import GridPart
from oarpy.grid.calls.table import Events
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.grid.clusters.virtual.machine import MachinePolicy
from oarpy.grid.core.broker_state import BrokerState
from oarpy.grid.core.exchanges import Action, ClaimParts, Event, JoinQueue, MissJob, MoveJob, TryAt
from oarpy.grid.core.step import step
from oarpy.grid.simulation import grid_run
from oarpy.grid.simulation.grid_run import GridRun
from oarpy.grid.simulation.scenario import GridScenario, QueuePolicy
from oarpy.model.states import FINAL_GRID_JOBS
from oarpy.modules.loop.module import Module
from oarpy.store.grid import broker_jobs, broker_parts, clusters, decisions, reallocation_passes
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.reallocation_passes import GridMoveRow
from tests.harness import virtual_time
from tests.harness.inline_calls import InlineConnections
from tests.harness.virtual_time import SECOND, Clock, Database

TIMES = ClaimTimes(commit_lead=2, latest_commit=0.5, claim_time=1, margin=0)
_ROUNDS = 50
"""Rounds of all modules within one instant, after which they should have nothing to do."""


Decision = tuple[float, str]
"""When something was decided, in seconds of the scenario, and what."""
Course = tuple[str, list[str], float, float]
"""The state of a job when it is over, its clusters, start and end; 0 for what it did not come to."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a scenario: decisions by instant, courses of the broker's jobs by place in the file, and moves."""

    decisions: list[Decision]
    courses: dict[int, Course]
    moves: list[str]


def by_the_core(scenario: GridScenario) -> Told:
    """Run a scenario by the event loop of ``oarpy grid simulate``."""
    taken: list[Decision] = []

    def noting(state: BrokerState, event: Event, now: float) -> list[Action]:
        actions = step(state, event, now)
        taken.extend(_texts(actions, now, {}))
        return actions

    with patch.object(grid_run, "step", noting):
        outcome = GridRun(scenario).run()
    courses = {
        place: (one.state, list(one.clusters), round(one.start or 0, 3), round(one.end or 0, 3))
        for place, one in enumerate(outcome.courses)
        if scenario.jobs[place].cluster is None
    }
    moves = [_move(one.at, one.job, one.source, one.target, one.old, one.new) for one in outcome.moves]
    return Told(sorted(taken), courses, moves)


def _move(at: float, job: int, source: str, target: str, old: float, new: float) -> str:
    return f"{at:.3f} {job} {source} {target} {old:.3f} {new:.3f}"


def _texts(actions: Sequence[Any], now: float, names: Mapping[Any, Any], begin: float = 0) -> Iterator[Decision]:
    """Yield what is decided; questions to clusters decide nothing. ``names`` has places in the file by other ids."""
    for action in actions:
        what: tuple[object, ...]
        match action:
            case JoinQueue(job, cluster):
                what = (cluster,)
            case MoveJob(job, source, target, old, new):
                what = (source, target, f"{old - begin:.3f}", f"{new - begin:.3f}")
            case TryAt(job, at, last):
                what = (f"{at - begin:.3f}", last)
            case ClaimParts(job, chosen, evicted):
                what = (*chosen, [names.get(one, one) for one in evicted])
            case MissJob(job):
                what = ()
            case _:
                continue
        yield round(now - begin, 3), f"{type(action).__name__} {names.get(job, job)} {' '.join(map(str, what))}"


class BrokerInVirtualTime:
    """The modules of a broker and its clusters, at a clock that goes from one instant to the next one of interest."""

    def __init__(self, database: Database, scenario: GridScenario, clock: Clock) -> None:
        self.scenario, self.clock, self.begin = scenario, clock, clock.time()
        self.session = database.connect(self)
        self.jobs: dict[int, int] = {}
        """The grid job of a place in the file."""
        self.names: dict[Any, int] = {}
        """The place in the file of a grid job, and of a local job as brokers call it."""
        self.clusters = {
            one.name: SimulatedCluster(
                one.name, one.procs, clock=clock.time, policy=_policy(policy), speed=one.speed, runs=self._length
            )
            for one, policy in zip(scenario.clusters, scenario.policies, strict=True)
        }
        for place, name in enumerate(self.clusters):
            clusters.put(self.session, name, "oarpy", ["door"], dedicated=True, place=place)
        self.calls = InlineConnections(self.clusters)
        rules = replace(scenario.deadlines, lead=0)
        self.mapper = Mapper(scenario.reallocation, 60, self.calls, clock.time)
        self.claimer = Claimer(rules, TIMES, 0.5, self.calls, clock.time)
        self.mover = Mover(scenario.reallocation, scenario.period, self.calls, clock.time)
        self._watch()

    # what a session asks

    def begins(self, *, transaction: bool) -> int:
        """Return the instant at which a transaction begins."""
        return self.clock.now

    def before(self, what: str) -> None:
        """Let a statement be sent."""

    def returned(self) -> None:
        """Go on with what the server answered."""

    def after(self, what: str) -> None:
        """Go on."""

    # the run

    def run(self) -> Told:
        """Run until all jobs are over."""
        arriving = deque(sorted(range(len(self.scenario.jobs)), key=lambda place: self.scenario.jobs[place].submit))
        while (wake_at := self._settled()) and (arriving or not self._over()):
            due = self.begin + self.scenario.jobs[arriving[0]].submit if arriving else inf
            now = min(wake_at, due, *(one.next_change() for one in self.clusters.values()))
            assert now < inf, "nothing will happen any more, and jobs are left"
            self.clock.now = max(self.clock.now + (due > self.clock.time()), ceil(now * SECOND - 0.3))
            self._watch()
            while arriving and self.begin + self.scenario.jobs[arriving[0]].submit <= self.clock.time():
                self._arrive(arriving.popleft())
        return Told(self._decisions(), self._courses(), self._moves())

    def _settled(self) -> float:
        """Let modules work until none has anything to do at this instant; return when one has again.

        A pass comes after all else.
        """
        for _ in range(_ROUNDS):
            self._watch()
            if (wake_at := min(self._once(self.mapper), self._once(self.claimer))) <= self.clock.time():
                continue
            wake_at = min(wake_at, self._once(self.mover))
            if wake_at > self.clock.time() and not self._is_news():
                return wake_at
        raise AssertionError(f"modules do not come to rest at {self.clock.time() - self.begin:g}")

    def _watch(self) -> None:
        """Take in what happened on clusters, as a watcher that was started just now."""
        self._once(Watcher(1, 1e9, self.calls, self.clock.time))

    def _once(self, module: Module) -> float:
        """Run a module once; return when it wants to run again."""
        wake_at = module.run_once(self.session, self.clock.datetime()).wake_at
        return inf if wake_at is None else wake_at

    def _is_news(self) -> bool:
        """Tell whether something happened on a cluster that was not taken in."""
        return any(self.clusters[row.name].ask(Events(row.last_event)) for row in clusters.every(self.session))

    def _arrive(self, place: int) -> None:
        """Let a job of the file be submitted, and mapped before the next one comes."""
        job = self.scenario.jobs[place]
        if job.cluster is not None:
            speed = next(one.speed for one in self.scenario.clusters if one.name == job.cluster)
            walltime, run = job.walltime / speed, job.length(speed)
            number = self.clusters[job.cluster].submit(f"local{place}", job.procs, walltime, run=run, evictable=True)
            self.names[f"{job.cluster}:{number}"] = place
            return
        components = (NewGridComponent(f"/core={job.procs}", job.procs),) * max(job.components, 1)
        deadline = self.begin + job.deadline if job.components else None
        kind = "mapped" if job.mapped else "coallocated"
        new = NewGridJob("ann", kind, str(place), job.walltime, components, deadline=deadline)
        (made,) = broker_jobs.insert(self.session, new)
        self.jobs[place], self.names[made] = made, place
        while self._once(self.mapper) <= self.clock.time():
            pass

    def _length(self, part: GridPart) -> float:
        """Return how long the program of a part runs; its walltime says how fast its job is there."""
        job = self.scenario.jobs[int(part.program)]
        return part.request.walltime * job.length(1) / job.walltime

    def _over(self) -> bool:
        """Tell whether all jobs of the broker are over."""
        rows = broker_jobs.read(self.session, list(self.jobs.values()))
        return all(row.state in FINAL_GRID_JOBS for row in rows)

    # what came of it

    def _decisions(self) -> list[Decision]:
        """Return what was decided, as it is stored."""
        found: list[Decision] = []
        for one in decisions.every(self.session):
            for event, actions in zip(one.events, one.actions, strict=True):
                assert isinstance(actions, list), "it is stored whole"
                found += _texts(of_json(actions), event["now"], self.names, self.begin)
        return sorted(found)

    def _courses(self) -> dict[int, Course]:
        courses: dict[int, Course] = {}
        for place, number in self.jobs.items():
            (row,) = broker_jobs.read(self.session, [number])
            ran = [part for part in broker_parts.of_jobs(self.session, [number]) if part.started is not None]
            starts, ends = [part.started or 0 for part in ran], [part.ended or 0 for part in ran]
            begin, end = (min(starts), max(ends)) if ran else (self.begin, self.begin)
            courses[place] = (
                row.state.value,
                [part.cluster for part in ran],
                round(begin - self.begin, 3),
                round(end - self.begin, 3),
            )
        return dict(sorted(courses.items()))

    def _moves(self) -> list[str]:
        rows = reallocation_passes.moves_of_jobs(self.session, list(self.jobs.values()))
        return [
            _move(row.at - self.begin, self.names[row.job], row.source, row.target, *_ends(row, self.begin))
            for row in sorted(rows, key=lambda row: row.id)
            if row.outcome == "moved"
        ]


def _ends(row: GridMoveRow, begin: float) -> tuple[float, float]:
    return (inf if row.old_end is None else row.old_end - begin, inf if row.new_end is None else row.new_end - begin)


def _policy(policy: QueuePolicy) -> MachinePolicy:
    assert policy != "easy", "clusters in memory have no EASY"
    return policy


def by_the_modules(server: str, template: str, scenario: GridScenario) -> Told:
    """Run a scenario by the modules of a broker, in a database of its own."""
    clock = Clock()
    with clock.rules(), virtual_time.database(server, template) as dsn:
        database = Database(dsn)
        broker = BrokerInVirtualTime(database, scenario, clock)
        try:
            return broker.run()
        finally:
            broker.session.close()


def on_real_clusters(scenario: GridScenario) -> GridScenario:
    """Return a scenario whose last tries come as early as a broker of real clusters makes them."""
    return replace(scenario, deadlines=replace(scenario.deadlines, lead=TIMES.lead(evicting=True)))
