"""Calls of commands on nodes: for each, a process connects to the node and makes the command's request."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import structlog

from oarpy.frontend.call import PATIENCE
from oarpy.gateway.pool import fork_with_control, read_word
from oarpy.wire.openings import Knock

log = structlog.get_logger()

TAKEN = b"T"
"""The message of a call's process when it is connected to the command."""

_LIMIT = 20.0
"""Seconds for a call to be taken."""

_PENDING_PER_NODE = 8
"""Calls of a node that are not taken yet: an SSH server refuses more log-ins at one time."""

_PENDING = 32
_MOST_PER_NODE = 256
MOST_CALLS = 1024
"""Processes of calls, where enough files may be open."""

_MOST_WAITING = 1024
_MOST_WAITING_PER_NODE = 256


@dataclass(eq=False, slots=True)
class Call:
    """A process of a call; ``began`` by the monotonic clock."""

    pid: int
    node: str
    control: socket.socket
    began: float
    taken: bool = False


class Calls:
    """``start`` forks the process of a call, given its end of the control socket and ours; ``most`` may be there."""

    def __init__(self, start: Callable[[Knock, socket.socket, socket.socket], int], most: int = MOST_CALLS) -> None:
        self._start = start
        self._most = most
        self._waiting: OrderedDict[Knock, float] = OrderedDict()
        self._calls: dict[Call, None] = {}
        self._of_node: Counter[str] = Counter()
        self._pending: Counter[str] = Counter()
        self._ended: list[int] = []

    @property
    def pending(self) -> bool:
        """True while something is to be watched."""
        return bool(self._waiting) or self._pending.total() > 0 or bool(self._ended)

    def knock(self, knock: Knock, now: float) -> None:
        """Take note of a call request; if there are too many, it is dropped, and the command says that nobody came."""
        of_node = sum(other.node == knock.node for other in self._waiting)
        if len(self._waiting) < _MOST_WAITING and of_node < _MOST_WAITING_PER_NODE:
            self._waiting.setdefault(knock, now)

    def begin(self, now: float) -> list[Call]:
        """Start the calls for which there is room, forget those that waited too long; return the new ones."""
        self._ended = [pid for pid in self._ended if os.waitpid(pid, os.WNOHANG)[0] == 0]
        begun = []
        for knock, since in list(self._waiting.items()):
            if now - since > PATIENCE:
                del self._waiting[knock]
            elif self._has_room(knock.node):
                try:
                    begun.append(self._fork(knock, now))
                except OSError as error:
                    log.warning("call not begun", node=knock.node, reason=str(error))
                    break
                del self._waiting[knock]
        return begun

    def hear(self, call: Call) -> bool:
        """Take the word of the process; return False when it has ended."""
        word = read_word(call.control)
        if word == TAKEN and not call.taken:
            call.taken = True
            self._uncount(self._pending, call.node)
        return word != b""

    def bury(self, call: Call) -> None:
        """Forget a call that is over."""
        if not call.taken:
            self._uncount(self._pending, call.node)
        self._uncount(self._of_node, call.node)
        del self._calls[call]
        call.control.close()
        self._ended.append(call.pid)

    def end_late(self, now: float) -> None:
        """Kill the calls that were not taken in time."""
        for call in self._calls:
            if not call.taken and now - call.began > _LIMIT:
                log.warning("call not taken", node=call.node, pid=call.pid)
                with suppress(ProcessLookupError):
                    os.kill(call.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the calls that are not taken; the others go on with the sessions that they carry."""
        for call in list(self._calls):
            if not call.taken:
                with suppress(ProcessLookupError):
                    os.kill(call.pid, signal.SIGKILL)
            call.control.close()

    def forget(self) -> None:
        """Close the copies that a forked process has."""
        for call in self._calls:
            call.control.close()

    def _has_room(self, node: str) -> bool:
        return (
            len(self._calls) < self._most
            and self._of_node[node] < _MOST_PER_NODE
            and self._pending.total() < _PENDING
            and self._pending[node] < _PENDING_PER_NODE
        )

    def _fork(self, knock: Knock, now: float) -> Call:
        pid, control = fork_with_control(partial(self._start, knock))
        call = Call(pid, knock.node, control, now)
        self._calls[call] = None
        self._of_node[call.node] += 1
        self._pending[call.node] += 1
        return call

    @staticmethod
    def _uncount(counter: Counter[str], node: str) -> None:
        counter[node] -= 1
        if not counter[node]:
            del counter[node]
