"""Programs that speak for applications: on this node each runs once at a time, whichever process is killed meanwhile.

A launcher has a record, as a script has: its lock is held while the launcher runs. When it is lost, the server asks for
another run, as the server knows whether the application has a launcher.
"""

from __future__ import annotations

import contextlib
import os
import time

from oarpy.transport.agent.job import processes, record
from oarpy.transport.agent.job.account import AccountRefusal, Accounts, check_may_run
from oarpy.transport.agent.job.environment import job_environment
from oarpy.transport.agent.scripts.launcher_run import LauncherRun, start_launcher
from oarpy.wire.jobs import UnreadableSpec
from oarpy.wire.messages import LauncherEnded, RunLaunchers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from oarpy.transport.agent.job.job_run import RunSettings
    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.job.supervisor_pool import SupervisorPool
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobKey, JobSpec
    from oarpy.wire.messages import Command

_KIND = "launcher"
_CLEANING_PATIENCE = 5.0
_OF_JOBS = ("OAR_JOB_WALLTIME", "OAR_JOB_WALLTIME_SECONDS")
"""Variables of jobs that say nothing here."""


class Launchers:
    """Runs launchers, and reports their ends, including launchers that another agent began."""

    def __init__(
        self, state: StateDir, instance: str, pool: SupervisorPool, outbox: Outbox, settings: RunSettings
    ) -> None:
        self._state = state
        self._instance = instance
        self._pool = pool
        self._outbox = outbox
        self._settings = settings
        self._accounts = Accounts()
        self._running: dict[str, JobKey] = {}

    def obeys(self) -> dict[type[Command], Callable[[Any], None]]:
        """Return the method for each command that is obeyed here."""
        return {RunLaunchers: self._on_run}

    @property
    def awaits(self) -> bool:
        """Tell whether there are launchers whose end is still to be reported."""
        return bool(self._running)

    def look_around(self) -> None:
        """Tell which launchers are over."""
        for name, key in list(self._running.items()):
            launcher_record, held = record.lock_record(self._state.scripts, name, create=False)
            if launcher_record is not None and not held:
                launcher_record.close()
                continue
            del self._running[name]
            ended = None
            if launcher_record is not None:
                ended = launcher_record.history().ended
                self._remove(launcher_record)
            detail = "the process that ran it was killed" if ended is None else str(ended.get("detail"))
            self._outbox.say(LauncherEnded(key, detail))

    def _on_run(self, order: RunLaunchers) -> None:
        for spec in order.jobs:
            if isinstance(spec, UnreadableSpec):
                self._outbox.say(order.refusal(spec.key, spec.problem))
                continue
            try:
                self._run(spec)
            except AccountRefusal as refusal:
                self._outbox.say(LauncherEnded(spec.key, refusal.detail))
            except OSError as error:
                self._outbox.say(LauncherEnded(spec.key, f"{self._state.root}: {error.strerror}"))

    def _run(self, spec: JobSpec) -> None:
        """Begin a launcher unless it runs; the remains of a killed launcher are ended before."""
        account = self._accounts.get(spec.user)
        check_may_run(account, spec.allow_root)
        name = f"{spec.key}.{_KIND}"
        launcher_record, held = record.lock_record(self._state.scripts, name, create=True)
        if launcher_record is None:
            return
        try:
            self._running[name] = spec.key
            if not held:
                return
            mark = f"{processes.mark_of(self._instance, *spec.key)}/{_KIND}"
            if not launcher_record.empty():
                processes.kill_marked([mark], processes.ancestors() | self._pool.pids(), _CLEANING_PATIENCE)
                os.ftruncate(launcher_record.fd, 0)
            launcher_record.append("started", time.time())
            environment = job_environment(self._state, name, spec, account, mark, "", {})
            for variable in _OF_JOBS:
                environment.pop(variable)
            run = LauncherRun(spec, account, environment, self._state.commands, self._settings)
            self._pool.adopt(start_launcher(self._state, launcher_record, run))
        except OSError:
            del self._running[name]
            raise
        finally:
            launcher_record.close()

    def _remove(self, launcher_record: Record) -> None:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self._state.scripts, launcher_record.key))
        launcher_record.close()
