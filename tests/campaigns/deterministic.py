"""A cluster in virtual time whose modules are killed after any statement and message; equal seeds, equal histories.

``python -m tests.campaigns.deterministic --seeds 1000`` runs it by hand. The meta-scheduler, launcher, canceller,
monitor and accounting are the real ones, in one process, on a real PostgreSQL; Python and SQL read one virtual clock.
A seed draws what users do, what fails, which module runs next, and after which statement or message it is killed.
After each step an oracle checks what users were told; at the end nothing may be stuck, doubled, lost or held.

A smaller round is a test.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from multiprocessing.queues import SimpleQueue
from typing import Any
from unittest.mock import patch

import structlog

from oarpy.client.jobs import actions
from oarpy.client.jobs.running import walltime_changes
from oarpy.client.jobs.selection import JobSelection
from oarpy.client.session import Session as UserSession
from oarpy.client.submission.waiting_jobs import WAITING_JOBS
from oarpy.model.errors import OarpyError
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission
from oarpy.modules.automaton import PATIENT
from oarpy.negotiation.requests import resizing
from oarpy.store.jobs import submissions
from tests.campaigns import virtual_brokers, virtual_launchers
from tests.campaigns.interleaving import run_together
from tests.campaigns.told import HEARS, Oracle
from tests.campaigns.virtual_brokers import VirtualBroker
from tests.campaigns.virtual_cluster import (
    LEVELS,
    MODULES,
    NODES,
    PROJECTS,
    Counts,
    Doom,
    Process,
    VirtualCluster,
    Wrong,
)
from tests.campaigns.virtual_launchers import VirtualLaunchers
from tests.harness import bare_environment, virtual_time
from tests.harness.throwaway_server import own_server
from tests.harness.virtual_time import BEGIN, SECOND

STEPS = 100
"""Of a seed, by default."""
_CALM_ROUNDS = 1500
_STILL, _STUCK = 600 * SECOND, 7200 * SECOND
"""For how long no job changes before something is wrong: when all are over and counted, and when they are not."""
_SLOWNESS = SECOND // 2
"""For how long a module that is woken hears more, while all is calm."""
_PROBED = 0.3
"""How often, when no module was told to run and some job has changed, one does: it must find nothing to do."""
_MOMENT = SECOND // 10
"""More than a run takes: what a module finds that would have run so soon, it would have found."""
_LIVES = (6, 6, 20)
"""After how many statements and messages a process is struck, on average; a round of the launcher has 20 or so."""
_AWAY = 240 * SECOND
"""For how long nodes stay away at the end of a seed: longer than it takes to give them up."""
_AFTERWARDS = 120 * SECOND
"""How much longer programs run when nodes are back: longer than the oracle is patient."""
_SOON = 15.0
"""Seconds that programs run then."""
_RESIGNED = 30 * SECOND
"""After how long without a change users see to jobs that they have stopped, or that wait for what never comes."""
_HOPELESS = """
    SELECT j.job_id FROM job_dependencies d JOIN jobs j USING (job_id) JOIN jobs r ON r.job_id = d.required_job_id
    WHERE j.state = 'Waiting' AND r.state IN ('Terminated', 'Error') AND d.outcome <> 'any'
      AND (d.outcome = 'ok') <> (r.state = 'Terminated' AND coalesce(r.exit_status, 0) = 0)
      AND NOT EXISTS (SELECT FROM kill_requests k WHERE k.job_id = j.job_id)
"""
_HOSTS = """
    SELECT r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)
    WHERE a.job_id = %s AND upper_inf(a.during) GROUP BY r.network_address
    ORDER BY min(lower(a.during)), min(resource_id)
"""
_TALK = 0.4
"""How often launchers have their turn in seeds that have some, beside all other steps together."""
_DETAILS = re.compile(r"[0-9.]+|[:,\[{(].*")
_STATEMENT = re.compile(r"\d+ \w+ [0-9a-f]{8}")
_GRID = 1.0
"""How often a broker has its turn in seeds that have one, beside all other steps together."""
USERS = ("ann", "bob", "eve")
_WIDE = ("/nodes=2", "/nodes=3", "/nodes=2/core=1")
_ALL = ("/core=1", "/core=2", "/core=3", "/nodes=1", *_WIDE)

_TIMES = ("+0:10:0", "+1:0:0", "-0:2:0", "+0:1:0")
"""What somebody asks for whose job runs too long, or is over soon."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it is about, and a number from which all its choices are drawn, as to be ``struck``."""

    kind: str
    salt: int
    struck: bool = True
    calm: bool = False
    """Whether it is taken when faults are over and modules run only when they are told to."""


