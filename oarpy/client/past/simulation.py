"""``oarpy simulate``: which of its two forms is meant, and which options go with which."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oarpy.client.past.periods import parse_date
from oarpy.model.errors import UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from oarpy.simulation.engines.live_order import LiveOrder
    from oarpy.simulation.stepping.trace_command import SteppedTrace, TraceSource

_OF_TRACES = ("trace", "procs", "nodes", "jobs", "steps", "log")
_OF_THE_PAST = ("since", "until", "quotas", "rules", "write")
_OF_REPLAYS = ("order", "quotas", "rules", "output", "plot")
"""Options that do not go with writing the past, which is written as it was."""


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The options of the command; None and empty mean "not given"."""

    trace: Path | None
    from_database: bool
    procs: int | None
    nodes: int | None
    cores_per_node: int
    policies: tuple[str, ...]
    order: str | None
    jobs: int | None
    since: str | None
    until: str | None
    quotas: str | None
    rules: Path | None
    output: Path | None
    plot: Path | None
    steps: int | None
    places: bool
    log: str | None
    write: Path | None
    names: bool
    as_json: bool
    predictions: tuple[str, ...] = ()


def simulate(options: SimulationOptions) -> int:
    """Run the requested replay and return the exit status. Raises :class:`UsageError` for options that clash."""
    if options.predictions:
        _refuse_with_predictions(options)
    foreign = _OF_TRACES if options.from_database else _OF_THE_PAST
    for name in foreign:
        if getattr(options, name) is not None:
            hint = "the past has its own jobs and resources" if options.from_database else "it needs --from-database"
            raise UsageError(f"--{name} does not go with this replay", hint=hint)
    if options.names and options.write is None:
        raise UsageError("--names does not go without --write", hint="--from-database --write FILE --names")
    if options.places and options.steps is None:
        hint = "the past has no steps" if options.from_database else "add --steps N"
        raise UsageError("--places does not go without --steps", hint=hint)
    if options.write is not None:
        return _write(options, options.write)
    return _past(options) if options.from_database else _trace(options)


def _write(options: SimulationOptions, file: Path) -> int:
    """Write the past as a scenario, and print a sentence about it."""
    from oarpy.client.past.scenario_file import write_past
    from oarpy.client.session import open_session

    for name in _OF_REPLAYS:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} does not go with --write", hint="the past is written as it was")
    if options.policies:
        raise UsageError("--policy does not go with --write", hint="choose it when the file is simulated")
    since, until = _period(options)
    with open_session("oarpy simulate") as session:
        summary = write_past(session, since, until, file, names=options.names)
    sys.stdout.write(f"{file}: {summary}\n")
    return 0


def _period(options: SimulationOptions) -> tuple[datetime | None, datetime | None]:
    since = None if options.since is None else parse_date(options.since)
    until = None if options.until is None else parse_date(options.until)
    return since, until


def _refuse_with_predictions(options: SimulationOptions) -> None:
    given = {
        "--from-database": options.from_database,
        "--steps": options.steps is not None,
        "--log": options.log is not None,
    }
    for option, there in given.items():
        if there:
            raise UsageError(f"--prediction does not go with {option}", hint="a trace is replayed whole by predictions")


def _past(options: SimulationOptions) -> int:
    from oarpy.client.past.history_replay import PolicyChange, Sinks, replay_history
    from oarpy.client.session import open_session

    since, until = _period(options)
    change = PolicyChange(options.policies, options.order, options.quotas, options.rules)
    with open_session("oarpy simulate") as session:
        return replay_history(session, since, until, change, Sinks(options.as_json, options.output, options.plot))


