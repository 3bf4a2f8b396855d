"""The modules of a cluster in the process of the test, on its database, over nodes that exist in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from weakref import WeakSet

import psycopg

from oarpy import configuration
from oarpy.configuration import Configuration
from oarpy.model.request import ResourceRequest, parse_request
from oarpy.model.submission import Submission
from oarpy.modules.canceller import Canceller
from oarpy.modules.launcher import Launcher
from oarpy.modules.launcher.starting import PATIENCE
from oarpy.modules.loop.module import Module, Outcome, run
from oarpy.modules.metascheduler.metascheduler import Metascheduler
from oarpy.modules.monitor import Monitor
from oarpy.store import notifications
from oarpy.store.jobs import submissions
from oarpy.store.platform import consumables
from oarpy.transport.base import Transport
from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress, NodeMode
from oarpy.transport.wakeup import readable
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Command
from tests.harness.fake_transport import FakeNode, FakeTransport

Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

SETTINGS = Configuration(
    scheduler=configuration.SchedulerSettings(security_time=1),
    nodes=configuration.Nodes(lost_timeout=3600),
)
_ROUNDS = 60
_DEADLINE = 30.0

# Everything that a round may move; a round that leaves it as it was has nothing left to do.
_FINGERPRINT = """
    SELECT (SELECT array_agg((job_id, state, attempt, started_at, message) ORDER BY job_id) FROM jobs)::text,
           (SELECT array_agg((job_id, state) ORDER BY job_id) FROM kill_requests)::text,
           (SELECT count(*) FROM assigned_resources WHERE suspended),
           (SELECT array_agg((resize_id, done_at) ORDER BY resize_id) FROM resizes)::text,
           (SELECT array_agg((network_address, channel) ORDER BY network_address) FROM nodes)::text,
           (SELECT array_agg((resource_id, state) ORDER BY resource_id) FROM resources)::text
"""


_OPEN: WeakSet[SmallCluster] = WeakSet()
"""Those whose descriptors have not been given back."""


def close_all() -> None:
    """Give back the descriptors of all clusters: a process has a limited number."""
    while _OPEN:
        _OPEN.pop().close()


class Wire:
    """A launcher's way to nodes that several launchers, one after the other, reach: each has its own inbox."""

    def __init__(self, inbox: Inbox, nodes: FakeTransport, addresses: dict[str, list[NodeAddress]]) -> None:
        self.inbox = inbox
        self.slow = False
        self._nodes = nodes
        self._addresses = addresses

    def pump(self) -> None:
        """Pass on what the nodes said."""
        for name, report in self._nodes.inbox.drain():
            self.inbox.put(name, [report])

    def connect(self, node: NodeAddress) -> None:
        """Connect a node."""
        self._addresses[node.name].append(node)
        if not self.slow:
            self._nodes.connect(node)
            self.pump()

    def connected(self, name: str) -> bool:
        """Whether it is connected."""
        return self._nodes.connected(name)

    def send(self, name: str, command: Command) -> bool:
        """Send a command."""
        sent = self._nodes.send(name, command)
        self.pump()
        return sent

    def disconnect(self, name: str) -> None:
        """Disconnect a node."""
        self._nodes.disconnect(name)

    def close(self) -> None:
        """Disconnect all."""
        self._nodes.close()


