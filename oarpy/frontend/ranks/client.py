"""A call of ``oarsrun -n``: its step is started by the job's holder, its output written, its signals passed on."""

from __future__ import annotations

import os
import sys
from errno import ECONNREFUSED

from oarpy.frontend.ranks.links import Unpacker, packed, user_of
from oarpy.frontend.ranks.surroundings import hard_limits, of_caller, open_many_files

try:
    # the modules under `socket` and `signal`, which themselves take longer to load than all of this
    import _signal as signal  # type: ignore[import-not-found]
    from _blake2 import blake2b
    from _socket import AF_UNIX, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket
except ImportError:
    import signal
    from hashlib import blake2b
    from socket import AF_UNIX, SO_SNDTIMEO, SOCK_STREAM, SOL_SOCKET, socket  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from oarpy.frontend.ranks.options import Call

_FAILED, _REFUSED = 1, 3
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 16
_BACKLOG = 1024
_MOST_FILES = 1 << 16
_ATTEMPTS = 3
_NAMES = 8
"""Names that are tried: when a holder was killed, another user may have taken the name that it had."""
_PATIENCE, _WITHOUT_END = b"\x05".ljust(16, b"\0"), bytes(16)
"""How long to wait for a place in the queue of a listener, as the kernel's ``struct timeval``: 5 s."""


class _NoHolder(Exception):
    """No holder of this user could be reached or started."""


def run(call: Call, environment: Mapping[str, str]) -> int:
    """Run the step; return its exit status."""
    try:
        connection = _holder(environment)
    except _NoHolder as error:
        sys.stderr.write(f"oarsrun: {error}\n")
        return _FAILED
    wish = call.wish
    request = {
        "wish": {name: getattr(wish, name) for name in ("ranks", "cores", "on_node", "overcommit")},
        "words": call.words,
        "directory": os.getcwd(),
        "surroundings": of_caller(),
        "environment": dict(environment),
        "resources": environment["OAR_RESOURCE_PROPERTIES_FILE"],
    }
    connection.sendall(packed("run", request))
    _pass_signals(connection)
    return _Outputs(call, environment).follow(connection)


def _holder(environment: Mapping[str, str]) -> socket:
    """Return a connection to the holder of this job, started if there is none. Raises :class:`_NoHolder`.

    Its name vanishes with it, and no other user can guess it before. Steps have holders of their own, since what is
    started in a step ends with it; so have calls with other hard limits, which ranks cannot exceed.
    """
    own = f"{environment['OARPY_SECRET']} {environment.get('OARPY_STEP', '')} {hard_limits()}"
    for number in range(_NAMES):
        name = f"\0oarpy-ranks {blake2b(f'{number} {own}'.encode(), digest_size=16).hexdigest()}".encode()
        for _ in range(_ATTEMPTS):
            connection = socket(AF_UNIX, SOCK_STREAM)
            connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, _PATIENCE)
            failed = connection.connect_ex(name)
            if not failed and user_of(connection) == os.getuid():
                connection.setsockopt(SOL_SOCKET, SO_SNDTIMEO, _WITHOUT_END)
                return connection
            connection.close()
            if failed != ECONNREFUSED:
                break
            _leave_holder(name)
    raise _NoHolder("no process of this job that starts ranks can be reached")


def _leave_holder(name: bytes) -> None:
    """Start the holder as a process of its own, unless another command has just done so."""
    listening = socket(AF_UNIX, SOCK_STREAM)
    try:
        listening.bind(name)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        return
    if os.fork():
        listening.close()
        return
    try:
        os.setsid()
        os.chdir("/")
        open_many_files()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.closerange(3, listening.fileno())
        os.closerange(listening.fileno() + 1, _MOST_FILES)
        from oarpy.frontend.ranks.holder import Holder

        Holder(listening.detach()).serve()
    finally:
        os._exit(_FAILED)


def _pass_signals(connection: socket) -> None:
    """Pass signals on to the ranks; the second interrupt ends this process, and the ranks with it."""
    interrupts = 0

    def take(number: int, _frame: object) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            os._exit(128 + number)
        connection.sendall(packed("signal", number))

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, take)


class _Outputs:
    """The output of all ranks, written by whole lines, or kept for JSON."""

    def __init__(self, call: Call, environment: Mapping[str, str]) -> None:
        self._call = call
        self._job = environment.get("OAR_JOB_ID", "")
        self._partial: dict[tuple[int, str, int], bytes] = {}
        self._kept: dict[tuple[int, int], bytes] = {}

    def follow(self, connection: socket) -> int:
        """Write until the step has ended; return its exit status."""
        unpacker = Unpacker()
        try:
            while data := connection.recv(_CHUNK):
                for word, *values in unpacker.feed(data):
                    if word == "output":
                        self._take(*values)
                    elif word == "refused":
                        sys.stderr.write(f"oarsrun: {values[0]}\n")
                        return _REFUSED
                    else:
                        return self._end(*values)
        except BrokenPipeError:
            return _FAILED  # nobody reads the output any more
        sys.stderr.write("oarsrun: the process of this job that starts ranks has ended\n")
        return _FAILED

    def _take(self, rank: int, host: str, stream: int, data: bytes) -> None:
        if self._call.as_json:
            self._kept[rank, stream] = self._kept.get((rank, stream), b"") + data
            return
        key = rank, host, stream
        whole, line_end, rest = (self._partial.pop(key, b"") + data).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            whole, line_end, rest = whole + line_end + rest, b"\n", b""
        if rest:
            self._partial[key] = rest
        if line_end:
            self._write(rank, host, stream, whole + line_end)

    def _write(self, rank: int, host: str, stream: int, lines: bytes) -> None:
        if not self._call.plain:
            label = f"{host}.{rank}: ".encode()
            lines = b"".join(label + line + b"\n" for line in lines.removesuffix(b"\n").split(b"\n"))
        while lines:
            lines = lines[os.write(stream, lines) :]

    def _end(self, status: int, ends: list[tuple[int, str, int, str]]) -> int:
        for (rank, host, stream), rest in sorted(self._partial.items()):
            self._write(rank, host, stream, rest)
        for rank, host, _, error in ends:
            if error:
                sys.stderr.write(f"oarsrun: {host}.{rank}: {error}\n")
        if self._call.as_json:
            self._print_json(status, ends)
        return status

    def _print_json(self, status: int, ends: list[tuple[int, str, int, str]]) -> None:
        import json

        processes = [
            {
                "rank": rank,
                "host": host,
                "status": own,
                "error": error or None,
                "stdout": self._kept.get((rank, 1), b"").decode(errors="replace"),
                "stderr": self._kept.get((rank, 2), b"").decode(errors="replace"),
            }
            for rank, host, own, error in ends
        ]
        text = json.dumps({"job_id": int(self._job), "status": status, "processes": processes}, ensure_ascii=False)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
