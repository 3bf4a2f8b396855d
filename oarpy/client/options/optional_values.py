"""Options whose value may be left out, as OAR's commands have them: ``-u``, ``-u bob``, ``-fj``, ``-fj 12``.

And arguments that look like options: ``-1d``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from typer import Context
from typer.core import TyperCommand

_PAST_DATE = re.compile(r"-\d")
_CLUSTER = re.compile(r"-([A-Za-z]+)")


@dataclass(frozen=True, slots=True)
class OptionalValue:
    """An option called ``name`` in full. The word that follows is its value if it begins like ``value``."""

    name: str
    value: str = "[^-]"

    def takes(self, word: str) -> bool:
        """Tell whether ``word`` is the value rather than an argument of its own."""
        return re.match(self.value, word) is not None


def spread(arguments: Sequence[str], options: Mapping[str, OptionalValue]) -> list[str]:
    """Rewrite ``arguments`` so that each of ``options`` (by every name it has) has its value attached, maybe empty.

    >>> spread(["-fj", "12", "-u"], {"-j": OptionalValue("--job"), "-u": OptionalValue("--user")})
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
        if option := options.get(word):
            value = waiting.pop() if waiting and option.takes(waiting[-1]) else ""
            word = f"{option.name}={value}"
        result.append(word)
    return result


class OptionalValueCommand(TyperCommand):
    """A command some of whose options may come without a value, which is then read as ``""``."""

    optional_values: ClassVar[Mapping[str, OptionalValue]] = {}

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Attach the values, then parse as usual."""
        return super().parse_args(ctx, spread(args, self.optional_values))


class PastDateCommand(TyperCommand):
    """A command whose argument may be a date before now, ``-1d``, which looks like an option."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Put such dates last, where options are over, then parse as usual."""
        dates = [] if "--" in args else [word for word in args if _PAST_DATE.match(word)]
        others = [word for word in args if word not in dates]
        return super().parse_args(ctx, [*others, "--", *dates] if dates else args)
