"""The supervisor process: takes one job at a time from its agent, and outlives the agent until the job's end."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import marshal
import os
import signal
import socket

from oarpy.transport.agent import descriptors
from oarpy.transport.agent.job.account import AccountRefusal, Accounts, check_may_run
from oarpy.transport.agent.job.environment import remove_files
from oarpy.transport.agent.job.job_run import WAKE, JobRun
from oarpy.transport.agent.job.record import Record
from oarpy.transport.agent.job.spawning import close_all_but
from oarpy.wire.jobs import JobSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from oarpy.transport.agent.job.isolation import Isolation
    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.statedir import StateDir

_PR_SET_CHILD_SUBREAPER = 36
_INLINE = 60_000
_PROBE_SECONDS = 600
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGPIPE)


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that a process that daemonises stays below this one."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class JobSupervisor:
    """The agent's handle on one supervisor process. ``user`` is the user of its jobs, None before the first."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        self.key: str | None = None
        self.user: str | None = None
        self.idle_since = 0.0

    def assign(self, record: Record, mark: str, spec: JobSpec) -> None:
        """Hand over a job with its locked record; the lock is then the supervisor's."""
        self.key = record.key
        self.user = spec.user
        content = marshal.dumps((record.key, mark, vars(spec)))
        if len(content) <= _INLINE:
            socket.send_fds(self.connection, [content], [record.fd])
        else:
            large = os.memfd_create("job")
            try:
                with open(large, "wb", closefd=False) as file:
                    file.write(content)
                socket.send_fds(self.connection, [b"large"], [record.fd, large])
            finally:
                os.close(large)
        record.close()

    def receive(self) -> tuple[str, str, dict[str, Any]] | None:
        """One report (word, key, values) from the supervisor; None when the process is gone."""
        try:
            content = self.connection.recv(_INLINE)
        except OSError:
            content = b""
        if not content:
            return None
        word, key, values = marshal.loads(content)
        return word, key, values


def start_supervisor(state: StateDir, isolation: Isolation, settings: RunSettings) -> JobSupervisor:
    """Fork a supervisor that waits for jobs of this agent; ``settings`` as for :class:`JobRun`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            detach(theirs.fileno())
            with contextlib.suppress(OSError):
                state.hold_bell()
            _Service(state, isolation, theirs, settings).serve()
            status = 0
        finally:
            os._exit(status)
    theirs.close()
    return JobSupervisor(pid, ours)


def start_probe(place: str) -> int:
    """Fork a process that ends when ``place`` answers, whatever it says; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            detach(-1)
            signal.alarm(_PROBE_SECONDS)  # should the agent be gone by then
            with contextlib.suppress(OSError):
                os.chdir(place)
        finally:
            os._exit(0)
    return pid


def detach(keep: int) -> None:
    """Give up all that came from the agent: its session, channel, descriptors and signal handlers."""
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    close_all_but({keep})
    descriptors.restore()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, WAKE)
    become_subreaper()
    gc.freeze()


class _Service:
    def __init__(self, state: StateDir, isolation: Isolation, connection: socket.socket, settings: RunSettings) -> None:
        self._isolation = isolation
        self._state = state
        self._connection = connection
        self._settings = settings
        self._accounts = Accounts()
        self._agent_gone = False

    def serve(self) -> None:
        """Run jobs until the agent has gone and the last one is done."""
        while not self._agent_gone:
            job = self._next()
            if job is None:
                return
            record, mark, spec = job
            if self._run(record, mark, spec):
                # Processes that cannot be killed must not be taken for the next job's. A thread that hangs keeps this
                # process half alive: the agent gets the end all the same.
                self._connection.shutdown(socket.SHUT_RDWR)
                return

    def _next(self) -> tuple[Record, str, JobSpec] | None:
        content, fds, _flags, _address = socket.recv_fds(self._connection, _INLINE + 1000, 2)
        for fd in fds:
            # A job that inherited its record could write it, and would hold its lock.
            os.set_inheritable(fd, False)
        if not content:
            return None
        if content == b"large":
            with open(fds.pop(), "rb") as file:
                file.seek(0)
                content = file.read()
        key, mark, spec = marshal.loads(content)
        return Record(key, fds[0]), mark, JobSpec(**spec)

    def _run(self, record: Record, mark: str, spec: JobSpec) -> int:
        """Run one job; return how many of its processes could not be killed.

        A job that may not run leaves no record.
        """
        key = record.key

        def tell(word: str, values: dict[str, Any]) -> None:
            try:
                self._connection.send(marshal.dumps((word, key, values)))
            except OSError:
                self._agent_gone = True

        try:
            account = self._accounts.get(spec.user)
            check_may_run(account, spec.allow_root)
            run = JobRun(self._state, self._isolation, record, spec, account, mark, tell, self._settings)
            return run.run()
        except AccountRefusal as refusal:
            self._withdraw(record)
            tell("refused", {"reason": refusal.reason, "detail": refusal.detail})
        except OSError as error:
            self._withdraw(record)
            tell("refused", {"reason": "STATE_DIRECTORY", "detail": f"{self._state.root}: {error.strerror}"})
        finally:
            record.close()
        return 0

    def _withdraw(self, record: Record) -> None:
        """Remove the record and the files of a job that was never started."""
        with contextlib.suppress(OSError):
            remove_files(self._state, record.key)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._state.jobs, record.key))
