"""A cluster in one process and in virtual time: the real modules, a real database, nodes in memory.

::

    module --statement--> Session --.            .--> FakeNode
                                     >-- faults --<
    launcher --message---> Wire ----'            '--> delayed, in order for each node

Each module is a process of its own as far as it can tell: it has a session, is killed after any statement or message,
and comes back as a new object. What every session and node does goes into one history, whose digest tells whether two
runs were the same.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import random
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import psycopg

from oarpy import configuration
from oarpy.client.session import Session as UserSession
from oarpy.modules.accounting import Accounting
from oarpy.modules.automaton import PATIENCE, PATIENT, REACTIONS
from oarpy.modules.canceller import Canceller
from oarpy.modules.launcher import Launcher
from oarpy.modules.loop.module import Module, run
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.modules.monitor import Monitor
from oarpy.store import notifications
from oarpy.store.refusals import is_refusal
from oarpy.transport.base import Transport
from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import ChannelLost, Clean, Command, Ended, Ready, Refused, Report, Resize, Start, Started
from tests.harness.fake_transport import FakeTransport
from tests.harness.small_cluster import with_settings
from tests.harness.virtual_time import SECOND, Clock, Database, Session

if TYPE_CHECKING:
    from tests.campaigns.interleaving import Strand

MODULES = ("metascheduler", "launcher", "canceller", "monitor", "accounting")
NODES, CORES = ("n1", "n2", "n3", "n4"), 2
LEVELS = ("guests", "spare")
"""Queues that give way: the first to ``default``, the second to the first."""
PROJECTS = ("default", "visitors")
"""Projects that pay where queues give way; the second gives way to the first."""
SETTINGS = with_settings(
    scheduler={"security_time": 1},
    nodes={"lost_timeout": 120.0},
    jobs={"users_may_suspend": True},
    walltime={"enabled": True},
    modules={
        "accounting_window": 3600,
        **dict.fromkeys(("metascheduler", "launcher", "canceller", "monitor", "accounting"), 240.0),
    },
)
_LEVELLED = replace(SETTINGS, submission=replace(SETTINGS.submission, projects="members"))
"""The settings where projects give way, too."""
AGAIN = 99
"""The exit code with which an idempotent job asks to be run again."""
_SILENCE = 20 * SECOND
"""After how long it is clear that a node is not reached."""
_ECHO = 90 * SECOND
"""After how long, at most, a node says again what it said of a start or an end."""
_BREAKS = ("before", "before", "after", "after", "agent", "node")
"""What may happen at a command other than a start."""
_TICK = SECOND // 1000
"""What every transaction takes, at least."""


class Killed(BaseException):
    """The process was killed where it stood."""


class Wrong(AssertionError):
    """Something that must never be."""


@dataclass(slots=True)
class Doom:
    """After how many statements and messages a process is struck, and how: killed, or only its session ``cut``."""

    left: int
    cut: bool = False


@dataclass(slots=True)
class Counts:
    """What a run was made of."""

    kills: int = 0
    cuts: int = 0
    steps: int = 0
    statements: int = 0
    messages: int = 0
    seen: Counter[str] = field(default_factory=Counter)


class Process:
    """A module or a command, its session, and what is going to happen to it."""

    def __init__(self, cluster: VirtualCluster, name: str, make: Callable[[], Module] | None = None) -> None:
        self.name = name
        self.doom: Doom | None = None
        self.killed = False
        self.due = 0
        """When its loop runs it again, though it hears nothing."""
        self.by_period = False
        """Whether that is for its period alone."""
        self.strand: Strand | None = None
        """Its thread, while it runs beside another process."""
        self._cluster = cluster
        self._make = make
        self._session: Session | None = None
        with cluster.clock.rules():  # modules note when they begin
            self.module = make() if make else None

    @property
    def session(self) -> Session:
        """The session, opened when there is none; a module leads then."""
        if self._session is None or self._session.closed:
            self._session = self._cluster.database.connect(self, f"oarpy {self.name}")
            if self.module is not None:
                doom, self.doom = self.doom, None
                assert notifications.try_lead(self._session, self.name)
                self.doom = doom
        return self._session

    @property
    def server_process(self) -> int | None:
        """The process of PostgreSQL behind its session."""
        return None if self._session is None or self._session.closed else self._session.info.backend_pid

    def die(self) -> None:
        """End at once; a new process of the kind takes the place."""
        self.lose_session()
        self.killed = False
        if self._make is not None:
            self.module = self._make()

    def lose_session(self) -> None:
        """Let the session be cut: the process lives."""
        if self._session is not None:
            self._session.break_off()
        self._session = self.doom = None

    # What its session tells

    def begins(self, *, transaction: bool) -> int:
        """Let some time pass before a transaction."""
        if transaction:
            self._cluster.pass_time(_TICK)
        return self._cluster.clock.now

    def before(self, what: str) -> None:
        """Wait for the baton, and be struck before COMMIT."""
        if self.strand is not None:
            self.strand.yield_baton()
        if what == "COMMIT":
            self.point(what)

    def returned(self) -> None:
        """Wait for the baton if it was passed over."""
        if self.strand is not None:
            self.strand.returned()

    def after(self, what: str) -> None:
        """Write a statement into the history, and be struck after it."""
        self._cluster.counts.statements += 1
        self._cluster.note(f"{self.name} {zlib.crc32(what.encode()):08x}")
        self.point(what)

    def point(self, what: str) -> None:
        """Be killed, or have the session cut, if it is time."""
        if self.doom is None:
            return
        self.doom.left -= 1
        if self.doom.left > 0:
            return
        if not self.doom.cut:
            self._cluster.counts.kills += 1
            self._cluster.note(f"{self.name} is killed at {what[:60]}")
            self.killed = True
            self.lose_session()  # nothing that the code does on the way out reaches the database
            raise Killed
        if what != "message":
            self._cluster.counts.cuts += 1
            self._cluster.note(f"{self.name} loses its session at {what[:60]}")
            self.lose_session()
            raise psycopg.OperationalError("the session was cut")


class Wire:
    """A launcher's way to the nodes: commands and reports take their time, and keep their order for each node."""

    def __init__(self, cluster: VirtualCluster, inbox: Inbox) -> None:
        self.inbox = inbox
        self._cluster = cluster
        cluster.wire = self

    def connect(self, node: NodeAddress) -> None:
        """Begin to open a channel."""
        self._cluster.connect(node)

    def connected(self, name: str) -> bool:
        """Tell whether the greeting of a node has arrived."""
        return name in self._cluster.opened

    def send(self, name: str, command: Command) -> bool:
        """Put a command on its way."""
        if name not in self._cluster.opened:
            return False
        self._cluster.send(name, command)
        self._cluster.processes["launcher"].point("message")
        return True

    def disconnect(self, name: str) -> None:
        """Close a channel."""
        self._cluster.cut_channel(name)
        self._cluster.nodes.disconnect(name)

    def close(self) -> None:
        """Close all."""
        self._cluster.close_channels()