class SmallCluster:
    """Runs rounds of the modules by hand. ``now`` moves as tests want; the database's own clock does not."""

    def __init__(self, connection: Connection, settings: Configuration = SETTINGS) -> None:
        self.connection = connection
        self.settings = settings
        self.nodes = FakeTransport(Inbox())
        self._inboxes = [self.nodes.inbox]
        _OPEN.add(self)
        self.addresses: dict[str, list[NodeAddress]] = defaultdict(list)
        self._wire: Wire | None = None
        self._slow = False
        self.start_patience = PATIENCE
        self.launcher = self._new_launcher()
        self.scheduler = Metascheduler(settings)
        self.canceller = Canceller(settings)
        self.monitor = Monitor(settings)
        self.offset = 0.0

    # What the admin and the users do

    def add_nodes(self, *names: str, cores: int = 2, transport: str = "local") -> None:
        """Add nodes with ``cores`` cores each."""
        self.connection.execute(
            "INSERT INTO nodes (network_address, transport) SELECT name, %s FROM unnest(%s::text[]) AS name",
            [transport, list(names)],
        )
        self.connection.execute(
            "INSERT INTO resources (network_address, host, cpu, core)"
            " SELECT name, name, place, place * 100 + core"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS node (name, place), generate_series(1, %s) AS core"
            " ORDER BY place, core",
            [list(names), cores],
        )

    def add_consumable(self, name: str, level: str = "network_address", unit: str = "count", **capacities: int) -> None:
        """Declare a consumable with what blocks have of it."""
        self.connection.execute("INSERT INTO consumables VALUES (%s, %s, %s)", [name, level, unit])
        for block, capacity in capacities.items():
            consumables.set_capacities(self.connection, name, [block], capacity)

    def submit(self, *requests: str, command: str = "sleep 1000", **values: Any) -> int:
        """Submit one job asking for ``requests`` (alternatives; default one core); return its id."""
        (job,) = self.submit_array(1, *requests, command=command, **values)
        return job

    def submit_array(
        self,
        size: int,
        *requests: str,
        command: str = "sleep 1000",
        message: str = "",
        asked: Submission | None = None,
        **values: Any,
    ) -> list[int]:
        """Submit ``size`` jobs at once; ``asked`` is what is on record about it."""
        submission = Submission(
            **{
                "user": "ann",
                "queue": "default",
                "command": command,
                "directory": "/tmp",
                "alternatives": tuple(map(_alternative, requests or ("/core=1",))),
                "array_size": size,
                **values,
                "dependencies": tuple(map(str, values.get("dependencies", ()))),
            }
        )
        with self.connection.transaction():
            return submissions.insert(self.connection, submission, message=message, asked=asked)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What an admin types in psql; the rows, if there are any."""
        cursor = self.connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def delete(self, *jobs: int, by: str = "ann") -> None:
        """Ask for the end of jobs by plain SQL."""
        self.sql(
            "INSERT INTO kill_requests (job_id, requested_by) SELECT job, %s FROM unnest(%s::bigint[]) AS job",
            by,
            list(jobs),
        )

    # Rounds

    def now(self) -> datetime:
        """The instant the modules are told."""
        return datetime.now(UTC) + timedelta(seconds=self.offset)

    def run(self, module: Module) -> Outcome:
        """One run of one module."""
        return run(module, self.connection, self.now())

    def plan(self) -> Outcome:
        """One scheduling pass."""
        return self.run(self.scheduler)

    def cancel(self) -> Outcome:
        """One run of the canceller."""
        return self.run(self.canceller)

    def launch(self) -> Outcome:
        """One round of the launcher."""
        if self._wire is not None:
            self._wire.pump()
        return self.run(self.launcher)

    def launcher_on(self, connection: Connection) -> Outcome:
        """One round of the launcher on a connection of its own."""
        assert self._wire is not None
        self._wire.pump()
        return run(self.launcher, connection, self.now())

    def watch(self) -> Outcome:
        """One run of the monitor, as if a launcher led."""
        notifications.try_lead(self.connection, "launcher")
        return self.run(self.monitor)

    def settle(self) -> None:
        """Run all modules until a round changes nothing."""
        before: object = None
        for _ in range(_ROUNDS):
            for step in (self.plan, self.cancel, self.launch, self.watch):
                step()
            after = self.sql(_FINGERPRINT)
            if after == before and not readable(self.launcher.files(), 0):
                return
            before = after
        raise AssertionError(f"no rest after {_ROUNDS} rounds: {before}")

    def reconnect(self, name: str) -> None:
        """Let the launcher try a lost channel again, which it does after a moment, and take in what comes of it."""
        tries = self.addresses[name]
        self.addresses[name] = []
        until = time.monotonic() + _DEADLINE
        while not self.addresses[name]:
            self.launch()
            assert time.monotonic() < until, f"no new try to reach {name}"
            readable(self.launcher.files(), 0.01)
        self.addresses[name] = tries + self.addresses[name]
        self.launch()

    def restart_launcher(self, *, slow_nodes: bool = False) -> None:
        """A new launcher after ``kill -9`` of the old one: what that one had in memory is gone.

        The channels to slow nodes are not open before :meth:`answer`.
        """
        self.nodes.close()
        self.nodes.inbox.drain()
        self._slow = slow_nodes
        self.launcher = self._new_launcher()

    def close(self) -> None:
        """Give back what the launcher that is alive has open, and the inboxes of all, also of those killed."""
        self.launcher.close()
        for inbox in self._inboxes:
            inbox.close()

    def answer(self) -> None:
        """Let slow nodes answer."""
        assert self._wire is not None
        self._slow = self._wire.slow = False
        for tries in self.addresses.values():
            self._wire.connect(tries[-1])

    def _new_launcher(self) -> Launcher:
        self._wire = None
        return Launcher(self.settings, self._wire_up, node_sync_period=0.0, start_patience=self.start_patience)

    def _wire_up(self, mode: NodeMode, settings: configuration.Nodes, inbox: Inbox, config: ChannelConfig) -> Transport:
        self._inboxes.append(inbox)
        self._wire = Wire(inbox, self.nodes, self.addresses)
        self._wire.slow = self._slow
        return self._wire

    # What came of it

    def node(self, name: str) -> FakeNode:
        """One node."""
        return self.nodes.node(name)

    def sent(self, kind: type[Command]) -> list[tuple[str, Command]]:
        """The commands of one kind that went to nodes."""
        return [(name, command) for name, command in self.nodes.sent if isinstance(command, kind)]

    def state(self, job: int) -> str:
        """The state of a job."""
        return str(self.job(job, "state"))

    def states(self, jobs: Sequence[int]) -> list[str]:
        """The states of jobs."""
        return [self.state(job) for job in jobs]

    def job(self, job: int, column: str) -> Any:
        """One column of a job."""
        statement = psycopg.sql.SQL("SELECT {} FROM jobs WHERE job_id = %s").format(psycopg.sql.Identifier(column))
        row = self.connection.execute(statement, [job]).fetchone()
        assert row is not None
        return row[0]

    def hosts(self, job: int) -> list[str]:
        """The nodes of a job, one for each of its resources that it holds or held."""
        rows = self.sql(
            "SELECT r.network_address FROM assigned_resources a JOIN resources r USING (resource_id)"
            " WHERE a.job_id = %s ORDER BY resource_id",
            job,
        )
        return [row[0] for row in rows]

    def held(self) -> dict[int, int]:
        """Holder by resource."""
        return dict(self.sql("SELECT resource_id, job_id FROM assigned_resources WHERE upper_inf(during)"))

    def events(self, job: int) -> list[str]:
        """The types of the events of a job, in order."""
        return [row[0] for row in self.sql("SELECT type FROM event_logs WHERE job_id = %s ORDER BY event_id", job)]

    def path(self, job: int) -> list[str]:
        """The states a job went through."""
        return [row[0] for row in self.sql("SELECT state FROM job_state_logs WHERE job_id = %s ORDER BY during", job)]

    def verdict(self, job: int) -> tuple[str, str]:
        """The verdict on a waiting job and its reason."""
        ((verdict, reason),) = self.sql("SELECT verdict, reason FROM gantt_predictions WHERE job_id = %s", job)
        return verdict, reason

    def predicted(self, job: int) -> float | None:
        """In how many seconds from the modules' now a waiting job is predicted to start."""
        ((start,),) = self.sql("SELECT start_time FROM gantt_predictions WHERE job_id = %s", job)
        return None if start is None else (start - self.now()).total_seconds()

    def key(self, job: int) -> JobKey:
        """The present attempt of a job."""
        return JobKey(job, self.job(job, "attempt"))

    def end(self, job: int, status: int = 0) -> None:
        """Let a job's program end by itself."""
        self.nodes.finish(self.hosts(job)[0], self.key(job), status)


def with_settings(**sections: Mapping[str, Any]) -> Configuration:
    """Return the settings of the tests with changes: ``with_settings(nodes={"lost_timeout": 0.0})``."""
    changed = {name: replace(getattr(SETTINGS, name), **values) for name, values in sections.items()}
    return replace(SETTINGS, **changed)


def _alternative(text: str) -> ResourceRequest:
    request = parse_request(text)
    return replace(request, walltime=request.walltime or 3600)
