"""A cluster in a folder: its configuration, database, server and nodes are made, used and removed together.

Its jobs run on nodes of this machine, so :func:`end_jobs` can end their leftover processes after the server is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from oarpy.client.installation import upgrade_installation
from oarpy.configuration import load
from oarpy.frontend.call import CALLS
from oarpy.model.errors import OarpyError
from oarpy.postgres import embedded_server
from oarpy.store import database
from oarpy.store.jobs import job_listing
from oarpy.store.jobs.scope import JobScope
from oarpy.transport.agent.job.processes import NODE

_END_POLL = 0.01

Settings = Mapping[str, Mapping[str, str | int | float | bool | Sequence[str] | Mapping[str, str | float]]]
_STOP_TIMEOUT = 30.0
_LONGEST_SOCKET = 100
"""Bytes of a path. In a folder with a longer one the cluster does without a gateway."""
_GATEWAY_TIMEOUT = 30.0
_POLL = 0.02


@dataclass(slots=True)
class Sandbox:
    """The cluster kept in ``directory``; ``settings`` are laid over the defaults of the configuration file.

    With a ``database.url`` among them, the database there is used; else the folder has one of its own.
    """

    directory: Path
    settings: Settings = field(default_factory=dict)
    _server: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Write the configuration, start the database and bring its schema and rules up to date."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "work").mkdir(exist_ok=True)
        self._configure()
        if not self._url:
            embedded_server.start(self.directory / "postgresql")
        upgrade_installation(load(self.environment()), wait=0)

    def start(self) -> None:
        """Start ``oarpy server`` in the background; its log goes to ``server.log``."""
        self._server = self.background("server.log", "oarpy", "server")

    def start_anew(self, settings: Settings) -> None:
        """Replace the server by one with these settings; jobs go on meanwhile."""
        self.stop_server(signal.SIGTERM)
        self.settings = settings
        self._configure()
        self.start()

    def background(self, log: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own; its output goes to the file ``log`` of the folder."""
        with (self.directory / log).open("ab") as file:
            return subprocess.Popen(
                [command(words[0]), *words[1:]],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env=self.environment(),
                start_new_session=True,
            )

    def stop(self) -> None:
        """End the server, then the database. Data and logs stay."""
        self.stop_server(signal.SIGTERM)
        if not self._url:
            embedded_server.stop(self.directory / "postgresql")

    def end(self) -> None:
        """Stop, and kill the processes of jobs on nodes of this machine. Data and logs stay."""
        self.stop()
        nodes = Path(str(self._merged()["nodes"]["state_directory"]))
        end_jobs(nodes, _STOP_TIMEOUT)
        _remove_call_folders(nodes)

    def discard(self) -> None:
        """End everything, and remove the database of the folder. Logs stay."""
        self.end()
        embedded_server.remove(self.directory / "postgresql")

    def stop_server(self, number: int) -> None:
        """Send the supervisor a signal, and wait for its end."""
        if self._server is None:
            return
        self._server.send_signal(number)
        try:
            self._server.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None

    def remove(self) -> None:
        """Delete a cluster that an earlier run left in the folder: its database, work and logs. Other files stay."""
        if not self.configuration_file.exists():
            return
        embedded_server.remove(self.directory / "postgresql")
        for name in ("work", "nodes", "gateway"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        for name in ("config.toml", "server.log"):
            (self.directory / name).unlink(missing_ok=True)

    @property
    def server(self) -> subprocess.Popen[bytes] | None:
        """The process of ``oarpy server`` while it is meant to run."""
        return self._server

    @property
    def configuration_file(self) -> Path:
        """The path for ``OARPY_CONFIG``."""
        return self.directory / "config.toml"

    def dsn(self) -> str:
        """Return where the database is."""
        return self._url or embedded_server.dsn(self.directory / "postgresql")

    def environment(self) -> dict[str, str]:
        """Return the environment for commands that belong to this cluster."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("OARPY_", "OAR_"))}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
        return {**kept, "OARPY_CONFIG": str(self.configuration_file), "PATH": path}

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command to its end in the folder ``work``. Raises :class:`OarpyError` when it fails and ``check``."""
        done = subprocess.run(
            [command(arguments[0]), *arguments[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment(),
            cwd=self.directory / "work",
            check=False,
        )
        if check and done.returncode:
            raise OarpyError(
                f"{' '.join(arguments)} ended with {done.returncode}: {(done.stderr or done.stdout)[-500:]}"
            )
        return done

    def job_ids(self, *arguments: str) -> list[int]:
        """Submit with ``oarsub`` and return the ids of the jobs."""
        printed = self.run("oarsub", *arguments).stdout
        return [int(line.partition("=")[2]) for line in printed.splitlines() if line.startswith("OAR_JOB_ID=")]

    def states(self, jobs: Sequence[int]) -> dict[int, str]:
        """Return the state of each job."""
        printed = self.run("oarstat", "-s", "-J", *(word for job in jobs for word in ("-j", str(job)))).stdout
        return {int(job): state for job, state in json.loads(printed).items()}

    def wait_for_gateway(self, timeout: float) -> None:
        """Wait until the gateway listens, or ``timeout`` seconds have passed: commands do without it, more slowly."""
        path = str(self._merged().get("gateway", {}).get("socket", ""))
        until = time.monotonic() + timeout
        while path and time.monotonic() < until:
            with socket.socket(socket.AF_UNIX) as connection:
                if connection.connect_ex(path) == 0:
                    return
            time.sleep(_POLL)

    def wait_for(self, jobs: Sequence[int], states: Sequence[str], timeout: float) -> dict[int, str]:
        """Wait until every job is in one of ``states``. Raises :class:`OarpyError` after ``timeout`` seconds."""
        until = time.monotonic() + timeout
        scope = JobScope(job_ids=tuple(jobs), live=False)
        # the database is read, not oarstat: a new process every few milliseconds would slow the awaited job
        with database.connect(self.dsn(), "sandbox") as connection:
            while True:
                by_job = dict(job_listing.states(connection, scope))
                if all(state in states for state in by_job.values()):
                    return by_job
                if time.monotonic() > until:
                    missing = {job: state for job, state in by_job.items() if state not in states}
                    raise OarpyError(f"jobs are not {'/'.join(states)} after {timeout:g} s: {missing}")
                time.sleep(_POLL)

    @property
    def _url(self) -> str:
        return str(self.settings.get("database", {}).get("url", ""))

    def _configure(self) -> None:
        self.configuration_file.write_text(_toml(self._merged()), encoding="utf-8")

    def _merged(self) -> dict[str, dict[str, object]]:
        merged: dict[str, dict[str, object]] = {
            "database": {"directory": str(self.directory / "postgresql")},
            "nodes": {"state_directory": str(self.directory / "nodes"), "lost_timeout": 10.0, "ping_interval": 1.0},
            "scheduler": {"security_time": 1},
            "jobs": {"kill_grace": 2.0},
            # The user who makes a cluster in their own folder is its only user, root included.
            "submission": {"refused_users": ["oar"]},
        }
        gateway = self.directory / "gateway" / "socket"
        if len(os.fsencode(gateway)) <= _LONGEST_SOCKET:
            merged["gateway"] = {"socket": str(gateway), "workers": 2}
        for section, values in self.settings.items():
            merged.setdefault(section, {}).update(values)
        return merged


@contextmanager
def running_sandbox(
    directory: Path, settings: Settings, *commands: Sequence[str], database: Mapping[str, str] | None = None
) -> Iterator[Sandbox]:
    """Yield a cluster whose server runs, after ``commands``; at the end stop everything and remove the database.

    ``database`` are settings of a database server of its own. Logs stay in ``directory``.
    """
    sandbox = Sandbox(directory, settings)
    try:
        if database:
            embedded_server.start(directory / "postgresql", settings=database)
        sandbox.create()
        sandbox.start()
        sandbox.wait_for_gateway(_GATEWAY_TIMEOUT)
        for words in commands:
            sandbox.run(*words)
        yield sandbox
    finally:
        sandbox.discard()


def local_nodes(pattern: str, *options: str) -> tuple[str, ...]:
    """Return the command that adds nodes which are processes of this machine."""
    return "oaradmin", "resources", "add", pattern, "--transport", "local", *options


def command(name: str) -> str:
    """Return the path of one of our commands, beside this Python."""
    return str(Path(sys.executable).with_name(name))


def _toml(sections: Mapping[str, Mapping[str, object]]) -> str:
    lines = []
    for name, values in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    """Return a value as TOML. JSON strings, numbers, booleans and lists of them are TOML too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml_value(content)}" for key, content in value.items()) + "}"
    return json.dumps(value)


def end_jobs(nodes: Path, timeout: float) -> None:
    """Kill all processes started on a node with its state below ``nodes``, for up to ``timeout`` seconds.

    Their supervisors end with them, as no agent is there to give them more work.
    """
    until = time.monotonic() + timeout
    while (left := _started_below(nodes)) and time.monotonic() < until:
        for pid in left:
            with suppress(OSError):  # gone meanwhile, or it became another user's
                os.kill(pid, signal.SIGKILL)
        time.sleep(_END_POLL)


def _remove_call_folders(nodes: Path) -> None:
    """Remove the folders through which commands on nodes call their agents.

    They are in shared memory, not below ``nodes``.
    """
    for link in nodes.glob(f"*/{CALLS}"):
        if link.is_symlink():
            shutil.rmtree(link.readlink(), ignore_errors=True)
            link.unlink(missing_ok=True)


def _started_below(nodes: Path) -> list[int]:
    wanted = os.fsencode(f"{NODE}={os.path.abspath(nodes)}{os.sep}")
    pids = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if any(variable.startswith(wanted) for variable in entry.read_bytes().split(b"\0")):
                pids.append(int(entry.parent.name))
    return pids
