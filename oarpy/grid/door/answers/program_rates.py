"""Rates of programs for brokers: what was measured here, by jobs of the local user; and the maps of parts.

A broker names a program by the facts that it has where it was submitted. Rates are kept, aged and forgotten as those of
``oarsub --processes``, whose jobs use them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oarpy.client.submission.mapped import Mapped
from oarpy.client.submission.measuring import node_types, of_type
from oarpy.client.submission.submission import measured_first
from oarpy.grid.calls.parts import ProcessesOfPart, ProgramFile, RatedType
from oarpy.grid.calls.table import Measure, Rates, StopMeasuring
from oarpy.grid.door import grants
from oarpy.grid.door.answers import part_submission
from oarpy.grid.door.call_context import DOOR, CallContext
from oarpy.model.errors import UsageError
from oarpy.model.states import JobState
from oarpy.model.submission_checks import MOST_PROCESSES
from oarpy.modules.launcher.specifications import process_map
from oarpy.store.database import Connection
from oarpy.store.jobs import execution
from oarpy.store.jobs import rates as stored_rates
from oarpy.store.jobs.rates import Measurement, ProgramKey


def measure(context: CallContext, call: Measure) -> None:
    """Answer ``measure``. Raises as ``oarsub``."""
    with part_submission.measuring(context, call) as measured:
        session, admitted = measured.session, measured.admitted
        sizes = {"sizes": call.sizes, "rate": call.script}
        key = _key(session.user, call.program)
        mapping = Mapped(key, admitted.submission.changed(**sizes), admitted.requested.changed(**sizes))
        jobs = measured_first(session, mapping, measured.check)
    stored_rates.await_rates(context.connection, jobs, _waiter(context, call.key))


def stop_measuring(context: CallContext, call: StopMeasuring) -> None:
    """Answer ``stop_measuring``: jobs that measure for nobody else end."""
    jobs = stored_rates.await_no_more(context.connection, _waiter(context, call.measure))
    stored_rates.end_needless(context.connection, jobs, DOOR)


def rates(context: CallContext, call: Rates) -> list[RatedType]:
    """Answer ``rates``, for the types of nodes in the order of their names. Raises as ``oarsub``."""
    admitted = part_submission.ask(context, call.request)
    connection, settings = context.connection, context.configuration
    with grants.acting(context, call.request.user) as (_, session):
        key = _key(session.user, call.program)
    known = stored_rates.known(connection, key, settings.processes.rate_age)
    measurements = {
        measurement.node_type: measurement
        for measurement in stored_rates.measurements(connection, key)
        if set(call.sizes) <= set(measurement.sizes)
    }
    node_type = settings.scheduler.node_type
    return [
        _rated(kind, of_type(connection, node_type, kind), known.get(kind, {}), call.sizes, measurements.get(kind))
        for kind in node_types(connection, node_type, admitted.submission)
    ]


def _rated(
    kind: str, condition: str, known: Mapping[str, float], sizes: tuple[str, ...], measured: Measurement | None
) -> RatedType:
    if known.keys() >= set(sizes):
        return RatedType(kind, condition, {size: known[size] for size in sizes})
    if measured is None:
        return RatedType(kind, condition, {}, "there is no rate of its program")
    if measured.live:
        return RatedType(kind, condition, {}, f"job {measured.job} measures its rate", measuring=True)
    failure = measured.failure or "it ended before it had one"
    return RatedType(kind, condition, {}, f"no rate, as job {measured.job} tells: {failure}")


def keep_map(context: CallContext, job: int, placed: ProcessesOfPart, walltime: int) -> None:
    """Keep the map that a broker made for a part. Raises :class:`UsageError` for a map that has not its processes."""
    runs = [run for its in placed.assigned.values() for run in its]
    mapped = sum(count for _, count, _, _ in runs)
    if not placed.assigned.keys() <= placed.cores.keys() or not mapped <= placed.processes:
        raise UsageError(
            f"a map of {mapped} processes on {', '.join(placed.assigned)}",
            hint=f"there are {placed.processes} processes, and cores of type {', '.join(placed.cores)}",
        )
    columns = {
        "processes": placed.processes,
        "iterations": placed.iterations,
        "sizes": list(placed.sizes),
        "model": placed.model,
        "cores": sum(placed.cores.values()),
        "seconds": placed.seconds,
        "walltime": walltime,
        "property": context.configuration.scheduler.node_type,
        "node_types": placed.cores,
        "assigned": placed.assigned,
    }
    stored_rates.keep_map(context.connection, job, _key("", placed.program), columns)


def check_lines(lines: Sequence[str]) -> None:
    """Raise :class:`UsageError` for lines ``host core size processes`` of more processes than a program may have."""
    processes = sum(int(line.rpartition(" ")[2]) for line in lines)
    if processes > MOST_PROCESSES:
        raise UsageError(f"a map of {processes} processes", hint=f"a program has {MOST_PROCESSES} at most")


def map_of(connection: Connection, job: int) -> tuple[str, ...]:
    """Return lines ``host core size processes`` of a part that runs; none if its program is not mapped."""
    launches = execution.launches(connection, [job], JobState.RUNNING)
    return process_map(launches[0]) if launches else ()


def _waiter(context: CallContext, key: str) -> str:
    """Return the name under which a call of the broker waits for rates."""
    return f"{context.broker} {key}"


def _key(user: str, program: ProgramFile) -> ProgramKey:
    return ProgramKey(user, program.path, program.size, program.date, program.arguments)
