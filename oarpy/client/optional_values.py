"""Options whose value may be left out, as OAR's commands have them: ``-u``, ``-u bob``, ``-fj``, ``-fj 12``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from typer import Context
from typer.core import TyperCommand

_CLUSTER = re.compile(r"-([A-Za-z]+)")


def spread(arguments: Sequence[str], options: Mapping[str, str]) -> list[str]:
    """Rewrite ``arguments`` so that each option named in ``options`` (name: long form) has its value attached.

    A following word that does not begin with ``-`` is the value; without one the value is empty.

    >>> spread(["-fj", "12", "-u"], {"-j": "--job", "-u": "--user"})
    ['-f', '--job=12', '--user=']
    """
    result: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word == "--":
            return [*result, word, *reversed(waiting)]
        cluster = _CLUSTER.fullmatch(word)
        if cluster and len(cluster[1]) > 1 and f"-{cluster[1][-1]}" in options:
            result.append(word[:-1])
            word = f"-{cluster[1][-1]}"
        if word in options:
            value = waiting.pop() if waiting and not waiting[-1].startswith("-") else ""
            word = f"{options[word]}={value}"
        result.append(word)
    return result


class OptionalValueCommand(TyperCommand):
    """A command some of whose options may come without a value, which is then read as ``""``."""

    optional_values: ClassVar[Mapping[str, str]] = {}

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Attach the values, then parse as usual."""
        return super().parse_args(ctx, spread(args, self.optional_values))
