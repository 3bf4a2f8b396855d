"""How many nodes stay awake and idle: ``CONDITION: NUMBER``."""

from __future__ import annotations

from collections.abc import Iterable

from oarpy.model.errors import UsageError


def read_keep_alive(texts: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """Read entries of ``energy.keep_alive``; raise :class:`UsageError` for one that is not of that form.

    >>> read_keep_alive(["gpu = 1: 2", ": 1"])
    (('gpu = 1', 2), ('', 1))
    """
    rules = []
    for text in texts:
        condition, _, number = text.rpartition(":")
        if not (number.strip().isascii() and number.strip().isdigit()):
            raise UsageError(f"energy.keep_alive: '{text}' has no number of nodes", hint="CONDITION: NUMBER")
        rules.append((condition.strip(), int(number)))
    return tuple(rules)
