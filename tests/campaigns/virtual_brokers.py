"""A broker in virtual time: its modules are processes of the virtual cluster, and ask clusters in memory.

::

    mapper, claimer, mover, watcher --call--> VirtualWay --.      .--> SimulatedCluster
                                    <--answer-- (delays) --'------'

Calls and answers are lost, late and doubled, and a module is killed before or after any call, as after any statement.
What programs did is read from the clusters, and compared with what users are told of their jobs.
"""

from __future__ import annotations

import math
import random
import re
import select
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from oarpy.client.session import Session as UserSession
from oarpy.grid.broker.broker_module import BrokerModule
from oarpy.grid.broker.claimer import Claimer
from oarpy.grid.broker.coallocated.bags import BagRules
from oarpy.grid.broker.coallocated.common_starts import ClaimTimes
from oarpy.grid.broker.coallocated.metajobs import MetajobRules
from oarpy.grid.broker.connections import ClusterConnections, clusters_of
from oarpy.grid.broker.conversations import ClusterCall
from oarpy.grid.broker.mapper import Mapper
from oarpy.grid.broker.mover import Mover
from oarpy.grid.broker.watcher import Watcher
from oarpy.grid.calls.parts import GridPart, PartEvent, PartOver, PartStarted, PartTaskOver
from oarpy.grid.clusters.virtual.cluster import SimulatedCluster
from oarpy.grid.core.broker_state import DeadlineRules, ReallocationRules
from oarpy.grid.reports import deletion
from oarpy.model.errors import OarpyError
from oarpy.modules.loop.module import Module
from oarpy.store.grid import bags, broker_jobs, clusters, metajobs
from oarpy.store.grid.bags import NewGridBag
from oarpy.store.grid.broker_jobs import NewGridComponent, NewGridJob
from oarpy.store.grid.clusters import GridClusterRow
from oarpy.store.grid.metajobs import NewMetajob
from tests.campaigns.interleaving import run_together
from tests.campaigns.told import Oracle
from tests.campaigns.virtual_cluster import Doom, Process, VirtualCluster, Wrong
from tests.harness.virtual_time import SECOND

MODULES = ("mapper", "claimer", "mover", "watcher")
CLUSTERS = {"north": 4, "south": 6, "west": 3}
"""Processors of each."""
USER = "ann"
_WATCH_PERIOD = 15.0
_LATE = 40 * SECOND
"""How late a call or an answer comes, at most; nobody waits for it for so long."""
_LONGEST = 300
"""Seconds that programs of the broker's jobs run, at most."""
_COPY = re.compile(r"(?<=\.)[0-9a-f]{10}\.")
"""What names of parts have of the database that they are from."""
_PROGRAM = re.compile(r"\bwork (\d+)")
_FINAL = ("Terminated", "Error", "Missed")
_JOBS = "SELECT id, kind, state, message, started_at, ended_at, exit_status, delete_asked FROM grid_jobs ORDER BY id"
_PARTS = "SELECT name, job, component FROM grid_parts WHERE name = ANY(%s)"
LEFT = {
    "jobs of the broker that are not over": """
        SELECT id, kind, state FROM grid_jobs WHERE state NOT IN ('Terminated', 'Error', 'Missed')""",
    "parts that are not over": "SELECT name, cluster, state FROM grid_parts WHERE state NOT IN ('Ended', 'Gone')",
    "transactions that are not done": "SELECT id, kind, state FROM grid_transactions WHERE state <> 'Done'",
}


@dataclass(frozen=True, slots=True)
class _Told:
    """A job of the broker as its user sees it."""

    kind: str
    state: str
    message: str
    started: Any
    ended: Any
    exit_status: int | None
    deleted: bool

    def allows(self, later: _Told) -> bool:
        """Tell whether a user may be told this later: what is over stays, but a Missed job may have run after all."""
        if self.state not in _FINAL or (self.state, later.state) == ("Missed", "Terminated"):
            return True
        return (self.state, self.ended, self.exit_status) == (later.state, later.ended, later.exit_status)


