"""Channels over byte streams: a reading and a writing thread each, so that no node can delay another.

::

    send() --> queue --> writing thread: the agent's program, then commands --> bytes to the node
    inbox <-- reports <-- reading thread: connects, decodes, tells why it ended <-- bytes from the node
    check(), from time to time: sends a ping, loses a channel that was silent for too long
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from oarpy.model.errors import Unreachable
from oarpy.transport.bundle import agent_program
from oarpy.transport.inbox import Inbox
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.wire.frames import Malformed
from oarpy.wire.lines import MAXIMUM_LINE
from oarpy.wire.messages import (
    AgentError,
    ChannelLost,
    Command,
    Ping,
    Pong,
    Ready,
    Report,
    command_lines,
    decode_reports,
)

_LIVENESS = "liveness"
_SETTLE = 5.0
_PIECE = 1 << 20
"""Bytes written at once."""


class ByteStream(Protocol):
    """Two-way bytes to the program at the far end."""

    def read(self) -> bytes:
        """Wait for the next bytes; empty at the end."""
        ...

    def write(self, content: bytes) -> None:
        """Send everything, waiting as long as the far end takes; raise ``OSError`` when it is gone."""
        ...

    def end_writing(self) -> None:
        """Note that writing is over (called by the writing thread): the far end works off its input, then ends."""
        ...

    def abort(self) -> None:
        """End the far end's program now: reading and writing return. Any thread may call this, any number of times."""
        ...

    def finish(self) -> str:
        """Release the resources of reading (called by the reading thread); return the far end's last words."""
        ...


Opener = Callable[[NodeAddress, bytes], ByteStream]
"""Starts an agent for a node, the program (second argument) to be sent by the channel; raises Unreachable."""


class StreamChannel:
    """One channel, from the attempt to connect to its loss."""

    def __init__(self, node: NodeAddress, opener: Opener, config: ChannelConfig, inbox: Inbox) -> None:
        self.node = node
        self._opener = opener
        self._config = config
        self._inbox = inbox
        self._lock = threading.Lock()
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._finished = threading.Event()
        self._stream: ByteStream | None = None
        self._ready = False
        self._over = False
        self._reason = ""
        self._begun = time.monotonic()
        self._heard = self._begun

    def start(self) -> None:
        """Connect and read in a thread of its own, so that a dead host holds up no other node."""
        threading.Thread(target=self._run, name=f"channel-{self.node.name}", daemon=True).start()

    @property
    def ready(self) -> bool:
        """Whether the agent greeted and the channel is not lost."""
        return self._ready and not self._over

    @property
    def over(self) -> bool:
        """Whether it is lost or closed."""
        return self._over

    def send(self, command: Command) -> bool:
        """Queue a command; False when the channel is not open."""
        if not self.ready:
            return False
        lines, refusals = command_lines(command)
        for line in lines:
            self._outgoing.put(line)
        if refusals:
            self._inbox.put(self.node.name, refusals)
        return True

    def close(self) -> None:
        """End the channel silently. Queued messages are still sent, and worked off by the agent before it ends."""
        with self._lock:
            self._over = True
        self._outgoing.put(None)

    def lose(self, reason: str) -> None:
        """End the channel now and say why in the inbox, unless it was over."""
        with self._lock:
            stream = self._stream
            if not self._over:
                self._over = True
                self._inbox.put(self.node.name, [ChannelLost(reason)])
        self._outgoing.put(None)
        if stream is not None:
            stream.abort()

    def settle(self, timeout: float) -> None:
        """After :meth:`close`: wait up to ``timeout`` seconds for the agent's end, then end it."""
        if self._stream is None:
            return  # still connecting: gives up by itself, within its time limits
        if not self._finished.wait(timeout):
            self.lose("")

    def check(self, now: float) -> None:
        """Send a ping, or give up on silence; called from time to time (``now`` is monotonic seconds)."""
        if self._over:
            return
        if not self._ready:
            if now - self._begun > 2 * self._config.connect_timeout:
                self.lose(f"the agent did not answer within {2 * self._config.connect_timeout:g} s")
            return
        if now - self._heard > self._config.silence_timeout:
            self.lose(f"no answer for {self._config.silence_timeout:g} s")
        else:
            self.send(Ping(_LIVENESS))

    def _run(self) -> None:
        try:
            self._converse()
        finally:
            self._finished.set()

    def _converse(self) -> None:
        """Connect, start the writing thread, read until the end, then say why it ended.

        The channel may be given up while it connects: then it is ended as soon as there is a stream.
        """
        program = agent_program(self.node, self._config)
        try:
            stream = self._opener(self.node, program)
        except (Unreachable, OSError) as error:
            self.lose(str(error) or type(error).__name__)
            return
        with self._lock:
            self._stream = stream
            given_up = self._over
        writer = threading.Thread(
            target=self._write, args=(stream, program), name=f"writer-{self.node.name}", daemon=True
        )
        writer.start()
        if given_up:
            stream.abort()
        self._read(stream)
        reason = stream.finish()
        self.lose(self._reason or reason)
        writer.join()

    def _write(self, stream: ByteStream, program: bytes) -> None:
        try:
            stream.write(program)
            while (content := self._next_to_write()) is not None:
                self._write_all(stream, content)
        except OSError:
            return  # the reading thread sees the end and says why
        finally:
            stream.end_writing()

    def _write_all(self, stream: ByteStream, content: bytes) -> None:
        """Write in pieces. A whole piece is more than lies between two ends: a node that takes one is at work."""
        for begin in range(0, len(content), _PIECE):
            piece = content[begin : begin + _PIECE]
            stream.write(piece)
            if len(piece) == _PIECE:
                self._heard = time.monotonic()

    def _next_to_write(self) -> bytes | None:
        """Wait for something to write; messages that wait together are written together. None: there are no more."""
        content = self._outgoing.get()
        if content is None or self._outgoing.empty():
            return content
        parts = [content]
        while not self._outgoing.empty():
            content = self._outgoing.get()
            if content is None:
                self._outgoing.put(None)  # for the next turn: this thread alone takes out
                break
            parts.append(content)
        return b"".join(parts)

    def _read(self, stream: ByteStream) -> None:
        """Deliver whole lines until the bytes end, or a line grows too long."""
        unfinished: list[bytes] = []
        size = 0
        while content := stream.read():
            self._heard = time.monotonic()
            *lines, rest = content.split(b"\n")
            if lines:
                lines[0] = b"".join(unfinished) + lines[0]
                unfinished.clear()
                self._deliver([report for line in lines for report in self._decode(line)])
            unfinished.append(rest)
            size = len(rest) if lines else size + len(rest)
            if size > MAXIMUM_LINE:
                self.lose("the agent sent a line without an end")
                return

    def _decode(self, line: bytes) -> list[Report]:
        try:
            return decode_reports(line)
        except Malformed as error:
            return [AgentError(str(error))]

    def _deliver(self, reports: list[Report]) -> None:
        wanted = [report for report in reports if not (isinstance(report, Pong) and report.token == _LIVENESS)]
        # Under the lock: once a channel is over nothing of it may follow its ChannelLost or mix with its successor's.
        with self._lock:
            if self._over:
                return
            if not self._ready:
                self._ready = any(isinstance(report, Ready) for report in wanted)
                self._reason = next((report.detail for report in wanted if isinstance(report, AgentError)), "")
            self._inbox.put(self.node.name, wanted)