class VirtualCluster:
    """The cluster. Its own session, ``control``, is nobody's: what it looks at is what users could see."""

    def __init__(self, database: Database, chance: random.Random, *, levelled: bool) -> None:
        self.database = database
        self.clock = Clock()
        self.chance = chance
        self.settings = settings = _LEVELLED if levelled else SETTINGS
        self.counts = Counts()
        self.history: list[str] = []
        self._digest = hashlib.sha256()
        self.nodes = FakeTransport(Inbox(), self._starts, self.clock.time)
        self.wire: Wire | None = None
        self.opened: set[str] = set()
        self._out: dict[str, deque[tuple[int, Command]]] = {name: deque() for name in NODES}
        self._back: dict[str, list[tuple[int, Report]]] = {name: [] for name in NODES}
        self._said: dict[str, tuple[int, Report] | None] = dict.fromkeys(NODES)
        """What each node said last, and when it arrives."""
        self.on_start: Callable[[JobSpec], None] = lambda spec: None
        self.began: Counter[JobKey] = Counter()
        self.ended: dict[JobKey, int | None] = {}
        """How each program ended that did so by itself."""
        self.disturbed: set[int] = set()
        """Jobs whose programs a node lost."""
        self.left: dict[str, set[JobKey]] = {name: set() for name in NODES}
        """What may be left of jobs on nodes other than their first."""
        self.troubled: dict[str, float] = dict.fromkeys(NODES, -math.inf)
        """Until when a launcher knew that it does not reach a node; without end while it does not."""
        self.longest = math.inf
        """After how many seconds programs end, at most."""
        self.slow = 0.3
        """The share of messages that take long."""
        self.doubled = 0.03
        """The share of messages that come twice."""
        self.broken = 0.0
        """The share of commands at which something happens to the channel or the node."""
        self.on_listen: Callable[[], None] = lambda: None
        """What else is heard when modules are told."""
        self.told: set[str] = set(MODULES)
        """Modules that have something to hear, or have just begun."""
        self._ran: dict[str, int] = {}
        """When each module ran last."""
        self.ordered: list[Command] = []
        """What the launcher has sent since a module began to run."""
        self.control = database.connect()
        self._ear = notifications.Ear(self.control, notifications.EVENTS)
        self._add_nodes()
        makes: dict[str, Callable[[], Module]] = {
            "metascheduler": lambda: Metascheduler(settings),
            "launcher": lambda: Launcher(settings, self._wire_up),
            "canceller": lambda: Canceller(settings),
            "monitor": lambda: Monitor(settings),
            "accounting": lambda: Accounting(settings),
        }
        self.processes = {name: Process(self, name, makes[name]) for name in MODULES}
        self.command = Process(self, "command")

    def _add_nodes(self) -> None:
        self.control.execute(
            "INSERT INTO nodes (network_address, transport) SELECT unnest(%s::text[]), 'local'", [[*NODES]]
        )
        self.control.execute(
            "INSERT INTO resources (network_address, host, cpu, core)"
            " SELECT name, name, place, place * 100 + core"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS node (name, place), generate_series(1, %s) AS core"
            " ORDER BY place, core",
            [[*NODES], CORES],
        )

    def add_levels(self, chance: random.Random) -> None:
        """Add queues and a project that give way, each in a manner of its own."""
        self.control.execute("INSERT INTO projects (project) VALUES (%s)", [PROJECTS[0]])
        self.control.execute(
            "INSERT INTO projects (project, gives_way_to, manner, grace, grace_signal) VALUES (%s, %s, %s, %s, 12)",
            [PROJECTS[1], [PROJECTS[0]], chance.choice(("end", "requeue", "suspend")), chance.choice((0, 0, 30))],
        )
        for name, higher in zip(LEVELS, ("default", *LEVELS), strict=False):
            self.control.execute(
                "INSERT INTO queues (queue_name, priority, gives_way_to, manner, grace, grace_signal)"
                " VALUES (%s, 5, %s, %s, %s, 10)",
                [name, [higher], chance.choice(("end", "requeue", "suspend")), chance.choice((0, 0, 30))],
            )

    def _wire_up(self, mode: NodeMode, settings: configuration.Nodes, inbox: Inbox, config: ChannelConfig) -> Transport:
        return Wire(self, inbox)

    def close(self) -> None:
        """Give sessions and descriptors back."""
        for process in (*self.processes.values(), self.command):
            process.lose_session()
        self.control.close()
        self.nodes.inbox.close()

    # History

    def note(self, line: str) -> None:
        """Add a line to the history."""
        line = f"{self.clock.now} {line}"
        self.history.append(line)
        self._digest.update(line.encode() + b"\n")

    def digest(self) -> str:
        """Return the digest of the history so far."""
        return self._digest.hexdigest()

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return what a user could read now."""
        found = self.control.execute(query, values).fetchall()
        self._ear.listen()  # what came behind the rows, but before the server was ready again
        return found

    # Processes

    def run(self, name: str, doom: Doom | None = None) -> str:
        """Run a module once, as its loop does; return what it says ("" if it was struck)."""
        process, word, again = self.processes[name], "", True
        self.listen()
        self.told.discard(name)
        self._ran[name] = self.clock.now
        self.ordered.clear()
        process.doom = doom
        self.counts.seen[name] += 1
        assert process.module is not None
        try:
            outcome = run(process.module, process.session, self.clock.datetime())
            self.note(f"{name}: {outcome.word}")
            word, again = outcome.word, outcome.again
            process.due = self.clock.now + int(process.module.period * SECOND)
            process.by_period = True
            if outcome.wake_at is not None and outcome.wake_at * SECOND < process.due:
                process.due, process.by_period = int(outcome.wake_at * SECOND), False
        except (Killed, psycopg.OperationalError) as error:
            if process.killed:
                if name == "launcher":
                    self.close_channels()
                process.die()
            self.told.add(name)
            self.note(f"{name}: {type(error).__name__}")
        except psycopg.Error as error:
            if process.strand is not None:  # another process was faster: the module ends, and begins anew
                self.note(f"{name}: {type(error).__name__}")
                process.die()
                self.told.add(name)
                return ""
            kind = "refused" if is_refusal(error) else "failed"
            raise Wrong(f"{name}: {kind} by the database: {error}") from error
        except Exception as error:
            raise Wrong(f"{name} ends by {type(error).__name__}: {error}") from error
        process.doom = None
        if again:
            self.told.add(name)
        return word

    def act(self, user: str, what: Callable[[UserSession], Any], doom: Doom | None = None) -> tuple[bool, Any]:
        """Let a user run a command; return whether there was an answer, and it."""
        process = self.command
        process.doom = doom
        try:
            found = what(UserSession(process.session, self.settings, user, 1000, is_admin=False))
        except (Killed, psycopg.OperationalError):
            process.killed = False
            return False, None
        finally:
            process.doom = None
        return True, found

    def listen(self) -> None:
        """Have modules told as the automaton does, for what was announced since the last time.

        The server passes on what it has when it answers: what was announced before ``rows`` were last read.
        """
        heard = self._ear.drain()
        for name in {name for payload in heard for name in REACTIONS.get(payload, ()) if name in self.processes}:
            later = self._ran.get(name, 0) + int(PATIENCE * SECOND) if name in PATIENT else 0
            if later > self.clock.now:
                process = self.processes[name]
                process.due, process.by_period = min(process.due, later), False
            else:
                self.told.add(name)
        self.on_listen()

    # Time and messages

    def pass_time(self, duration: int) -> None:
        """Let time pass, with all that happens meanwhile: programs end, messages arrive."""
        until = self.clock.now + duration
        while (found := self._next_event()) is not None and found[0] <= until:
            self.clock.now = max(self.clock.now, found[0])
            found[1]()
        self.clock.now = max(self.clock.now, until)

    def next_event(self) -> int | None:
        """Return when something happens by itself."""
        found = self._next_event()
        return None if found is None else found[0]

    def _next_event(self) -> tuple[int, Callable[[], None]] | None:
        first: tuple[int, Callable[[], None]] | None = None
        for name in NODES:
            if (queue := self._out[name]) and (first is None or queue[0][0] < first[0]):
                first = (queue[0][0], partial(self._arrive, name))
            if (back := self._back[name]) and (first is None or back[0][0] < first[0]):
                first = (back[0][0], partial(self._report, name))
            for key, job in self.nodes.node(name).jobs.items():
                if job.spec is None or job.started is None or job.ended is not None or job.suspended is not None:
                    continue
                seconds, status = _work(job.spec.command)
                seconds = min(seconds, self.longest)
                status = 0 if status == AGAIN and key.job % 3 == 0 else status  # a chain of copies has an end
                over = seconds >= job.walltime > 0
                at = int((job.started.start + min(seconds, job.walltime or seconds)) * SECOND)
                if first is None or at < first[0]:
                    first = (at, partial(self._end, name, key, None if over else status))
        return first

    def end(self, name: str, key: JobKey, status: int | None) -> None:
        """Let a program end now; None: its walltime is over."""
        self._end(name, key, status)

    def _end(self, name: str, key: JobKey, status: int | None) -> None:
        if status is None:
            self.nodes.finish(name, key, 15, "walltime")
        else:
            self.ended[key] = status << 8
            self.nodes.finish(name, key, status << 8)
        self.note(f"{key} ends on {name} with {status}")
        self._collect()

    def _starts(self, spec: JobSpec) -> None:
        self.began[spec.key] += 1
        for node in set(spec.nodes) - {spec.nodes[0]}:
            self.left[node].add(spec.key)
        self.note(f"{spec.key} starts")
        self.on_start(spec)

    def _delay(self) -> int:
        draw = self.chance.random()
        if draw >= self.slow:
            return self.chance.randrange(1, 30_000)
        return self.chance.randrange(1, 2 * SECOND if draw >= self.slow / 6 else 60 * SECOND)

    def connect(self, node: NodeAddress) -> None:
        """Open a channel: the greeting of the node is on its way."""
        self.cut_channel(node.name)
        self.nodes.connect(node)
        self._collect()

    def send(self, name: str, command: Command) -> None:
        """Put a command on its way, now and then twice."""
        self.counts.messages += 1
        self.ordered.append(command)
        queue = self._out[name]
        for _ in range(2 if self.chance.random() < self.doubled else 1):
            queue.append((max(self.clock.now + self._delay(), queue[-1][0] if queue else 0), command))

    def _arrive(self, name: str) -> None:
        _, command = self._out[name].popleft()
        if self.broken and self.chance.random() < self.broken:
            self._break(name, command)
            return
        self.note(f"{name} hears {type(command).__name__} {_keys(command)}")
        self._deliver(name, command)
        self._collect()

    def _break(self, name: str, command: Command) -> None:
        """Lose the channel before a command arrives, or after; its agent may die of it, or its node."""
        how = self.chance.choice(("before", "after", "agent", "node") if isinstance(command, Start) else _BREAKS)
        self.note(f"{name} breaks at {type(command).__name__} {_keys(command)}: {how}")
        node = self.nodes.node(name)
        if how == "agent":
            node.deaf, deaf = True, node.deaf
            self._deliver(name, command)
            node.deaf = deaf
        elif how != "before":
            self._deliver(name, command)
        if how == "node":
            self.reboot(name, keep_state=self.chance.random() < 0.5)
        else:
            self.lose(name)

    def _deliver(self, name: str, command: Command) -> None:
        self.nodes.send(name, command)
        if isinstance(command, Resize) and command.enters:
            self.left[name] |= set(command.jobs)
        elif isinstance(command, Clean) and not self.nodes.node(name).deaf:
            self.left[name] -= set(command.jobs)

    def _collect(self) -> None:
        """Put what nodes said on its way."""
        for name, report in self.nodes.inbox.drain():
            silence = _SILENCE if report == ChannelLost(self.nodes.node(name).unreachable) else 0
            self._say(name, report, silence)
            if self.chance.random() >= self.doubled or isinstance(report, Ready):
                continue
            if isinstance(report, (Started, Ended, Refused)) and self.chance.random() < 0.5:
                self._put(name, self.clock.now + self.chance.randrange(_ECHO), report)
            else:
                self._say(name, report, silence)

    def _say(self, name: str, report: Report, silence: int) -> None:
        """Put what a node says behind what it said before, or now and then before that if they are about two jobs."""
        at, before = self.clock.now + silence + self._delay(), self._said[name]
        if before is not None and before[0] >= self.clock.now:
            early = self.chance.random() < 0.1 and _apart(report, before[1])
            at = before[0] - 1 if early else max(at, before[0])
        self._put(name, at, report)
        self._said[name] = (at, report)

    def _put(self, name: str, at: int, report: Report) -> None:
        bisect.insort_right(self._back[name], (at, report), key=lambda one: one[0])

    def _report(self, name: str) -> None:
        _, report = self._back[name].pop(0)
        self.counts.messages += 1
        self.note(f"{name} says {type(report).__name__} {getattr(report, 'key', '')}")
        if isinstance(report, Ready):
            self.opened.add(name)
            if self.troubled[name] == math.inf:
                self.troubled[name] = self.clock.now
        elif isinstance(report, ChannelLost):
            self.opened.discard(name)
            self.troubled[name] = math.inf
        if self.wire is not None:
            self.told.add("launcher")
            self.wire.inbox.put(name, [report])

    def cut_channel(self, name: str) -> None:
        """Let what is on its way to a node arrive in part, and nothing of what it said."""
        self.opened.discard(name)
        queue, self._out[name] = self._out[name], deque()
        for _, command in [*queue][: self.chance.randint(0, len(queue))]:
            self._deliver(name, command)
        self.nodes.inbox.drain()
        self._back[name].clear()
        self._said[name] = None

    def close_channels(self) -> None:
        """Close all channels: their launcher is gone."""
        for name in NODES:
            self.cut_channel(name)
        self.nodes.close()
        self.troubled = {name: self.clock.now if until == math.inf else until for name, until in self.troubled.items()}
        self.wire = None

    def lose(self, name: str) -> None:
        """Cut a channel, which the launcher hears of."""
        if self.nodes.node(name).connected:
            self.troubled[name] = math.inf
            self.cut_channel(name)
            self.nodes.lose(name)
            self._collect()

    def mend(self, name: str) -> None:
        """Let a node be reached again, and do all it is told; its agent begins anew if it did not."""
        node = self.nodes.node(name)
        node.unreachable = node.refusal = node.problem = node.resize_problem = ""
        if node.deaf:
            node.deaf = False
            self.lose(name)

    def reboot(self, name: str, *, keep_state: bool) -> None:
        """Crash a node."""
        node = self.nodes.node(name)
        self.left[name].clear()
        self.disturbed |= {key.job for key, job in node.jobs.items() if job.ended is None or not keep_state}
        self.lose(name)
        self.nodes.reboot(name, keep_state)
        self.nodes.inbox.drain()


@lru_cache(maxsize=256)
def _work(command: str) -> tuple[float, int]:
    """Return how many seconds a program works, and how it ends."""
    seconds, status = map(int, command.split()[1:])
    return seconds, status


def _keys(command: Command) -> str:
    jobs = getattr(command, "jobs", ())
    return " ".join(str(job.key if isinstance(job, JobSpec) else job) for job in jobs)


def _apart(first: Report, second: Report) -> bool:
    """Tell whether two reports are about different jobs, so that their order says nothing."""
    one, other = getattr(first, "key", None), getattr(second, "key", None)
    return isinstance(one, JobKey) and isinstance(other, JobKey) and one.job != other.job
