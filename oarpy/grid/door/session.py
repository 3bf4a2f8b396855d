"""The session of a broker: it reads a call a line and writes an answer a line, until the broker leaves.

A line that is no call changes nothing. A call is one transaction. If the call only looks, the database refuses every
change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

import msgspec
import psycopg
import structlog

from oarpy.client.caller import Caller, KeptReader, Streams
from oarpy.client.rendering import one_line
from oarpy.client.session import user_name
from oarpy.configuration import Configuration
from oarpy.grid.calls.entry import is_entry, read_entry
from oarpy.grid.calls.json_lines import DoorError, DoorReply, encode, key_of, read_answer, read_call
from oarpy.grid.calls.table import (
    Abort,
    Amend,
    AnyCall,
    Begin,
    Call,
    Cancel,
    Commit,
    Describe,
    Estimate,
    EstimateInTurn,
    Events,
    Evict,
    Evictable,
    Idle,
    Measure,
    Offers,
    Prepare,
    PrepareAll,
    Profiled,
    Rates,
    Slots,
    StopMeasuring,
    TakeProfile,
    TellCompletions,
    Waiting,
)
from oarpy.grid.door import entering
from oarpy.grid.door.answers import (
    bag_offers,
    bag_parts,
    bag_profiles,
    estimates,
    evictions,
    free_slots,
    idle_processors,
    part_batches,
    part_events,
    parts,
    program_rates,
)
from oarpy.grid.door.call_context import CallContext
from oarpy.grid.door.description import describe
from oarpy.grid.door.lines import Pace, lines_of
from oarpy.model.errors import NotAllowed, OarpyError, Unreachable, UsageError
from oarpy.store.database import KeptConnection, reachable
from oarpy.store.grid import cluster_facts, door_calls, door_sessions

log = structlog.get_logger()

_LONGEST_MESSAGE = 400

_ANSWERS: dict[type[Call[Any]], Callable[[CallContext, Any], Any]] = {
    Describe: describe,
    Idle: idle_processors.idle,
    Slots: free_slots.slots,
    Offers: bag_offers.offers,
    Rates: program_rates.rates,
    Measure: program_rates.measure,
    StopMeasuring: program_rates.stop_measuring,
    TakeProfile: bag_profiles.take_profile,
    Profiled: bag_profiles.profiled,
    Waiting: part_events.waiting,
    Estimate: estimates.estimate,
    EstimateInTurn: estimates.estimate_in_turn,
    Evictable: evictions.evictable,
    Prepare: parts.prepare,
    PrepareAll: part_batches.prepare_all,
    Amend: parts.amend,
    Commit: parts.commit,
    Abort: parts.abort,
    Begin: parts.begin,
    Cancel: parts.cancel,
    Evict: evictions.evict,
    TellCompletions: bag_parts.tell_completions,
    Events: part_events.events,
}
"""The handler of each call, inside a transaction that has begun."""

_SETTLES: dict[type[Call[Any]], Callable[[CallContext, Any, Any], Any]] = {
    Prepare: parts.settled,
    Amend: parts.settled,
    Begin: parts.begun,
    Offers: bag_offers.told,
}
"""The work after that transaction, also when a key comes again: it makes the last answer from the kept one."""


def enter(caller: Caller, broker: str) -> int:
    """Be the session of ``broker`` until it leaves, or has entered a part; return the exit status.

    Raises :class:`NotAllowed` for a caller who is not its account.
    """
    configuration = caller.configuration()
    require_account(configuration, broker, caller)
    # connected only once it is attached: a connection that was open before must not be used then
    with caller.attached() as streams, closing(DoorSession(broker, configuration)) as session:
        session.open()
        streams.begin_input(terminal=False)
        settings = configuration.door
        pace = Pace(settings.calls_per_second)
        for line in lines_of(streams, settings.line_limit, settings.idle_limit):
            pace.keep()
            if line is not None and is_entry(line):
                return session.run_entry(line, streams)
            streams.send(1, session.reply(line) + b"\n")
    return 0


def require_account(configuration: Configuration, broker: str, caller: Caller) -> None:
    """Raise :class:`NotAllowed` unless the kernel says, here, that the caller is the account of ``broker``."""
    account = configuration.door.brokers.get(broker)
    user = user_name(caller.uid)
    # no caller named by a node is a broker: root of the node could be any of its users
    if account is None or account != user or not caller.administers:
        raise NotAllowed(
            f"'{user}' is not the account of a broker '{broker[:64]}'", hint="door.brokers names the accounts"
        )


class DoorSession:
    """Answers lines for one broker, on a connection of its own."""

    def __init__(self, broker: str, configuration: Configuration) -> None:
        self._broker = broker
        self._configuration = configuration
        self._kept = KeptConnection(configuration, "oargriddoor", configuration.door.call_time_limit)
        self._reader = KeptReader(configuration)
        self._visit: CallContext | None = None

    def open(self) -> CallContext:
        """Return the context, connected. Raises :class:`Unreachable`, also when too many sessions are open."""
        connection = self._kept.get()
        if self._visit is None or self._visit.connection is not connection:
            most = self._configuration.door.sessions
            if not door_sessions.take_place(connection, self._broker, most):
                self._kept.drop()
                raise Unreachable(
                    f"broker '{self._broker}' has {most} sessions already", hint="end one of them (door.sessions)"
                )
            self._visit = CallContext(self._broker, connection, self._configuration, self._reader)
        return self._visit

    def close(self) -> None:
        """Close the connection."""
        self._kept.drop()

    def reply(self, line: bytes | None) -> bytes:
        """Return the line that answers ``line``; None stands for a line that was too long."""
        if line is None:
            limit = self._configuration.door.line_limit
            return _failed("", UsageError(f"a line has {limit} bytes at most", hint="door.line_limit"))
        try:
            call = read_call(line)
        except UsageError as error:
            return _failed(key_of(line), error)
        try:
            answer = self._answer(call)
        except OarpyError as error:
            return _failed(call.key, error)
        except Exception as error:
            return _failed(call.key, self._unexpected(call, error))
        return encode(DoorReply(call.key, answer=msgspec.Raw(answer)))

    def run_entry(self, line: bytes, streams: Streams) -> int:
        """Run a program inside a part, and return its exit status; the session is over with it.

        No connection to the database is kept meanwhile. Once the program runs, errors that end it are raised: standard
        output belongs to the program then.
        """
        begun = False

        def began() -> None:
            nonlocal begun
            begun = True
            streams.send(1, encode(DoorReply(key_of(line), answer=msgspec.Raw(b"null"))) + b"\n")

        try:
            entry = read_entry(line)
            with reachable():
                job = entering.job_to_enter(self.open(), entry)
            self.close()
            return entering.run(job, entry, streams, began)
        except OarpyError as error:
            if begun:
                raise
            streams.send(1, _failed(key_of(line), error) + b"\n")
            return error.exit_status

    def _answer(self, call: AnyCall) -> bytes:
        """Return the answer as JSON. A broken connection is made again once, as the key has a call done once."""
        try:
            with reachable():
                return _answered(self.open(), call)
        except Unreachable:
            if self._visit is None or not self._visit.connection.closed:
                raise
        with reachable():
            return _answered(self.open(), call)

    def _unexpected(self, call: AnyCall, error: Exception) -> OarpyError:
        """Log an unexpected error; return the error for the broker."""
        log.error("call of a broker failed", broker=self._broker, call=type(call).__name__, exc_info=error)
        self._kept.drop()
        if isinstance(error, psycopg.Error):
            return OarpyError(f"the database refused: {error.diag.message_primary or error}")
        return OarpyError(f"unexpected {type(error).__name__}", hint="the log of the cluster's gateway has more")


def _answered(context: CallContext, call: AnyCall) -> bytes:
    """Return the answer to a call as JSON."""
    act = _ANSWERS.get(type(call))
    if act is None:
        raise UsageError("this cluster does not answer that call")
    with context.connection.transaction():
        if call.effect == "changes":
            answer = _once(context, call, act)
        else:
            if call.effect == "looks":
                cluster_facts.see_one_state(context.connection)
            answer = encode(act(context, call))
    if settle := _SETTLES.get(type(call)):
        return encode(settle(context, call, read_answer(type(call), answer)))
    return answer


def _once(context: CallContext, call: AnyCall, act: Callable[[CallContext, Any], Any]) -> bytes:
    """Carry a call out, or return the answer of its first execution."""
    line = encode(call)
    what = f"{call.name} {hashlib.sha256(line).hexdigest()[:32]}"
    kept = door_calls.find(context.connection, context.broker, call.key)
    if kept is None:
        kept = door_calls.KeptCall(what, encode(act(context, call)))
        door_calls.keep(context.connection, context.broker, call.key, kept)
    elif kept.call != what:
        raise UsageError(f"the key '{call.key}' is that of another call", hint="give every call a key of its own")
    return kept.answer


def _failed(key: str, error: OarpyError) -> bytes:
    message, hint = one_line(error.message)[:_LONGEST_MESSAGE], one_line(error.hint)
    return encode(DoorReply(key, error=DoorError(error.code, message, hint, error.exit_status)))