def _trace(options: SimulationOptions) -> int:
    from oarpy.simulation.engines.queue_order import is_fixed
    from oarpy.simulation.run import run_simulate

    trace = _named_trace(options)
    order = options.order or "fifo"
    live = None if is_fixed(order) else _live(order)
    if options.steps is not None or options.log is not None:
        _step(options, order, live)
        if options.steps is not None:
            return 0
    return run_simulate(
        trace,
        _processors(options),
        options.policies,
        order=order,
        jobs=options.jobs,
        cores_per_node=options.cores_per_node,
        as_json=options.as_json,
        output=options.output,
        plot=options.plot,
        live=live,
        predictions=options.predictions,
    )


def _step(options: SimulationOptions, order: str, live: LiveOrder | None) -> None:
    """Print the trace's state after a number of events, and write its log."""
    from oarpy.simulation.stepping.stepped_run import Stop, refuse_input
    from oarpy.simulation.stepping.trace_command import play_trace

    if options.log is not None:
        refuse_input(options.log, [_named_trace(options)])
    if options.steps is not None:
        _refuse_outcomes(options, "--steps")
    stop = Stop(options.steps, places=options.places)
    play_trace(_stepped(options, order, live), options.policies, stop, options.log, sys.stdout)


def source_of(options: SimulationOptions) -> TraceSource:
    """Return the trace that a page will step through. Raises :class:`UsageError` for options that clash."""
    from oarpy.simulation.engines.queue_order import is_fixed
    from oarpy.simulation.stepping.trace_command import TraceSource

    if options.from_database:
        raise UsageError("--web does not go with this replay", hint="--write FILE, then oarpy grid simulate FILE --web")
    _refuse_outcomes(options, "--web")
    if options.predictions:
        raise UsageError("--prediction does not go with --web", hint="the page steps through replays by walltimes")
    for name in (*_OF_THE_PAST, "steps", "log", "places"):
        if getattr(options, name) not in (None, False):
            raise UsageError(f"--{name} does not go with --web", hint="the page steps through the trace")
    order = options.order or "fifo"
    return TraceSource(_stepped(options, order, None if is_fixed(order) else _live(order)), options.policies)


def _stepped(options: SimulationOptions, order: str, live: LiveOrder | None) -> SteppedTrace:
    from oarpy.simulation.engines.machine import Machine
    from oarpy.simulation.stepping.trace_command import read_stepped

    machine = Machine(_processors(options), options.cores_per_node)
    return read_stepped(_named_trace(options), machine, options.policies, order, live, options.jobs)


def _named_trace(options: SimulationOptions) -> Path:
    if options.trace is None:
        raise UsageError("no workload", hint="--trace FILE, or --from-database for this site's own past")
    return options.trace


def _refuse_outcomes(options: SimulationOptions, option: str) -> None:
    for name in ("output", "plot"):
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} does not go with {option}", hint="a replay that is stopped has no outcome")


def _live(name: str) -> LiveOrder:
    """Return an order of the cluster's queues that is not one of the jobs alone, weighed as the configuration says."""
    from oarpy.cluster_state.order_plugins import SiteOrders
    from oarpy.cluster_state.priority_history import factor_rules, karma_rules
    from oarpy.configuration import load
    from oarpy.scheduler.order.usage_shares import Priorities
    from oarpy.simulation.engines.live_order import LiveOrder

    known = SiteOrders()
    order = known.get(name)
    if order is None:
        raise UsageError(f"unknown order '{name[:40]}'", hint="use one of " + ", ".join(known) + ", or NAME/SECONDS")
    settings = load().priority
    priorities = Priorities(karma=karma_rules(settings), factors=factor_rules(settings))
    return LiveOrder(name, order, priorities, settings.window)


def _processors(options: SimulationOptions) -> int:
    if options.procs is not None and options.nodes is not None:
        raise UsageError("--procs and --nodes both say how large the machine is", hint="give one of them")
    if options.procs is not None:
        return options.procs
    if options.nodes is None:
        raise UsageError("no machine", hint="--procs N, or --nodes N --cores-per-node C")
    if options.nodes < 1:
        raise UsageError(f"{options.nodes} nodes are not a machine", hint="a number above 0")
    return options.nodes * max(options.cores_per_node, 1)
