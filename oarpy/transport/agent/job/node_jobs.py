"""The jobs of a node as one agent sees them: run by supervisors of its own, or followed in their records."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque

from oarpy.transport.agent.job import private_directories, processes, record, suspending
from oarpy.transport.agent.job.environment import job_environment
from oarpy.transport.agent.job.hung_supervisors import HungSupervisors
from oarpy.transport.agent.usage import MeasuredUse
from oarpy.wire.messages import REPORTS, Refused, Stuck

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from oarpy.transport.agent.job.account import Account
    from oarpy.transport.agent.job.isolation import Isolation
    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.job.record import History, Record
    from oarpy.transport.agent.job.supervisor import JobSupervisor
    from oarpy.transport.agent.job.supervisor_pool import SupervisorPool
    from oarpy.transport.agent.job.tombstones import Tombstones
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec

_CLEANING_PATIENCE = 5.0
_TRIES = 3
_LOOK_PERIOD = 5.0
"""Seconds between two looks at the supervisors."""
_TOGETHER = 16
"""Starts until the agent looks at its other work again: each may cost it the copy of a process."""


class _Watched:
    """A job whose record another process holds: the last report, and the job to run if it turns out never started."""

    __slots__ = ("reported", "spec", "tries")

    def __init__(self, reported: str, spec: JobSpec | None, tries: int) -> None:
        self.reported = reported
        self.spec = spec
        self.tries = tries


class NodeJobs:
    """Decides about each (job, attempt), by its record and under its lock."""

    def __init__(
        self,
        state: StateDir,
        instance: str,
        tombstones: Tombstones,
        pool: SupervisorPool,
        isolation: Isolation,
        outbox: Outbox,
        settings: RunSettings,
    ) -> None:
        self._isolation = isolation
        self._hung = HungSupervisors(state, outbox, settings, pool.pid_of)
        self._next_look = 0.0
        self._state = state
        self._instance = instance
        self._tombstones = tombstones
        self._pool = pool
        self._private = settings.private
        self._outbox = outbox
        self._watched: dict[str, _Watched] = {}
        self._running: dict[str, tuple[JobSpec, int]] = {}
        self._starts: deque[tuple[JobSpec, bool]] = deque()
        self._awaited: set[str] = set()
        """The jobs of ``_starts``."""

    def mark(self, key: str) -> str:
        """Return the mark that all processes of a job carry."""
        return processes.mark_of(self._instance, *record.job_of(key))

    def stop(self, key: str) -> None:
        """Stop all that a job has here, when it is led from another node."""
        with contextlib.suppress(OSError):  # a full disk: the processes here are stopped all the same
            self._state.note_suspension(key)  # first: a process that comes now is refused, or found below
        suspending.stop(self._isolation.freezers(key), lambda: self.guests(key))

    def go_on(self, key: str) -> None:
        """Let the processes that :meth:`stop` stopped go on."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._state.suspension_note(key))
        suspending.go_on(self._isolation.freezers(key), lambda: self.guests(key))

    def thaw(self, key: str) -> None:
        """Let processes that are to be killed run: a frozen process does not die."""
        suspending.thaw(self._isolation.freezers(key))

    def environment(self, spec: JobSpec, account: Account) -> dict[str, str]:
        """Return the environment of a job's programs here."""
        key = str(spec.key)
        group, seen = self._isolation.name_of(key), self._isolation.variables(spec.gpus)
        return job_environment(self._state, key, spec, account, self.mark(key), group, seen)

    def change_devices(self, key: str, gpus: Collection[int] | None) -> None:
        """Let the processes of a job here open the devices of these GPUs only. Raises ``OSError``."""
        self._isolation.change_devices(key, gpus)

    def remove_private(self, keys: Iterable[str]) -> None:
        """Take the own directories of jobs away; their files are removed meanwhile."""
        if remover := private_directories.begin_removal(self._state, keys):
            self._pool.adopt(remover)

    def sweep_private(self) -> None:
        """Take away the remains of the own directories of jobs that are unknown here."""
        if remover := private_directories.sweep(self._state, self._private):
            self._pool.adopt(remover)

    def memory_kills(self, key: str) -> int:
        """Return how many processes of a job the kernel killed here because it was out of its memory."""
        return self._isolation.memory_kills(key)

    def usage(self, key: str) -> MeasuredUse:
        """Return the use of a job here, as far as no supervisor of this node reports it."""
        use = MeasuredUse()
        use.read_notes(self._state, key)
        use.at_least(self._isolation.usage(key))
        return use

    def end_group(self, key: str) -> int:
        """Kill the processes in the control group of a job and remove it; return how many processes resist."""
        return self._isolation.end(key, _CLEANING_PATIENCE)

    def clean(self, marks: list[str]) -> dict[str, tuple[int, int]]:
        """Kill all processes with these marks; for each how many were killed and how many resist."""
        return processes.kill_marked(marks, self.spared(), _CLEANING_PATIENCE, self._state.root)

    def guests(self, key: str) -> list[int]:
        """Return the processes of the job here that are not below a supervisor of this node."""
        mark = self.mark(key)
        return processes.marked([mark], self.spared(), self._state.root).get(mark, [])

    def spared(self) -> set[int]:
        """Return the agent's own processes, which are never killed, even if they carry the mark of a job."""
        return processes.ancestors() | self._pool.pids()

    def has_record(self, key: str) -> bool:
        """Tell whether the program of a job was started here, or is to be."""
        return os.path.exists(os.path.join(self._state.jobs, key))

    def start(self, specs: list[JobSpec], durable: bool) -> None:
        """Start the jobs that were never started, report the others; ``durable`` claims survive a power cut.

        The first jobs start now, the others in their turn: the agent reads and sends messages in between.
        """
        at_once = not self._starts
        for spec in specs:
            if str(spec.key) not in self._awaited:
                self._awaited.add(str(spec.key))
                self._starts.append((spec, durable))
        if at_once:
            self.start_some()

    @property
    def has_starts(self) -> bool:
        """Whether there are jobs that wait for their turn to be started."""
        return bool(self._starts)

    def start_some(self) -> None:
        """Start the jobs whose turn it is."""
        turn = [self._starts.popleft() for _ in range(min(_TOGETHER, len(self._starts)))]
        if turn:
            self._awaited.difference_update(str(spec.key) for spec, _ in turn)
            self._start([spec for spec, _ in turn], any(durable for _, durable in turn))

    def _start(self, specs: list[JobSpec], durable: bool) -> None:
        claims: list[tuple[Record, JobSpec]] = []
        for spec in specs:
            claimed = self._claim(str(spec.key), spec)
            if claimed is not None:
                claims.append((claimed, spec))
        if not claims:
            return
        try:
            if durable:
                self._state.sync_jobs()
            self._tombstones.refresh()
        except OSError as error:
            for claimed, _spec in claims:
                self._withdraw(claimed, "STATE_DIRECTORY", f"{self._state.root}: {error.strerror}")
            return
        for claimed, spec in claims:
            self._run(claimed, spec, 1)

    def _claim(self, key: str, spec: JobSpec) -> Record | None:
        """Lock the record of a job that was never started; None (and a report) in every other case."""
        try:
            job_record, held = record.lock_record(self._state.jobs, key, create=True)
        except OSError as error:
            detail = f"{self._state.jobs}: {error.strerror}"
            self._outbox.say(Refused(record.job_of(key), "STATE_DIRECTORY", detail))
            return None
        if job_record is None:
            return None
        if held and job_record.empty():
            return job_record
        history = job_record.history()
        if held and history.state == record.CLAIMED:
            return job_record
        job_record.close()
        self._outbox.tell(key, history)
        if history.ended is None:
            self.watch(key, history.stage, spec)
        return None

    def _run(self, claimed: Record, spec: JobSpec, tries: int) -> None:
        """Hand a locked, never started job to a supervisor, unless it was forgotten meanwhile."""
        key = claimed.key
        self._watched.pop(key, None)
        if key in self._tombstones:
            self._withdraw(claimed, "FORGOTTEN", "this attempt is over")
            return
        self._running[key] = (spec, tries)
        self._hung.assigned(key)
        try:
            self._pool.run(claimed, self.mark(key), spec)
        except OSError as error:
            del self._running[key]
            self._hung.over(key)
            self._withdraw(claimed, "SUPERVISOR", f"cannot start a supervisor: {error.strerror}")

    def _withdraw(self, claimed: Record, reason: str, detail: str) -> None:
        """Refuse a job whose record we hold, and remove all that it has here."""
        os.unlink(os.path.join(self._state.jobs, claimed.key))
        claimed.close()
        self._outbox.say(Refused(record.job_of(claimed.key), reason, detail))

    def hear(self, fd: int) -> None:
        """Take in a report of a supervisor of ours, or that it is gone."""
        supervisor = self._pool.at(fd)
        if supervisor is None:
            return
        report = supervisor.receive()
        if report is None:
            self._lose(supervisor)
            return
        word, key, values = report
        self._hung.heard(key)
        if word == Stuck.WORD and values["place"]:
            self._pool.probe(values["place"])
        self._outbox.say(REPORTS[word](record.job_of(key), **values))
        if word in ("ended", "refused"):
            self._hung.over(key)
            self._running.pop(key, None)
            self._pool.release(supervisor)

    def _lose(self, supervisor: JobSupervisor) -> None:
        key = self._pool.bury(supervisor)
        if key is not None:
            spec, tries = self._running.pop(key, (None, 0))
            if self._hung.was_to_end(key):
                spec = None
            self.watch(key, "", spec, tries)
            self._look_at(key)

    def watch(self, key: str, reported: str, spec: JobSpec | None = None, tries: int = 0) -> None:
        """Follow a job, unless it is our own; ``spec`` is the job to run if its holder dies before it did."""
        if key in self._running:
            return
        watched = self._watched.setdefault(key, _Watched(reported, spec, tries))
        watched.spec = spec or watched.spec

    @property
    def follows(self) -> bool:
        """Whether there are jobs of others to be followed."""
        return bool(self._watched)

    def give_up_start(self, key: str) -> None:
        """Give up our own start of a job that is to be killed."""
        if key in self._watched:
            self._watched[key].spec = None

    def look_around(self) -> None:
        """Look at the records of all jobs we follow, and now and then at the supervisors of our own."""
        for key in list(self._watched):
            self._look_at(key)
        if (now := time.monotonic()) >= self._next_look:
            self._next_look = now + _LOOK_PERIOD
            for key, pid in self._pool.with_jobs():
                self._hung.look_at(key, pid)
        self._hung.look()

    def must_end(self, key: str, grace: float | None, history: History) -> None:
        """Expect the end of a job that is to end; without ``grace``, as its specification says."""
        if grace is None:
            grace = float((history.started or {}).get("grace", 0.0))
        self._hung.must_end(key, grace)

    def problem(self) -> str:
        """Return the reason why supervisors on this node hang, or cannot be started; empty when there is none."""
        return self._hung.problem() or self._pool.problem()

    def _look_at(self, key: str) -> None:
        """Look at the record of a job: forgotten, still held by a process, or free.

        When it is free its holder is dead: a bare claim can be started again, a started job has ended or is lost.
        """
        watched = self._watched[key]
        job_record, held = record.lock_record(self._state.jobs, key, create=False)
        if job_record is None:
            del self._watched[key]  # forgotten through another agent, after its end was recorded
            return
        history = job_record.history()
        if not held:
            if history.stage != watched.reported:
                watched.reported = history.stage
                self._outbox.tell(key, history)
            job_record.close()
            if history.started is not None:
                self._hung.heard(key)
                self._hung.look_at(key, int(history.started["pid"]))
            else:
                self._hung.assigned(key)
            return
        del self._watched[key]
        if history.state == record.CLAIMED and not self._hung.was_to_end(key):
            self._hung.over(key)
            self._look_at_claim(job_record, watched)
            return
        try:
            history = self.resolve(job_record, history)
        except OSError:
            self._watched[key] = watched  # no room to write the end: another time
            return
        finally:
            job_record.close()
        self._hung.over(key)
        self._outbox.tell(key, history)

    def _look_at_claim(self, job_record: Record, watched: _Watched) -> None:
        """Start or refuse a claimed job whose claimer died before the command was executed."""
        if watched.spec is None:
            job_record.close()
        elif watched.tries >= _TRIES:
            self._withdraw(job_record, "SUPERVISOR", "its supervisors die before they can start it")
        else:
            self._tombstones.refresh()
            self._run(job_record, watched.spec, watched.tries + 1)

    def resolve(self, job_record: Record, history: History) -> History:
        """Return the history of a job whose record we hold.

        A job without an outcome is lost: its processes are killed.
        """
        why = self._hung.reason(job_record.key)
        if history.ended is not None or (history.started is None and not why):
            return history
        mark = str((history.started or {}).get("mark") or self.mark(job_record.key))
        suspending.thaw(self._isolation.freezers(job_record.key))
        left = self.clean([mark])[mark][1]
        usage = self.usage(job_record.key)
        left += self.end_group(job_record.key)
        if why:
            reason = "killed" if self._hung.was_to_end(job_record.key) else "SUPERVISOR"
            return write_lost(job_record, history, left, why, reason, usage)
        return write_lost(job_record, history, left, "its supervisor was killed", usage=usage)


def write_lost(
    job_record: Record, history: History, left: int, detail: str, reason: str = "lost", usage: MeasuredUse | None = None
) -> History:
    """Record that the end of a job is unknown, ``left`` of its processes resisting; return the new history."""
    used = (usage or MeasuredUse()).entry()
    now = time.time()
    start = history.started["at"] if history.started else None
    outcome = {"start": start, "end": now, "status": None, "reason": reason, "detail": detail, "left": left, **used}
    job_record.append("ended", now, **outcome)
    return job_record.history()