@dataclass(frozen=True, slots=True)
class Temper:
    """What a seed has more of than others. So one meets much of a kind, and little of what would make up for it."""

    weights: Mapping[str, float]
    """How often each kind of step is drawn."""
    struck: float
    """The share of processes that are killed or lose their session, and the share of these that only lose it."""
    cut: float
    slow: float
    """The share of messages that take long."""
    doubled: float
    """The share of messages that come twice."""
    broken: float
    """The share of commands at which something happens to the channel or the node."""
    wide: float
    """The share of jobs that are on several nodes."""
    long: float
    """The share of jobs that last until the end of the seed."""
    talk: float
    """How often launchers have their turn, beside all other steps together."""
    grid: float
    """How often a broker of several clusters has its turn, beside all other steps together."""
    lower: float
    """The share of jobs in queues that give way to others."""


@dataclass(slots=True)
class Result:
    """What became of a seed."""

    seed: int
    steps: Sequence[Step]
    counts: Counts
    digest: str
    virtual: float
    """Seconds that passed on the clock."""
    real: float
    wrong: str = ""
    history: Sequence[str] = ()


class Run:
    """One run of steps on a fresh cluster."""

    def __init__(self, database: virtual_time.Database, seed: int, kinds: Collection[str] = ()) -> None:
        self.temper = temper_of(seed)
        levelled = self.temper.lower > 0
        self.cluster = VirtualCluster(database, random.Random(f"messages of {seed}"), levelled=levelled)
        self.cluster.slow, self.cluster.doubled = self.temper.slow, self.temper.doubled
        self.cluster.broken = self.temper.broken
        self.oracle = Oracle(self.cluster)
        self.cluster.on_start = self.oracle.starts
        if self.temper.lower:
            self.cluster.add_levels(random.Random(f"levels of {seed}"))
        self.launchers = VirtualLaunchers(self.cluster) if "application" in kinds else None
        if self.launchers is not None:
            self.oracle.left |= virtual_launchers.LEFT
            self.cluster.on_listen = self.launchers.listen
        self.broker = VirtualBroker(self.cluster, self.oracle, seed) if "grid" in kinds else None
        if self.broker is not None:
            self.oracle.left |= virtual_brokers.LEFT
            self.cluster.on_listen = self.broker.listen
        self._struck = True
        self._later: deque[Step] = deque()
        self._probed = 0
        self._grown: list[int] = []
        self._probes = random.Random(f"probes of {seed}")

    def take(self, step: Step) -> None:
        """Take a step, and ask the oracle."""
        chance, self._struck = random.Random(step.salt), step.struck
        self.cluster.counts.steps += 1
        self.cluster.counts.seen[step.kind] += 1
        self.cluster.note(f"step {step.kind}")
        if step.kind in MODULES:
            self._strike(step.kind, chance)
        else:
            KINDS[step.kind][1](self, chance)
        self._look()
        if not step.calm:
            self.cluster.pass_time(int(chance.expovariate(1 / (2 * SECOND))))

    def _look(self) -> None:
        self.oracle.look()
        if self.broker is not None:
            self.broker.look()

    def _doom(self, chance: random.Random) -> Doom | None:
        """Draw what happens to a process: nothing, most often."""
        if not self._struck or chance.random() >= self.temper.struck:
            return None
        return Doom(1 + int(chance.expovariate(1 / chance.choice(_LIVES))), cut=chance.random() < self.temper.cut)

    def _strike(self, name: str, chance: random.Random) -> None:
        self.oracle.ran(name, self.cluster.run(name, self._doom(chance)))

    def told(self, chance: random.Random) -> None:
        """A module runs that has something to hear."""
        self.cluster.listen()
        if some := sorted(self.cluster.told):
            self._strike(chance.choice(some), chance)

    def together(self, chance: random.Random) -> None:
        """Two modules run at once, or a module while somebody gives a command."""
        first, second = chance.sample((*MODULES, *(_COMMANDS if chance.random() < 0.5 else ())), 2)
        bodies = [self._body(kind, chance.getrandbits(48)) for kind in (first, second)]
        if bodies[0][0] is not bodies[1][0]:
            run_together(self.cluster, bodies, chance)

    def _body(self, kind: str, salt: int) -> tuple[Process, Callable[[], object]]:
        """Return what a module or somebody does, and the process that does it."""
        chance = random.Random(salt)
        if kind in MODULES:
            return self.cluster.processes[kind], lambda: self.cluster.run(kind, self._doom(chance))
        return self.cluster.command, lambda: KINDS[kind][1](self, chance)

    # What users do

    def submit(self, chance: random.Random) -> None:
        """Somebody submits a job, or an array."""
        user, types, queue = chance.choice(USERS), list[str](), "default"
        seconds, walltime = chance.randrange(1, chance.choice((60, 400, 900))), chance.choice((60, 200, 400, 900))
        if chance.random() < self.temper.long:
            seconds, walltime = chance.randrange(900, 3600), 3600
        if chance.random() < 0.25:
            types, queue = ["besteffort"], "besteffort"
        elif self.temper.lower and chance.random() < self.temper.lower:
            queue = chance.choice(LEVELS)
        project = chance.choice(PROJECTS) if self.temper.lower else PROJECTS[0]
        if chance.random() < 0.4:
            types.append("idempotent")
        if not types and chance.random() < 0.1:
            types, walltime = ["noop"], min(walltime, 400)
        size = chance.randrange(2, 5) if chance.random() < 0.2 else 1
        reservation = None
        if not types and size == 1 and chance.random() < 0.1:
            reservation = self.cluster.clock.datetime() + timedelta(seconds=chance.randrange(60, 900))
        known = sorted(self.oracle.submitted)
        after = tuple[str, ...]()
        if known and reservation is None and chance.random() < 0.15:
            after = (chance.choice(("", "ok:", "notok:")) + str(chance.choice(known[-4:])),)
        words = chance.sample(_WIDE if chance.random() < self.temper.wide else _ALL, 2)
        alternatives = words if chance.random() < 0.15 else words[:1]
        asked = Submission(
            user=user,
            project=project,
            queue=queue,
            types=tuple(types),
            command=f"work {seconds} {chance.choice((0, 0, 0, 1, 99))}",
            directory="/tmp",
            alternatives=tuple(parse_request(f"{word},walltime=0:0:{walltime}") for word in alternatives),
            array_size=size,
            reservation=reservation,
            dependencies=after,
            hold=chance.random() < 0.03,
            checkpoint=30 if chance.random() < 0.1 else 0,
            stdout="out",
            stderr="err",
        )

        def insert(session: UserSession) -> list[int]:
            with session.connection.transaction():
                return submissions.insert(session.connection, asked, asked=asked)

        answered, jobs = self.cluster.act(user, insert, self._doom(chance))
        if answered:
            self.oracle.submitted |= set(jobs)

    def delete(self, chance: random.Random) -> None:
        """Somebody deletes one or two of his jobs."""
        if jobs := self._hanging(chance) or self._some(chance, most=2):
            answered, found = self._act(chance, lambda who: actions.delete(who, JobSelection(tuple(jobs))))
            if answered and found is not None:
                self.cluster.note(f"deleted {found.job_ids}")
                self.oracle.deleted |= set(found.job_ids)

    def _hanging(self, chance: random.Random) -> list[int]:
        """Choose a job that seems to hang, now and then."""
        nodes = self.cluster.nodes
        away = {key.job for name in NODES if (node := nodes.node(name)).unreachable for key in node.jobs}
        stopped = {job for job, seen in self.oracle.seen.items() if seen.state in ("Suspended", "Resuming")}
        some = sorted((away | stopped) & self.oracle.seen.keys())
        return [chance.choice(some)] if some and chance.random() < 0.6 else []

    def hold(self, chance: random.Random) -> None:
        """Somebody holds a job that waits, or suspends one that runs."""
        if jobs := self._some(chance, *(("Running",) if chance.random() < 0.6 else ())):
            self._act(chance, lambda who: actions.hold(who, JobSelection(tuple(jobs)), running=chance.random() < 0.8))

    def resume(self, chance: random.Random) -> None:
        """Somebody lets a job go on."""
        if jobs := self._some(chance, "Hold", "Suspended", "Resuming"):
            self._act(chance, lambda who: actions.resume(who, JobSelection(tuple(jobs))))

    def signal(self, chance: random.Random) -> None:
        """Somebody asks for a checkpoint."""
        if jobs := self._some(chance, "Running"):
            self._act(chance, lambda who: actions.checkpoint(who, JobSelection(tuple(jobs))))

    def walltime(self, chance: random.Random) -> None:
        """Somebody asks for more time, or less."""
        if jobs := self._grown if chance.random() < 0.4 else self._some(chance, "Running"):
            self._grown = jobs
            self._ask_time(chance, jobs[0])

    def haste(self, chance: random.Random) -> None:
        """Somebody asks for another walltime, and again before the node has answered."""
        running = [job for job, seen in self.oracle.seen.items() if seen.state == "Running"]
        if running:
            job = max(running, key=lambda one: self.oracle.seen[one].walltime or 0)
            self._ask_time(chance, job, ("-0:2:0", "-0:2:0", "+0:10:0"))
            self._strike("metascheduler", chance)
            self._strike("launcher", chance)
            self._ask_time(chance, job, ("-0:1:0", "+0:1:0"))
            self._strike("metascheduler", chance)
            self.cluster.pass_time(chance.randrange(SECOND // 10))

    def _ask_time(self, chance: random.Random, job: int, words: Sequence[str] = _TIMES) -> None:
        asked = walltime_changes.WalltimeQuestion(chance.choice(words))
        self._act(chance, lambda who: walltime_changes.change(who, job, asked))

    def resize(self, chance: random.Random) -> None:
        """Somebody asks for one more host, or gives one back."""
        jobs = self._some(chance, "Running")
        if not jobs:
            return
        if chance.random() < 0.6:
            kind = chance.choice(("firm", "revocable"))
            hosts = {resizing.ANY: 1} if chance.random() < 0.9 else {}
            self._act(chance, lambda who: resizing.extend(who, jobs[0], hosts, kind))
        else:
            has = [node for (node,) in self.cluster.rows(_HOSTS, jobs[0])] if chance.random() < 0.9 else NODES
            self._act(chance, lambda who: resizing.release(who, jobs[0], has[-1:]))

    def application(self, chance: random.Random) -> None:
        """A launcher comes, goes or says something, or what one asked for is carried out."""
        if self.launchers is not None:
            self.launchers.step(chance, self._doom(chance))

    def grid(self, chance: random.Random) -> None:
        """Something happens to the broker, its clusters or its users."""
        if self.broker is not None:
            self.broker.step(chance, self._doom(chance))

    def _some(self, chance: random.Random, *states: str, most: int = 1) -> list[int]:
        """Choose among the jobs that users know, most of them live ones."""
        known = [job for job, seen in self.oracle.seen.items() if not states or seen.state in states]
        live = [job for job in known if self.oracle.seen[job].ended is None]
        some = live if live and chance.random() < 0.95 else known
        return sorted(chance.sample(some, min(len(some), chance.randint(1, most))))

    def _act(self, chance: random.Random, what: Callable[[UserSession], Any]) -> tuple[bool, Any]:
        """Let an owner run a command that may be refused."""

        def tried(session: UserSession) -> Any:
            try:
                return what(session)
            except OarpyError as error:
                self.cluster.note(f"refused: {error}")
                return None

        session_of_all = chance.choice(USERS)
        return self.cluster.act(session_of_all, lambda who: tried(_as_admin(who)), self._doom(chance))

    # What happens to nodes and clocks

    def end(self, chance: random.Random) -> None:
        """A program ends before its time."""
        running = [
            (name, key)
            for name in NODES
            for key, job in self.cluster.nodes.node(name).jobs.items()
            if job.started is not None and job.ended is None and job.suspended is None
        ]
        if running:
            name, key = chance.choice(running)
            self.cluster.end(name, key, chance.choice((0, 0, 1, 99)))

    def lose(self, chance: random.Random) -> None:
        """A channel is lost, for a moment or until it is mended."""
        name = chance.choice(NODES)
        self.cluster.nodes.node(name).unreachable = "no way there" if chance.random() < 0.4 else ""
        self.cluster.lose(name)

    def fail(self, chance: random.Random) -> None:
        """A node can start nothing, or let no job grow, or its agent dies whenever it begins to start something."""
        node, what = self.cluster.nodes.node(chance.choice(NODES)), chance.randrange(6)
        if what < 2:
            node.refusal, node.problem = "STATE_DIRECTORY", "its disk is full"
        elif what < 4:
            node.deaf = True
        else:
            node.resize_problem = "its disk is full"

    def mend(self, chance: random.Random) -> None:
        """A node can be reached again, and does what it is told."""
        self.cluster.mend(chance.choice(NODES))

    def reboot(self, chance: random.Random) -> None:
        """A node crashes, with its disk or without."""
        self.cluster.reboot(chance.choice(NODES), keep_state=chance.random() < 0.7)

    def jump(self, chance: random.Random) -> None:
        """The wall clock is set forward."""
        self.cluster.clock.jump(chance.choice((5, 60, 600, 3600)) * SECOND)

    def absent(self, chance: random.Random) -> None:
        """An admin takes a node away, or gives it back."""
        state, name = chance.choice(("Absent", "Alive", "Alive")), chance.choice(NODES)
        self.cluster.control.execute(
            "UPDATE resources SET state = %s WHERE network_address = %s AND state IN ('Alive', 'Absent')",
            [state, name],
        )

    def wait(self, chance: random.Random) -> None:
        """Some time passes."""
        self.cluster.pass_time(int(chance.expovariate(1 / chance.choice((10, 60, 300))) * SECOND))

    # The end

    def calm(self, steps: Sequence[Step]) -> None:
        """Run on until nothing is left to do; users go on for a while, and nodes stay away. Raises :class:`Wrong`."""
        cluster = self.cluster
        cluster.note("calm")
        cluster.slow = cluster.broken = 0.0
        self._struck = False
        self._last_faults()
        if self.broker is not None:
            self.broker.settle()
        self._later.extend(steps)
        nodes = [cluster.nodes.node(name) for name in NODES]
        away = [node.name for node in nodes if node.unreachable]
        for node in nodes:
            if not node.unreachable:
                cluster.mend(node.name)
        if away:
            self._go_on(cluster.clock.now + _AWAY)
            self.oracle.require_given_up(away)
        for name in NODES:
            cluster.mend(name)
        cluster.control.execute("UPDATE resources SET state = 'Alive' WHERE state = 'Absent'")
        if not self.oracle.all_over():
            self._go_on(cluster.clock.now + _AFTERWARDS)
        cluster.longest = _SOON
        if not self._go_on(None):
            raise Wrong("no rest: " + "; ".join(self.oracle.settled()))
        if self.launchers is not None and (unaware := self.launchers.unaware()):
            raise Wrong("; ".join(unaware))
        if self.broker is not None and (untrue := list(self.broker.untrue())):
            raise Wrong("; ".join(untrue))

    def _last_faults(self) -> None:
        """Nodes crash, or go away, and nothing happens afterwards that would make up for what is not done about it."""
        for name in NODES:
            draw = self._probes.random()
            if draw < 0.2:
                self.cluster.nodes.node(name).unreachable = "no way there"
                self.cluster.lose(name)
            elif draw < 0.4:
                self.cluster.reboot(name, keep_state=draw < 0.25)
        if self._probes.random() < 0.3:
            self.cluster.close_channels()
            self.cluster.processes["launcher"].die()
            self.cluster.told.add("launcher")

    def _go_on(self, until: int | None) -> bool:
        """Run modules when they are told to, until all is over or an instant; return whether it is."""
        cluster, began = self.cluster, self.cluster.clock.now
        for _ in range(_CALM_ROUNDS):
            cluster.listen()
            for name in [*cluster.processes]:
                process = cluster.processes[name]
                if name in cluster.told or process.due <= cluster.clock.now:
                    self._run(name, unasked=process.by_period)
            self._look()
            self.oracle.look_at_nodes()
            cluster.listen()
            if cluster.told or self._launchers_say():
                continue
            if self.oracle.changed > self._probed and self._probes.random() < _PROBED:
                self._probed = cluster.clock.now
                self._run(self._probes.choice(HEARS), unasked=True)
            elif self._later:
                if self._probes.random() < 0.5:
                    self.take(self._later.popleft())
                else:
                    self._sleep()
            elif self._is_over(until):
                return True
            else:
                still = cluster.clock.now - max(self.oracle.changed, began)
                if until is None and still > (_STILL if self.oracle.all_over() else _STUCK):
                    return False
                if until is not None or still < _RESIGNED or not (self._let_go_on() or self._delete_hopeless()):
                    self._sleep()
        return False

    def _launchers_say(self) -> bool:
        """Let launchers hear and answer; tell whether anything happened."""
        ending = self.cluster.longest == _SOON
        return self.launchers is not None and self.launchers.settle(self._probes, ending=ending)

    def _is_over(self, until: int | None) -> bool:
        if until is not None:
            return self.cluster.clock.now >= until
        return self.oracle.all_over() and not any(self.oracle.settled())

    def _run(self, name: str, *, unasked: bool) -> None:
        """Run a module; ``unasked``: it finds something to do only if it was told to run."""
        cluster = self.cluster
        if unasked and name not in cluster.told:
            cluster.rows("SELECT")
            cluster.listen()
        process = cluster.processes[name]
        unasked &= name not in cluster.told and (process.by_period or name not in PATIENT)
        # it would have run in a moment by itself
        unasked &= process.by_period or process.due - cluster.clock.now > _MOMENT
        self.oracle.ran(name, cluster.run(name), unasked=unasked)

    def _sleep(self) -> None:
        """Let time pass until something happens, or a module runs by its clock."""
        due = min(process.due for process in self.cluster.processes.values())
        upcoming = self.cluster.next_event()
        until = due if upcoming is None else min(due, upcoming)
        self.cluster.pass_time(max(until - self.cluster.clock.now, 1) + _SLOWNESS)

    def _delete_hopeless(self) -> bool:
        """Let users delete jobs that wait for what never comes; tell whether there are any."""
        hopeless = tuple(job for (job,) in self.cluster.rows(_HOPELESS))
        if hopeless:
            self.cluster.act("ann", lambda who: actions.delete(_as_admin(who), JobSelection(hopeless)))
            self.oracle.deleted |= set(hopeless)
        return bool(hopeless)

    def _let_go_on(self) -> bool:
        """Let jobs go on that users have stopped, or delete them; tell whether there are any."""
        stopped = tuple(job for job, seen in self.oracle.seen.items() if seen.state in ("Hold", "Suspended"))
        deleted = self._probes.random() < 0.5
        if stopped:
            do = actions.delete if deleted else actions.resume
            self.cluster.act("ann", lambda who: do(_as_admin(who), JobSelection(stopped)))
            self.oracle.deleted |= set(stopped) if deleted else set()
            self.oracle.look()
        return bool(stopped)


def _as_admin(session: UserSession) -> UserSession:
    return UserSession(session.connection, session.configuration, session.user, 0, is_admin=True)


_COMMANDS = ("submit", "delete", "hold", "resume", "walltime", "resize", "signal")
_CALM = (*_COMMANDS, "haste")
KINDS: dict[str, tuple[float, Callable[[Run, random.Random], None]]] = {
    "told": (60, Run.told),
    "together": (14, Run.together),
    "submit": (14, Run.submit),
    "delete": (3, Run.delete),
    "hold": (3, Run.hold),
    "resume": (2, Run.resume),
    "signal": (4, Run.signal),
    "walltime": (2, Run.walltime),
    "haste": (2, Run.haste),
    "resize": (5, Run.resize),
    "end": (3, Run.end),
    "lose": (1.5, Run.lose),
    "fail": (2, Run.fail),
    "mend": (2.5, Run.mend),
    "reboot": (1.5, Run.reboot),
    "jump": (0.5, Run.jump),
    "absent": (2, Run.absent),
    "application": (0, Run.application),
    "wait": (8, Run.wait),
    "grid": (0, Run.grid),
}
_WEIGHTS = {
    "metascheduler": 4.0, "launcher": 8.0, "canceller": 2.0, "monitor": 5.0, "accounting": 1.0,
    **{kind: weight for kind, (weight, _) in KINDS.items()},
}  # fmt: skip
_TALKATIVE, _OVER_CLUSTERS, _ON_LEVELS, _WIDE_AND_LONG = range(4)
"""Which seeds of four have launchers, a broker, queues that give way to others, and jobs that are wide and long."""
_FAVOUR = (0.0, 0.3, 1.0, 1.0, 4.0)
_ALWAYS = ("told", "launcher", "monitor", "submit")


def temper_of(seed: int) -> Temper:
    """Draw the temper of a seed."""
    chance = random.Random(f"temper of {seed}")
    weights = {kind: weight * chance.choice(_FAVOUR) for kind, weight in _WEIGHTS.items()}
    always = {kind: max(weights[kind], _WEIGHTS[kind] / 2) for kind in _ALWAYS}
    return Temper(
        {**weights, **always},
        struck=chance.choice((0.0, 0.1, 0.45, 0.45)),
        cut=chance.choice((0.0, 0.2, 0.5, 1.0)),
        slow=chance.choice((0.0, 0.1, 0.3, 0.7)),
        doubled=chance.choice((0.0, 0.03, 0.03, 0.3)),
        broken=chance.choice((0.0, 0.03, 0.1, 0.2)),
        wide=0.6 if seed % 4 == _WIDE_AND_LONG else 0.0,
        long=0.3 if seed % 4 == _WIDE_AND_LONG else 0.0,
        talk=_TALK if seed % 4 == _TALKATIVE else 0.0,
        grid=_GRID if seed % 4 == _OVER_CLUSTERS else 0.0,
        lower=0.5 if seed % 4 == _ON_LEVELS else 0.0,
    )


def steps_of(seed: int, number: int) -> list[Step]:
    """Draw the steps of a seed. The last tenth are what users do when faults are over."""
    chance, temper = random.Random(f"steps of {seed}"), temper_of(seed)
    total = sum(temper.weights.values())
    weights = {**temper.weights, "application": temper.talk * total, "grid": temper.grid * total}
    stormy, calm = number - number // 10, number // 10
    kinds = chance.choices([*weights], [*weights.values()], k=stormy)
    kinds += chance.choices(_CALM, [max(weights[kind], 2) for kind in _CALM], k=calm)
    return [Step(kind, chance.getrandbits(48), calm=place >= stormy) for place, kind in enumerate(kinds)]


def run_steps(database: virtual_time.Database, seed: int, steps: Sequence[Step]) -> Result:
    """Run steps on a fresh cluster, and return what became of it."""
    began, wrong = time.perf_counter(), ""
    made = Run(database, seed, {step.kind for step in steps})
    cluster = made.cluster
    with (
        cluster.clock.rules(),
        _quiet(),
        _new_processes(),
        made.launchers.rules() if made.launchers is not None else nullcontext(),
    ):
        try:
            for step in steps:
                if not step.calm:
                    made.take(step)
            made.calm([step for step in steps if step.calm])
        except Wrong as error:
            wrong = str(error)
        finally:
            if made.broker is not None:
                made.broker.close()
            cluster.close()
    database.renew()
    digest, virtual = cluster.digest(), (cluster.clock.now - BEGIN) / SECOND
    return Result(seed, steps, cluster.counts, digest, virtual, time.perf_counter() - began, wrong, cluster.history)


def shrink(database: virtual_time.Database, found: Result) -> Result:
    """Leave out steps, then kills, for as long as the seed stays wrong in the same way; return what is left."""

    def try_with(steps: Sequence[Step]) -> bool:
        nonlocal found
        result = run_steps(database, found.seed, steps)
        if same := _kind_of(result.wrong) == _kind_of(found.wrong):
            found = result
        return same

    size = max(len(found.steps) // 2, 1)
    while size:
        place = 0
        while place < len(found.steps):
            if not try_with([*found.steps[:place], *found.steps[place + size :]]):
                place += size
        size //= 2
    for place, step in enumerate(found.steps):
        try_with([*found.steps[:place], replace(step, struck=False), *found.steps[place + 1 :]])
    return found


def _kind_of(wrong: str) -> str:
    """Return what was wrong, without the numbers and all that follows."""
    return _DETAILS.sub("", wrong)


def _told(history: Sequence[str]) -> list[str]:
    """Return the lines of a history that are not about a statement."""
    return [line for line in history if not _STATEMENT.fullmatch(line)]


@contextmanager
def _quiet() -> Iterator[None]:
    """Let modules log nothing."""
    before = structlog.get_config()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _new_processes() -> Iterator[None]:
    """Let commands remember nothing of other clusters, as new processes do."""
    with patch.object(WAITING_JOBS, "_known", {}):
        yield


def main(arguments: Sequence[str] | None = None) -> int:
    """Run seeds and print what happened; exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=STEPS, help="of each seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds run at once, each on a database of its own")
    parser.add_argument("--server", help="DSN of a server that is there (default: one of its own)")
    parser.add_argument("--template", help="name of a database there that is made for this (default: one of its own)")
    parser.add_argument("--until-wrong", action="store_true", help="end at the first seed with something wrong")
    parser.add_argument("--shrink", action="store_true", help="leave out what a wrong seed does not need, and print it")
    parser.add_argument("--history", action="store_true", help="print what happened, line by line")
    options = parser.parse_args(arguments)
    results = []
    with own_server() if options.server is None else nullcontext(options.server) as server:
        for result, least in _results(server, options):
            if options.history:
                print("\n".join(result.history))
            print(f"seed {result.seed}: {result.digest[:16]} {result.virtual:.0f} s {result.wrong}", flush=True)
            if least is not None:
                print("\n".join(_told(least.history)))
                print(f"seed {result.seed}, {len(least.steps)} steps of {len(result.steps)}: {least.wrong}", flush=True)
            result.history = ()
            results.append(result)
            if result.wrong and options.until_wrong:
                break
    print(summary(results))
    return 1 if any(result.wrong for result in results) else 0


def _results(server: str, options: argparse.Namespace) -> Iterator[tuple[Result, Result | None]]:
    """Run seeds, each process on a database of its own; yield what became of each, and what is left of a wrong one."""
    seeds = range(options.first, options.first + options.seeds)
    work = partial(_run_seed, steps=options.steps, shrunk=options.shrink, history=options.history)
    context = multiprocessing.get_context("fork")
    with ExitStack() as stack:
        template = options.template or stack.enter_context(virtual_time.template(server))
        databases = context.SimpleQueue()
        for _ in range(options.jobs):
            databases.put(stack.enter_context(virtual_time.database(server, template)))
        pool = stack.enter_context(ProcessPoolExecutor(options.jobs, context, _begin, (databases,)))
        stack.callback(pool.shutdown, cancel_futures=True)
        yield from pool.map(work, seeds)


def _begin(databases: SimpleQueue[str]) -> None:
    """Take a database for the seeds that this process runs."""
    _own.append(virtual_time.Database(databases.get()))


_own: list[virtual_time.Database] = []
"""The database of a process that runs seeds."""


def _run_seed(seed: int, *, steps: int, shrunk: bool, history: bool) -> tuple[Result, Result | None]:
    (database,) = _own
    result = run_steps(database, seed, steps_of(seed, steps))
    least = shrink(database, result) if result.wrong and shrunk else None
    return (result if history else replace(result, history=())), least


def summary(results: Sequence[Result]) -> str:
    """Say in a few lines what was done, and what came of it."""
    kinds, numbers = Counter[str](), Counter[str]()
    for result in results:
        kinds += result.counts.seen
        for name in ("steps", "statements", "messages", "kills", "cuts"):
            numbers[name] += getattr(result.counts, name)
    virtual, real = (sum(getattr(result, name) for result in results) for name in ("virtual", "real"))
    all_of_them = hashlib.sha256("".join(result.digest for result in results).encode()).hexdigest()
    return (
        ", ".join(f"{kind} {number}" for kind, number in kinds.most_common())
        + f"\n{len(results)} seeds: {numbers['steps']} steps, {numbers['statements']} statements,"
        f" {numbers['messages']} messages, {numbers['kills']} kills, {numbers['cuts']} sessions cut\n"
        f"{virtual / 3600:.0f} virtual hours in {real:.0f} s, {virtual / real:.0f} times real time\n"
        f"history {all_of_them[:16]}, {sum(bool(result.wrong) for result in results)} seeds with something wrong"
    )


if __name__ == "__main__":
    if sys.flags.hash_randomization:  # sets of names would have another order each time
        fixed = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, "-m", "tests.campaigns.deterministic", *sys.argv[1:]], fixed)
    bare_environment.enter()
    sys.exit(main())
