"""Parts of a broker: made or frozen, let go on, undone, ended."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import UNSET

from oarpy.grid.calls.parts import PreparedPart
from oarpy.grid.calls.table import Abort, Amend, Begin, CallRefused, Cancel, Commit, PartsUndone, Prepare
from oarpy.grid.door.answers import bag_parts, part_submission, program_rates
from oarpy.grid.door.call_context import DOOR, CallContext
from oarpy.model.errors import Unreachable
from oarpy.model.states import JobState
from oarpy.store.grid import door_parts, launch_gates
from oarpy.store.grid.door_parts import DoorPartRow, NewDoorPart
from oarpy.store.jobs import kill_requests

_NOT_HELD = (JobState.WAITING, JobState.HOLD)
_TO_BEGIN = (JobState.TO_LAUNCH, JobState.LAUNCHING)
_BEGUN = (JobState.RUNNING, JobState.SUSPENDED, JobState.RESUMING)
_ANSWER_TIME = 30.0
"""Seconds for the meta-scheduler to answer."""
_HELD_TIME = 1.0
"""Seconds around its date within which a part is awaited to hold its processors: it does if they are free."""
_START_TIME = 5.0
"""Seconds for a part to run once it may begin."""
_POLL = 0.5
"""Seconds between two looks when no notification arrives."""


def prepare(context: CallContext, call: Prepare) -> PreparedPart:
    """Answer ``prepare``, without the hosts of a part that holds some; :func:`settled` waits for these."""
    _check_open(context, call.transaction)
    if call.part.kind == "withdrawn":
        return _freeze(context, call, door_parts.part(context.connection, context.broker, call.part.name))
    return _make(context, call)


def amend(context: CallContext, call: Amend) -> PreparedPart:
    """Answer ``amend``, as :func:`prepare` does: the next pass places it as if the old part were away."""
    _check_open(context, call.transaction)
    old = door_parts.part(context.connection, context.broker, call.instead_of)
    if old is None or old.kind != "reserved" or old.state != "Committed":
        raise CallRefused(f"part '{call.instead_of}' is not reserved here", hint="there is nothing to be amended")
    if call.part.kind != "reserved":
        raise CallRefused(f"part '{call.part.name}' is no reservation", hint="it is to take the place of one")
    if old.job_state != JobState.WAITING:
        raise CallRefused(f"part '{old.name}' does not wait for its date: it is {old.job_state}", hint="it stays")
    door_parts.keep(context.connection, context.broker, call.transaction, old, call.ttl)
    return _make(context, call, old.job)


def _check_open(context: CallContext, transaction: str) -> None:
    state = door_parts.transaction_state(context.connection, context.broker, transaction, begin=True)
    if state != "Prepared":
        raise CallRefused(f"transaction '{transaction}' is {str(state).lower()}", hint="nothing was prepared")


def _make(context: CallContext, call: Prepare | Amend, instead_of: int | None = None) -> PreparedPart:
    """Submit the job that a part is."""
    connection, part = context.connection, call.part
    if door_parts.part(connection, context.broker, part.name) is not None:
        raise CallRefused(f"there is a part '{part.name}' already", hint="names of parts are used once")
    if part.kind == "bag" and isinstance(call, Prepare):
        return bag_parts.make(context, call)
    job = part_submission.submit(context, part)
    walltime = part_submission.walltime_of(part.request)
    new = NewDoorPart(part.name, call.transaction, job, part.kind, walltime, part.begin, instead_of)
    door_parts.add(connection, context.broker, [new], call.ttl)
    if part.begin is not None:
        lapses = None if part.patience is UNSET else part.begin + part.patience
        launch_gates.put(connection, job, part.begin, walltime, lapses)
    if part.map is not UNSET:
        program_rates.keep_map(context, job, part.map, walltime)
    return PreparedPart(str(job))


def settled(context: CallContext, call: Prepare | Amend, prepared: PreparedPart) -> PreparedPart:
    """Wait, after the transaction of :func:`prepare`, until a part that holds resources has them; return its hosts.

    Raises :class:`CallRefused` when it cannot have them: then nothing of it is left.
    """
    part = call.part
    if part.kind not in ("claim", "reserved", "bag"):
        return prepared
    connection, job = context.connection, int(prepared.job)
    if not _await(context, part.name, _is_answered, _ANSWER_TIME):
        raise Unreachable(f"no answer for part '{part.name}' yet", hint="it lapses; is a server running?")
    with connection.transaction():
        row = _known(context, part.name)
        if row.state == "Prepared" and not row.held:
            if row.live:
                door_parts.is_held(connection, context.broker, part.name)
            else:
                door_parts.is_refused(connection, context.broker, part.name)
        hosts = door_parts.hosts_of(connection, job) if row.live else []
    if row.state == "Aborted" or (row.state == "Prepared" and not row.live):
        if part.kind == "bag" and row.state == "Prepared":
            raise bag_parts.refusal(row)
        reason = row.message or "not committed in time"
        raise CallRefused(f"part '{part.name}' cannot be held: {reason}", hint="nothing is held for it")
    return bag_parts.with_promise(context, prepared) if part.kind == "bag" else PreparedPart(prepared.job, tuple(hosts))


def commit(context: CallContext, call: Commit) -> None:
    """Answer ``commit``."""
    connection, broker, transaction = context.connection, context.broker, call.transaction
    state = door_parts.transaction_state(connection, broker, transaction)
    if state == "Committed":
        return
    rows = door_parts.undecided(connection, broker, transaction) if state == "Prepared" else []
    if state == "Aborted" and door_parts.were_prepared(connection, broker, transaction):
        raise PartsUndone(f"transaction '{transaction}' was undone here", hint="it was aborted, or lapsed")
    if not rows:
        raise CallRefused(f"transaction '{transaction}' holds nothing here", hint="it was aborted, or lapsed")
    prepared = [row for row in rows if row.state == "Prepared"]
    lead = context.configuration.door.longest_lead
    for row in rows:
        if row.begin is not None and call.begin is not None and call.begin > row.begin + lead:
            raise CallRefused(f"part '{row.name}' is put off by more than {lead:.0f} s", hint="abort the transaction")
        waits = JobState.HOLD if row.kind == "queued" else JobState.WAITING
        if row.state == "Frozen" and row.job_state != waits:
            raise CallRefused(f"part '{row.name}' does not wait any more: it is {row.job_state}", hint="abort it")
    for row in prepared:
        if row.kind != "queued" and not (row.live and row.held):
            what = row.message if not row.live else "it is not held yet"
            raise CallRefused(f"part '{row.name}' cannot begin: {what}", hint="abort the transaction")
    door_parts.release(connection, [row.job for row in prepared if row.kind == "queued"])
    launch_gates.open_gates(connection, [row.job for row in prepared if row.kind not in ("queued", "bag")], call.begin)
    if bags := [row.job for row in prepared if row.kind == "bag"]:
        launch_gates.remove_bags(connection, bags)
    if dated := [row.job for row in rows if row.state == "Frozen" and row.kind == "reserved"]:
        if not door_parts.stop(connection, dated):
            raise CallRefused("a reservation that is to end starts at this moment", hint="abort the transaction")
        door_parts.take_places(connection, broker, transaction)
    heirs = {row.instead_of: f"amended: it goes on as job {row.job}" for row in prepared}
    gone = [(row.job, heirs.get(row.job, "withdrawn: it goes on elsewhere")) for row in rows if row.state == "Frozen"]
    kill_requests.ask_once(connection, gone, DOOR)
    door_parts.commit(connection, broker, transaction, call.begin, call.hosts)


def abort(context: CallContext, call: Abort) -> None:
    """Answer ``abort``. An abort that comes before its transaction makes the cluster refuse the transaction later."""
    state = door_parts.transaction_state(context.connection, context.broker, call.transaction)
    if state == "Committed":
        raise CallRefused(f"transaction '{call.transaction}' is committed", hint="cancel its parts")
    door_parts.abort(context.connection, context.broker, call.transaction)


def begin(context: CallContext, call: Begin) -> PreparedPart:
    """Answer ``begin``, without the hosts; :func:`begun` lets the part begin, and returns them when it runs."""
    row = door_parts.part(context.connection, context.broker, call.part)
    if row is None or row.state != "Committed" or not row.live:
        raise CallRefused(f"part '{call.part}' is not to begin here", hint="it was not committed, or is over")
    if row.job_state in _NOT_HELD and (call.hosts or _time_to_hold(row) <= 0):
        raise _not_held(row)
    if call.hosts:
        lines = () if call.map is UNSET else call.map
        program_rates.check_lines(lines)
        door_parts.note_hosts(context.connection, context.broker, row, call.hosts, lines)
    return PreparedPart(str(row.job))


def begun(context: CallContext, call: Begin, begins: PreparedPart) -> PreparedPart:
    """Let a part begin once it holds its processors, and wait until it runs; return its hosts and its processes.

    The call may come just before the pass of its date: then it waits for that, as parts are to begin together. Raises
    :class:`CallRefused` when the part does not run yet, or could not.
    """
    row = _known(context, call.part)
    if not _await(context, call.part, lambda row: row.job_state not in _NOT_HELD, _time_to_hold(row)):
        raise _not_held(row)
    with context.connection.transaction():
        launch_gates.begin(context.connection, row.job)
    if not _await(context, call.part, lambda row: row.job_state not in _TO_BEGIN, _START_TIME):
        raise CallRefused(f"part '{call.part}' does not run yet", hint="ask again")
    with context.connection.transaction():
        row = _known(context, call.part)
        hosts = door_parts.hosts_of(context.connection, row.job)
        lines = program_rates.map_of(context.connection, row.job)
    if not row.live:
        raise CallRefused(f"part '{row.name}' is over: {row.message}", hint="its events say how it ended")
    if row.job_state not in _BEGUN:
        raise CallRefused(f"part '{row.name}' does not run: it is {row.job_state}", hint="ask again")
    return PreparedPart(begins.job, tuple(hosts), map=lines)


def _time_to_hold(row: DoorPartRow) -> float:
    """Return for how many seconds the pass of a part's date is awaited: 0 unless the date is near."""
    if row.begin is None or abs(until := row.begin - time.time()) >= _HELD_TIME:
        return 0.0
    return until + _HELD_TIME


