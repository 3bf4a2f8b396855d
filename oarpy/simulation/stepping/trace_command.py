"""``oarpy simulate --steps`` and ``--log``: a trace under each policy up to an event, with its log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.engines.live_order import LiveOrder
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import POLICIES
from oarpy.simulation.engines.queue_order import ORDERS
from oarpy.simulation.run import check_choices, scheduler_of
from oarpy.simulation.stepping.sources import Choice, Choices, Source
from oarpy.simulation.stepping.stepped_run import Stop, opened_log, plain, play
from oarpy.simulation.stepping.trace_run import TraceRun
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class SteppedTrace:
    """A trace on a machine, in an order: ``live`` if that looks at more than the jobs."""

    trace: Trace
    machine: Machine
    order: str
    live: LiveOrder | None

    def run_of(self, policy: str) -> TraceRun:
        """Return the run under a policy before its first event."""
        jobs = self.trace.jobs
        return TraceRun(jobs, self.machine, scheduler_of(policy, self.order, self.live, jobs, self.machine))


def read_stepped(
    path: Path, machine: Machine, policies: Sequence[str], order: str, live: LiveOrder | None, jobs: int | None
) -> SteppedTrace:
    """Read a trace to be stepped through. Raises :class:`UsageError` for invalid choices."""
    check_choices(policies, order if live is None else None, jobs)
    return SteppedTrace(read_swf(path, machine, jobs), machine, order, live)


class TraceSource:
    """A trace that a page steps through, under the first policy unless another is chosen."""

    system = "trace"
    text = None

    def __init__(self, stepped: SteppedTrace, policies: Sequence[str]) -> None:
        self.name = stepped.trace.name
        self._stepped, self._policy = stepped, policies[0]

    def choices(self) -> Sequence[Choice]:
        """Return the policies and the orders."""
        return [
            Choice("policy", "Policy", POLICIES, self._policy),
            Choice("order", "Order", ORDERS, self._stepped.order),
        ]

    def start(self, choices: Choices) -> TraceRun:
        """Return the run with some choices, before its first event."""
        stepped = self._stepped
        if "order" in choices:
            stepped = replace(stepped, order=choices["order"], live=None)
        return stepped.run_of(choices.get("policy", self._policy))

    def jobs(self) -> Sequence[Mapping[str, Any]]:
        """Return the facts known about jobs beforehand."""
        return [
            {"id": job.number, "submit": job.submit, "estimate": job.estimate, "procs": job.procs}
            for job in self._stepped.trace.jobs
        ]

    def edited(self, text: str) -> Source:
        """Raise :class:`UsageError`."""
        raise UsageError("a trace cannot be edited", hint="write another file")


def play_trace(stepped: SteppedTrace, policies: Sequence[str], stop: Stop, log: str | None, out: TextIO) -> int:
    """Play a trace under each policy; write its state after some events, one JSON object a line, and its log.

    Without an event to stop at, only the log is written. Returns the exit status, 0.
    """
    with nullcontext() if log is None else opened_log(log) as lines:
        for policy in policies:
            named = {"policy": policy} if len(policies) > 1 else {}
            state = play(stepped.run_of(policy), stop, lines, named)
            if stop.early:
                out.write(json.dumps(plain({"policy": policy, **state})) + "\n")
    return 0
