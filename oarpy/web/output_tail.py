"""The end of a job's output file, read by a child that runs as its owner, so that only the owner's files are shown."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from oarpy.model.errors import NotAllowed, NotFound, OarpyError
from oarpy.transport.wakeup import readable

KEPT = 16_384
"""Bytes of the end that are read by default."""

_LONGEST_SIZE = 32
"""Bytes of the line that says how long the file is."""

_PATIENCE = 3.0
"""Seconds for the file system of the user to answer."""

_READER = str(Path(__file__).with_name("tail_reader.py"))
_PROBLEMS: dict[int, tuple[type[OarpyError], str]] = {
    3: (NotFound, "there is no such file on this server"),
    4: (NotFound, "it is not a plain file"),
    5: (NotAllowed, "its owner may not read it"),
}
_UNREADABLE = (NotFound, "it cannot be read")


@dataclass(frozen=True, slots=True)
class Tail:
    """The last ``kept`` bytes of a file of ``size`` bytes as ``text``."""

    path: str
    text: str
    size: int
    kept: int

    @property
    def cut(self) -> bool:
        """Tell whether the file is longer than the kept end."""
        return self.size > self.kept


class _Turns:
    """Lets each user read a limited number of outputs at once: a user whose reads take long keeps no other waiting."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def of(self, user: str) -> Iterator[None]:
        """Take a turn of a user; raise :class:`OarpyError` when all are taken."""
        with self._lock:
            if self._taken[user] >= self._most:
                raise OarpyError(f"{self._most} outputs of '{user}' are being read", hint="try again in a moment")
            self._taken[user] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[user] -= 1
                if not self._taken[user]:
                    del self._taken[user]


_TURNS = _Turns(2)


def tail(path: str, user: str, largest: int = KEPT) -> Tail:
    """Read at most ``largest`` bytes from the end of ``path`` as ``user``.

    Raises :class:`NotAllowed` where the user may not read it or this process cannot become the user, :class:`NotFound`
    for a path that is no file, :class:`OarpyError` for a file system that does not answer.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise NotAllowed(f"user '{user}' has no account on this server") from None
    if os.geteuid() not in (0, account.pw_uid):
        raise NotAllowed("the web server runs as another user and may not read it", hint="an admin may let it")
    with _TURNS.of(user):
        status, output = _read(path, account, largest)
    size, newline, end = output.partition(b"\n")
    if status or not newline or not size.isdigit():
        kind, message = _PROBLEMS.get(status, _UNREADABLE)
        raise kind(message, hint="it may be on the node, or not there yet")
    end = end[:largest]
    text = end.decode("utf-8", "replace").replace("\0", "\ufffd")
    return Tail(path, text, int(size), len(end))


def _read(path: str, account: pwd.struct_passwd, largest: int) -> tuple[int, bytes]:
    """Return the exit status of the child and its output, at most the requested bytes: then it is killed.

    Its user reaches none of its descriptors. The file may be on a file system of the user's.
    """
    groups = ",".join(map(str, os.getgrouplist(account.pw_name, account.pw_gid)))
    most, until = largest + _LONGEST_SIZE, time.monotonic() + _PATIENCE
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", _READER, str(account.pw_uid), str(account.pw_gid), groups, path, str(largest)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise NotFound(f"it cannot be read: {error}") from None
    assert child.stdout is not None
    output, whole = b"", False
    try:
        while len(output) < most and not whole:
            if not readable([child.stdout.fileno()], max(until - time.monotonic(), 0)):
                raise OarpyError("its file system does not answer", hint="try again later")
            more = os.read(child.stdout.fileno(), most - len(output))
            output, whole = output + more, not more
        return child.wait(max(until - time.monotonic(), 0.1)) if whole else 0, output
    except subprocess.TimeoutExpired:
        raise OarpyError("its file system does not answer", hint="try again later") from None
    finally:
        child.kill()
        child.stdout.close()
        with suppress(subprocess.TimeoutExpired):  # a process that waits for a dead file system goes when it can
            child.wait(0.05)
