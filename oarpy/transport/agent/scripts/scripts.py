"""The site's prologue and epilogue on this node: each at most once for a (job, attempt), even if processes are killed.

A script has a record of its own, as jobs have, locked while it runs. ``started`` is written before it is executed,
``ended`` before it is reported. So an interrupted script is known as such, and never run again.
"""

from __future__ import annotations

import contextlib
import os
import time

from oarpy.transport.agent.job import processes, record
from oarpy.transport.agent.job.account import AccountRefusal, Accounts
from oarpy.transport.agent.job.environment import node_file, remove_files, write_files
from oarpy.transport.agent.scripts.script_run import SITE_PATH, ScriptRun, start_runner
from oarpy.wire.jobs import UnreadableSpec
from oarpy.wire.messages import EPILOGUE, LOST, PROLOGUE, SKIPPED, Release, RunScript, ScriptEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from oarpy.transport.agent.job.record import Record
    from oarpy.transport.agent.job.supervisor_pool import SupervisorPool
    from oarpy.transport.agent.job.tombstones import Tombstones
    from oarpy.transport.agent.outbox import Outbox
    from oarpy.transport.agent.statedir import StateDir
    from oarpy.wire.jobs import JobSpec
    from oarpy.wire.messages import Command

_CLEANING_PATIENCE = 5.0
_DAY = 86400.0


class Order:
    """A script that was ordered and has not ended yet."""

    __slots__ = ("after_prologue", "kind", "program", "spec", "timeout")

    def __init__(self, script: RunScript, spec: JobSpec) -> None:
        self.kind = script.kind
        self.program = script.program
        self.timeout = script.timeout
        self.after_prologue = script.after_prologue
        self.spec = spec

    @property
    def key(self) -> str:
        """The record's name of the job."""
        return str(self.spec.key)

    @property
    def name(self) -> str:
        """The name of the script's own record."""
        return f"{self.key}.{self.kind}"


