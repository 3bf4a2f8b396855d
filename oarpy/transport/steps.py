"""Steps: programs inside running jobs, each behind a channel of its own, their streams brought together here."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from oarpy.model.errors import Unreachable
from oarpy.transport.bundle import agent_program
from oarpy.transport.node import ChannelConfig, NodeAddress
from oarpy.transport.stream import ByteStream, Opener
from oarpy.transport.wakeup import WakeupBell
from oarpy.wire.frames import (
    CONTENT,
    ERRORS,
    MESSAGE,
    OUTPUT,
    Frames,
    Malformed,
    pack,
    pack_message,
    read_message,
)
from oarpy.wire.steps import StepSpec

UNREACHABLE = "UNREACHABLE"
_SETTLE = 5.0
_MOST_WAITING = 1 << 20
"""Bytes of output that were not taken yet, after which a step is not read any more; the same for its input."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The step's program runs."""

    step: int


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Output of the step on standard output (``stream`` 1) or standard error (2)."""

    step: int
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The step is over and all its processes are gone; ``status`` is the raw wait status of its program."""

    step: int
    status: int


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The step was refused, or its channel was lost (``reason`` UNREACHABLE); no further event of it comes."""

    step: int
    reason: str
    detail: str


StepEvent = StepStarted | StepOutput | StepEnded | StepFailed


class Steps:
    """A group of steps. Its methods are for one thread; ``fileno`` is readable while events wait or input has room."""

    def __init__(self, opener: Callable[[NodeAddress], Opener], config: ChannelConfig) -> None:
        self._opener = opener
        self._config = config
        self._mailbox = _Mailbox()
        self._steps: list[_Step] = []

    def start(self, node: NodeAddress, spec: StepSpec) -> int:
        """Begin to start a step on a node; return its number, which its events carry. Never waits."""
        number = len(self._steps)
        program = agent_program(node, self._config, "steps.step")
        step = _Step(number, node, self._opener(node), program, pack_message(spec.entry()))
        self._steps.append(step)
        step.begin(self._mailbox)
        return number

    def fileno(self) -> int:
        """Return a descriptor for select or poll."""
        return self._mailbox.bell.fileno()

    def events(self) -> list[StepEvent]:
        """Take the events, in order for each step. Never waits."""
        return self._mailbox.take()

    @property
    def takes_input(self) -> bool:
        """Whether no step is behind with its input; when this changes, ``fileno`` is readable."""
        return all(step.pending < _MOST_WAITING for step in self._steps)

    def send_input(self, step: int, data: bytes) -> None:
        """Pass bytes to the standard input of a step; they are dropped when it is over."""
        if data:
            self._steps[step].send(pack(CONTENT, data))

    def end_input(self, step: int) -> None:
        """Say that a step gets no more input."""
        self._steps[step].send(pack(CONTENT, b""))

    def signal(self, step: int, number: int) -> None:
        """Send a signal to the processes of a step."""
        self._steps[step].send(pack_message({"signal": number}))

    def resize(self, step: int, rows: int, columns: int) -> None:
        """Tell a step the size of its terminal in characters."""
        self._steps[step].send(pack_message({"rows": rows, "columns": columns}))

    def close(self) -> None:
        """End the steps that still run, and wait for them. No events follow."""
        self._mailbox.close()
        for step in self._steps:
            step.abandon()
        for step in self._steps:
            step.join()
        self._mailbox.bell.close()


class _Mailbox:
    """Events of all steps. A thread that brings output waits while too much of it lies here."""

    def __init__(self) -> None:
        self.bell = WakeupBell()
        self._changed = threading.Condition()
        self._waiting: deque[StepEvent] = deque()
        self._bytes = 0
        self._closed = False

    def put(self, event: StepEvent) -> None:
        size = len(event.data) if isinstance(event, StepOutput) else 0
        with self._changed:
            while size and self._bytes > _MOST_WAITING and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._bytes += size
                self._waiting.append(event)
                self.bell.ring()

    def ring(self) -> None:
        with self._changed:
            if not self._closed:
                self.bell.ring()

    def take(self) -> list[StepEvent]:
        with self._changed:
            result = list(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self.bell.quiet()
            self._changed.notify_all()
            return result

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()


class _Step:
    """One step: a thread that connects and reads, and a thread that writes."""

    def __init__(self, number: int, node: NodeAddress, opener: Opener, program: bytes, spec: bytes) -> None:
        self.number = number
        self.pending = 0
        self._node = node
        self._opener = opener
        self._program = program
        self._spec = spec
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stream: ByteStream | None = None
        self._thread: threading.Thread | None = None
        self._over = False

    def begin(self, mailbox: _Mailbox) -> None:
        self._thread = threading.Thread(target=self._run, args=(mailbox,), name=f"step-{self._node.name}", daemon=True)
        self._thread.start()

    def send(self, frame: bytes) -> None:
        if self._over:
            return
        with self._lock:
            self.pending += len(frame)
        self._outgoing.put(frame)

    def abandon(self) -> None:
        """End the channel in good order: the program at its far end ends the step."""
        self._outgoing.put(None)

    def join(self) -> None:
        """Wait for the far end to be done, not for ever."""
        if self._thread is None:
            return
        self._thread.join(_SETTLE)
        if self._thread.is_alive() and self._stream is not None:
            self._stream.abort()
            self._thread.join(_SETTLE)

    def _run(self, mailbox: _Mailbox) -> None:
        """Connect, start the writing thread, and read until the step's last word; without one the step has failed."""
        try:
            stream = self._opener(self._node, self._program)
        except (Unreachable, OSError) as error:
            self._end(mailbox, StepFailed(self.number, UNREACHABLE, str(error) or type(error).__name__))
            return
        with self._lock:
            self._stream = stream
        writer = threading.Thread(target=self._write, args=(stream, mailbox), daemon=True)
        writer.start()
        last = self._read(stream, mailbox)
        if last is not None:
            self._end(mailbox, last)
        self._outgoing.put(None)
        reason = stream.finish()
        writer.join()
        if last is None:
            self._end(mailbox, StepFailed(self.number, UNREACHABLE, f"node {self._node.name}: {reason}"))

    def _end(self, mailbox: _Mailbox, last: StepEvent) -> None:
        self._over, self.pending = True, 0
        mailbox.put(last)

    def _read(self, stream: ByteStream, mailbox: _Mailbox) -> StepEvent | None:
        """Pass on the messages of the step; return its last, None when the channel ended without one."""
        frames = Frames()
        try:
            while content := stream.read():
                for kind, payload in frames.feed(content):
                    event = self._understand(kind, payload)
                    if isinstance(event, StepEnded | StepFailed):
                        return event
                    mailbox.put(event)
        except (OSError, Malformed) as error:
            stream.abort()
            return StepFailed(self.number, UNREACHABLE, f"node {self._node.name}: {error}")
        return None  # why is known when the far end has gone

    def _understand(self, kind: int, payload: bytes) -> StepEvent:
        if kind in (OUTPUT, ERRORS):
            return StepOutput(self.number, 1 if kind == OUTPUT else 2, payload)
        if kind != MESSAGE:
            raise Malformed("the step sent content")
        message = read_message(payload)
        if "started" in message:
            return StepStarted(self.number)
        status = message.get("ended")
        if type(status) is int:
            return StepEnded(self.number, status)
        if "refused" in message:
            return StepFailed(self.number, str(message["refused"]), str(message.get("detail", "")))
        raise Malformed("the step sent an unknown message")

    def _write(self, stream: ByteStream, mailbox: _Mailbox) -> None:
        try:
            stream.write(self._program)
            stream.write(self._spec)
            while (frame := self._outgoing.get()) is not None:
                stream.write(frame)
                with self._lock:
                    was_full = self.pending >= _MOST_WAITING
                    self.pending -= len(frame)
                if was_full and self.pending < _MOST_WAITING:
                    mailbox.ring()
        except OSError:
            return  # the reading thread sees the end and says why
        finally:
            stream.end_writing()
