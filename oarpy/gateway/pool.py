"""The workers: forked ready, watched, ended when they take too long, replaced when they die.

::

    fork --> not ready --IDLE--> idle --request--> busy for a user --IDLE--> idle
                                  |                 |  WAITING, INPUT ... WORKING: another limit meanwhile
                                  |                 '- over its limit: killed; ended: buried and replaced
                                  '- too many, for a while: dismissed

Each has a control socket to the gateway (:func:`fork_with_control`), on which it sends words of one byte
(:func:`read_word`). Calls are forked and read in the same way.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from oarpy import configuration as settings
from oarpy.gateway.intake import Client
from oarpy.gateway.remote_caller import INPUT, WAITING
from oarpy.gateway.worker import IDLE, REQUEST

log = structlog.get_logger()

_SPARE_TIME = 10.0
"""Seconds after which a worker beyond the usual number, with nothing to do, is ended."""

_GRACE = 5.0
"""Seconds that a worker has to end by itself a command that waited for too long."""

_RESTART_DELAY = 1.0
"""Seconds between two starts when workers cannot be started, or die before they were ready."""


@dataclass(eq=False, slots=True)
class Member:
    """A worker as the gateway sees it. ``uid`` is the user it works for, None when idle or not ready yet.

    ``since`` is when it got its state, by the monotonic clock; ``word`` is its last message about its command.
    """

    pid: int
    control: socket.socket
    since: float
    ready: bool = False
    uid: int | None = None
    word: bytes = b""

    @property
    def idle(self) -> bool:
        """True when it can be given a request."""
        return self.ready and self.uid is None


class WorkerPool:
    """All workers. ``start`` forks one, given its end of the control socket and ours; it returns in the parent only."""

    def __init__(self, limits: settings.GatewaySettings, start: Callable[[socket.socket, socket.socket], int]) -> None:
        self._limits = limits
        # a worker that waits for input says itself that it is late
        self._limits_by_word = {WAITING: limits.waiting_limit, INPUT: limits.input_limit + _GRACE}
        self._start = start
        self._members: list[Member] = []
        self._busy: Counter[int] = Counter()
        self._ended: list[int] = []
        self._not_before = 0.0

    def may_run(self, uid: int) -> bool:
        """Say whether this user may have one more worker: a quarter of all workers is kept for users who have none."""
        mine = self._busy.get(uid, 0)
        shared = self._limits.most_workers * 3 // 4
        return mine == 0 or (mine < self._limits.workers_per_user and self._busy.total() < shared)

    @property
    def busy(self) -> bool:
        """True while a worker has a request."""
        return any(member.uid is not None for member in self._members)

    def counts(self) -> tuple[int, int]:
        """Return how many workers there are, and how many of them have a request."""
        return len(self._members), sum(member.uid is not None for member in self._members)

    def idle(self) -> Member | None:
        """Return a worker with nothing to do, the last that worked: its memory is the warmest."""
        return max((member for member in self._members if member.idle), key=lambda one: one.since, default=None)

    def keep(self, now: float, *, wanted: bool) -> list[Member]:
        """Start the workers that are missing, and one more if one is ``wanted``; return the new ones."""
        self._reap()
        missing = self._limits.workers - len(self._members)
        if wanted and all(member.ready for member in self._members) and len(self._members) < self._limits.most_workers:
            missing = max(missing, 1)
        if now < self._not_before:
            return []
        begun: list[Member] = []
        try:
            while len(begun) < missing:
                begun.append(self._fork(now))
        except OSError as error:
            log.warning("gateway worker not begun", reason=str(error))
            self._not_before = now + _RESTART_DELAY
        return begun

    def assign(self, member: Member, client: Client, now: float) -> bool:
        """Hand a request to a worker; False when it is dead, and then the caller keeps the request."""
        # a file in memory: of any size, and written without waiting for the worker
        with open(os.memfd_create("request"), "w+b") as text:
            text.write(client.request)
            text.seek(0)
            try:
                word = client.preface or REQUEST
                socket.send_fds(member.control, [word], [client.socket.fileno(), text.fileno()])
            except OSError:
                return False
        member.uid, member.since, member.word = client.uid, now, REQUEST
        self._busy[client.uid] += 1
        return True

    def hear(self, member: Member, now: float) -> bool:
        """Take the word of the worker; return False when it is dead."""
        word = read_word(member.control)
        if word is None:
            return True
        if not word:
            return False
        if word == IDLE:
            self._release(member)
            member.ready = True
        member.word, member.since = word, now
        return True

    def bury(self, member: Member, now: float) -> None:
        """Forget a worker that has ended."""
        if not member.ready:
            self._not_before = now + _RESTART_DELAY
        log.warning("gateway worker ended", pid=member.pid, worked_for=member.uid)
        self.dismiss(member)

    def end_late(self, now: float) -> None:
        """Kill the workers whose command takes too long."""
        for member in self._members:
            limit = self._limits_by_word.get(member.word, self._limits.time_limit)
            if member.uid is not None and now - member.since > limit:
                log.warning("command took too long", pid=member.pid, uid=member.uid, limit=limit)
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)

    def spare(self, now: float) -> list[Member]:
        """Return the workers beyond the usual number that had nothing to do for a while."""
        spare = [member for member in self._members if member.idle and now - member.since > _SPARE_TIME]
        return spare[: max(len(self._members) - self._limits.workers, 0)]

    def dismiss(self, member: Member) -> None:
        """Let a worker go: it ends when it sees its control socket closed."""
        self._release(member)
        self._members.remove(member)
        self._ended.append(member.pid)
        member.control.close()

    def close(self, timeout: float) -> None:
        """Let the workers finish, and kill those that have not after ``timeout`` seconds."""
        for member in self._members:
            # an idle worker reads the end and leaves; a busy one does so after its request
            with suppress(OSError):
                member.control.shutdown(socket.SHUT_WR)
        until = time.monotonic() + timeout
        for member in self._members:
            member.control.settimeout(max(until - time.monotonic(), 0.001))
            try:
                while member.control.recv(1):
                    pass
            except OSError:
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
            os.waitpid(member.pid, 0)

    def forget(self) -> None:
        """Close the copies of the control sockets that a forked process has."""
        for member in self._members:
            member.control.close()

    def _fork(self, now: float) -> Member:
        pid, control = fork_with_control(self._start)
        member = Member(pid, control, now)
        self._members.append(member)
        return member

    def _release(self, member: Member) -> None:
        if member.uid is None:
            return
        self._busy[member.uid] -= 1
        if not self._busy[member.uid]:
            del self._busy[member.uid]
        member.uid = None

    def _reap(self) -> None:
        self._ended = [pid for pid in self._ended if os.waitpid(pid, os.WNOHANG)[0] == 0]


def fork_with_control(start: Callable[[socket.socket, socket.socket], int]) -> tuple[int, socket.socket]:
    """Have ``start`` fork a process, given its end of a control socket and ours; return its result, and our end.

    Only the parent returns. Raises ``OSError`` when no process or no socket is available; nothing is left then.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        try:
            pid = start(theirs, ours)
        except OSError:
            ours.close()
            raise
    ours.setblocking(False)
    return pid, ours


def read_word(control: socket.socket) -> bytes | None:
    """Return the word (a byte) that was sent; None when there is none yet, ``b""`` when the process is gone.

    Raises nothing: a socket in error belongs to a process that is gone. ``control`` does not block.
    """
    try:
        return control.recv(1)
    except BlockingIOError:
        return None
    except OSError:
        return b""
