"""Drives a transport in tests: sends, and waits for what must arrive, with a deadline instead of sleeps."""

from __future__ import annotations

import contextlib
import getpass
import os
import select
import signal
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from oarpy.transport.base import Transport
from oarpy.transport.inbox import Inbox
from oarpy.transport.local import LocalTransport
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import ChannelLost, Command, Ended, Kill, Ping, Pong, Ready, Refused, Report, Start, Started
from research.benchmarks.server_processes import pids_with

DEADLINE = 30.0
GROUPS = Path("/sys/fs/cgroup")
"""Where control groups are, of version 2 or one folder for each hierarchy."""

_Report = TypeVar("_Report", bound=Report)


def marked(key: JobKey, instance: str) -> list[int]:
    """The processes of this machine that carry the mark of a job."""
    wanted = f"OARPY_JOB={instance}/{key.job}/{key.attempt}".encode()
    return pids_with(lambda entry: entry == wanted)


def is_stopped(pid: int) -> bool:
    """Whether a process stands still: stopped by a signal, or in a frozen control group (of version 1: state D)."""
    try:
        # D is also a shell that waits, in vfork, for its stopped child
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "TD":
            return True
        groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    except OSError:
        return False
    unified = next((path for number, _, path in groups if number == "0"), "/").lstrip("/")
    events = [root / unified / "cgroup.events" for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))]
    return any("frozen 1" in path.read_text() for path in events if path.exists())


def end_all(instance: str) -> None:
    """End what a failed test left of the jobs of an instance."""
    prefix = f"OARPY_JOB={instance}/".encode()
    for pid in pids_with(lambda entry: entry.startswith(prefix)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@dataclass(slots=True)
class Driver:
    """A transport with one node, its log of messages, and a working directory for jobs."""

    transport: Transport
    node: NodeAddress
    directory: Path
    instance: str
    user: str
    log: list[tuple[str, Report]] = field(default_factory=list)
    _pending: list[tuple[str, Report]] = field(default_factory=list)

    def connect(self) -> Ready:
        """Connect the node and wait until it is ready."""
        self.transport.connect(self.node)
        return self.expect(Ready)

    def spec(self, job: int, command: str, **changes: object) -> JobSpec:
        """A small job of the test's user, output in ``out.<job>`` and ``err.<job>``."""
        values: dict[str, object] = {
            "job": job,
            "attempt": 1,
            "user": self.user,
            "command": command,
            "directory": str(self.directory),
            "stdout": f"out.{job}",
            "stderr": f"err.{job}",
            "walltime": 600,
            "shell": "/bin/sh",
            "kill_grace": 1.0,
            "allow_root": os.geteuid() == 0,
        }
        return JobSpec(**{**values, **changes})  # type: ignore[arg-type]

    def start(self, *specs: JobSpec, incarnation: str = "") -> None:
        """Send a start."""
        self.send(Start(specs, incarnation))

    def send(self, command: Command, name: str = "") -> None:
        """Send a command; the channel must be open."""
        assert self.transport.send(name or self.node.name, command)

    def expect(
        self,
        kind: type[_Report] | tuple[type[_Report], ...],
        condition: Callable[[_Report], bool] = lambda report: True,
        name: str = "",
    ) -> _Report:
        """Wait for a message; all that comes before it is consumed and logged."""
        end = time.monotonic() + DEADLINE
        seen: list[Report] = []
        while time.monotonic() < end:
            if not self._pending:
                select.select([self.transport.inbox], [], [], 0.2)
            arrived = self.transport.inbox.drain()
            self.log += arrived
            self._pending += arrived
            while self._pending:
                sender, report = self._pending.pop(0)
                seen.append(report)
                if sender != (name or self.node.name):
                    continue
                if isinstance(report, kind) and condition(report):
                    return report
                if isinstance(report, ChannelLost) and kind is not ChannelLost:
                    raise AssertionError(f"channel lost while waiting for {kind}: {report.reason}")
        raise AssertionError(f"no {kind} within {DEADLINE:g} s; there came {seen}")

    def started(self, job: int) -> Started:
        """Wait for the start of a job."""
        return self.expect(Started, lambda report: report.key.job == job)

    def ended(self, job: int) -> Ended:
        """Wait for the end of a job."""
        return self.expect(Ended, lambda report: report.key.job == job)

    def refused(self, job: int) -> Refused:
        """Wait for the refusal of a job."""
        return self.expect(Refused, lambda report: report.key.job == job)

    def said_until_pong(self) -> list[Report]:
        """Return what is said before the answer to a ping, which comes after those to everything before."""
        first = len(self.log) - len(self._pending)
        self.send(Ping("all before"))
        pong = self.expect(Pong, lambda report: report.token == "all before")
        return [report for _, report in self.log[first:] if report is not pong]

    def run(self, spec: JobSpec) -> Ended:
        """Start a job and wait for its end."""
        self.start(spec)
        return self.ended(spec.job)

    def kill(self, job: int, grace: int | None = None) -> Ended:
        """Kill a job and wait for its end."""
        self.send(Kill((JobKey(job, 1),), grace))
        return self.ended(job)

    def output(self, job: int) -> str:
        """What a job wrote on its standard output."""
        return (self.directory / f"out.{job}").read_text()

    def groups(self, job: int) -> list[Path]:
        """The control groups of a job's first attempt on the test's own node, of any hierarchy."""
        node = f"{zlib.crc32(self.node.state_directory.encode()):08x}"
        name = f"oarpy/{node}/{JobKey(job, 1)}"
        return [path for base in (GROUPS, *GROUPS.glob("*")) for path in base.glob(name) if path.is_dir()]

    def is_grouped(self, job: int, pid: int) -> bool:
        """Whether a process is in all control groups of a job; without any, it always is."""
        return all(str(pid) in (path / "cgroup.procs").read_text().split() for path in self.groups(job))

    def processes(self, job: int) -> list[int]:
        """The processes that carry the mark of a job's first attempt."""
        return marked(JobKey(job, 1), self.instance)


@contextlib.contextmanager
def local_driver(
    folder: Path, isolation: str = "auto", pids_limit: int = 0, user: str = "", **more: Any
) -> Iterator[Driver]:
    """Give a driver of one local node, whose state and work are in ``folder``; end what is left of its jobs.

    Jobs are of ``user``, or of the test's own; ``more`` are other settings of channels.
    """
    inbox = Inbox()
    instance = f"test-{folder.name}-{os.getpid()}"
    config = ChannelConfig(instance=instance, isolation=isolation, pids_limit=pids_limit, **more)
    transport = LocalTransport(inbox, config)
    work = folder / "work"
    work.mkdir()
    work.chmod(0o777)
    node = NodeAddress("node1", str(folder / "state"))
    made = Driver(transport, node, work, config.instance, user or getpass.getuser())
    yield made
    made.transport.close()
    inbox.close()
    end_all(config.instance)
