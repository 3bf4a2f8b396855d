"""The one shape of every module: ``run_once(connection, now) -> Outcome``, and a loop around it."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

import psycopg
import structlog

from oarpy.model.errors import Unreachable
from oarpy.store import notifications
from oarpy.store.database import Connection, connect, notice_loss
from oarpy.store.platform import site
from oarpy.store.refusals import first_line, is_refusal, refusals_of
from oarpy.transport.wakeup import readable

log = structlog.get_logger()

_STANDBY_PERIOD = 0.5
_PENDING_CHECK = 0.2
_RECONNECT_DELAY = 0.2
_RECONNECT_DELAY_LIMIT = 5.0
_COLLISION_DELAY = 0.01
_TRIES_BY_HAND = 3
_REFUSAL_DELAY = 0.5
_REFUSAL_DELAY_LIMIT = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run. ``word`` is for the logs; an empty word is not worth a report.

    ``named`` has the facts that the line of the log adds: ids of jobs, names of nodes, the number of the pass.
    ``again``: the module is to run again at once. ``wake_at`` (epoch seconds): it is to run then at the latest.
    ``pending``: it awaits answers without which it could not do its work.
    """

    word: str = "nothing"
    again: bool = False
    wake_at: float | None = None
    pending: bool = False
    named: Mapping[str, object] = field(default_factory=dict)


class Module(Protocol):
    """A module, which the loop runs. It keeps no truth: its memory can be rebuilt from the database."""

    @property
    def name(self) -> str: ...

    @property
    def period(self) -> float:
        """Seconds after which it runs even without an event."""

    def files(self) -> Sequence[int]:
        """File descriptors which, when readable, are a reason to run."""

    def run_once(self, connection: Connection, now: datetime) -> Outcome:
        """Do the work that is due. Owns its transactions; raises psycopg errors when the database goes away."""


@runtime_checkable
class Closing(Protocol):
    """A module that must finish some work before its process ends."""

    def close(self) -> None:
        """Finish the work that was begun."""


def run(module: Module, connection: Connection, now: datetime) -> Outcome:
    """Run a module once. When the database refuses a write, run it again without the refused jobs.

    Refused jobs are tried again after a while, when the module is to run at the latest.
    """
    refusals = refusals_of(connection)
    refusals.begin_run()
    try:
        outcome = module.run_once(connection, now)
    except psycopg.Error as error:
        if not is_refusal(error):
            raise
        log.warning("refused by the database", module=module.name, reason=first_line(error))
        with refusals.carefully():
            outcome = module.run_once(connection, now)
    wait = refusals.next_try()
    if wait is None:
        return outcome
    dates = [date for date in (outcome.wake_at, time.time() + wait) if date is not None]
    return replace(outcome, wake_at=min(dates))


class Loop:
    """Runs one module, once a cluster (advisory lock): on an event, at its date, and after a slow period."""

    def __init__(self, module: Module, dsn: str, connect_timeout: int = 5) -> None:
        self._module = module
        self._dsn = dsn
        self._connect_timeout = connect_timeout
        self._failures = 0
        self._stopping = False
        self._generation: int | None = None

    def stop(self, *_: object) -> None:
        """End after the present run (also the handler of SIGTERM and SIGINT)."""
        self._stopping = True

    def once(self) -> Outcome | None:
        """Run the module once by hand; return None when another process leads, which is told to run."""
        with connect(self._dsn, self._module.name, timeout=self._connect_timeout) as connection:
            self._is_known(connection)
            if not notifications.try_lead(connection, self._module.name):
                notifications.tell(connection, self._module.name)
                return None
            outcome = self._attempt(connection)
            while (outcome.again or outcome.pending) and self._failures <= _TRIES_BY_HAND:
                readable(self._module.files(), 0 if outcome.again else _PENDING_CHECK)
                outcome = self._attempt(connection)
            if isinstance(self._module, Closing):
                self._module.close()
            return outcome

    def forever(self) -> None:
        """Run until SIGTERM, riding out the loss of the database."""
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)
        delay = _RECONNECT_DELAY
        while not self._stopping:
            began = time.monotonic()
            try:
                with connect(self._dsn, self._module.name, timeout=self._connect_timeout) as connection:
                    self._connected(connection)
            except (Unreachable, psycopg.OperationalError, psycopg.InterfaceError) as error:
                log.warning("database lost", module=self._module.name, error=str(error).strip()[:200])
                delay = _RECONNECT_DELAY if time.monotonic() - began > 5 else min(delay * 2, _RECONNECT_DELAY_LIMIT)
                self._pause(delay)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            readable([], min(left, 0.2))

    def _is_known(self, connection: Connection) -> bool:
        """Tell whether this is the database that the module knows; its memory of another database is wrong."""
        try:
            number = site.generation(connection).number
        except (psycopg.ProgrammingError, psycopg.errors.ReadOnlySqlTransaction) as error:
            raise Unreachable(
                f"the database is not ready: {first_line(error)}", hint="run 'oarpy db upgrade'"
            ) from error
        if self._generation not in (None, number):
            log.warning("the database was restored: the module ends, to begin afresh", module=self._module.name)
            return False
        self._generation = number
        return True

    def _connected(self, connection: Connection) -> None:
        notice_loss(connection)
        if not self._is_known(connection):
            self.stop()
            return
        while not notifications.try_lead(connection, self._module.name):
            self._pause(_STANDBY_PERIOD)
            if self._stopping:
                return
        ear = notifications.Ear(connection, notifications.run_channel(self._module.name))
        log.info("module leads", module=self._module.name, pid=os.getpid())
        while not self._stopping:
            ear.drain()
            outcome = self._attempt(connection)
            if not outcome.again:
                self._wait(ear, outcome)

    def _attempt(self, connection: Connection) -> Outcome:
        """Run the module once. If the database refuses its work, pause before the next run."""
        try:
            outcome = self._run(connection)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
            return self._put_off("collision", _COLLISION_DELAY)
        except psycopg.Error as error:
            if not is_refusal(error):
                raise
            # it names no job that could be left out: others, and commands, may well go on
            log.exception("refused by the database", module=self._module.name)
            return self._put_off(f"refused by the database: {first_line(error)}", _REFUSAL_DELAY)
        self._failures = 0
        return outcome

    def _run(self, connection: Connection) -> Outcome:
        now = datetime.now(UTC)
        outcome = run(self._module, connection, now)
        if outcome.word not in ("", "nothing"):
            log.info("run", module=self._module.name, outcome=outcome.word, **_said(outcome.named), seconds=_since(now))
        if outcome.word:
            notifications.report(connection, self._module.name, outcome.word, os.getpid(), socket.gethostname())
        return outcome

    def _put_off(self, word: str, delay: float) -> Outcome:
        """Pause before the next run, longer each time in a row."""
        self._pause(min(delay * 2**self._failures, _REFUSAL_DELAY_LIMIT))
        self._failures = min(self._failures + 1, 16)
        return Outcome(word, again=True)

    def _wait(self, ear: notifications.Ear, outcome: Outcome) -> None:
        until = time.time() + self._module.period
        if outcome.wake_at is not None:
            until = min(until, outcome.wake_at)
        while not self._stopping and not ear.heard and (left := until - time.time()) > 0:
            with suppress(InterruptedError):
                ready = readable([ear.fileno(), *self._module.files()], min(left, 0.5))
                if ear.fileno() in ready:
                    ear.listen()
                    ready.remove(ear.fileno())
                if ready:
                    return


def _said(named: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in named.items() if value != ""}


def _since(moment: datetime) -> float:
    return round((datetime.now(UTC) - moment).total_seconds(), 4)
