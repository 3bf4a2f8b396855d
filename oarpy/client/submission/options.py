"""What the user typed, on the command line and on the ``#OAR`` lines of a script, before anything is checked."""

from __future__ import annotations

import errno
import re
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
    ``flags`` have no value. Only what is given is there.
    """

    words: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    scan_script: bool = False

    @property
    def command(self) -> str:
        """The command line: one word is shell text as it is, several are quoted where needed."""
        return self.words[0] if len(self.words) == 1 else shlex.join(self.words)

    def values(self) -> dict[str, Any]:
        """Return the fields of the submission that follow from one option alone.

        Raises :class:`UsageError` for a text that is none of its option's values.
        """
        given = {**self.texts, **self.lists}
        read = {name: option.read(given[name]) for name, option in OPTIONS.items() if option.read and name in given}
        return read | dict.fromkeys(self.flags, True)


_ON_LINES = {
    word: name
    for name, option in OPTIONS.items()
    if option.script_words is not None
    for word in (*option.words, *option.script_words)
}
"""The fields that options on a #OAR line fill, by the words for them."""

_LINE = re.compile(r"#OAR\s+(?P<option>--[a-z-]+|-[A-Za-z])(?:\s*=\s*|\s+|$)(?P<value>.*)", re.ASCII)


def read_script(command: str) -> tuple[Options, tuple[str, ...]]:
    """Return the options on the ``#OAR`` lines of the script that ``command`` begins with, and these lines.

    Raises :class:`UsageError` naming the line that is not understood.
    """
    path = _script_path(command)
    lines = _read_lines(path, executable=True)
    if not lines or not lines[0].startswith("#"):
        raise UsageError(f"the first line of script '{path}' does not begin with '#'", hint="begin it with #!/bin/sh")
    texts: dict[str, str] = {}
    several: dict[str, tuple[str, ...]] = {}
    flags = set()
    kept = []
    for number, line in enumerate(lines, 1):
        if not re.match(r"#OAR(\s|$)", line):
            continue
        where = f"{path}, line {number}"
        word, value = _option(line.rstrip(), where)
        kept.append(line.rstrip())
        name = _ON_LINES[word]
        if not OPTIONS[name].metavar:
            flags.add(name)
        elif OPTIONS[name].repeated:
            several[name] = (*several.get(name, ()), value)
        elif name in texts:
            raise UsageError(f"{where}: {word} is given twice", hint="remove one")
        else:
            texts[name] = value
    return Options(texts=texts, lists=several, flags=frozenset(flags)), tuple(kept)


def merge(typed: Options, script: Options) -> tuple[Options, list[str]]:
    """Join the two: a single value of the command line wins (with a warning), repeatable ones are appended."""
    warnings = [
        f"Warning: {OPTIONS[name].name} '{mine[:80]}' of the command line wins over '{its[:80]}' of the script"
        for name, mine in typed.texts.items()
        if (its := script.texts.get(name, mine)) != mine
    ]
    several = {
        name: (*typed.lists.get(name, ()), *script.lists.get(name, ())) for name in {**typed.lists, **script.lists}
    }
    merged = replace(typed, texts={**script.texts, **typed.texts}, lists=several, flags=typed.flags | script.flags)
    return merged, warnings


def read_array_parameters(path: str) -> tuple[str, ...]:
    """Return one argument line for each member: comments and blank lines left out, ``""`` is a member without any."""
    parameters = []
    for line in _read_lines(path):
        text = _without_comment(line).strip()
        if text:
            parameters.append("" if text in ('""', "''") else text)
    if not parameters:
        raise UsageError(f"parameter file '{path}' holds no line", hint='one line a job, "" for no argument')
    return tuple(parameters)


def as_typed(arguments: Iterable[str], script_lines: Iterable[str]) -> str:
    """Return the call as the user typed it, and what was found in the script after it."""
    return "; ".join([shlex.join(["oarsub", *arguments]), *script_lines])


def _script_path(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"command '{command[:80]}' cannot be split: {error}", hint="-S SCRIPT [ARGUMENT...]") from None
    if not words or "\0" in words[0]:
        raise UsageError("-S without a script", hint="oarsub -S ./script.sh")
    return words[0]


def _read_lines(path: str, *, executable: bool = False) -> list[str]:
    try:
        data = current().read_file(path, LARGEST_SCRIPT, executable=executable)
    except FileNotFoundError:
        raise UsageError(f"file '{path}' does not exist or is no plain file", hint="check its name") from None
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise UsageError(f"script '{path}' is not executable", hint="chmod +x it") from None
        raise UsageError(f"file '{path}' cannot be read: {error.strerror}", hint="check its name and rights") from None
    if len(data) > LARGEST_SCRIPT:
        raise UsageError(f"file '{path}' is larger than {LARGEST_SCRIPT} bytes", hint="-S takes a script")
    text = data.decode("utf-8", errors="surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n").split("\n")


def _option(line: str, where: str) -> tuple[str, str]:
    """Return the option of a ``#OAR`` line as written there, and its value."""
    found = _LINE.fullmatch(line)
    if found is None or found["option"] not in _ON_LINES:
        raise UsageError(f"{where}: '{line[:80]}' is not understood", hint="one option of oarsub on each #OAR line")
    word, value = found["option"], found["value"].strip()
    option = OPTIONS[_ON_LINES[word]]
    if value and not option.metavar:
        raise UsageError(f"{where}: {word} takes no value", hint=f"write #OAR {word}")
    if option.metavar and not value:
        raise UsageError(f"{where}: {word} has no value", hint=f"write #OAR {word} VALUE")
    return word, _unquoted(value) if option.verbatim and value else _word(value)


def _unquoted(value: str) -> str:
    quote = value[0]
    if len(value) > 1 and quote in "\"'" and value[-1] == quote and quote not in value[1:-1]:
        return value[1:-1]
    return value


def _word(value: str) -> str:
    """Read a word as a shell would; a value of several words (a name with a space) is taken as it stands."""
    try:
        words = shlex.split(value)
    except ValueError:
        return value
    return words[0] if len(words) == 1 else value


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
