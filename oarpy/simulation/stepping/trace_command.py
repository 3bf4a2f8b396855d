"""``oarpy simulate --steps`` and ``--log``: a trace under each policy up to an event, with its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from oarpy.simulation.engines.live_order import LiveOrder
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.run import check_choices, scheduler_of
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
    """Read a trace to be stepped through. Raises :class:`UsageError` for what cannot be meant."""
    check_choices(policies, order if live is None else None, jobs)
    return SteppedTrace(read_swf(path, machine, jobs), machine, order, live)


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
