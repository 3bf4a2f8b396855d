"""A channel to an agent, seen from the node: lines in, lines out."""

from __future__ import annotations

import os

MAXIMUM_LINE = 64 << 20
"""Bytes, in both directions."""
_READ = 1 << 16
"""The bytes that a pipe holds."""


class Lines:
    """Cuts the bytes on a descriptor into lines; a line longer than the maximum is dropped and reported."""

    def __init__(self, fd: int, maximum: int = MAXIMUM_LINE) -> None:
        self._fd = fd
        self._buffer = memoryview(bytearray(_READ))
        self._maximum = maximum
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def read(self) -> list[bytes | None] | None:
        """Read once: the lines completed (None for a dropped one); None at the end of the channel."""
        try:
            content = bytes(self._buffer[: os.readv(self._fd, [self._buffer])])
        except OSError:
            return None
        if not content:
            return None
        first, *others = content.split(b"\n")
        lines: list[bytes | None] = []
        self._add(first)
        for part in others:
            lines.append(None if self._skipping else b"".join(self._parts))
            self._parts, self._size, self._skipping = [], 0, False
            self._add(part)
        return lines

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._maximum:
            self._skipping, self._parts = True, []
        elif part:
            self._parts.append(part)


def write_line(fd: int, line: bytes) -> None:
    """Write all of a line."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(fd, rest) :]