class StreamTransport:
    """A transport over byte streams made by ``opener``."""

    def __init__(self, opener: Opener, inbox: Inbox, config: ChannelConfig) -> None:
        self._opener = opener
        self._inbox = inbox
        self._config = config
        self._lock = threading.Lock()
        self._channels: dict[str, StreamChannel] = {}
        self._closing: list[StreamChannel] = []
        self._stopped = threading.Event()
        self._checker: threading.Thread | None = None

    @property
    def inbox(self) -> Inbox:
        """Where messages arrive."""
        return self._inbox

    def connect(self, node: NodeAddress) -> None:
        """Begin to open a channel."""
        channel = StreamChannel(node, self._opener, self._config, self._inbox)
        with self._lock:
            old = self._channels.get(node.name)
            self._channels[node.name] = channel
            if self._checker is None:
                self._checker = threading.Thread(target=self._check, name="liveness", daemon=True)
                self._checker.start()
            if old is not None:
                self._closing.append(old)
        if old is not None:
            old.close()
        channel.start()

    def connected(self, name: str) -> bool:
        """Tell whether the channel of a node is open."""
        channel = self._channels.get(name)
        return channel is not None and channel.ready

    def send(self, name: str, command: Command) -> bool:
        """Queue a command for a node."""
        channel = self._channels.get(name)
        return channel is not None and channel.send(command)

    def disconnect(self, name: str) -> None:
        """Close the channel of a node."""
        with self._lock:
            channel = self._channels.pop(name, None)
            if channel is not None:
                self._closing.append(channel)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """Close all channels and stop checking; returns when the agents have ended, or were after some seconds."""
        self._stopped.set()
        with self._lock:
            channels = [*self._closing, *self._channels.values()]
            self._channels.clear()
            self._closing.clear()
        for channel in channels:
            channel.close()
        deadline = time.monotonic() + _SETTLE
        for channel in channels:
            channel.settle(max(0.0, deadline - time.monotonic()))

    def _check(self) -> None:
        period = min(self._config.ping_period, self._config.connect_timeout)
        while not self._stopped.wait(period):
            now = time.monotonic()
            with self._lock:
                closing, self._closing = self._closing, []
                channels = list(self._channels.values())
            for channel in closing:
                channel.settle(0.0)
            for channel in channels:
                channel.check(now)
