"""Slurm in a folder of its own: munged, slurmctld and a slurmd a node, on loopback and on ports of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.harness.passable_folder import passable_folder
from tests.harness.waiting import until

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"
_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "setsid")


class SlurmDaemons:
    """A cluster of ``nodes`` nodes of ``cpus`` processors each. ``words`` run a command in its environment."""

    def __init__(self, folder: Path, nodes: int, cpus: int) -> None:
        self.procs = nodes * cpus
        self.home = folder / "home"
        self._folder = folder
        self._configuration = folder / "slurm.conf"
        self._nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._cpus = cpus
        self._daemons: list[subprocess.Popen[bytes]] = []
        self.words = ["env", f"SLURM_CONF={self._configuration}", f"HOME={self.home}", f"PATH={_PATH}"]

    def start(self) -> None:
        """Start the daemons, and wait until all nodes idle."""
        for name in ("home", "state", "spool"):
            (self._folder / name).mkdir()
        for node in self._nodes:
            (self._folder / "spool" / node).mkdir()
        self._configuration.write_text(self._configured())
        key = self._folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        munged = [f"--{name}={self._folder / f'munge.{name}'}" for name in ("socket", "pid-file", "seed-file")]
        self._run("munged", "--foreground", f"--key-file={key}", *munged)
        self._until((self._folder / "munge.socket").exists)
        self._controller = self._run("slurmctld", "-D", "-f", str(self._configuration))
        for node in self._nodes:
            self._run("slurmd", "-D", "-N", node, "-f", str(self._configuration))
        self._until(lambda: self._idle() == self.procs)

    def command(self, *words: str) -> str:
        """Run a command of Slurm, and return what it prints."""
        return subprocess.run(
            [*self.words, *words], check=True, capture_output=True, text=True, timeout=60, cwd=self.home
        ).stdout.strip()

    def clear(self) -> None:
        """End all jobs, and wait until none is left that still completes."""
        self.command("scancel", "--quiet", f"--user={pwd.getpwuid(os.getuid()).pw_name}")
        until(lambda: not self.command("squeue", "--noheader"), lambda: self.command("squeue"))
        until(lambda: self._idle() == self.procs, lambda: self.command("sinfo"))

    def end(self) -> None:
        """End the daemons, and what was left behind on their host."""
        for daemon in self._daemons:
            daemon.kill()
            daemon.wait()
        for pid in self._left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> Iterator[int]:
        """Yield guards and steps, whose environment names our configuration."""
        ours = f"SLURM_CONF={self._configuration}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if ours in (process / "environ").read_bytes():
                    yield int(process.name)

    @contextmanager
    def no_controller(self) -> Iterator[None]:
        """End the controller for a while; killed, it would forget what happened in its last five seconds."""
        self._controller.terminate()
        self._controller.wait(60)
        self._daemons.remove(self._controller)
        yield
        self._controller = self._run("slurmctld", "-D", "-f", str(self._configuration))
        self._until(lambda: self._sinfo() != "")

    def _run(self, *words: str) -> subprocess.Popen[bytes]:
        with (self._folder / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen([*self.words, *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self._daemons.append(daemon)
        return daemon

    def _until(self, ready: Callable[[], bool]) -> None:
        """Wait for daemons; one that ended will never be ready."""

        def ready_or_ended() -> bool:
            return ready() or any(daemon.poll() is not None for daemon in self._daemons)

        until(ready_or_ended, self._told)
        assert ready(), self._told()

    def _told(self) -> str:
        return (self._folder / "daemons.log").read_text()[-3000:]

    def _idle(self) -> int:
        told = self._sinfo()
        return int(told.split("/")[1]) if told else 0

    def _sinfo(self) -> str:
        """Return allocated/idle/other/all processors, nothing if the controller does not answer."""
        return subprocess.run(
            [*self.words, "sinfo", "--noheader", "--format=%C"], capture_output=True, text=True, timeout=60, check=False
        ).stdout

    def _configured(self) -> str:
        controller, *ports = _free_ports(1 + len(self._nodes))
        host, user = socket.gethostname().partition(".")[0], pwd.getpwuid(os.getuid()).pw_name
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={self._cpus} State=UNKNOWN\n"
            for node, port in zip(self._nodes, ports, strict=True)
        )
        return _CONFIGURATION.format(folder=self._folder, host=host, user=user, controller=controller) + nodes


_CONFIGURATION = """\
ClusterName=tried
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,bf_resolution=1,sched_interval=1,sched_min_interval=10000,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
PriorityType=priority/basic
ReturnToService=2
MinJobAge=3600
KillWait=1
MessageTimeout=2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def slurm_daemons(nodes: int = 2, cpus: int = 4) -> Iterator[SlurmDaemons]:
    """Run Slurm for a while; skip the test where it is not installed."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        pytest.skip(f"no Slurm here: {', '.join(missing)} (Debian: slurmctld slurmd slurm-client munge)")
    with passable_folder("oarpy-slurm-") as folder:
        daemons = SlurmDaemons(folder, nodes, cpus)
        try:
            daemons.start()
            yield daemons
        finally:
            daemons.end()
