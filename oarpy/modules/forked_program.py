"""A program of this package as a fork of its supervisor, which has imported what it needs: a start takes milliseconds.

It begins as a process that Python had just started: a session of its own in ``/``, standard input empty, no descriptor
but the standard ones, default signals, its own command line, the environment it is given. It imports what is not there
yet, and reads its configuration itself. Whoever forks has one thread and no connection open.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pkgutil
import signal
import sys
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

log = structlog.get_logger()

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
_ONE_THREAD = "OPENBLAS_NUM_THREADS"
"""Without it the library for linear algebra starts threads when it is imported."""
_ARGUMENTS = slice(45, 47)
"""Fields of ``/proc/self/stat`` behind the name: where the command line begins and ends in memory."""
_ERRORS = 2
"""The descriptor of standard error, the last one that a program keeps."""
_POLL = 0.02


def import_all(names: Iterable[str]) -> None:
    """Import what is named, as :func:`pkgutil.resolve_name` takes it; forks share the memory.

    What cannot be imported is left to the program that needs it, which says so.
    """
    before = os.environ.get(_ONE_THREAD)
    os.environ[_ONE_THREAD] = "1"
    for name in dict.fromkeys(names):
        try:
            pkgutil.resolve_name(name)
        except Exception as error:
            log.warning("cannot be imported before it is needed", name=name, error=str(error))
    del os.environ[_ONE_THREAD]
    if before is not None:
        os.environ[_ONE_THREAD] = before
    gc.collect()
    gc.freeze()


class ForkedProgram:
    """A running ``python -m PROGRAM ARGUMENT...``, a child of this process."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Fork it. ``environment`` is laid over that of this process. Raises :class:`OSError` when it cannot be."""
        self._status: int | None = None
        # a signal to the new process is not to reach handlers of this one
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        try:
            self.pid = os.fork()
            if not self.pid:
                _become(words, environment, before)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def poll(self) -> int | None:
        """Return its exit status, the negative number of the signal that ended it, or ``None`` while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def ends_within(self, seconds: float) -> bool:
        """Wait for its end for so long at most, and tell whether it came."""
        until = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < until:
            time.sleep(_POLL)
        return self._status is not None

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def _become(words: Sequence[str], environment: Mapping[str, str], mask: Iterable[int]) -> None:
    """Run the program in the process just forked, and end the process."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.setsid()
        os.chdir("/")
        _leave_descriptors()
        _show(words)
        os.environ.update(environment)
        sys.argv = [*words]
        status = importlib.import_module(f"{words[0]}.__main__").main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else bool(end.code)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _leave_descriptors() -> None:
    """Close all descriptors but those of output and errors, and read nothing."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > _ERRORS:
            with suppress(OSError):  # that of the listing
                os.close(int(name))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _show(words: Sequence[str]) -> None:
    """Have the system show ``words`` as the command line of this process, as far as the room of the old one goes."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    start, end = map(int, fields[_ARGUMENTS])
    shown = b"\0".join(map(os.fsencode, words))[: max(end - start - 1, 0)]
    ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)
