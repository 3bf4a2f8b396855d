"""The process that a job's first ``oarsrun -n`` leaves behind: it has the nodes connected, and starts steps on them.

A client sends ``run``, and ``signal`` for each that it gets. It hears ``output``, then ``ended``, or ``refused``. When
a client has gone, its ranks are ended. The holder ends with the job.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from oarpy.frontend.ranks.links import Link, packed, user_of
from oarpy.frontend.ranks.node_connection import NodeConnection
from oarpy.frontend.ranks.options import Wish
from oarpy.frontend.ranks.placement import Core, NoRoom, Place, place, read_cores
from oarpy.frontend.ranks.pmi import PmiSpace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL for ranks when one of them has failed."""
_HANGUP_GRACE = 1.0
_LOST = 6
"""Exit status of a rank whose node cannot be reached, as that of ``oarsh``."""
_COMMON = 0.2
"""Seconds within which a signal that this process gets too was sent to the whole job: the ranks have it then."""
_HEARD = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


class _Step:
    """A step: its client, the places of its ranks that have not ended, and how it goes."""

    def __init__(self, number: int, client: Link, places: Sequence[Place]) -> None:
        self.number = number
        self.client = client
        self.size = len(places)
        self.places = {one.rank: one for one in places}
        self.hosts = {one.rank: one.host for one in places}
        order = list(dict.fromkeys(self.hosts.values()))
        self.pmi = PmiSpace(f"oarpy_{os.getpid()}_{number}", [order.index(one.host) for one in places])
        self.status = 0
        self.ends: list[tuple[int, str, int, str]] = []
        self.waits = False


