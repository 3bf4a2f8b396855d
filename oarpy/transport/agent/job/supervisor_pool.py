"""The supervisors of one agent: which are idle, and which died."""

from __future__ import annotations

import contextlib
import time

from oarpy.transport.agent.job import processes
from oarpy.transport.agent.job.supervisor import JobSupervisor, start_probe, start_supervisor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from select import epoll

    from oarpy.transport.agent.job.isolation import Isolation
    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec

_IDLE_SECONDS = 30.0
_MOST_PROBES = 8
_ORPHAN_PATIENCE = 5.0
_MOST_OF_OTHERS = 64
"""Idle supervisors that are kept while one is started for a user whom none of them has served."""


class SupervisorPool:
    """Gives each job a supervisor; keeps idle ones for a while, since a fork costs as much as a short job."""

    def __init__(
        self, state: StateDir, isolation: Isolation, poll: epoll, readable: int, settings: RunSettings
    ) -> None:
        self._isolation = isolation
        self._state = state
        self._poll = poll
        self._readable = readable
        self._settings = settings
        self._by_fd: dict[int, JobSupervisor] = {}
        self._idle: list[JobSupervisor] = []
        self._pids: set[int] = set()
        self._probes: dict[int, str] = {}
        """Processes that wait for an answer from a place, which held up a supervisor."""

    def run(self, record: Record, mark: str, spec: JobSpec) -> None:
        """Hand a job to a supervisor; a supervisor found dead is replaced."""
        while True:
            supervisor = self._idle_for(spec.user) or self._start()
            try:
                supervisor.assign(record, mark, spec)
                return
            except (BrokenPipeError, ConnectionResetError):
                supervisor.key = None  # its end is noticed by the poll

    def _idle_for(self, user: str) -> JobSupervisor | None:
        """Return an idle supervisor that has run only this user's jobs; end one if too many belong to other users."""
        for supervisor in reversed(self._idle):
            if supervisor.user in (None, user):
                self._idle.remove(supervisor)
                return supervisor
        if len(self._idle) >= _MOST_OF_OTHERS:
            self._remove(self._idle[0])
        return None

    def problem(self) -> str:
        """Return the reason why no supervisor can start jobs; empty when there is none."""
        if self._probes:
            return f"{next(iter(self._probes.values()))} does not answer"
        if not self._idle:
            try:
                self.release(self._start())
            except OSError as error:
                return f"cannot start a supervisor: {error.strerror}"
        return ""

    def probe(self, place: str) -> None:
        """Start a process that waits until a place in the file system answers."""
        if place in self._probes.values() or len(self._probes) >= _MOST_PROBES:
            return
        with contextlib.suppress(OSError):
            pid = start_probe(place)
            self._probes[pid] = place
            self.adopt(pid)

    def _start(self) -> JobSupervisor:
        supervisor = start_supervisor(self._state, self._isolation, self._settings)
        fd = supervisor.connection.fileno()
        self._by_fd[fd] = supervisor
        self._pids.add(supervisor.pid)
        self._poll.register(fd, self._readable)
        return supervisor

    def pid_of(self, key: str) -> int:
        """Return the process of the supervisor that has a job, 0 when none of this agent has."""
        return next((supervisor.pid for supervisor in self._by_fd.values() if supervisor.key == key), 0)

    def with_jobs(self) -> list[tuple[str, int]]:
        """Return the jobs of all supervisors with their processes."""
        return [(supervisor.key, supervisor.pid) for supervisor in self._by_fd.values() if supervisor.key is not None]

    def at(self, fd: int) -> JobSupervisor | None:
        """Return the supervisor behind a descriptor."""
        return self._by_fd.get(fd)

    def release(self, supervisor: JobSupervisor) -> None:
        """Note that the job of a supervisor has ended: it may take another."""
        supervisor.key = None
        supervisor.idle_since = time.monotonic()
        self._idle.append(supervisor)

    def bury(self, supervisor: JobSupervisor) -> str | None:
        """Reap a supervisor that has gone, kill its remaining processes, and return the job it had."""
        self._remove(supervisor)
        self._reap()
        return supervisor.key

    def trim(self) -> None:
        """End the supervisors that had no job for a while."""
        oldest = time.monotonic() - _IDLE_SECONDS
        for supervisor in [supervisor for supervisor in self._idle if supervisor.idle_since < oldest]:
            self._remove(supervisor)
        self._collect({})
        # Called every second: all of /proc is looked through only when there is a child that should not be there.
        present = processes.children()
        if present is None or present - self._pids or self._pids - present:
            self._reap()

    def adopt(self, pid: int) -> None:
        """Count a child of the agent that is no supervisor among the pool's processes."""
        self._pids.add(pid)

    def pids(self) -> set[int]:
        """Return the processes of all supervisors."""
        return set(self._pids)

    def _remove(self, supervisor: JobSupervisor) -> None:
        fd = supervisor.connection.fileno()
        self._poll.unregister(fd)
        del self._by_fd[fd]
        supervisor.connection.close()
        if supervisor in self._idle:
            self._idle.remove(supervisor)

    def _reap(self) -> None:
        """Reap dead children. This process is a subreaper: children that are no supervisors were left by a dead one."""
        statuses: dict[int, int] = {}
        children_left = self._collect(statuses)
        if children_left and self._pids:
            processes.kill_orphans(self._pids, _ORPHAN_PATIENCE)
        elif children_left:
            processes.kill_descendants(_ORPHAN_PATIENCE, statuses)

    def _collect(self, statuses: dict[int, int]) -> bool:
        """Reap children that have ended, runners of scripts too; return whether others are left."""
        children_left = processes.reap_children(statuses)
        self._pids.difference_update(statuses)
        for pid in statuses.keys() & self._probes.keys():
            place = self._probes.pop(pid)
            if statuses[pid]:
                self.probe(place)  # killed before it had an answer
        return children_left
