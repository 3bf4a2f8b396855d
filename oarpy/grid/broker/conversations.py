"""Conversations with several clusters at the same time, none of which waits for the others.

A conversation is a generator. It yields a batch of calls and receives their answers in the same order. An error stands
in the place of its answer. A cluster that is silent for too long delays only its own conversation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from oarpy.grid.calls.table import Call, Cluster, ClusterSilent
from oarpy.model.errors import OarpyError
from oarpy.transport.wakeup import WakeupBell


@dataclass(frozen=True, slots=True)
class ClusterCall:
    """A call, or a function that makes several calls in turn.

    If the cluster needs more than ``seconds``, it counts as silent until it has answered. A call that ``waits`` for a
    part to run goes over a connection of its own: it waits behind no call that takes long, and no call behind it.
    """

    cluster: str
    asked: Call[Any] | Callable[[Cluster], object]
    seconds: float = 10.0
    waits: bool = False

    def made_of(self, cluster: Cluster) -> object:
        """Ask the cluster, and return its answer."""
        return cluster.ask(self.asked) if isinstance(self.asked, Call) else self.asked(cluster)


@dataclass(frozen=True, slots=True)
class CallBatch:
    """Calls that go out at once, after ``pause`` seconds.

    A call without an answer after ``patience`` seconds is silent. While a call waits behind other calls of ours to its
    cluster, its patience does not run.
    """

    calls: Sequence[ClusterCall]
    patience: float = 5.0
    pause: float = 0.0


Answers = Sequence[object]
Result = TypeVar("Result")
Conversation = Generator[CallBatch, Answers, Result]


class CallInLine(Future[object]):
    """The future answer of a cluster whose calls are made in turn; ``heard`` tells whether it answers."""

    def __init__(self, heard: Callable[[], bool]) -> None:
        super().__init__()
        self._heard = heard
        self._began: float | None = None

    def begin(self) -> bool:
        """Note that the call is made now; return False if its answer is not awaited any more."""
        self._began = time.monotonic()
        return self.set_running_or_notify_cancel()

    def asked_for(self) -> float:
        """Return for how many seconds the cluster has been asked.

        0 while the call waits behind others, else infinity.
        """
        if self._began is not None:
            return time.monotonic() - self._began
        return 0.0 if self._heard() else math.inf


Submit = Callable[[ClusterCall], "Future[object]"]
"""Has the thread of a cluster make a call; does not wait for it."""


@dataclass(slots=True)
class _UnderWay(Generic[Result]):
    generator: Conversation[Result]
    number: int
    batch: CallBatch = CallBatch(())
    begins_at: float = 0.0
    begun: bool = False
    futures: list[Future[object]] | None = None
    until: float = 0.0


@dataclass(slots=True)
class Conversations(Generic[Result]):
    """The open conversations, by name. ``clock`` tells epoch seconds."""

    submit: Submit
    clock: Callable[[], float]
    _under_way: dict[Hashable, _UnderWay[Result]] = field(default_factory=dict)
    _count: int = 0
    _bell: WakeupBell = field(default_factory=WakeupBell)

    def files(self) -> Sequence[int]:
        """Return a descriptor that is readable when an answer has come."""
        return (self._bell.fileno(),)

    def __contains__(self, name: Hashable) -> bool:
        return name in self._under_way

    def begin(self, name: Hashable, generator: Conversation[Result]) -> None:
        """Begin a conversation; :meth:`go_on` sends its first calls."""
        self._count += 1
        self._under_way[name] = _UnderWay(generator, self._count, begins_at=self.clock())

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        """Drop the conversations that are begun inside the block if it raises: what they rest on is rolled back."""
        before = self._count
        try:
            yield
        except BaseException:
            for name in [name for name, way in self._under_way.items() if way.number > before]:
                self.drop(name)
            raise

    def drop(self, name: Hashable) -> None:
        """Forget a conversation: its answers do not matter any more."""
        if way := self._under_way.pop(name, None):
            way.generator.close()

    def clear(self) -> None:
        """Forget all conversations."""
        for name in list(self._under_way):
            self.drop(name)

    def go_on(self) -> list[tuple[Hashable, Result]]:
        """Go on with every conversation that has its answers; return the results of the finished ones."""
        self._bell.quiet()
        over = []
        for name, way in list(self._under_way.items()):
            while name in self._under_way and self._ready(way):
                try:
                    self._advance(way)
                except StopIteration as end:
                    del self._under_way[name]
                    over.append((name, end.value))
        return over

    def wake_at(self) -> float | None:
        """Return when a conversation goes on even if no answer comes; None if there is none."""
        dates = [way.begins_at if way.futures is None else way.until for way in self._under_way.values()]
        return min(dates, default=None)

    def _ready(self, way: _UnderWay[Result]) -> bool:
        """Send the calls once their pause is over; return True when all are answered or out of time."""
        if way.futures is None:
            if self.clock() < way.begins_at:
                return False
            way.until = self.clock() + way.batch.patience
            way.futures = [self._sent(call) for call in way.batch.calls]
        return all(future.done() for future in way.futures) or self._lost_patience(way, way.futures)

    def _lost_patience(self, way: _UnderWay[Result], futures: Sequence[Future[object]]) -> bool:
        """Tell whether no answer is awaited any more; else note until when answers are awaited."""
        now = self.clock()
        if now < way.until:
            return False
        ages = [future.asked_for() for future in futures if isinstance(future, CallInLine) and not future.done()]
        way.until = max(way.until, now + way.batch.patience - min(ages, default=math.inf))
        return now >= way.until

    def _sent(self, call: ClusterCall) -> Future[object]:
        future = self.submit(call)
        future.add_done_callback(self._wake)
        return future

    def _advance(self, way: _UnderWay[Result]) -> None:
        calls = zip(way.batch.calls, way.futures or (), strict=True)
        answers = [_answer(call, future) for call, future in calls]
        # a generator takes nothing before it has asked; a batch without calls has no answers
        way.begun, to_send = True, answers if way.begun else None
        way.batch = way.generator.send(to_send)  # type: ignore[arg-type]
        way.begins_at, way.futures = self.clock() + way.batch.pause, None

    def _wake(self, _future: Future[Any]) -> None:
        self._bell.ring()


def _answer(call: ClusterCall, future: Future[object]) -> object:
    """Return the answer of a call. An error of a cluster is an answer; any other error is our fault and is raised."""
    if not future.done():
        future.cancel()
        return ClusterSilent(f"cluster {call.cluster} does not answer")
    if future.cancelled():
        return ClusterSilent(f"cluster {call.cluster} was not asked in time")
    error = future.exception()
    if isinstance(error, OarpyError):
        return error
    if error is not None:
        raise error
    return future.result()
