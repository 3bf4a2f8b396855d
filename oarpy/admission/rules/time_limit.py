"""Interrupting Python code that runs too long.

In the main thread an interval timer signals the process. No other thread gets signals: there a watching thread raises
the exception in the thread that runs the code. Both reach ``while True: pass``. Neither stops a single long operation
inside the interpreter (a huge power), which ends first.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol


class TimeExceeded(BaseException):
    """Raised inside code that runs too long; not an ``Exception``, so that ``except Exception`` does not stop it."""


class Limiter(Protocol):
    """Runs actions one after another, each for at most some seconds."""

    def run(self, action: Callable[[], object], seconds: float) -> None:
        """Run ``action``; raise :class:`TimeExceeded` when it takes longer than ``seconds``."""
        ...


@contextlib.contextmanager
def limiter() -> Iterator[Limiter]:
    """Give the limiter that works in the current thread, and leave timers and handlers as they were."""
    if threading.current_thread() is threading.main_thread():
        with _signal_limiter() as by_signal:
            yield by_signal
    else:
        by_thread = _ThreadLimiter()
        try:
            yield by_thread
        finally:
            by_thread.close()


_REPEAT = 0.05
"""Seconds after which a limit strikes again, for code that caught the first strike."""


class _SignalLimiter:
    """The limiter of the main thread, by SIGALRM."""

    def __init__(self) -> None:
        self._armed = False

    def strike(self, _number: int, _frame: FrameType | None) -> None:
        if self._armed:
            raise TimeExceeded

    def run(self, action: Callable[[], object], seconds: float) -> None:
        try:
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT)
                action()
            finally:
                self._armed = False
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _signal_limiter() -> Iterator[_SignalLimiter]:
    """Give the limiter of the main thread; the timer and handler that were there before go on afterwards."""
    result = _SignalLimiter()
    left, interval = signal.getitimer(signal.ITIMER_REAL)
    began = time.monotonic()
    previous = signal.signal(signal.SIGALRM, result.strike)
    try:
        yield result
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - began), 0.001), interval)


class _ThreadLimiter:
    """Any other thread: one watcher for all the actions, which compares the clock with the current deadline.

    A plain lock guards the state. An exception raised from outside cannot arrive between its acquisition and the body
    of ``with``. Inside a lock written in Python it could.
    """

    def __init__(self) -> None:
        self._target = threading.get_ident()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._deadline: float | None = None
        self._struck = False
        self._watcher: threading.Thread | None = None

    def run(self, action: Callable[[], object], seconds: float) -> None:
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, args=(seconds,), name="rule time limit", daemon=True)
            self._watcher.start()
        with self._lock:
            self._deadline, self._struck = time.monotonic() + seconds, False
        try:
            action()
        finally:
            self._disarm()

    def close(self) -> None:
        """End the watcher."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

    def _disarm(self) -> None:
        """Stop the limit; an exception already sent must arrive here and not in what runs next."""
        late = False
        while True:
            try:
                with self._lock:
                    self._deadline = None
                    if self._struck:
                        self._struck = False
                        _raise_in(self._target, None)
                break
            except TimeExceeded:
                late = True
        if late:
            raise TimeExceeded

    def _watch(self, pause: float) -> None:
        """Strike at the deadline. All actions of a run have one limit: a deadline only moves later meanwhile."""
        idle = min(pause, _REPEAT)
        while not self._closed.wait(pause):
            with self._lock:
                now = time.monotonic()
                if self._deadline is not None and now >= self._deadline:
                    self._struck = True
                    self._deadline = now + _REPEAT
                    _raise_in(self._target, TimeExceeded)
                pause = idle if self._deadline is None else max(self._deadline - now, 0)


def _raise_in(thread: int, exception: type[BaseException] | None) -> None:
    """Raise ``exception`` in ``thread`` at its next bytecode, or withdraw one not yet raised (None)."""
    target = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), target)
