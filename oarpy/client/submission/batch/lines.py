"""The lines of a batch: a JSON object each, or the words after ``oarsub``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from getopt import GetoptError, getopt
from typing import Any, Final

import msgspec

from oarpy.client.caller import current
from oarpy.client.submission.command_line import ELSEWHERE
from oarpy.client.submission.options import LARGEST_SCRIPT, Options, read_lines
from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.submission import OPTIONS

STANDARD_INPUT = "-"

_LEFT_OUT = frozenset({"interactive", "reservation", "until"})
"""Options of jobs whose command waits for them."""

_NOT_IN_JSON = _LEFT_OUT | {"array_parameters"}

_OF_SCRIPTS = frozenset({"scan_script", "ignore_directives"})
"""Fields of :class:`Options` that are about scripts, not about the job."""

_FIELDS: Final = {
    "-S": "scan_script",
    "--scanscript": "scan_script",
    "--ignore-directives": "ignore_directives",
    **{word: name for name, option in OPTIONS.items() for word in option.words},
}
"""The field of each option, by the words for it."""


def _takes_value(name: str) -> bool:
    return name not in _OF_SCRIPTS and bool(OPTIONS[name].metavar)


_SHORT: Final = "".join(
    f"{word[1]}{':' * _takes_value(name)}" for word, name in _FIELDS.items() if not word.startswith("--")
)
_LONG: Final = [f"{word[2:]}{'=' * _takes_value(name)}" for word, name in _FIELDS.items() if word.startswith("--")]


@dataclass(frozen=True, slots=True)
class BatchLine:
    """The request of one line; ``words`` are the equivalent words of an ``oarsub`` command."""

    number: int
    options: Options
    words: tuple[str, ...]


@dataclass(slots=True)
class Batch:
    """The lines that were understood, and the errors of others, by their numbers from 1."""

    lines: list[BatchLine] = field(default_factory=list)
    faults: dict[int, OarpyError] = field(default_factory=dict)


def _json_type(name: str) -> tuple[str, Any, Any]:
    option = OPTIONS[name]
    if option.repeated:
        return name, list[str], []
    return (name, str | int | None, None) if option.metavar else (name, bool, False)


_JsonLine: Final = msgspec.defstruct(
    "JsonLine",
    [("command", str, ""), *(_json_type(name) for name in OPTIONS if name not in _NOT_IN_JSON)],
    forbid_unknown_fields=True,
)
_decode = msgspec.json.Decoder(_JsonLine).decode


def read_batch(path: str, common: Options) -> Batch:
    """Return the lines of a file, or of standard input for ``-``.

    Blank lines and lines that begin with ``#`` do not count. Options of ``common`` hold where a line says nothing else.
    Raises :class:`UsageError` for a file that cannot be read, or has no line.
    """
    batch = Batch()
    for number, line in enumerate(_contents(path), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        try:
            options = _read(text)
            _check(options)
            batch.lines.append(BatchLine(number, _completed(options, common), options.arguments()))
        except OarpyError as error:
            batch.faults[number] = error
    if not (batch.lines or batch.faults):
        raise UsageError(f"batch '{path}' holds no line", hint="one submission a line")
    return batch


def _contents(path: str) -> Sequence[str]:
    if path != STANDARD_INPUT:
        return read_lines(path)
    data = current().read_input(LARGEST_SCRIPT)
    if len(data) > LARGEST_SCRIPT:
        raise UsageError(f"a batch of more than {LARGEST_SCRIPT} bytes", hint="submit it in parts")
    return data.decode("utf-8", errors="surrogateescape").splitlines()


def _read(text: str) -> Options:
    if text.startswith("{"):
        return _read_json(text)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"it cannot be split into words: {error}", hint="quote as in a shell") from None
    return read_words(words)


def read_words(words: Sequence[str]) -> Options:
    """Return the options in the words after ``oarsub``: options, the command, or options behind its only word.

    Raises :class:`UsageError`.
    """
    try:
        given, rest = getopt(list(words), _SHORT, _LONG)
        if len(rest) < len(words) and words[len(words) - len(rest) - 1] == "--":
            return _options(given, rest)
        if len(rest) > 1 and _is_option(rest[1]):
            more, behind = getopt(rest[1:], _SHORT, _LONG)
            given, rest = given + more, [rest[0], *behind]
            misplaced = bool(behind)
        else:
            own = rest[: rest.index("--")] if "--" in rest else rest
            misplaced = any(map(_is_option, own[1:]))
    except GetoptError as error:
        word = f"--{error.opt}" if len(error.opt) > 1 else f"-{error.opt}"
        hint = ELSEWHERE.get(word, "options of a line say what a job is, no more")
        raise UsageError(error.msg, hint=hint) from None
    if misplaced:
        raise UsageError("an option after the words of the command", hint="put options first, or -- before the command")
    return _options(given, rest)


def _is_option(word: str) -> bool:
    return word.startswith("-") and word not in ("-", "--")


def _options(given: Sequence[tuple[str, str]], words: Sequence[str]) -> Options:
    texts: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    flags = set()
    for word, value in given:
        name = _FIELDS[word]
        if not _takes_value(name):
            flags.add(name)
        elif OPTIONS[name].repeated:
            lists[name] = (*lists.get(name, ()), value)
        else:
            texts[name] = value
    of_scripts = {name: name in flags for name in _OF_SCRIPTS}
    return Options(tuple(words), texts, lists, frozenset(flags - _OF_SCRIPTS), **of_scripts)


def _read_json(text: str) -> Options:
    try:
        line: Any = _decode(text.encode("utf-8", "surrogateescape"))
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UsageError(f"it is not understood: {error}", hint="keys are those of the body of POST /jobs") from None
    given = {name: value for name in OPTIONS if (value := getattr(line, name, None)) not in (None, False, [])}
    return Options(
        words=(line.command,) if line.command else (),
        texts={name: str(value) for name, value in given.items() if isinstance(value, str | int) and value is not True},
        lists={name: tuple(value) for name, value in given.items() if isinstance(value, list)},
        flags=frozenset(name for name, value in given.items() if value is True),
    )


def _check(options: Options) -> None:
    """Refuse options that make the command wait for a job."""
    for name in _LEFT_OUT:
        if name in options.texts or name in options.flags:
            raise UsageError(f"{OPTIONS[name].words[0]} in a batch", hint="submit it by itself")


def _completed(options: Options, common: Options) -> Options:
    """Return the options, completed by the options of the whole batch."""
    if common == Options():
        return options
    return replace(
        options,
        texts={**common.texts, **options.texts},
        lists={**common.lists, **options.lists},
        flags=common.flags | options.flags,
        scan_script=common.scan_script or options.scan_script,
        ignore_directives=common.ignore_directives or options.ignore_directives,
    )
