"""``oarpy simulate``: read a trace, replay it with each policy, show the outcome."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

from oarpy.model.errors import UsageError
from oarpy.simulation.charts.gantt import check_plot, write_plot
from oarpy.simulation.charts.processor_rows import trace_bars
from oarpy.simulation.engines.engine import VirtualScheduler, replay
from oarpy.simulation.engines.first_plans import ForeseeingScheduler
from oarpy.simulation.engines.live_order import LiveOrder, ordered
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.policies import check_policy, make_scheduler
from oarpy.simulation.engines.predicted import PREDICTIONS, Predicted, predicted
from oarpy.simulation.engines.queue_order import ranks
from oarpy.simulation.reports.metrics import measure
from oarpy.simulation.reports.output_files import ProgressBar, check_places, own_file, write_file
from oarpy.simulation.reports.report import PolicyResult, summary_json, summary_table, write_csv
from oarpy.simulation.traces.swf import read_swf
from oarpy.simulation.traces.trace import Trace, TraceJob

WALLTIME = "walltime"
"""No prediction: jobs are planned for as long as they may run."""


def run_simulate(
    trace: Path,
    procs: int,
    policies: Sequence[str],
    *,
    order: str = "fifo",
    jobs: int | None = None,
    cores_per_node: int = 1,
    as_json: bool = False,
    output: Path | None = None,
    plot: Path | None = None,
    live: LiveOrder | None = None,
    predictions: Sequence[str] = (),
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Replay the SWF file ``trace`` on ``procs`` processors with each of ``policies`` and print the summary.

    ``live`` takes the place of ``order`` when that is none of the orders that look at the jobs alone. ``jobs`` keeps
    only the first jobs that can be replayed; with ``cores_per_node`` above 1 jobs get whole nodes. With ``predictions``
    each policy is replayed by each of them, which goes with no ``live`` order. ``output`` is the
    CSV file and ``plot`` the SVG or PNG file. With several policies each gets its own file, the policy's name before
    the suffix. Returns the exit status, 0; raises :class:`UsageError` for anything wrong in the arguments or the trace,
    and :class:`OarpyError` when a file cannot be written.
    """
    out, err = stdout or sys.stdout, stderr or sys.stderr
    check_choices(policies, order if live is None else None, jobs)
    _check_predictions(predictions, policies, live)
    order = order if live is None else live.name
    check_plot(plot)
    variants = [(policy, prediction) for policy in policies for prediction in predictions or (WALLTIME,)]
    named = ["-".join((policy, prediction) if predictions else (policy,)) for policy, prediction in variants]
    check_places((output, plot), named)
    machine = Machine(procs, cores_per_node)
    workload = read_swf(trace, machine, jobs)
    results: list[PolicyResult] = []
    for (policy, prediction), name in zip(variants, named, strict=True):
        by_walltime = prediction == WALLTIME
        scheduler: ForeseeingScheduler = (
            scheduler_of(policy, order, live, workload.jobs, machine)
            if by_walltime
            else predicted(policy, prediction, order, workload.jobs, machine)
        )
        result, starts = _replay(workload, machine, scheduler, (policy, order), err)
        if predictions:
            share = scheduler.underestimated if isinstance(scheduler, Predicted) else 0.0
            result = replace(result, prediction=prediction, underestimated=share)
        results.append(result)
        if output is not None:
            write_file(own_file(output, name, named), partial(write_csv, workload.jobs, starts))
        if plot is not None:
            title = f"{workload.name}, {procs} processors, {name}, {order}"
            write_plot(own_file(plot, name, named), trace_bars(workload.jobs, starts, procs), procs, title)
    render = summary_json if as_json else summary_table
    out.write(render(workload, procs, results) + "\n")
    return 0


def check_choices(policies: Sequence[str], order: str | None, jobs: int | None) -> None:
    """Raise :class:`UsageError` for arguments that cannot be meant, before any time is spent on them."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"{jobs} jobs is not a workload", hint="--jobs is a number above 0")
    if not policies:
        raise UsageError("no policy given", hint="--policy POLICY[,POLICY...]")
    for policy in policies:
        check_policy(policy)
    if len(set(policies)) < len(policies):
        raise UsageError(f"a policy is given twice in '{','.join(policies)}'", hint="name each policy once")
    if order is not None:
        ranks(order, ())


def _check_predictions(predictions: Sequence[str], policies: Sequence[str], live: LiveOrder | None) -> None:
    """Raise :class:`UsageError` for predictions that are unknown, given twice, or that something does not go with."""
    for prediction in predictions:
        if prediction not in PREDICTIONS:
            raise UsageError(f"unknown prediction '{prediction[:40]}'", hint="use one of " + ", ".join(PREDICTIONS))
        for policy in policies if prediction != WALLTIME else ():
            predicted(policy, prediction, "fifo", (), Machine(1))
    if len(set(predictions)) < len(predictions):
        raise UsageError(f"a prediction is given twice in '{','.join(predictions)}'", hint="name each one once")
    if predictions and live is not None:
        raise UsageError(
            f"--prediction does not go with the order '{live.name}'", hint="an order of the jobs alone does"
        )


def scheduler_of(
    policy: str, order: str, live: LiveOrder | None, jobs: Sequence[TraceJob], machine: Machine
) -> ForeseeingScheduler:
    """Return a fresh scheduler. Raises :class:`UsageError` for a policy that ``live`` orders do not go with."""
    if live is None:
        return make_scheduler(policy, order, jobs, machine)
    return ordered(policy, live, jobs, machine)


def _replay(
    workload: Trace, machine: Machine, scheduler: VirtualScheduler, names: tuple[str, str], err: TextIO
) -> tuple[PolicyResult, list[float]]:
    """Replay, and measure under the ``names`` of policy and order."""
    policy, order = names
    began = time.perf_counter()
    with ProgressBar(policy, len(workload.jobs), err) as bar:
        starts = replay(workload.jobs, scheduler, bar)
    took = time.perf_counter() - began
    return PolicyResult(policy, order, measure(workload.jobs, starts, machine.procs), took), starts