class Scripts:
    """Runs scripts and reports their ends; scripts of another agent are followed in their records."""

    def __init__(
        self,
        state: StateDir,
        instance: str,
        tombstones: Tombstones,
        pool: SupervisorPool,
        outbox: Outbox,
        keep_days: int,
    ) -> None:
        self._state = state
        self._instance = instance
        self._tombstones = tombstones
        self._pool = pool
        self._outbox = outbox
        self._keep_days = keep_days
        self._accounts = Accounts()
        self._pending: dict[str, Order] = {}

    def obeys(self) -> dict[type[Command], Callable[[Any], None]]:
        """Return the method for each command that is obeyed here."""
        return {RunScript: self._on_script, Release: self._on_release}

    def _on_script(self, script: RunScript) -> None:
        """Run a script that was never begun, report one that has ended, follow one that runs."""
        for spec in script.jobs:
            if isinstance(spec, UnreadableSpec):
                self._outbox.say(script.refusal(spec.key, spec.problem))
                continue
            order = Order(script, spec)
            self._pending[order.name] = order
            self._look_at(order)

    @property
    def awaits(self) -> bool:
        """Whether there are scripts that have not ended."""
        return bool(self._pending)

    def look_around(self) -> None:
        """Look at the records of all scripts that are awaited."""
        for order in list(self._pending.values()):
            self._look_at(order)

    def _on_release(self, order: Release) -> None:
        """Remove the records of jobs whose scripts are over for good."""
        self.drop(map(str, order.jobs))

    def drop(self, keys: Iterable[str]) -> None:
        """Forget the scripts of jobs: a script that is requested later runs again."""
        for key in keys:
            for kind in (PROLOGUE, EPILOGUE):
                self._pending.pop(f"{key}.{kind}", None)
                self._remove(f"{key}.{kind}")

    def prune(self) -> None:
        """Remove records that were never released."""
        oldest = time.time() - self._keep_days * _DAY
        for name in os.listdir(self._state.scripts):
            with contextlib.suppress(OSError):
                if os.stat(os.path.join(self._state.scripts, name)).st_mtime < oldest:
                    self._remove(name)

    def _look_at(self, order: Order) -> None:
        try:
            outcome = self._advance(order)
        except AccountRefusal as refusal:
            outcome = refusal.reason, refusal.detail
        except OSError as error:
            outcome = "STATE_DIRECTORY", f"{self._state.root}: {error.strerror}"
        if outcome is not None:
            self._pending.pop(order.name, None)
            self._outbox.say(ScriptEnded(order.spec.key, order.kind, *outcome))

    def _advance(self, order: Order) -> tuple[str, str] | None:
        """Return (outcome, detail) of a script that is over; None while it runs or waits, and when it was begun now."""
        if order.kind == EPILOGUE and order.after_prologue:
            prologue, held = record.lock_record(self._state.scripts, f"{order.key}.{PROLOGUE}", create=False)
            if prologue is not None:
                begun = prologue.history().started is not None
                prologue.close()
                if not held:
                    return None  # it still runs: its end rings
                if not begun:
                    prologue = None
            if prologue is None:
                remove_files(self._state, order.key)
                return SKIPPED, "no prologue was begun here"
        script_record, held = record.lock_record(self._state.scripts, order.name, create=True)
        if script_record is None:
            return None
        try:
            history = script_record.history()
            if not held:
                return None
            if history.ended is not None:
                return str(history.ended.get("outcome")), str(history.ended.get("detail"))
            if history.started is not None:
                return self._close_lost(script_record, order)
            return self._begin(script_record, order)
        finally:
            script_record.close()

    def _begin(self, script_record: Record, order: Order) -> tuple[str, str] | None:
        """Start a script in a process of its own, once ``started`` is in its record; return its end if it cannot."""
        if order.kind == PROLOGUE:
            self._tombstones.refresh()
            if order.key in self._tombstones:
                os.unlink(os.path.join(self._state.scripts, order.name))
                return "FORGOTTEN", "this attempt is over"
        account = self._accounts.get(order.spec.user)
        write_files(self._state, order.key, order.spec, account, replace=False)
        run = ScriptRun(order.kind, order.program, order.timeout, self._arguments(order), self._environment(order))
        script_record.append("started", time.time())
        try:
            self._pool.adopt(start_runner(self._state, script_record, run))
        except OSError as error:
            return self._end(script_record, "SUPERVISOR", f"cannot start a process: {error.strerror}")
        return None

    def _close_lost(self, script_record: Record, order: Order) -> tuple[str, str]:
        """Write that a script is lost, after killing its processes: its runner is gone, and its effect is unknown."""
        processes.kill_marked([self._mark(order)], processes.ancestors() | self._pool.pids(), _CLEANING_PATIENCE)
        return self._end(script_record, LOST, f"nobody saw the {order.kind} end: the process that ran it was killed")

    def _end(self, script_record: Record, outcome: str, detail: str) -> tuple[str, str]:
        script_record.append("ended", time.time(), outcome=outcome, detail=detail)
        return outcome, detail

    def _mark(self, order: Order) -> str:
        return f"{processes.mark_of(self._instance, *order.spec.key)}/{order.kind}"

    def _arguments(self, order: Order) -> list[str]:
        arguments = [str(order.spec.job), order.spec.user, node_file(self._state, order.key)]
        return [*arguments, str(order.spec.walltime)] if order.kind == PROLOGUE else arguments

    def _environment(self, order: Order) -> dict[str, str]:
        """Return an environment without anything that the user chose: the script has the agent's rights."""
        return {
            "PATH": SITE_PATH,
            "HOME": "/",
            "OAR_JOB_ID": str(order.spec.job),
            "OAR_USER": order.spec.user,
            "OAR_NODEFILE": node_file(self._state, order.key),
            processes.MARK: self._mark(order),
        }

    def _remove(self, name: str) -> None:
        script_record, held = record.lock_record(self._state.scripts, name, create=False)
        if script_record is not None:
            if held:
                os.unlink(os.path.join(self._state.scripts, name))
            script_record.close()
