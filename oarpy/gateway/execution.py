"""Running one command for somebody else, inside a worker.

The command's output goes to its caller as frames, as wide and as colourful as the caller's terminal wants it. Dates are
in the caller's time zone. When the command is over nothing of it stays in the worker.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import structlog

from oarpy.client.boundary import execute
from oarpy.client.caller import acting_for
from oarpy.gateway.attached_streams import HandedOver
from oarpy.gateway.commands import application
from oarpy.gateway.remote_caller import RemoteCaller
from oarpy.wire.frames import ERRORS, OUTPUT, Channel, Gone
from oarpy.wire.openings import Request

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

log = structlog.get_logger()

_BUFFER = 2**16
_LARGEST_WRITE = 2**18

_LOOKS = ("NO_COLOR", "FORCE_COLOR", "TERM", "TZ")
"""Variables of the caller that decide how things look, and nothing else."""

_HARMLESS = re.compile(r"(?!/)(?!.*\.\.)[A-Za-z0-9_+,./<>-]{0,100}", re.ASCII)
"""A time zone by its name or its rules. Text that could name a file outside of the zones is left out."""


def run(caller: RemoteCaller, request: Request) -> int:
    """Run the command, with its output going to the caller; return its exit status.

    Raises :class:`HandedOver` when the command goes on in a session.
    """
    terminal = request.terminal
    output = Output(caller.channel, OUTPUT, terminal=terminal.output, errors="surrogateescape")
    errors = Output(caller.channel, ERRORS, terminal=terminal.errors, errors="backslashreplace")
    try:
        with acting_for(caller), _appearance(request), _streams(output, errors):
            command = request.command
            return execute(
                application(command), command, request.arguments, lambda error: _note(error, caller, command)
            )
    except HandedOver:
        raise
    except BaseException as error:
        # whatever gets past the boundary must not take the worker with it
        _note(error, caller, request.command)
        return 1
    finally:
        output.close()
        errors.close()


def _note(error: BaseException, caller: RemoteCaller, command: str) -> None:
    log.error("command failed", command=command, uid=caller.uid, exc_info=error)


@contextmanager
def _streams(output: Output, errors: Output) -> Iterator[None]:
    kept = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = output.stream, errors.stream
    try:
        yield
    finally:
        sys.stdout, sys.stderr = kept


@contextmanager
def _appearance(request: Request) -> Iterator[None]:
    """Give the command the width of the caller's terminal, their wish for colours and their time zone."""
    given = {name: value for name in _LOOKS if _HARMLESS.fullmatch(value := request.environment.get(name, ""))}
    given = {name: value for name, value in given.items() if value}
    given["COLUMNS"] = str(request.terminal.columns)
    kept = {name: os.environ.get(name) for name in (*_LOOKS, "COLUMNS")}
    _set({**dict.fromkeys(kept), **given})
    try:
        yield
    finally:
        _set(kept)


def _set(variables: Mapping[str, str | None]) -> None:
    zone = os.environ.get("TZ")
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if os.environ.get("TZ") != zone:
        time.tzset()


class Output:
    """A text stream whose bytes arrive on a stream of the caller; ``terminal`` tells whether that is a terminal."""

    def __init__(self, channel: Channel, kind: int, *, terminal: bool, errors: str) -> None:
        self._frames = _Frames(channel, kind, terminal)
        buffer = io.BufferedWriter(self._frames, _BUFFER)
        self.stream = io.TextIOWrapper(buffer, encoding="utf-8", errors=errors, line_buffering=terminal)

    def close(self) -> None:
        """Send what is left of the output, to a caller that may be gone."""
        with suppress(BrokenPipeError):
            self.stream.flush()
        self._frames.abandoned = True
        self.stream.close()


class _Frames(io.RawIOBase):
    """A raw stream: each write is a frame to the caller."""

    def __init__(self, channel: Channel, kind: int, terminal: bool) -> None:
        super().__init__()
        self._channel = channel
        self._kind = kind
        self._terminal = terminal
        self.abandoned = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._terminal

    def write(self, data: ReadableBuffer, /) -> int:
        # the rest of a larger write comes again
        payload = bytes(memoryview(data)[:_LARGEST_WRITE])
        if not self.abandoned:
            try:
                self._channel.send(self._kind, payload)
            except Gone as error:
                raise BrokenPipeError(errno.EPIPE, str(error)) from None
        return len(payload)
