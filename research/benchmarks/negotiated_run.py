"""Applications of an experiment, for real: the modules of a server and launchers that speak with them.

Nodes are simulated: hosts have no agents, and what nodes do with a job that only sleeps is written here. Launchers
are those of the simulation, each with a connection of its own, all in this process.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from oarpy.local_cluster.sandbox import Sandbox, Settings, local_nodes
from oarpy.model.errors import OarpyError
from oarpy.modules.registry import module_command
from oarpy.negotiation.launchers import Choice
from oarpy.negotiation.messages import line_of
from oarpy.negotiation.profiles import BusyHosts
from oarpy.negotiation.simulation.workload import Participant, Workload
from research.ndrms.workloads import TICKS

from .launcher_connections import LauncherConnection, LauncherCrowd
from .processor_time import of_processes, of_questions

_MODULES = ("automaton", "metascheduler", "negotiator")
_PROPERTY = "cluster"
_NODES_STEP = 0.05
_READY, _LEFT = 60.0, 600.0
"""Seconds for the server to listen, and for applications to end after the last one came."""
# What nodes would do, the last step of a job first: each job takes one step at a time.
_STEPS = (
    """UPDATE jobs SET state = 'Terminated', ended_at = now(), exit_status = 0, left_nothing = true
       WHERE state = 'Finishing'""",
    """UPDATE jobs SET state = 'Finishing', final_state = 'Terminated'
       WHERE state = 'Running' AND job_id IN (SELECT job_id FROM kill_requests WHERE state <> 'done')""",
    "UPDATE jobs SET state = 'Running', started_at = now() WHERE state = 'Launching'",
    "UPDATE jobs SET state = 'Launching' WHERE state = 'toLaunch'",
)


def run_for_real(workload: Workload) -> tuple[int, float]:
    """Run the applications of a workload in real time.

    Returns the bytes of all lines in both directions, and the processor seconds of server, database and launchers.
    Raises :class:`OarpyError` when the applications do not end.
    """
    with tempfile.TemporaryDirectory(prefix="oarpy-") as folder:
        directory = Path(folder)
        with _server(directory, workload) as (sandbox, processes, connection):
            own, gateway = connection.info.backend_pid, processes["gateway"].pid
            modules = [process.pid for name, process in processes.items() if name != "gateway"]
            before = of_processes(modules) + of_questions(gateway, own)
            crowd = LauncherCrowd(str(directory / "gateway" / "socket"), sandbox.environment(), directory)
            try:
                launchers = _Launchers(crowd, workload.participants)
                _follow(launchers, connection)
            finally:
                crowd.close()
            server = of_processes(modules) + of_questions(gateway, own) - before
            return launchers.bytes, server + launchers.seconds


@contextmanager
def _server(
    directory: Path, workload: Workload
) -> Iterator[tuple[Sandbox, dict[str, subprocess.Popen[bytes]], psycopg.Connection[tuple[Any, ...]]]]:
    """A database, the modules that applications take, a gateway, and hosts that nobody looks after."""
    sandbox = Sandbox(directory, _settings(workload))
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        sandbox.create()
        for name, hosts in workload.sizes.items():
            sandbox.run(*local_nodes(f"/{_PROPERTY}={name}/host={name}n[1-{hosts}]/core={{1}}"))
        with (directory / "server.log").open("ab") as log:
            for name in (*_MODULES, "gateway"):
                words = ("oarpy.gateway",) if name == "gateway" else ("oarpy.modules", name)
                processes[name] = subprocess.Popen(
                    module_command(*words), env=sandbox.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
                )
        sandbox.wait_for_gateway(_READY)
        with psycopg.connect(sandbox.dsn(), autocommit=True) as connection:
            yield sandbox, processes, connection
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        sandbox.discard()


def _settings(workload: Workload) -> Settings:
    rules = workload.rules
    return {
        "log": {"level": "warning"},
        "scheduler": {"security_time": round(rules.security / workload.ticks)},
        "negotiation": {
            "cluster": _PROPERTY,
            "rank": rules.rank,
            "ghosts": rules.ghosts,
            "fair_start": float(rules.fair_start) / workload.ticks,
            "timer": float(workload.timer) / workload.ticks,
            "connections": 2 * len(workload.participants),
            "connections_per_user": 2 * len(workload.participants),
        },
    }


def _follow(launchers: _Launchers, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Let launchers speak, and do what nodes would, until all applications are over."""
    looked = 0.0
    while not launchers.over:
        launchers.step()
        if time.monotonic() - looked >= _NODES_STEP:
            looked = time.monotonic()
            for statement in _STEPS:
                connection.execute(statement.encode())


