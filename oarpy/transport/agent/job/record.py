"""The record of one (job, attempt): a file of JSON lines, locked by the process that runs the job.

::

    Start   the file is made and locked     claimed    whoever finds it unlocked may start the job
            line "started"                  running    never executed again; unlocked without an end: lost
            lines "suspended", "resumed"    suspended, running
    line "resized"                  it has other resources since
            line "ended", the outcome       ended      told until the server has recorded it
    Forget  a tombstone, no file                       a late Start is refused

Each line is written with one ``write`` and counts only when complete, so a crash leaves the old state or the new one.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os

from oarpy.wire import messages
from oarpy.wire.jobs import JobKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAXIMUM = 1 << 20
_encode = json.JSONEncoder(check_circular=False).encode

CLAIMED = messages.CLAIMED
RUNNING = "running"
SUSPENDED = "suspended"
ENDED = "ended"


class History:
    """The content of a record's lines."""

    __slots__ = ("changed", "checkpoint", "ended", "resources", "resumed", "started", "suspended")

    def __init__(self, text: bytes) -> None:
        self.started: dict[str, Any] | None = None
        self.ended: dict[str, Any] | None = None
        self.suspended = False
        self.checkpoint: float | None = None
        self.resources = 0
        self.resumed = False
        self.changed = 0.0
        for line in text.split(b"\n"):
            self._read(line)

    def _read(self, line: bytes) -> None:
        if not line:
            return
        try:
            entry = json.loads(line)
            word, at = entry["event"], float(entry["at"])
        except (ValueError, KeyError, TypeError):
            return  # torn by a crash: never happened
        if word == "checkpoint":
            self.checkpoint = at
            return
        if word in ("started", "resized"):
            self.resources = int(entry.get("resources", 0))
        if word == "resized":
            return
        self.changed = at
        if word == "started":
            self.started = self.started or entry
        elif word == "ended":
            self.ended = self.ended or entry
        elif word in ("suspended", "resumed"):
            self.suspended = word == "suspended"
            self.resumed = not self.suspended

    @property
    def state(self) -> str:
        """One of the state words of this module."""
        if self.ended is not None:
            return ENDED
        if self.started is None:
            return CLAIMED
        return SUSPENDED if self.suspended else RUNNING

    @property
    def stage(self) -> str:
        """The state and, for a job that was ever suspended, its date: a new date is news."""
        return f"{self.state} {self.changed}" if self.suspended or self.resumed else self.state


class Record:
    """An open record. Closing it gives the lock back."""

    __slots__ = ("fd", "key")

    def __init__(self, key: str, fd: int) -> None:
        self.key = key
        self.fd = fd

    def close(self) -> None:
        """Close the descriptor (and so release the lock, when no other process shares it)."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def try_lock(self) -> bool:
        """Take the lock without waiting; False when somebody holds it."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def removed(self) -> bool:
        """Tell whether the file was forgotten after it was opened."""
        return os.fstat(self.fd).st_nlink == 0

    def empty(self) -> bool:
        """Tell whether nothing was ever written: claimed at most."""
        return os.fstat(self.fd).st_size == 0

    def history(self) -> History:
        """Read all lines."""
        return History(os.pread(self.fd, _MAXIMUM, 0))

    def append(self, event: str, at: float, **values: object) -> None:
        """Add one line: the event, its time (seconds since the epoch), and its details."""
        entry = {"event": event, "at": at, **values}
        # The leading line end closes a line that an earlier writer left torn.
        line = f"\n{_encode(entry)}\n".encode()
        write_at_once(self.fd, line)


def write_at_once(fd: int, content: bytes) -> None:
    """Write ``content`` with one call; raise ``OSError`` also when the disk takes a part of it only."""
    if os.write(fd, content) < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def open_record(directory: str, key: str, create: bool) -> Record | None:
    """Open the record of ``key`` in ``directory``; None when it does not exist and ``create`` is false.

    Raises ``OSError`` where a record cannot be made: also when the directory itself is gone.
    """
    flags = os.O_RDWR | os.O_APPEND | (os.O_CREAT if create else 0)
    try:
        return Record(key, os.open(f"{directory}/{key}", flags, 0o600))
    except FileNotFoundError:
        if create:
            raise
        return None


def lock_record(directory: str, key: str, create: bool) -> tuple[Record | None, bool]:
    """Open and try to lock the record of ``key``: (record, whether we hold it). Forgotten files are opened again."""
    while True:
        record = open_record(directory, key, create)
        if record is None:
            return None, False
        held = record.try_lock()
        if not record.removed():
            return record, held
        record.close()


def job_of(key: str) -> JobKey:
    """Return the job of a record's name, ``<job>.<attempt>``."""
    job, _, attempt = key.partition(".")
    return JobKey(int(job), int(attempt))


def parse_key(key: str) -> JobKey | None:
    """Return the job of a record's name; None for a name that no record has."""
    job, _, attempt = key.partition(".")
    return job_of(key) if job.isdecimal() and attempt.isdecimal() else None


def past(history: History) -> dict[str, Any]:
    """Return the facts of a job to remember, by the names of :class:`oarpy.wire.messages.RecalledJob`."""
    started, ended = history.started or {}, history.ended or {}
    return {
        "user": str(started.get("user", "")),
        "resources": history.resources,
        "start": started.get("at"),
        "end": ended.get("end"),
        "status": ended.get("status"),
        "reason": str(ended.get("reason", "")),
    }