def _not_held(row: DoorPartRow) -> CallRefused:
    return CallRefused(f"part '{row.name}' does not hold its processors yet", hint="ask again")


def cancel(context: CallContext, call: Cancel) -> bool | None:
    """Answer ``cancel``. An ended part stays so; False for an unknown part, of which no event will come."""
    row = door_parts.part(context.connection, context.broker, call.part)
    if row is None:
        return False
    jobs = door_parts.tasks_of(context.connection, row.job) if row.kind == "bag" else [row.job] if row.live else []
    if jobs:
        kill_requests.ask(context.connection, jobs, DOOR, call.reason or "cancelled by its broker")
    return None


def _freeze(context: CallContext, call: Prepare, row: DoorPartRow | None) -> PreparedPart:
    connection, broker = context.connection, context.broker
    if row is None or row.kind == "claim" or row.state != "Committed":
        raise CallRefused(f"part '{call.part.name}' does not wait here", hint="there is nothing to be withdrawn")
    if row.kind == "reserved" and row.job_state == JobState.WAITING:
        # it holds its place, and begins at its date unless that is committed before
        frozen = door_parts.keep(connection, broker, call.transaction, row, call.ttl)
    else:
        frozen = row.kind == "queued" and door_parts.freeze(connection, broker, call.transaction, row, call.ttl)
    if not frozen:
        raise CallRefused(f"part '{row.name}' does not wait: it is {row.job_state}", hint="it stays")
    return PreparedPart(str(row.job))


def _known(context: CallContext, name: str) -> DoorPartRow:
    row = door_parts.part(context.connection, context.broker, name)
    if row is None:
        raise CallRefused(f"part '{name}' is not known any more", hint="it is over")
    return row


def _await(context: CallContext, part: str, holds: Callable[[DoorPartRow], bool], seconds: float) -> bool:
    """Return True once a condition holds for a part; False if it does not within ``seconds``."""
    connection, until = context.connection, time.monotonic() + seconds
    connection.execute("LISTEN oarpy_events")
    try:
        while not holds(_known(context, part)):
            left = until - time.monotonic()
            if left <= 0:
                return False
            for _ in connection.notifies(timeout=min(_POLL, left), stop_after=1):
                pass
    finally:
        connection.execute("UNLISTEN oarpy_events")
    return True


def _is_answered(row: DoorPartRow) -> bool:
    return row.held or row.state != "Prepared" or not row.live or row.reservation_state == "Scheduled"