class Holder:
    """The steps and the connected nodes of a job. ``listening`` is the descriptor where clients come."""

    def __init__(self, listening: int) -> None:
        self._listening = socket.socket(fileno=listening)
        self._poll = select.epoll()
        self._poll.register(listening, select.EPOLLIN)
        self._clients: dict[int, Link] = {}
        self._nodes: dict[str, NodeConnection] = {}
        self._sources: dict[int, NodeConnection] = {}
        self._behind: dict[int, Link] = {}
        self._steps: dict[int, _Step] = {}
        self._last = 0
        self._uses: dict[int, int] = {}
        self._cores: list[Core] = []
        self._read: tuple[str, int, int] = ("", 0, 0)
        self._heard: dict[int, float] = {}
        self._signals: list[tuple[float, Link, int]] = []
        for number in _HEARD:
            signal.signal(number, self._note_signal)

    def _note_signal(self, number: int, _frame: object) -> None:
        self._heard[number] = time.monotonic()
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        """End once the job was told to and no step goes on: the job waits for all its processes."""
        if signal.SIGTERM in self._heard and not self._steps and not self._behind:
            os._exit(0)

    def serve(self) -> None:
        """Serve clients for ever."""
        while True:
            self._pass_signals()
            for fd, event in self._poll.poll(_COMMON if self._signals else None):
                if fd == self._listening.fileno():
                    self._accept()
                elif event & select.EPOLLOUT and fd in self._behind:
                    self._flush(self._behind[fd])
                elif fd in self._sources:
                    self._hear_node(self._sources[fd])
                elif fd in self._clients:
                    self._hear_client(self._clients[fd])

    def _accept(self) -> None:
        """Take a client of this user: every user of the node can find the name and come."""
        try:
            connection = self._listening.accept()[0]
        except OSError:  # no descriptor is left: others come when a client has gone
            self._poll.modify(self._listening.fileno(), 0)
            return
        if user_of(connection) != os.getuid():
            connection.close()
            return
        descriptor = connection.detach()
        self._clients[descriptor] = Link(descriptor, descriptor)
        self._poll.register(descriptor, select.EPOLLIN)

    def _send(self, link: Link, *message: Any) -> None:
        link.send(packed(*message))
        if link.is_behind and link.sink not in self._behind:
            self._behind[link.sink] = link
            self._watch(link)

    def _watch(self, link: Link) -> None:
        """Wait until more can be written, or no more."""
        wanted = select.EPOLLOUT if link.is_behind else 0
        if link.source == link.sink:
            self._poll.modify(link.sink, select.EPOLLIN | wanted)
        elif wanted:
            self._poll.register(link.sink, wanted)
        else:
            self._poll.unregister(link.sink)

    def _flush(self, link: Link) -> None:
        link.flush()
        if not link.is_behind:
            del self._behind[link.sink]
            self._watch(link)
            self._end_if_idle()
        for step in self._steps.values():
            if step.client is link and step.waits and not link.is_full:
                step.waits = False
                self._tell_nodes(step, "go_on")

    def _hear_client(self, client: Link) -> None:
        messages = client.receive()
        if messages is None:
            return self._leave(client)
        for word, *values in messages:
            if word == "run":
                self._run(client, values[0])
            elif word == "signal":
                self._signals.append((time.monotonic(), client, values[0]))
        return None

    def _pass_signals(self) -> None:
        """Pass on the signals that clients got some time ago and the whole job did not."""
        now = time.monotonic()
        due = [entry for entry in self._signals if entry[0] + _COMMON <= now]
        self._signals = [entry for entry in self._signals if entry[0] + _COMMON > now]
        for came, client, number in due:
            if abs(self._heard.get(number, float("-inf")) - came) > _COMMON:
                for step in self._of(client):
                    self._tell_nodes(step, "signal", number)

    def _of(self, client: Link) -> list[_Step]:
        return [step for step in self._steps.values() if step.client is client]

    def _leave(self, client: Link) -> None:
        self._poll.unregister(client.source)
        self._behind.pop(client.sink, None)
        del self._clients[client.source]
        for step in self._of(client):
            self._tell_nodes(step, "end", int(signal.SIGHUP), _HANGUP_GRACE)
        client.close()
        self._poll.modify(self._listening.fileno(), select.EPOLLIN)

    def _is_there(self, client: Link) -> bool:
        return self._clients.get(client.source) is client

    def _run(self, client: Link, request: dict[str, Any]) -> None:
        """Start a step, or refuse it."""
        wish = Wish(**request["wish"])
        try:
            self._read_cores(request["resources"])
            places = place(self._cores, wish, self._uses)
        except NoRoom as refusal:
            return self._send(client, "refused", str(refusal))
        except OSError as error:
            return self._send(client, "refused", f"{request['resources']}: {error.strerror}")
        self._last += 1
        step = self._steps[self._last] = _Step(self._last, client, places)
        by_host: dict[str, list[Place]] = {}
        for one in places:
            by_host.setdefault(one.host, []).append(one)
            self._count(one, 1)
        environment = {**request["environment"], "OAR_STEP_SIZE": str(step.size), "PMI_SIZE": str(step.size)}
        environment.update(PMI_SPAWNED="0", OAR_STEP_CPUS=str(wish.cores))
        alone = len({core.host for core in self._cores}) == 1
        for host, its in by_host.items():
            program = {
                "environment": {**environment, "OAR_STEP_LOCAL_SIZE": str(len(its))},
                "words": request["words"],
                "directory": request["directory"],
                "surroundings": request["surroundings"],
            }
            ranks = [(one.rank, one.local, self._processors(one)) for one in its]
            try:
                node = self._node(host, alone=alone)
            except OSError as error:
                for one in its:
                    self._end_rank(step, one.rank, _LOST << 8, f"{host}: {error.strerror}")
            else:
                self._send(node.link, "run", step.number, program, ranks)
        return None

    def _read_cores(self, path: str) -> None:
        """Read the cores of the job anew if it has grown or shrunk. Raises ``OSError``."""
        status = os.stat(path)
        if self._read != (path, status.st_ino, status.st_mtime_ns):
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                self._cores = read_cores(file.readlines())
            self._read = (path, status.st_ino, status.st_mtime_ns)
            self._uses.clear()

    def _count(self, one: Place, change: int) -> None:
        for core in one.cores:
            self._uses[core] = max(0, self._uses.get(core, 0) + change)

    def _processors(self, one: Place) -> list[int]:
        """Return the processors to which a rank is bound, none if those of its cores are not known."""
        numbers = [self._cores[core].processor for core in one.cores]
        return [number for number in numbers if number is not None] if None not in numbers else []

    def _node(self, host: str, *, alone: bool) -> NodeConnection:
        """Return the connection to a node, begun if there is none."""
        if host not in self._nodes:
            node = self._nodes[host] = NodeConnection(host, alone=alone)
            self._sources[node.link.source] = node
            self._poll.register(node.link.source, select.EPOLLIN)
        return self._nodes[host]

    def _tell_nodes(self, step: _Step, *message: Any) -> None:
        word, *values = message
        for host in {one.host for one in step.places.values()}:
            if host in self._nodes:
                self._send(self._nodes[host].link, word, step.number, *values)

    def _hear_node(self, node: NodeConnection) -> None:
        messages = node.link.receive()
        if messages is None:
            return self._lose(node)
        for word, number, rank, *values in messages:
            step = self._steps.get(number)
            if step is None:
                continue
            if word == "output":
                self._pass_on(step, rank, *values)
            elif word == "pmi":
                self._answer(step, rank, values[0])
            elif word == "ended":
                self._end_rank(step, rank, *values)
        return None

    def _pass_on(self, step: _Step, rank: int, stream: int, data: bytes) -> None:
        if self._is_there(step.client):
            self._send(step.client, "output", rank, step.hosts[rank], stream, data)
            if step.client.is_full and not step.waits:
                step.waits = True
                self._tell_nodes(step, "wait")

    def _answer(self, step: _Step, rank: int, lines: Sequence[str]) -> None:
        for line in lines:
            for other, text in step.pmi.answers(rank, line):
                if other in step.places:
                    self._send(self._nodes[step.hosts[other]].link, "pmi", step.number, other, text)
            if step.pmi.aborted is not None:
                self._fail(step, step.pmi.aborted or 1)

    def _end_rank(self, step: _Step, rank: int, raw: int, error: str) -> None:
        one = step.places.pop(rank, None)
        if one is None:
            return
        self._count(one, -1)
        status = 128 + os.WTERMSIG(raw) if os.WIFSIGNALED(raw) else os.WEXITSTATUS(raw)
        step.ends.append((rank, one.host, status, error))
        if status:
            self._fail(step, status)
        if not step.places:
            del self._steps[step.number]
            if self._is_there(step.client):
                self._send(step.client, "ended", step.status, sorted(step.ends))
            self._end_if_idle()

    def _fail(self, step: _Step, status: int) -> None:
        """End the other ranks: the first status that is not 0 is that of the step."""
        if not step.status:
            step.status = status
            self._tell_nodes(step, "end", int(signal.SIGTERM), _GRACE)

    def _lose(self, node: NodeConnection) -> None:
        """End the ranks of a node whose connection is lost; the next step connects it again."""
        del self._nodes[node.host], self._sources[node.link.source]
        self._behind.pop(node.link.sink, None)
        reason = node.end()
        for step in list(self._steps.values()):
            for rank in [one.rank for one in step.places.values() if one.host == node.host]:
                self._end_rank(step, rank, _LOST << 8, reason)
