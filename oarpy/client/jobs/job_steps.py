"""Programs inside a running job: which job, on which nodes, and carrying their streams to the caller."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from oarpy import configuration
from oarpy.client.caller import Size, Streams
from oarpy.client.jobs.selection import JobSelection, parse_one
from oarpy.client.session import Session
from oarpy.model.errors import NotAllowed, NotFound, OarpyError, Unreachable, UsageError
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher import addresses
from oarpy.modules.launcher.specifications import JobHosts, specification
from oarpy.store.jobs import execution, requests
from oarpy.store.jobs.execution import Launch
from oarpy.store.jobs.scope import JobScope
from oarpy.store.platform import nodes, site
from oarpy.transport.local import PipeStream
from oarpy.transport.node import NodeAddress, NodeMode
from oarpy.transport.steps import UNREACHABLE, StepEnded, StepEvent, StepFailed, StepOutput, Steps, StepStarted
from oarpy.transport.stream import Opener
from oarpy.transport.wakeup import readable
from oarpy.wire.steps import StepSpec, StepTerminal

_USUAL_TERMINAL = "dumb"
_LAUNCH_PATIENCE = 10.0
_LAUNCH_LOOK = 0.05
"""Seconds for which a job may be Launching before a step of it is refused, and between two looks."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job of the caller. ``nodes`` are the nodes where it has something, its first node first."""

    launch: Launch
    environment: Mapping[str, str]
    nodes: tuple[NodeAddress, ...]
    instance: str
    settings: configuration.Configuration

    def node(self, host: str) -> NodeAddress:
        """Return the node called ``host`` (its address, or the ``host`` of its resources); raise NotFound."""
        names = {
            str(resource["network_address"])
            for resource in self.launch.held
            if host in (resource.get("network_address"), resource.get("host"))
        }
        for node in self.nodes:
            if node.name == host or node.name in names:
                return node
        listed = ", ".join(node.name for node in self.nodes[:10])
        raise NotFound(f"'{host[:80]}' is not a node of job {self.launch.spec.job}", hint=f"its nodes: {listed}")


def running_job(session: Session, job_id: int) -> RunningJob:
    """Return a job with all that its steps need. Only its owner may start any: not even an admin.

    Raises :class:`NotFound` when there is no such job or it does not run (any more), and :class:`NotAllowed`.
    """
    connection = session.connection
    until = time.monotonic() + _LAUNCH_PATIENCE
    while (launch := _launched(session, job_id)) is None:
        if time.monotonic() > until:
            raise NotFound(f"job {job_id} does not run yet")
        time.sleep(_LAUNCH_LOOK)
    with connection.transaction():
        if read_types(launch.types).runs_nothing:
            raise OarpyError(f"job {job_id} is of type noop: it runs nothing on its nodes")
        environment = execution.environments(connection, [launch.submission])[launch.submission]
        names = dict.fromkeys(
            str(resource["network_address"]) for resource in launch.held if resource["type"] == "default"
        )
        places = JobHosts(session.configuration.jobs).of(launch.types, names)
        by_name = {node.name: node for node in nodes.named(connection, places)}
        instance = site.instance(connection)
    settings = session.configuration
    reached = tuple(addresses.node_address(by_name[name], settings.nodes) for name in places if name in by_name)
    return RunningJob(launch, environment, reached, instance, settings)


def _launched(session: Session, job_id: int) -> Launch | None:
    """Return a job that runs, None while it is being launched.

    Its program may know before the database that it runs, and its launcher knows its hosts before it does.
    """
    with session.connection.transaction():
        handles = requests.find(session.connection, JobScope((job_id,), live=False))
        if not handles:
            raise NotFound(f"there is no job {job_id}", hint="oarstat lists the live ones")
        if handles[0].user != session.user:
            raise NotAllowed(f"job {job_id} belongs to '{handles[0].user}', not to '{session.user}'")
        rows = execution.launches(session.connection, [job_id], JobState.RUNNING)
    if not rows and handles[0].state not in (JobState.TO_LAUNCH, JobState.LAUNCHING):
        raise NotFound(f"job {job_id} does not run: it is {handles[0].state}")
    return rows[0] if rows else None


def named_job(text: str | None, environment: Mapping[str, str]) -> JobSelection:
    """Return the job that ``-j`` names, else ``OAR_JOB_ID``; raise :class:`UsageError` when neither does."""
    word = text if text is not None else environment.get("OAR_JOB_ID", "")
    if not word:
        raise UsageError("no job given", hint="give -j ID, or set OAR_JOB_ID")
    return parse_one(word)


def host_and_user(host: str, user: str | None) -> tuple[str, str | None]:
    """Return the host and the user of ``USER@HOST``; ``user`` given apart wins, as with ssh.

    >>> host_and_user("ann@n1", None)
    ('n1', 'ann')
    """
    before, at, name = host.rpartition("@")
    return name, user if user is not None or not at else before


