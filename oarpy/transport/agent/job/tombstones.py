"""Tombstones: the forgotten (job, attempt), with the facts that were known of them.

All agents of a node append to one file a day. A line is the key, the known facts as JSON if there are any, and ``;``. A
key after ``-`` is remembered no more: the job has come back to this node.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from bisect import bisect_left, insort

from oarpy.transport.agent.job.record import parse_key, write_at_once
from oarpy.wire.jobs import MAXIMUM_ATTEMPT, MAXIMUM_JOB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

DAY = 86400
_RECALLED_DAYS = 30
"""Days for which files are kept at least, so that their jobs can be recalled."""
_MOST = 100_000
"""Jobs that are recalled at most, the last ones: their line must not grow without bounds."""
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode


class Tombstones:
    """An index of the files; ``refresh`` reads the lines that other agents added since."""

    def __init__(self, directory: str, keep_days: int) -> None:
        self._directory = directory
        self._keep_days = keep_days
        # Sorted numbers, 8 bytes each: keys come nearly in order, so that most are put at the end.
        self._keys: dict[str, array[int]] = {}
        self._read: dict[str, int] = {}

    def add(self, keys: list[str], known: Mapping[str, dict[str, Any]] = {}) -> None:
        """Remember ``keys``, and the facts of some of them; on disk when this returns. Raises ``OSError``."""
        self._append([f"{key} {_encode(known[key])}" if key in known else key for key in keys])

    def revoke(self, key: str) -> None:
        """Remove a key where it is remembered; this is on disk at the return. Raises ``OSError``."""
        if key in self:
            self._append([f"-{key}"])

    def _append(self, entries: list[str]) -> None:
        day = str(int(time.time()) // DAY)
        content = ("\n" + "".join(f"{entry};\n" for entry in entries)).encode()
        fd = os.open(os.path.join(self._directory, day), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            write_at_once(fd, content)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        if size == self._read.get(day, 0) + len(content):
            # No other agent wrote meanwhile: it need not be read back.
            self._read[day] = size
            self._note(day, entries)

    def __contains__(self, key: str) -> bool:
        number = _number(key)
        return number is not None and any(_has(keys, number) for keys in self._keys.values())

    @property
    def highest(self) -> int:
        """Return the highest remembered number of a job, 0 without any."""
        return max((keys[-1] >> 16 for keys in self._keys.values() if keys), default=0)

    def recall(self, since: float) -> dict[str, dict[str, Any]]:
        """Return the facts of keys that were remembered on the day of ``since`` (epoch seconds) or later."""
        known: dict[str, dict[str, Any]] = {}
        for name in sorted(os.listdir(self._directory)):
            if name.isdigit() and int(name) >= int(since) // DAY:
                with open(os.path.join(self._directory, name), encoding="ascii", errors="replace") as lines:
                    for line in lines:
                        _recall(line, known)
        return dict(list(known.items())[-_MOST:])

    def prune(self) -> None:
        """Drop days older than the kept ones: from the index, and long after that from the disk."""
        today = int(time.time()) // DAY
        for name in os.listdir(self._directory):
            if name.isdigit() and int(name) < today - self._keep_days:
                self._keys.pop(name, None)
                self._read.pop(name, None)
                if int(name) < today - max(self._keep_days, _RECALLED_DAYS):
                    os.unlink(os.path.join(self._directory, name))

    def refresh(self) -> None:
        """Read the lines that were added to the files of the kept days."""
        oldest = int(time.time()) // DAY - self._keep_days
        with os.scandir(self._directory) as entries:
            grown = [
                (entry.name, entry.path)
                for entry in entries
                if entry.stat().st_size != self._read.get(entry.name)
                and not (entry.name.isdigit() and int(entry.name) < oldest)
            ]
        for name, path in sorted(grown):
            self._read_more(name, path)

    def _read_more(self, name: str, path: str) -> None:
        offset = self._read.get(name, 0)
        with open(path, "rb") as file:
            file.seek(offset)
            text = file.read()
        complete = text.rfind(b"\n") + 1
        self._read[name] = offset + complete
        lines = text[:complete].decode("ascii", "replace").split("\n")
        # Only lines closed by ';' are whole: a torn one may look like the key of another job.
        self._note(name, [line[:-1] for line in lines if line.endswith(";")])

    def _note(self, name: str, entries: Iterable[str]) -> None:
        keys = self._keys.setdefault(name, array("Q"))
        for entry in entries:
            word = entry.partition(" ")[0]
            number = _number(word.removeprefix("-"))
            if number is None:
                continue
            if word.startswith("-"):
                self._drop(number)
            elif not _has(keys, number):
                insort(keys, number)

    def _drop(self, number: int) -> None:
        for keys in self._keys.values():
            if _has(keys, number):
                del keys[bisect_left(keys, number)]


def _number(key: str) -> int | None:
    """Return a key as one number of 64 bits."""
    pair = parse_key(key)
    if pair is None or pair[0] > MAXIMUM_JOB or pair[1] > MAXIMUM_ATTEMPT:
        return None
    return pair[0] << 16 | pair[1]


def _recall(line: str, known: dict[str, dict[str, Any]]) -> None:
    """Add the facts of a whole line, if it has more than its key."""
    key, _, text = line.rstrip("\n").partition(" ")
    if text.endswith(";") and parse_key(key):
        try:
            known[key] = json.loads(text[:-1])
        except ValueError:
            return  # torn by a crash


def _has(keys: array[int], number: int) -> bool:
    place = bisect_left(keys, number)
    return place < len(keys) and keys[place] == number
