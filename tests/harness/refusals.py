"""Bad input of commands: which inputs do not get what they should, namely one line and a documented status."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from tests.harness.sample_cluster import Result

Refusal: TypeAlias = tuple[tuple[str, ...], int, str]
"""What is typed, the exit status, and what the line must say."""


def not_refused(run: Callable[..., Result], command: str, refusals: Iterable[Refusal]) -> list[object]:
    """Return the inputs whose refusal differs from what it should be, each with its result.

    A refusal is one line of at most 600 characters on standard error, which begins with the name of the command.
    """
    wrong: list[object] = []
    for arguments, status, words in refusals:
        result = run(command, *arguments)
        one_line = result.err.count("\n") == 1 and result.err.startswith(f"{command}: ") and len(result.err) < 600
        if (result.status, result.out) != (status, "") or not one_line or words not in result.err:
            wrong.append((command, arguments, result))
    return wrong
