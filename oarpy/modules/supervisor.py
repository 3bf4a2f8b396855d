"""``oarpy server``: one process for each module, and the embedded database; whatever dies is started again."""

from __future__ import annotations

import os
import select
import signal
import time
from dataclasses import dataclass
from math import inf
from pathlib import Path

import structlog

from oarpy.configuration import Configuration
from oarpy.model.errors import OarpyError
from oarpy.modules.forked_program import ForkedProgram, import_all
from oarpy.modules.loop.logging import configure_logging
from oarpy.modules.loop.parent import PARENT_VARIABLE
from oarpy.modules.loop.watchdog import SignsOfLife, Watch
from oarpy.modules.registry import enabled_modules, imports_of, module_environment, program_of
from oarpy.postgres import embedded_server

log = structlog.get_logger()

_HEALTHY_AFTER = 10.0
_DATABASE_CHECK_PERIOD = 0.5
_STOP_TIMEOUT = 10.0
_STARTING = 20.0
"""Seconds more that a process has for its first sign of life."""


@dataclass(slots=True)
class _Child:
    """A module or a program to keep running."""

    name: str
    process: ForkedProgram | None = None
    started: float = 0.0
    heard: float = 0.0
    """When it gave its last sign of life, 0 before the first."""
    delay: float = 0.0
    not_before: float = 0.0


class ModuleSupervisor:
    """Keeps the modules (and the embedded database, if configured) running until it is stopped."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._children = [_Child(name) for name in enabled_modules(configuration)]
        if configuration.gateway.socket:
            self._children.append(_Child("gateway"))
        self._directory = None if configuration.database.url else Path(configuration.database.directory)
        self._signs = SignsOfLife()
        self._watch: Watch | None = None
        self._stopping = False
        self._check_database_at = 0.0
        self._database_delay = 0.0

    def stop(self, *_: object) -> None:
        """End everything (also the handler of SIGTERM and SIGINT)."""
        self._stopping = True

    def run(self) -> None:
        """Supervise until stopped, then end the modules.

        The embedded database is left to the process that started it.
        """
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        import_all(name for child in self._children for name in imports_of(child.name))
        if limit := self._configuration.modules.watchdog:
            self._watch = Watch(limit)
        longest = min(_DATABASE_CHECK_PERIOD, self._signs.period or inf)
        try:
            while not self._stopping:
                self._signs.give()
                self._keep_database()
                self._end_silent(time.monotonic())
                waits = [self._keep(child) for child in self._children]
                heard = [reader, *([self._watch] if self._watch else ())]
                select.select(heard, [], [], max(min(*waits, longest), 0.01))
                _empty(reader)
        finally:
            signal.set_wakeup_fd(-1)
            os.close(reader)
            os.close(writer)
            self._end_children()
            if self._watch is not None:
                self._watch.close()

    def _end_silent(self, now: float) -> None:
        """Kill processes that have given no sign of life for too long; they are started again as if they had died."""
        if self._watch is None:
            return
        alive = set(self._watch.signs())
        overslept = self._watch.overslept(now)
        for child in self._children:
            if child.process is None:
                continue
            if overslept or child.process.pid in alive:
                child.heard = now
            silent = now - (child.heard or child.started + _STARTING)
            if silent > self._configuration.modules.watchdog:
                log.error("module gives no sign of life: killed", module=child.name, pid=child.process.pid)
                child.process.send(signal.SIGKILL)
                child.heard = now

    def _keep_database(self) -> None:
        """Start the embedded database if it does not run; the pauses between tries grow."""
        if self._directory is None or time.monotonic() < self._check_database_at:
            return
        self._check_database_at = time.monotonic() + _DATABASE_CHECK_PERIOD
        if embedded_server.is_running(self._directory):
            self._database_delay = 0.0
            return
        try:
            with self._signs.given_meanwhile():
                embedded_server.start(self._directory)
            log.warning("embedded database started")
        except (OarpyError, OSError) as error:
            settings = self._configuration.modules
            self._database_delay = min(
                max(self._database_delay * 2, _DATABASE_CHECK_PERIOD), settings.restart_delay_limit
            )
            self._check_database_at = time.monotonic() + self._database_delay
            log.error("embedded database cannot be started", error=str(error), again_in=self._database_delay)

    def _keep(self, child: _Child) -> float:
        """Start one module again if it has died; return the seconds until the next check."""
        now = time.monotonic()
        if child.process is not None:
            status = child.process.poll()
            if status is None:
                return _DATABASE_CHECK_PERIOD
            self._note_end(child, status, now)
        if now < child.not_before:
            return child.not_before - now
        self._start(child, now)
        return _DATABASE_CHECK_PERIOD

    def _note_end(self, child: _Child, status: int, now: float) -> None:
        if now - child.started > _HEALTHY_AFTER:
            child.delay = 0.0
        child.process = None
        self._put_off(child, now)
        log.warning("module ended", module=child.name, status=status, restart_in=round(child.delay, 2))

    def _put_off(self, child: _Child, now: float) -> None:
        """Wait before the next start, longer each time."""
        settings = self._configuration.modules
        child.delay = min(max(child.delay * 2, settings.restart_delay), settings.restart_delay_limit)
        child.not_before = now + child.delay

    def _start(self, child: _Child, now: float) -> None:
        environment = {**module_environment(self._configuration), PARENT_VARIABLE: str(os.getpid())}
        environment.update(self._watch.environment() if self._watch else {})
        child.started, child.heard = now, 0.0
        try:
            child.process = ForkedProgram(program_of(child.name), environment)
        except OSError as error:  # no process, no memory: there may be some later
            log.error("module cannot be started", module=child.name, error=error.strerror)
            self._put_off(child, now)
            return
        log.info("module started", module=child.name, pid=child.process.pid)

    def _end_children(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.send(signal.SIGTERM)
        until = time.monotonic() + _STOP_TIMEOUT
        for process in running:
            if not process.ends_within(max(until - time.monotonic(), 0.1)):
                process.send(signal.SIGKILL)
                process.ends_within(inf)


def serve(configuration: Configuration) -> int:
    """Run the whole server side of a cluster on this machine until SIGTERM or SIGINT."""
    configure_logging(configuration.log)
    ModuleSupervisor(configuration).run()
    return 0


def _empty(reader: int) -> None:
    try:
        while os.read(reader, 1024):
            pass
    except BlockingIOError:
        return
