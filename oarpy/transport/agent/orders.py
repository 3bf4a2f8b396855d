"""The server's orders about existing jobs: kill, signal, suspend, clean, forget."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from oarpy.transport.agent import admitted_keys
from oarpy.transport.agent.job import record, requests
from oarpy.transport.agent.job.account import AccountRefusal, Accounts
from oarpy.transport.agent.job.environment import remove_files, replace_files, write_files
from oarpy.transport.agent.job.foreign_processes import ForeignProcesses
from oarpy.transport.agent.logins.login_notes import leave_note, remove_notes
from oarpy.transport.agent.usage import MeasuredUse
from oarpy.wire.frames import Malformed
from oarpy.wire.messages import (
    Admit,
    ChangeWalltime,
    Clean,
    Cleaned,
    Forget,
    Kill,
    Recall,
    Recalled,
    RecalledJob,
    Refused,
    Resize,
    Resized,
    Resume,
    Resumed,
    Signal,
    Suspend,
    Suspended,
    Terminate,
    WalltimeChanged,
    Welcome,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from oarpy.transport.agent.job.node_jobs import NodeJobs
    from oarpy.transport.agent.job.record import History, Record
    from oarpy.transport.agent.job.tombstones import Tombstones
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.scripts.scripts import Scripts
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobKey
    from oarpy.wire.messages import Command

_AS_SPECIFIED = -1


class Orders:
    """Carries out messages about known jobs; works for jobs of any agent, through their records and requests."""

    def __init__(
        self, state: StateDir, tombstones: Tombstones, jobs: NodeJobs, scripts: Scripts, outbox: Outbox
    ) -> None:
        self._state = state
        self._tombstones = tombstones
        self._jobs = jobs
        self._scripts = scripts
        self._outbox = outbox
        self._foreign = ForeignProcesses(jobs)
        self._accounts = Accounts()

    def obeys(self) -> dict[type[Command], Callable[[Any], None]]:
        """Return the method for each command that is obeyed here."""
        return {
            Kill: self._on_kill,
            Terminate: self._on_terminate,
            Admit: self._on_admit,
            Welcome: self._on_welcome,
            Signal: self._on_signal,
            Suspend: self._on_suspend,
            Resume: self._on_resume,
            ChangeWalltime: self._on_walltime,
            Resize: self._on_resize,
            Clean: self._on_clean,
            Forget: self._on_forget,
            Recall: self._on_recall,
        }

    def _on_kill(self, order: Kill) -> None:
        for key in map(str, order.jobs):
            self._kill(key, _AS_SPECIFIED if order.grace is None else order.grace, order.reason)

    def _kill(self, key: str, grace: int, reason: str) -> None:
        """Kill a job by its record: ask its holder, or write the end if no process holds it.

        The record is made for a job that was never seen, so that a later start is refused.
        """
        self._jobs.give_up_start(key)
        job_record, held = record.lock_record(self._state.jobs, key, create=True)
        if job_record is None:
            return
        try:
            history = job_record.history()
            if not held:
                self._ask(job_record, history, requests.KILL, grace, reason)
                return
            if history.state == record.CLAIMED:
                history = self._kill_unstarted(job_record, history)
            self._outbox.tell(key, self._jobs.resolve(job_record, history))
        finally:
            job_record.close()

    def _kill_unstarted(self, job_record: Record, history: History) -> History:
        """Record the end of a job before its start, so that a start is refused; report a forgotten attempt."""
        self._tombstones.refresh()
        if job_record.key in self._tombstones:
            os.unlink(os.path.join(self._state.jobs, job_record.key))
            self._outbox.say(Refused(record.job_of(job_record.key), "FORGOTTEN", "this attempt is over"))
            return history
        now = time.time()
        detail = "killed before it was started"
        job_record.append("ended", now, start=None, end=now, status=None, reason="killed", detail=detail, left=0)
        return job_record.history()

    def _ask(self, job_record: Record, history: History, verb: str, value: int, reason: str = "") -> None:
        """Leave a request and rouse the supervisor; a supervisor that has not started the command looks when it has."""
        requests.leave_request(self._state, job_record.key, verb, value, reason)
        if history.started is None:
            history = job_record.history()
        if history.started is not None:
            requests.rouse(job_record, int(history.started["pid"]))
        self._jobs.watch(job_record.key, history.stage)
        if verb == requests.KILL:
            self._jobs.must_end(job_record.key, None if value == _AS_SPECIFIED else float(value), history)

    def _ask_running(self, jobs: Iterable[JobKey], verb: str, value: int) -> list[tuple[str, bool]]:
        """Ask for something that only a running job can do; return which jobs took it."""
        answers = []
        for key in map(str, jobs):
            job_record, held = record.lock_record(self._state.jobs, key, create=False)
            running = job_record is not None and not held
            if job_record is not None:
                if running:
                    self._ask(job_record, job_record.history(), verb, value)
                job_record.close()
            answers.append((key, running))
        return answers

    def _on_signal(self, order: Signal) -> None:
        if order.signal not in signal.valid_signals():
            raise Malformed("signal: 'signal' is not a signal number of this node")
        for key, taken in self._ask_running(order.jobs, requests.SIGNAL, order.signal):
            if not taken and not self._jobs.has_record(key):
                self._foreign.signal(key, order.signal)

    def _on_terminate(self, order: Terminate) -> None:
        for key in map(str, order.jobs):
            if not self._jobs.has_record(key):
                self._foreign.terminate(key)

    def _on_admit(self, order: Admit) -> None:
        for job in order.jobs:
            try:
                admitted_keys.admit(self._state, job, order.user, order.public_key, order.node)
            except (OSError, ValueError) as error:
                self._outbox.complain(f"admit: {error}")

    def _on_welcome(self, order: Welcome) -> None:
        spec = order.job
        key = str(spec.key)
        self._tombstones.refresh()
        if key in self._tombstones:
            return
        try:
            account = self._accounts.get(spec.user)
            write_files(self._state, key, spec, account, replace=False)
            leave_note(self._state, spec, account, self._jobs.environment(spec, account), head=order.head)
        except (AccountRefusal, OSError) as error:
            self._outbox.complain(f"log-ins of job {key}: {error}")

    def _on_suspend(self, order: Suspend) -> None:
        for key in self._pause(order.jobs, requests.SUSPEND):
            self._jobs.stop(key)
            self._outbox.say(Suspended(record.job_of(key), time.time()))

    def _on_resume(self, order: Resume) -> None:
        for key in self._pause(order.jobs, requests.RESUME):
            self._jobs.go_on(key)
            self._outbox.say(Resumed(record.job_of(key), time.time()))

    def _pause(self, jobs: Iterable[JobKey], verb: str) -> list[str]:
        """Have supervisors stop or continue jobs led from this node; return the jobs that are led from another."""
        others = []
        for key, taken in self._ask_running(jobs, verb, 0):
            if taken:
                continue
            if self._jobs.has_record(key):
                self._tell(key)
            else:
                others.append(key)
        return others

    def _on_walltime(self, order: ChangeWalltime) -> None:
        for key, taken in self._ask_running(order.jobs, requests.WALLTIME, order.seconds):
            if taken:
                self._outbox.say(WalltimeChanged(record.job_of(key), order.seconds))
            else:
                self._tell(key)

    def _on_resize(self, order: Resize) -> None:
        for job in order.jobs:
            detail = ""
            try:
                self._resize(str(job), order)
            except AccountRefusal as refusal:
                detail = refusal.detail
            except OSError as error:
                detail = f"{self._state.root}: {error.strerror or error}"
            self._outbox.say(Resized(job, order.order, detail))

    def _resize(self, key: str, order: Resize) -> None:
        """Write the files of a job that is here: led from here and begun, or guest here, now or again."""
        account = self._accounts.get(order.user)
        job_record = record.open_record(self._state.jobs, key, create=False)
        if job_record is None:
            self._tombstones.refresh()
            if order.enters:
                self._foreign.forget([key])
                if key in self._tombstones:  # it was here before: the site's programs run for it again
                    self._scripts.drop([key])
                self._tombstones.revoke(key)
            elif key in self._tombstones:
                return
            self._jobs.change_devices(key, order.gpus)
            replace_files(self._state, key, order.nodes, order.resources, account)
            return
        try:
            history = job_record.history()
            if history.started is not None and history.ended is None:
                self._jobs.change_devices(key, order.gpus)
                replace_files(self._state, key, order.nodes, order.resources, account)
                job_record.append("resized", time.time(), resources=len(order.nodes))
        finally:
            job_record.close()

    def _tell(self, key: str) -> None:
        """Report the state of a job, and follow it to its end; do nothing when there is no trace of its start."""
        job_record, held = record.lock_record(self._state.jobs, key, create=False)
        if job_record is None:
            return
        history = job_record.history()
        job_record.close()
        if held and history.state == record.CLAIMED:
            return
        self._outbox.tell(key, history)
        if history.ended is None:
            self._jobs.watch(key, history.stage)

    def _on_clean(self, order: Clean) -> None:
        keys = list(map(str, order.jobs))
        if not order.grace:
            self._foreign.forget(keys)
        self._clean(self._foreign.hold_back(keys, order.grace) if order.grace else keys)

    def look_around(self) -> None:
        """Kill the remaining processes of jobs whose time to end by themselves is over."""
        self._clean(self._foreign.due())

    def _clean(self, names: list[str]) -> None:
        keys = {self._jobs.mark(key): key for key in names}
        if not keys:
            return
        # Remembered first: a step that comes now is either refused, or its processes are found below.
        with contextlib.suppress(OSError):  # a full disk: the processes there must end all the same
            self._tombstones.add(list(keys.values()))
        with contextlib.suppress(OSError):  # the server admits no log-in into a job that is over
            admitted_keys.withdraw(self._state, list(keys.values()))
        remove_notes(self._state, list(keys.values()))
        for key in keys.values():
            self._jobs.thaw(key)
        for mark, (killed, left) in self._jobs.clean(list(keys)).items():
            used = MeasuredUse() if self._jobs.has_record(keys[mark]) else self._jobs.usage(keys[mark])
            remove_files(self._state, keys[mark])
            memory_kills = self._jobs.memory_kills(keys[mark])
            left = max(left, self._jobs.end_group(keys[mark]))
            self._jobs.remove_private([keys[mark]])  # behind the last process that might write there
            self._outbox.say(Cleaned(record.job_of(keys[mark]), killed, left, memory_kills, used.cpu, used.memory))

    def _on_forget(self, order: Forget) -> None:
        opened: list[Record] = []
        try:
            keys = [key for key in map(str, order.jobs) if self._may_forget(key, opened)]
            if keys:
                self._tombstones.add(keys, {job_record.key: record.past(job_record.history()) for job_record in opened})
            for job_record in opened:
                os.unlink(os.path.join(self._state.jobs, job_record.key))
            admitted_keys.withdraw(self._state, keys)
            remove_notes(self._state, keys)
            for key in keys:
                if os.path.exists(self._state.step_note(key)):  # a log-in may have come when the job had just ended
                    self._jobs.end_group(key)
            for job_record in opened:
                remove_files(self._state, job_record.key)
            self._jobs.remove_private(keys)
            requests.drop_requests(self._state, set(keys))
        finally:
            for job_record in opened:
                job_record.close()

    def _may_forget(self, key: str, opened: list[Record]) -> bool:
        job_record, held = record.lock_record(self._state.jobs, key, create=False)
        if job_record is not None and not held:
            job_record.close()
            self._outbox.complain(f"forget: job {key} is running")
            return False
        if job_record is not None:
            opened.append(job_record)
        return True

    def _on_recall(self, order: Recall) -> None:
        """Report the jobs in records and in tombstones; a tombstone has nothing that its record had not."""
        past = self._tombstones.recall(order.since)
        for key in self._state.job_keys():
            job_record = record.open_record(self._state.jobs, key, create=False)
            if job_record is not None:
                past[key] = record.past(job_record.history())
                job_record.close()
        self._outbox.say(Recalled(tuple(RecalledJob(record.job_of(key), **known) for key, known in past.items())))
