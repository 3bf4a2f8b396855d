"""The site's prologue or epilogue on the nodes of jobs: who was asked for it, and what they answered."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.endings import UNABLE, end_of_unable
from oarpy.store.jobs.execution import End
from oarpy.store.platform.nodes import Fault
from oarpy.wire.jobs import JobKey, JobSpec
from oarpy.wire.messages import EPILOGUE, FAILED, LOST, OK, PROLOGUE, SKIPPED, TIMEOUT, UNFIT, RunScript, ScriptEnded

_LATE = 30.0
"""Seconds beyond its time limit for which an answer about an epilogue is waited for."""

PROLOGUE_ERROR, EPILOGUE_ERROR = "PROLOGUE_ERROR", "EPILOGUE_ERROR"
_JOBS_FAULT = frozenset({"NO_SUCH_USER", "FORGOTTEN", UNFIT})


@dataclass(slots=True)
class _Run:
    since: float
    asked: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


class NodeScripts:
    """The runs of one kind of script. Forgetting all of this only asks the nodes again, and they answer the same."""

    def __init__(self, kind: str, program: str, timeout: float, *, after_prologue: bool = False) -> None:
        self.kind = kind
        self._program = program
        self._timeout = timeout
        self._after_prologue = after_prologue
        self._runs: dict[JobKey, _Run] = {}

    def __bool__(self) -> bool:
        return bool(self._program)

    def is_done(self, spec: JobSpec, nodes: Sequence[str], channels: Channels) -> bool:
        """Ask the nodes of a job, each once, to run the script; tell whether there is nothing more to wait for.

        A prologue is waited for on all nodes; an epilogue only on those that answer, and not for ever.
        """
        run = self._runs.setdefault(spec.key, _Run(time.monotonic()))
        # A script of the site takes nothing from the user.
        bare = spec.replace(command="", environment={}, variables={})
        command = RunScript(self.kind, self._program, self._timeout, (bare,), self._after_prologue)
        waiting = [node for node in nodes if node not in run.done]
        run.asked |= {node for node in waiting if node not in run.asked and channels.send(node, command)}
        if self.kind == EPILOGUE:
            waiting = [node for node in waiting if channels.is_connected(node) or channels.is_pending(node)]
            return not waiting or time.monotonic() - run.since > self._timeout + _LATE
        return not waiting

    def answered(self, node: str, report: ScriptEnded) -> None:
        """Take in what a node says; a prologue that did not succeed ends its job."""
        run = self._runs.get(report.key)
        if run is not None and (self.kind == EPILOGUE or report.outcome == OK):
            run.done.add(node)

    def lose(self, node: str) -> None:
        """Say again what was on its way when the channel of a node was lost."""
        for run in self._runs.values():
            run.asked.discard(node)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for key in [key for key in self._runs if key.job not in live]:
            del self._runs[key]


def end_of_prologue(node: str, report: ScriptEnded, now: float, *, again: bool) -> End | None:
    """Return the end of a job whose prologue did not succeed."""
    if report.kind != PROLOGUE or report.outcome in (OK, SKIPPED):
        return None
    if report.outcome in UNABLE:
        detail = f"node {node}: {report.detail or report.outcome}"
        return end_of_unable(report.key.job, detail, now, again=again)
    event = report.outcome
    if report.outcome in (FAILED, TIMEOUT):
        event = PROLOGUE_ERROR
    elif report.outcome == LOST:
        event = "JOB_LOST"
    message = f"not started: node {node}: {report.detail or report.outcome}"
    return End(report.key.job, JobState.ERROR, None, None, now, event, message[:500])


def fault_of_script(node: str, report: ScriptEnded) -> Fault | None:
    """Return what an answer says against its node. Where an epilogue did not come to its end, things may be left."""
    if report.outcome in (OK, SKIPPED) or report.outcome in _JOBS_FAULT:
        return None
    text = (report.detail or report.outcome)[:500]
    if report.kind == EPILOGUE:
        return Fault(node, EPILOGUE_ERROR, report.key.job, text)
    if report.outcome in UNABLE:
        return Fault(node, report.outcome, report.key.job, text, heals=True)
    return None if report.outcome == LOST else Fault(node, PROLOGUE_ERROR, report.key.job, text)
