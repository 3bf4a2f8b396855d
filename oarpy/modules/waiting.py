"""Waiting for descriptors of any number: ``select`` refuses those above 1,023, which a launcher of many nodes has."""

from __future__ import annotations

import select
from collections.abc import Iterable


def readable(files: Iterable[int], seconds: float) -> list[int]:
    """Wait at most ``seconds`` until one of ``files`` can be read (or has failed); return those that can."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(max(seconds, 0) * 1000)]