class VirtualWay(ClusterConnections):
    """The connections of one module."""

    def __init__(self, broker: VirtualBroker, module: str) -> None:
        super().__init__(clusters_of("broker"))
        self._broker, self._module = broker, module
        broker.ways[module] = self

    def adopt(self, rows: Sequence[GridClusterRow]) -> None:
        """Do nothing: the clusters are given."""

    def submit(self, call: ClusterCall) -> Future[object]:
        """Put a call on its way; the module may die before, or after."""
        process = self._broker.cluster.processes[self._module]
        process.point("message")
        answer = self._broker.carry(self._module, call)
        process.point("message")
        return answer

    def silent(self) -> Mapping[str, str]:
        """Return the clusters that do not answer."""
        return {name: "cut" for name, one in self._broker.clusters.items() if one.faults.cut}

    def heard_again(self) -> None:
        """Ring, as when a silent cluster has answered."""
        self._wake()


class VirtualBroker:
    """The broker's modules, its clusters, its users, and what these were told."""

    def __init__(self, cluster: VirtualCluster, oracle: Oracle, seed: int) -> None:
        self.cluster, self.oracle = cluster, oracle
        self.ways: dict[str, VirtualWay] = {}
        self._chance = random.Random(f"broker of {seed}")
        self._late: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = 0
        self._seen: dict[int, _Told] = {}
        self._heard = dict.fromkeys(CLUSTERS, 0)
        self._started: dict[tuple[int, int], list[str]] = {}
        """The parts of each component whose programs began."""
        self._ended: dict[str, int | None] = {}
        """How each program ended that did so by itself, or None; by part."""
        self._tasks: Counter[tuple[str, int]] = Counter()
        self.clusters = {
            name: SimulatedCluster(
                name,
                procs,
                clock=cluster.clock.time,
                policy="fcfs" if name == "south" else "conservative",
                runs=_length,
            )
            for name, procs in CLUSTERS.items()
        }
        for place, name in enumerate(CLUSTERS):
            clusters.put(cluster.control, name, "oarpy", ["door"], dedicated=True, place=place)
        makes: dict[str, Callable[[], Module]] = {
            "mapper": partial(self._placing, Mapper),
            "claimer": self._claimer,
            "mover": partial(self._placing, Mover),
            "watcher": self._watcher,
        }
        for name in MODULES:
            cluster.processes[name] = Process(cluster, name, makes[name])
            cluster.told.add(name)

    def _placing(self, kind: type[Mapper] | type[Mover]) -> Module:
        rules = ReallocationRules(algorithm=1, threshold=10)
        module = kind(rules, 60, VirtualWay(self, kind.name), self.cluster.clock.time)
        module._transactions._chance = self._chance
        return module

    def _claimer(self) -> Module:
        made = Claimer(
            DeadlineRules(lp=0.75, tries=2),
            ClaimTimes(),
            0.5,
            VirtualWay(self, "claimer"),
            self.cluster.clock.time,
            metajobs=MetajobRules(lead=15, threshold=10),
            bags=BagRules(provider_lost=600),
        )
        made._transactions._chance = made._metajobs.chance = made._bags.chance = self._chance
        return made

    def _watcher(self) -> Module:
        return Watcher(_WATCH_PERIOD, 1e9, VirtualWay(self, "watcher"), self.cluster.clock.time)

    # Calls

    def carry(self, module: str, call: ClusterCall) -> Future[object]:
        """Carry a call to its cluster and the answer back, if neither is lost or late."""
        cluster, answer = self.cluster, Future[object]()
        cluster.counts.messages += 1
        draw, lost = cluster.chance.random(), cluster.broken
        if draw < lost / 3:
            cluster.note(f"{module} loses a call to {call.cluster}")
        elif draw < lost * 2 / 3:
            cluster.note(f"{module} loses the answer of {call.cluster}")
            self._ask(call)
        elif draw < lost:
            cluster.note(f"a call of {module} comes late to {call.cluster}")
            self._come_late(module, partial(self._ask, call))
        else:
            made = self._ask(call)
            if cluster.chance.random() < cluster.doubled:
                self._come_late(module, partial(self._ask, call))
            if cluster.chance.random() < cluster.slow / 3:
                self._come_late(module, partial(_settle, answer, made))
            else:
                _settle(answer, made)
        return answer

    def _ask(self, call: ClusterCall) -> object:
        try:
            return call.made_of(self.clusters[call.cluster])
        except OarpyError as error:
            return error

    def _come_late(self, module: str, what: Callable[[], object]) -> None:
        self._numbers += 1
        at = self.cluster.clock.now + self.cluster.chance.randrange(1, _LATE)
        self._late.append((at, self._numbers, what))
        self._late.sort()
        process = self.cluster.processes[module]
        process.due, process.by_period = min(process.due, at), False

    def listen(self) -> None:
        """Let come what is late, and have modules told whose answers have come."""
        while self._late and self._late[0][0] <= self.cluster.clock.now:
            self._late.pop(0)[2]()
        for name in MODULES:
            module = self.cluster.processes[name].module
            assert module is not None
            if select.select(module.files(), (), (), 0)[0]:
                self.cluster.told.add(name)

    # Users, and what happens to clusters

    def step(self, chance: random.Random, doom: Doom | None) -> None:
        """Something happens to the broker, its clusters or its users."""
        kinds = [*_STEPS]
        (kind,) = chance.choices(kinds, [_STEPS[name][0] for name in kinds])
        self.cluster.counts.seen[f"grid {kind}"] += 1
        self.cluster.note(f"grid {kind}")
        _STEPS[kind][1](self, chance, doom)

    def submit(self, chance: random.Random, doom: Doom | None) -> None:
        """Somebody submits a job of some kind."""
        now, walltime = self.cluster.clock.time(), chance.choice((60, 200, 400))
        program = f"work {chance.randrange(1, min(walltime + 60, _LONGEST))}"
        kind = chance.choice(("mapped", "mapped", "coallocated", "named", "metajob", "bag"))
        count = chance.randint(1, 3) if kind in ("coallocated", "named") else 1
        procs = chance.randint(1, 8 if kind == "metajob" else 3)
        named = chance.sample([*CLUSTERS], count) if kind == "named" else [None] * count
        soon = kind == "named" and chance.random() < 0.3
        deadline = now if soon else now + chance.randrange(60, 400)
        new = NewGridJob(
            USER,
            kind,
            program,
            walltime,
            tuple(NewGridComponent(f"/core={procs}", procs, name) for name in named),
            deadline=deadline if kind in ("coallocated", "named") else None,
        )
        metajob = NewMetajob("/core", procs, chance.choice(("shift", "remap", "rigid"))) if kind == "metajob" else None
        bag = NewGridBag(chance.randint(1, 12), chance.choice(("plb", "nolb"))) if kind == "bag" else None

        def insert(session: UserSession) -> int:
            with session.connection.transaction():
                (job,) = broker_jobs.insert(session.connection, new)
                if metajob is not None:
                    metajobs.add(session.connection, job, metajob)
                if bag is not None:
                    bags.add(session.connection, job, bag)
            return job

        answered, job = self.cluster.act(USER, insert, doom)
        if answered:
            self.cluster.note(f"grid job {job} is a {kind}")

    def delete(self, chance: random.Random, doom: Doom | None) -> None:
        """Somebody deletes a job."""
        live = [job for job, told in self._seen.items() if told.state not in _FINAL]
        if live:
            job = chance.choice(live)
            self.cluster.act(USER, lambda session: deletion.delete(session, [job]), doom)

    def local(self, chance: random.Random, doom: Doom | None) -> None:
        """A job of its own comes to a cluster."""
        name, self._numbers = chance.choice([*CLUSTERS]), self._numbers + 1
        walltime = chance.randrange(30, 600)
        run = chance.randrange(1, walltime + 1)
        procs = chance.randint(1, CLUSTERS[name])
        self.clusters[name].submit(f"local {self._numbers}", procs, walltime, run=run, evictable=chance.random() < 0.3)

    def cut(self, chance: random.Random, doom: Doom | None) -> None:
        """A cluster answers nobody for a while."""
        self.clusters[chance.choice([*CLUSTERS])].faults.cut = True

    def heal(self, chance: random.Random, doom: Doom | None) -> None:
        """Clusters answer again."""
        self.settle()

    def run(self, chance: random.Random, doom: Doom | None) -> None:
        """A module runs, most often one that has something to hear."""
        self.cluster.listen()
        told = sorted(self.cluster.told & set(MODULES))
        name = chance.choice(told if told and chance.random() < 0.8 else MODULES)
        self.oracle.ran(name, self.cluster.run(name, doom))

    def beside(self, chance: random.Random, doom: Doom | None) -> None:
        """Two modules run at once; the one may be struck."""
        first, second = chance.sample(MODULES, 2)
        bodies = [(first, doom), (second, None)]
        strands = [(self.cluster.processes[name], partial(self.cluster.run, name, strike)) for name, strike in bodies]
        run_together(self.cluster, strands, chance)

    # What users are told

    def look(self) -> None:
        """Compare what users see with what they saw, and take in what programs did. Raises :class:`Wrong`."""
        self._look_at_programs()
        if any(one.next_change() < math.inf for one in self.clusters.values()):
            self.oracle.changed = self.cluster.clock.now  # something is still to come
        for job, *columns in self.cluster.rows(_JOBS):
            kind, state, message, started, ended, status, asked = columns
            told, before = _Told(kind, state, message, started, ended, status, asked is not None), self._seen.get(job)
            if told == before:
                continue
            if message.startswith("set aside"):
                raise Wrong(f"grid job {job}: {message}")
            if before is not None and not before.allows(told):
                raise Wrong(f"grid job {job} was {before}, and is {told}")
            self._seen[job] = told
            self.oracle.changed = self.cluster.clock.now
            self.cluster.note(f"grid job {job}: {state} {_COPY.sub('', message)}")

    def _look_at_programs(self) -> None:
        """Take in what clusters tell. No component's program begins twice, and no task of a bag ends twice."""
        for name, one in self.clusters.items():
            one.states()  # what was due has happened
            events = one._events[self._heard[name] :]
            self._heard[name] += len(events)
            if events:
                self.oracle.changed = self.cluster.clock.now
            of_parts = [event for event in events if isinstance(event, PartEvent)]
            known = {part: (job, number) for part, job, number in self._parts_of([event.part for event in of_parts])}
            for event in of_parts:
                if event.part not in known:
                    raise Wrong(f"{name} has {event.part}, of which its broker knows nothing")
                if isinstance(event, PartStarted):
                    self._begins(known[event.part], event.part, name)
                elif isinstance(event, PartTaskOver):
                    self._tasks[event.part, event.task] += 1
                    if self._tasks[event.part, event.task] > 1:
                        raise Wrong(f"task {event.task} of {event.part} ended twice on {name}")
                elif isinstance(event, PartOver):
                    self._ended[event.part] = event.status

    def _parts_of(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        return self.cluster.rows(_PARTS, list(set(names))) if names else []

    def _begins(self, component: tuple[int, int], part: str, name: str) -> None:
        self.cluster.note(f"grid job {component} begins on {name}")
        begun = self._started.setdefault(component, [])
        begun.append(part)
        told = self._seen.get(component[0])
        if len(begun) > 1 and told is not None and told.kind in ("mapped", "named", "coallocated"):
            raise Wrong(f"component {component[1]} of grid job {component[0]} began twice: {begun}")

    # The end

    def settle(self) -> None:
        """Let all faults be over."""
        for one in self.clusters.values():
            one.faults.forget()
        for way in self.ways.values():
            way.heard_again()

    def untrue(self) -> Iterator[str]:
        """Say what users were told that is not so, and what clusters still have, when all is over."""
        self.look()
        for name, one in self.clusters.items():
            parts = {job: state for job, state in one.states().items() if not job.startswith(("local ", "room for "))}
            if parts:
                yield f"{name} still has {parts}"
        for job, told in self._seen.items():
            begun = {number: parts for (owner, number), parts in self._started.items() if owner == job}
            if told.state == "Terminated" and not begun:
                yield f"grid job {job} is Terminated, and no program of it began"
            statuses = [self._ended.get(part) for parts in begun.values() for part in parts]
            if told.kind == "mapped" and told.state != "Terminated" and statuses == [0] and not told.deleted:
                yield f"the program of grid job {job} ended, and users are told {told.state} {told.message}"

    def close(self) -> None:
        """Give descriptors back."""
        for name in MODULES:
            module = self.cluster.processes[name].module
            assert isinstance(module, BrokerModule)
            module.close()


_Step = Callable[[VirtualBroker, random.Random, Doom | None], None]
_STEPS: dict[str, tuple[float, _Step]] = {
    "submit": (4, VirtualBroker.submit),
    "delete": (0.7, VirtualBroker.delete),
    "local": (2, VirtualBroker.local),
    "cut": (0.7, VirtualBroker.cut),
    "heal": (1.5, VirtualBroker.heal),
    "run": (14, VirtualBroker.run),
    "beside": (4, VirtualBroker.beside),
}


def _length(part: GridPart) -> float:
    """Return how long the program of a part runs, which may be wrapped in a script."""
    found = _PROGRAM.search(part.program)
    return float(found[1]) if found else part.request.walltime


def _settle(answer: Future[object], found: object) -> None:
    """Give an answer, if it is still awaited."""
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(found, BaseException):
        answer.set_exception(found)
    else:
        answer.set_result(found)
