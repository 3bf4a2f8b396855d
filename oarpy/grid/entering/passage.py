"""The way through another door: a command that takes an entry, and then carries the program's streams."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from oarpy.client.caller import Streams
from oarpy.grid.calls.entry import EnterPart
from oarpy.grid.calls.json_lines import DoorError, encode, read_reply
from oarpy.grid.clusters.door_channel import secured
from oarpy.model.errors import OarpyError, Unreachable

_READ = 1 << 16
_PATIENCE = 60.0
"""Seconds for the answer to an entry."""


def pass_through(words: Sequence[str], entry: EnterPart, streams: Streams, began: Callable[[], None]) -> int:
    """Have a program started behind a door, and carry its streams to its end; return its exit status.

    ``began`` is called when it was let in. Raises the refusal of the other side, and :class:`Unreachable`.
    """
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            secured(words), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, start_new_session=True
        )
    except (OSError, IndexError) as error:
        raise Unreachable(f"the door cannot be entered: {error}", hint="tell an admin") from None
    with process:
        try:
            _knock(process, entry)
            began()
            _Relay(process, streams, with_input=entry.input).run()
            return process.wait()
        finally:
            process.kill()


def _knock(process: subprocess.Popen[bytes], entry: EnterPart) -> None:
    """Ask to be let in."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(encode(entry) + b"\n")
    line = _line(process)
    try:
        error = read_reply(line).error
    except ValueError:
        raise Unreachable(_reason(process), hint="tell an admin") from None
    if isinstance(error, DoorError):
        refusal = OarpyError(error.message, hint=error.hint)
        refusal.code, refusal.exit_status = error.code, error.status
        raise refusal


def _line(process: subprocess.Popen[bytes]) -> bytes:
    """Read one line, and not a letter more: the rest belongs to the program."""
    assert process.stdout is not None
    line, until, poll = bytearray(), time.monotonic() + _PATIENCE, select.poll()
    poll.register(process.stdout, select.POLLIN)
    while not line.endswith(b"\n"):
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise Unreachable(f"the door does not answer within {_PATIENCE:g} s", hint="try again later")
        if not (letter := os.read(process.stdout.fileno(), 1)):
            break
        line += letter
    return bytes(line)


def _reason(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    process.kill()
    lines = process.stderr.read(_READ).decode("utf-8", "replace").strip().splitlines()
    return f"the door does not open: {lines[-1][:200] if lines else 'its command said nothing'}"


class _Relay:
    """Streams of a caller and of a process: more input is read when the process has taken the input before."""

    def __init__(self, process: subprocess.Popen[bytes], streams: Streams, *, with_input: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._input, self._streams = process.stdin, streams
        self._outputs = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
        self._pending, self._at_end = bytearray(), not with_input
        os.set_blocking(self._input.fileno(), False)
        self._take(streams.take_early())

    def run(self) -> None:
        """Carry everything until the output is closed; raise :class:`BrokenPipeError` when the caller has gone."""
        while self._outputs:
            self._send()
            poll = select.poll()
            for output in self._outputs:
                poll.register(output, select.POLLIN)
            if self._pending:
                poll.register(self._input, select.POLLOUT)
            elif not self._streams.ended:
                poll.register(self._streams.fileno(), select.POLLIN)
            ready = {file for file, _ in poll.poll()}
            if not self._pending and not self._streams.ended and self._streams.fileno() in ready:
                self._take(self._streams.receive())
            for output in ready & self._outputs.keys():
                if data := os.read(output, _READ):
                    self._streams.send(self._outputs[output], data)
                else:
                    del self._outputs[output]

    def _take(self, pieces: Sequence[object]) -> None:
        """Take in pieces of input; sizes of terminals are ignored, and an empty piece is the end."""
        for piece in pieces:
            if isinstance(piece, bytes) and not self._at_end:
                self._pending += piece
                self._at_end = not piece

    def _send(self) -> None:
        """Write as much as the process takes now, and close its input at the end."""
        if self._pending:
            try:
                del self._pending[: os.write(self._input.fileno(), self._pending[:_READ])]
            except BlockingIOError:
                return
            except OSError:
                self._pending.clear()
        if self._at_end and not self._pending and not self._input.closed:
            self._input.close()