@dataclass(eq=False, slots=True)
class _Speaker:
    """A launcher and what it knows."""

    participant: Participant
    connection: LauncherConnection
    view: dict[str, BusyHosts] = field(default_factory=dict)
    choice: Choice | None = None
    tags: int = 0
    ends: float | None = None
    started: bool = False


class _Launchers:
    """Launchers that come one after the other; ``seconds`` are those of the processor that they took."""

    def __init__(self, crowd: LauncherCrowd, participants: Sequence[Participant]) -> None:
        self.bytes = 0
        self.seconds = 0.0
        self._crowd = crowd
        began, first = time.time(), min(participant.arrives for participant in participants)
        self._coming = [
            (began + float(participant.arrives - first) / TICKS, participant) for participant in reversed(participants)
        ]
        self._until = self._coming[0][0] + _LEFT
        self._live: list[_Speaker] = []

    @property
    def over(self) -> bool:
        """Tell whether all have come and ended."""
        return not self._coming and not self._live

    def step(self) -> None:
        """Let those come that are due, hear and answer what is said, and end what has run."""
        began, now = time.thread_time(), time.time()
        if now > self._until:
            raise OarpyError(f"{len(self._live)} applications have not ended {_LEFT:g} s after the last one came")
        while self._coming and self._coming[-1][0] <= now:
            newcomer = _Speaker(self._coming.pop()[1], self._crowd.open())
            self._live.append(newcomer)
            self._say(newcomer, "subscribe")
        self._crowd.listen(_NODES_STEP / 2)
        for speaker in self._live[:]:
            heard, speaker.connection.heard[:] = [line for _, line in speaker.connection.heard], []
            for line in heard:
                self.bytes += len(line) + 1
                self._hear(speaker, json.loads(line))
            if speaker.ends is not None and speaker.ends <= now:
                speaker.ends = None
                self._say(speaker, "done")
        self.seconds += time.thread_time() - began

    def _say(self, speaker: _Speaker, word: str, **fields: object) -> None:
        self.bytes += len(line_of({"message": word, **fields}))
        try:
            speaker.connection.say(word, **fields)
        except OSError as error:
            raise OarpyError(
                f"the server has left the launcher of application {speaker.participant.id}: {error}"
            ) from None

    def _hear(self, speaker: _Speaker, message: Mapping[str, Any]) -> None:
        word = message["message"]
        if word == "changeNotify":
            speaker.view |= {name: BusyHosts.of(_ticks(flat)) for name, flat in message["changes"].items()}
            if not speaker.started:
                self._answer(speaker, message["serial"])
        elif word == "startNotify":
            assert speaker.participant.launcher is not None
            speaker.started = True
            speaker.ends = time.time() + float(speaker.participant.launcher.run_time(message["hosts"])) / TICKS
        elif word == "ended":
            self._live.remove(speaker)
            self._crowd.leave(speaker.connection)
            if message["reason"] != "done":
                raise OarpyError(f"an application ended otherwise than planned: {message['reason']}")
        elif word == "refused" and message["code"] != 1:
            raise OarpyError(f"a launcher was refused: {message['reason']}")

    def _answer(self, speaker: _Speaker, serial: int) -> None:
        assert speaker.participant.launcher is not None
        choice = speaker.participant.launcher.choose(speaker.view, round(time.time() * TICKS))
        if choice is None or choice == speaker.choice:
            self._say(speaker, "keep", serial=serial)
            return
        speaker.choice = choice
        speaker.tags += 1
        walltime = float(choice.walltime) / TICKS
        self._say(speaker, "request", tag=speaker.tags, hosts=choice.hosts, walltime=walltime, serial=serial)


def _ticks(flat: Sequence[float]) -> list[int]:
    """Return a profile that is in seconds in ticks."""
    return [int(value) if at and at % 2 == 0 else round(value * TICKS) for at, value in enumerate(flat)]