def step_spec(
    job: RunningJob,
    node: NodeAddress,
    command: str,
    *,
    directory: str | None = None,
    variables: Mapping[str, str] | None = None,
    terminal: StepTerminal | None = None,
    lead: bool = False,
) -> StepSpec:
    """Return the specification of a step of ``job`` on ``node``; ``command`` is for the user's shell.

    Empty: interactive.
    """
    return StepSpec(
        job=specification(
            job.launch,
            job.environment,
            job.settings.jobs,
            node.name,
            confined=addresses.confines(node, job.settings.nodes),
        ),
        command=command,
        directory=job.launch.spec.directory if directory is None else directory,
        variables=dict(variables or {}),
        terminal=terminal,
        head=node.name == job.nodes[0].name,
        lead=lead,
    )


def open_terminal(streams: Streams, environment: Mapping[str, str]) -> StepTerminal | None:
    """Begin to pass standard input on; return the terminal that the step is to have, None when there is none here."""
    size = streams.begin_input(terminal=True)
    if size is None:
        return None
    return StepTerminal(environment.get("TERM") or _USUAL_TERMINAL, size.rows, size.columns)


@contextmanager
def steps_of(job: RunningJob) -> Iterator[Steps]:
    """Yield a group of steps for the nodes of ``job``; steps that still run at the end are ended."""
    settings = job.settings.nodes
    steps = Steps(opener_for(settings, job.instance), addresses.channel_config(settings, job.instance))
    try:
        yield steps
    finally:
        steps.close()


def opener_for(settings: configuration.Nodes, instance: str) -> Callable[[NodeAddress], Opener]:
    """Return a function that says how to reach a node with a connection of its own."""
    openers: list[Opener] = []

    def opener(node: NodeAddress) -> Opener:
        if node.mode is NodeMode.LOCAL:
            return PipeStream
        if not openers:
            from oarpy.transport.ssh import SshConnector

            connector = SshConnector(addresses.ssh_config(settings), addresses.channel_config(settings, instance))
            openers.append(connector.open)
        return openers[0]

    return opener


def relay(
    steps: Steps, step: int, streams: Streams, *, with_input: bool = True, started: Callable[[], None] = lambda: None
) -> int:
    """Carry the streams of one step to and from the caller until it ends; return its raw wait status.

    ``started`` is called when its program runs, before any of its output is passed on. Raises the error that
    :func:`failure` makes of a step that failed, and :class:`BrokenPipeError` when the caller has gone.
    """
    if with_input:
        pass_input(steps, step, streams.take_early())
    else:
        steps.end_input(step)
    while True:
        files = [steps.fileno()]
        listens = not streams.ended and steps.takes_input
        if listens:
            files.append(streams.fileno())
        ready = readable(files)
        if listens and streams.fileno() in ready:
            pieces = streams.receive()
            if with_input:
                pass_input(steps, step, pieces)
        if steps.fileno() in ready:
            status = _pass_output(steps.events(), streams, started)
            if status is not None:
                return status


def pass_input(steps: Steps, step: int, pieces: Sequence[bytes | Size]) -> None:
    """Pass on the pieces that :meth:`Streams.receive` returned."""
    for piece in pieces:
        if isinstance(piece, Size):
            steps.resize(step, piece.rows, piece.columns)
        elif piece:
            steps.send_input(step, piece)
        else:
            steps.end_input(step)


def _pass_output(events: Sequence[StepEvent], streams: Streams, started: Callable[[], None]) -> int | None:
    """Pass on the output of a single step; return its status when it has ended."""
    for event in events:
        if isinstance(event, StepStarted):
            started()
        elif isinstance(event, StepOutput):
            streams.send(event.stream, event.data)
        elif isinstance(event, StepEnded):
            return event.status
        elif isinstance(event, StepFailed):
            raise failure(event)
    return None


def failure(event: StepFailed) -> OarpyError:
    """Return the error for a failed step."""
    if event.reason == UNREACHABLE:
        return Unreachable(event.detail)
    if event.reason == "JOB_OVER":
        return NotFound(event.detail)
    return OarpyError(f"{event.reason}: {event.detail}")


def exit_status(status: int) -> int:
    """Return the exit status of a shell for a raw wait status: the exit code, or 128 and the signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


@dataclass(slots=True)
class Collected:
    """Streams that keep the output, in place of the caller's; they have no input."""

    written: dict[int, bytearray] = field(default_factory=lambda: {1: bytearray(), 2: bytearray()})

    @property
    def ended(self) -> bool:
        """True: nothing is ever received."""
        return True

    @property
    def gateway(self) -> int | None:
        """None: these streams are of no call."""
        return None

    def fileno(self) -> int:
        """Return no descriptor: nothing is ever received."""
        return -1

    def begin_input(self, *, terminal: bool) -> Size | None:
        """Nothing begins."""
        return None

    def take_early(self) -> list[bytes | Size]:
        """Return nothing."""
        return []

    def open_shell(self, job: int, node: str) -> None:
        """Nothing opens."""

    def end_input(self) -> None:
        """Nothing ends."""

    def receive(self) -> list[bytes | Size]:
        """Return nothing."""
        return []

    def send(self, stream: int, data: bytes) -> None:
        """Keep it."""
        self.written[stream] += data

    def text(self, stream: int) -> str:
        """Return the output; bytes that are no UTF-8 are replaced."""
        return self.written[stream].decode(errors="replace")


def shell_text(words: Sequence[str]) -> str:
    """Return the words, without ``--`` before them, as one line for a shell, joined by blanks as ``ssh`` does."""
    return " ".join(words[1:] if words[:1] == ["--"] else words)
