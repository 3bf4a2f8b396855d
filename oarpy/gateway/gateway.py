"""The gateway's own process: one loop that never waits for a caller, a worker or the database."""

from __future__ import annotations

import errno
import gc
import os
import resource
import selectors
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from oarpy.client.health.metrics import gateway_file
from oarpy.configuration import Configuration
from oarpy.gateway.call_session import speak
from oarpy.gateway.calls import MOST_CALLS, Call, Calls
from oarpy.gateway.commands import warm_up
from oarpy.gateway.figures import Figures
from oarpy.gateway.intake import Client, Intake
from oarpy.gateway.listener import Listener
from oarpy.gateway.pool import Member, WorkerPool
from oarpy.gateway.shares import Shares
from oarpy.gateway.worker import Worker
from oarpy.model.errors import OarpyError
from oarpy.modules.loop.watchdog import SignsOfLife
from oarpy.wire.openings import Knock

log = structlog.get_logger()

_MOST_CONNECTIONS = 4096
_LEAST_CONNECTIONS = 16
_OWN_FILES = 32
"""Files that the gateway has open for itself, and a few for short tasks."""

_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_IDLE_PERIOD = 2.0
_SWEEP_PERIOD = 0.25
"""Seconds between two looks for late processes."""

_STOP_TIMEOUT = 5.0
"""Seconds that the commands being run get when the gateway is stopped."""

_PER_TURN = 64
"""Connections accepted before the others are looked at again."""


