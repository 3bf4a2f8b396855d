"""The user's typed options, before anything is checked, and the files that they name."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oarpy.client.caller import current
from oarpy.model.errors import UsageError
from oarpy.model.submission import OPTIONS

LARGEST_SCRIPT = 16_000_000
"""Bytes of a script that is scanned."""


@dataclass(frozen=True, slots=True)
class Options:
    """One call of ``oarsub`` as texts: ``words`` is the command with its arguments.

    Options are kept by the field of the submission that they fill. ``texts`` have one value, ``lists`` may be repeated,
    ``flags`` have no value. Only given options are there. ``ignore_directives`` leaves out lines of a scanned script
    for other schedulers that have no counterpart.
    """

    words: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    scan_script: bool = False
    ignore_directives: bool = False

    @property
    def command(self) -> str:
        """The command line: one word is shell text as it is, several are quoted where needed."""
        return self.words[0] if len(self.words) == 1 else shlex.join(self.words)

    def arguments(self) -> tuple[str, ...]:
        """Return the words with which ``oarsub`` would have been called for the same."""
        words: list[str] = []
        for name, value in self.texts.items():
            words += [OPTIONS[name].words[0], value]
        for name, values in self.lists.items():
            for value in values:
                words += [OPTIONS[name].words[0], value]
        words += [OPTIONS[name].words[0] for name in sorted(self.flags)]
        words += ["-S"] * self.scan_script
        words += ["--ignore-directives"] * self.ignore_directives
        words += ["--"] * any(word.startswith("-") for word in self.words)
        return (*words, *self.words)

    def values(self) -> dict[str, Any]:
        """Return the fields of the submission that follow from one option alone.

        Raises :class:`UsageError` for a text that is none of its option's values.
        """
        given = {**self.texts, **self.lists}
        read = {name: option.read(given[name]) for name, option in OPTIONS.items() if option.read and name in given}
        return read | dict.fromkeys(self.flags, True)


def merge(typed: Options, script: Options, *, quiet: bool = False) -> tuple[Options, list[str]]:
    """Join the two: a typed single value wins (with a warning unless ``quiet``), repeatable values add up."""
    warnings = [
        f"Warning: {OPTIONS[name].name} '{mine[:80]}' of the command line wins over '{its[:80]}' of the script"
        for name, mine in typed.texts.items()
        if not quiet and (its := script.texts.get(name, mine)) != mine
    ]
    several = {
        name: (*typed.lists.get(name, ()), *script.lists.get(name, ())) for name in {**typed.lists, **script.lists}
    }
    merged = replace(typed, texts={**script.texts, **typed.texts}, lists=several, flags=typed.flags | script.flags)
    return merged, warnings


def read_array_parameters(path: str) -> tuple[str, ...]:
    """Return one argument line for each member: comments and blank lines left out, ``""`` is a member without any."""
    parameters = []
    for number, line in enumerate(read_lines(path), 1):
        text = _without_comment(line).strip()
        if _is_open(text):
            raise UsageError(f"line {number} of '{path}' has an open quote", hint="its command could not be read")
        if text:
            parameters.append("" if text in ('""', "''") else text)
    if not parameters:
        raise UsageError(f"parameter file '{path}' holds no line", hint='one line a job, "" for no argument')
    return tuple(parameters)


def first_word(command: str) -> str:
    """Return the beginning of a command, up to the first blank; empty when there is nothing."""
    return next(iter(command.split(None, 1)), "")


def as_typed(arguments: Iterable[str], script_lines: Iterable[str]) -> str:
    """Return the call as the user typed it, and behind it the option lines of the script."""
    return "; ".join([shlex.join(["oarsub", *arguments]), *script_lines])


def _is_open(line: str) -> bool:
    """Tell whether a quote in arguments does not close; bash's ``$'...'`` has rules of its own."""
    try:
        shlex.split(line)
    except ValueError:
        return "$'" not in line
    return False


def read_lines(path: str) -> tuple[str, ...]:
    """Return the lines of a file of the caller's. Raises :class:`UsageError` for an unreadable file."""
    return script_lines(f"file '{path}'", read_data(path))


def read_data(path: str, *, executable: bool = False) -> bytes:
    """Return the content of a file of the caller's. Raises :class:`UsageError`."""
    try:
        return current().read_file(path, LARGEST_SCRIPT, executable=executable)
    except FileNotFoundError:
        raise UsageError(f"file '{path}' does not exist or is no plain file", hint="check its name") from None
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise UsageError(f"script '{path}' is not executable", hint="chmod +x it") from None
        raise UsageError(f"file '{path}' cannot be read: {error.strerror}", hint="check its name and rights") from None


def script_lines(what: str, data: bytes) -> tuple[str, ...]:
    """Return the lines of a text, whatever system wrote it.

    Raises :class:`UsageError` naming a text that is too long.
    """
    if len(data) > LARGEST_SCRIPT:
        raise UsageError(f"{what} is larger than {LARGEST_SCRIPT} bytes", hint="-S takes a script")
    text = data.decode("utf-8", errors="surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return tuple(text.removesuffix("\n").split("\n"))


def _without_comment(line: str) -> str:
    """Cut at the first ``#`` that begins a word and is not inside quotes, as a shell does."""
    quote, before = "", " "
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'" and before != "\\":
            quote = letter
        elif letter == "#" and before.isspace():
            return line[:place]
        before = letter
    return line
