"""Gateways forked from a process that has imported everything: a cold one needs a second of the processor for that.

One such process serves all tests of a worker and ends with it. It is told the environment of each gateway, gets the
file for its log, and answers with the process id; later it tells the exit status.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.harness.bare_environment import bare_environment

_ROOT = Path(__file__).resolve().parent.parent.parent
_LARGEST = 1 << 20
"""Bytes of a message."""


class ForkedGateway:
    """A running gateway; what a ``Popen`` has that tests need."""

    def __init__(self, pid: int, forker: socket.socket) -> None:
        self.pid = pid
        self._forker = forker
        self._handle = os.pidfd_open(pid)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit status."""
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("oarpy.gateway", timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self._status is None and select.select([self._handle], [], [], timeout)[0]:
            self._forker.sendall(json.dumps({"ended": self.pid}).encode())
            self._status = int(self._forker.recv(_LARGEST))
            os.close(self._handle)
        return self._status


def start(environment: Mapping[str, str], log: int) -> ForkedGateway:
    """Start a gateway that writes its log to the descriptor ``log``."""
    forker = _forker()
    socket.send_fds(forker, [json.dumps({"environment": dict(environment)}).encode()], [log])
    return ForkedGateway(int(forker.recv(_LARGEST)), forker)


@cache
def _forker() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.harness.warm_gateway", str(theirs.fileno())]
    process = subprocess.Popen(
        command,
        cwd=_ROOT,
        env=bare_environment(),
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(asked: socket.socket) -> None:
    """Fork a gateway at each request, until whoever asks is gone."""
    from oarpy.gateway.__main__ import main
    from oarpy.gateway.commands import warm_up

    warm_up()
    while True:
        request, descriptors, _, _ = socket.recv_fds(asked, _LARGEST, 1)
        if not request:
            return
        message = json.loads(request)
        if "ended" in message:
            _, status = os.waitpid(message["ended"], 0)
            asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                asked.close()
                _become(message["environment"], descriptors[0])
                status = main()
            except Exception:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(descriptors[0])
        asked.sendall(str(pid).encode())


def _become(environment: Mapping[str, str], log: int) -> None:
    """Make the process what a new one would be."""
    os.setsid()
    os.chdir("/")
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
