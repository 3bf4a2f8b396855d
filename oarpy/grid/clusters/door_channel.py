"""Lines to a cluster's door and back, over the input and output of a command: ``oargriddoor`` on this host, or SSH."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from oarpy.grid.calls.table import ClusterSilent

_READ = 1 << 16
_LONGEST_REASON = 200
_SECURE = (
    *("-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ClearAllForwardings=yes"),
    *("-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "PermitLocalCommand=no"),
)
"""The options of every SSH to a door. ``ssh`` takes the first value that it gets for an option."""


def secured(words: Sequence[str]) -> list[str]:
    """Return the command; of ``ssh`` with host keys checked, no questions, and nothing forwarded.

    >>> secured(["oargriddoor", "campus"])
    ['oargriddoor', 'campus']
    """
    if words and os.path.basename(words[0]) == "ssh":
        return [words[0], *_SECURE, *words[1:]]
    return list(words)


class _Ended(Exception):
    """The command ended, or could not be started."""


class DoorChannel:
    """A connection that is made when it is first needed, and again after it broke."""

    def __init__(self, cluster: str, words: Sequence[str]) -> None:
        self._cluster = cluster
        self._words = secured(words)
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._rest = b""
        self._used = False
        self._guard = threading.Lock()

    def ask(self, line: bytes, seconds: float) -> bytes:
        """Send a line and return its answer; raise :class:`ClusterSilent` if there is none after ``seconds``.

        A broken connection is made again once. The key of a call keeps it from being done twice.
        """
        until = time.monotonic() + seconds
        with self._guard:
            try:
                try:
                    return self._exchange(line, until)
                except _Ended:
                    if not self._used:
                        raise
                    self._drop()
                    return self._exchange(line, until)
            except _Ended as error:
                self._drop()
                raise self._silent(str(error)) from None
            except TimeoutError:
                self._drop()
                raise self._silent(f"no answer within {seconds:g} s") from None
            except BaseException:
                self._drop()  # the answer to come must not be taken for that of the next call
                raise

    def close(self) -> None:
        """End the connection."""
        with self._guard:
            self._drop()

    def break_off(self, reason: str) -> ClusterSilent:
        """End a connection with a wrong answer; return the error to be raised."""
        self.close()
        return self._silent(reason)

    def _silent(self, reason: str) -> ClusterSilent:
        return ClusterSilent(f"cluster '{self._cluster}' does not answer: {reason}", hint="oargridctl clusters")

    def _exchange(self, line: bytes, until: float) -> bytes:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        sending, receiving = process.stdin.fileno(), process.stdout.fileno()
        left = memoryview(line + b"\n")
        while b"\n" not in self._rest:
            ready = _wait(receiving, sending if left else None, until)
            if sending in ready:
                left = left[_write(sending, left) :]
            if receiving in ready:
                data = os.read(receiving, _READ)
                if not data:
                    raise _Ended(self._reason())
                self._rest += data
        answer, _, self._rest = self._rest.partition(b"\n")
        self._used = True
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115
            process = subprocess.Popen(
                self._words, stdin=pipe, stdout=pipe, stderr=self._errors, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise _Ended(f"{self._words[0] if self._words else 'no command'}: {error.strerror}") from None
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process, self._rest, self._used = process, b"", False
        return process

    def _reason(self) -> str:
        """Return the last line that the command wrote to its standard error."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        lines = [""]
        if self._errors is not None:
            self._errors.seek(0)
            lines += self._errors.read(_READ).decode("utf-8", "replace").splitlines()
        reason = "".join(letter for letter in lines[-1] if letter.isprintable())[:_LONGEST_REASON]
        return reason or f"its command ended with status {self._process.returncode}"

    def _drop(self) -> None:
        process, self._process, self._used = self._process, None, False
        if process is not None:
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(OSError):
                    stream.close()
            process.kill()
            process.wait()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _wait(receiving: int, sending: int | None, until: float) -> set[int]:
    """Return the ready descriptors; raise :class:`TimeoutError`."""
    poll = select.poll()
    poll.register(receiving, select.POLLIN)
    if sending is not None:
        poll.register(sending, select.POLLOUT)
    ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
    if not ready:
        raise TimeoutError
    return {file for file, _ in ready}


def _write(file: int, data: memoryview) -> int:
    try:
        return os.write(file, data[:_READ])
    except BlockingIOError:
        return 0
    except OSError:
        raise _Ended("the connection was closed") from None