class Gateway:
    """Listens on the configured socket until it is stopped."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._most_connections, most_calls = _shares(_file_limit(), configuration.gateway.most_workers)
        self._listener = Listener(configuration.gateway.socket)
        self._selector = selectors.DefaultSelector()
        self._intake = Intake(configuration.gateway.request_timeout, self._knocked)
        self._calls = Calls(self._fork_call, most_calls)
        self._shares = Shares(configuration.gateway)
        self._pool = WorkerPool(configuration.gateway, self._fork)
        self._figures = Figures(gateway_file(configuration))
        self._signs = SignsOfLife()
        self._listening = False
        self._accept_at = 0.0
        self._stopping = False
        self._swept = 0.0

    def stop(self, *_: object) -> None:
        """End after the commands that are being run (also the handler of SIGTERM and SIGINT)."""
        self._stopping = True

    def run(self) -> None:
        """Serve until stopped."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.stop)
        warm_up()
        gc.collect()
        gc.freeze()
        self._selector.register(reader, selectors.EVENT_READ)
        log.info("gateway listens", socket=self._configuration.gateway.socket, pid=os.getpid())
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._figures.close()
            self._listener.close()
            self._intake.close("the gateway is being stopped (try again later)")
            self._calls.close()
            self._pool.close(_STOP_TIMEOUT)
            signal.set_wakeup_fd(-1)
            os.close(reader)
            os.close(writer)

    def _turn(self) -> None:
        """Do the work that is due, wait for an event and handle it; no handler waits."""
        now = time.monotonic()
        self._signs.give()
        self._keep(now)
        pending = len(self._intake) or self._pool.busy or self._calls.pending or not self._listening
        idle = min(_IDLE_PERIOD, self._signs.period or _IDLE_PERIOD)
        for key, _ in self._selector.select(_SWEEP_PERIOD if pending else idle):
            if key.fileobj is self._listener.socket:
                self._accept(now)
            elif isinstance(key.data, Client):
                self._read(key.data)
            elif isinstance(key.data, Member):
                self._hear(key.data)
            elif isinstance(key.data, Call) and not self._calls.hear(key.data):
                self._selector.unregister(key.data.control)
                self._calls.bury(key.data)
        self._dispatch()

    def _keep(self, now: float) -> None:
        """Look after the number of workers, the time limits, and whether more connections can be taken."""
        wanted = self._pool.idle() is None and self._intake.waits(self._pool.may_run)
        for member in self._pool.keep(now, wanted=wanted):
            self._selector.register(member.control, selectors.EVENT_READ, member)
        for call in self._calls.begin(now):
            self._selector.register(call.control, selectors.EVENT_READ, call)
        room = len(self._intake) < self._most_connections and now >= self._accept_at
        if room is not self._listening:
            self._listening = room
            if room:
                self._selector.register(self._listener.socket, selectors.EVENT_READ)
            else:
                self._selector.unregister(self._listener.socket)
        if now - self._swept < _SWEEP_PERIOD:
            return
        self._swept = now
        self._figures.tend(now, *self._pool.counts(), len(self._intake))
        for client in self._intake.late(now):
            self._selector.unregister(client.socket)
        for member in self._pool.spare(now):
            self._selector.unregister(member.control)
            self._pool.dismiss(member)
        self._pool.end_late(now)
        self._calls.end_late(now)

    def _accept(self, now: float) -> None:
        for _ in range(_PER_TURN):
            try:
                connection, _ = self._listener.socket.accept()
            except OSError as error:
                if error.errno in _NO_MORE_FILES:
                    log.warning("gateway accepts nothing for a moment", reason=error.strerror)
                    self._accept_at = now + _SWEEP_PERIOD
                return
            client = self._intake.enter(connection, now)
            if client is not None and self._intake.read(client):
                self._selector.register(client.socket, selectors.EVENT_READ, client)

    def _read(self, client: Client) -> None:
        # taken out first: reading may close the socket
        self._selector.unregister(client.socket)
        if self._intake.read(client):
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def _hear(self, member: Member) -> None:
        now = time.monotonic()
        if not self._pool.hear(member, now):
            self._selector.unregister(member.control)
            self._pool.bury(member, now)

    def _dispatch(self) -> None:
        """Give queued requests to idle workers."""
        while (member := self._pool.idle()) is not None:
            client = self._intake.take(self._pool.may_run)
            if client is None:
                return
            if not self._pool.assign(member, client, time.monotonic()):
                self._figures.refused += 1
                client.refuse("the gateway has lost a worker (try again)")
            else:
                self._figures.requests += 1
                client.socket.close()

    def _knocked(self, knock: Knock) -> None:
        self._calls.knock(knock, time.monotonic())

    def _fork(self, control: socket.socket, ours: socket.socket) -> int:
        gateway = os.getpid()
        return self._forked(
            lambda: Worker(control, self._configuration, self._shares).work(gateway), ours, "gateway worker failed"
        )

    def _fork_call(self, knock: Knock, control: socket.socket, ours: socket.socket) -> int:
        return self._forked(lambda: speak(self._configuration, knock, control), ours, "call failed")

    def _forked(self, work: Callable[[], None], ours: socket.socket, failed: str) -> int:
        """Fork a process for ``work``, which has nothing of the gateway's but its end of the control socket."""
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            ours.close()
            self._selector.close()
            self._listener.forget()
            self._intake.forget()
            self._pool.forget()
            self._calls.forget()
            work()
            status = 0
        except BaseException:
            log.exception(failed)
        finally:
            os._exit(status)


def _file_limit() -> int:
    """Raise the limit of open files as far as allowed and useful, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 2 * _MOST_CONNECTIONS), hard), hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _shares(files: int, workers: int) -> tuple[int, int]:
    """Return the numbers of connections and of calls that ``files`` open files allow beside the workers.

    Raises :class:`OarpyError` when they are too few to serve any user.
    """
    left = files - _OWN_FILES - workers
    calls = min(MOST_CALLS, left // 4)
    if left - calls < _LEAST_CONNECTIONS:
        least = _OWN_FILES + workers + 2 * _LEAST_CONNECTIONS
        raise OarpyError(
            f"the gateway may open {files} files and needs {least} at least",
            hint="raise its limit (ulimit -n, or LimitNOFILE= of its unit), or lower gateway.most_workers",
        )
    return min(_MOST_CONNECTIONS, left - calls), calls
