"""What the user typed, on the command line and on the ``#OAR`` lines of a script, before anything is checked."""

from __future__ import annotations

import dataclasses
import errno
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from oarpy.client.caller import current
from oarpy.model.errors import UsageError

LARGEST_SCRIPT = 16_000_000
"""Bytes of a script that is scanned."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one ``oarsub`` call as texts; None means not given. ``words`` is the command, with arguments."""

    words: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    properties: str | None = None
    queue: str | None = None
    name: str | None = None
    project: str | None = None
    directory: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    reservation: str | None = None
    checkpoint: str | None = None
    signal: str | None = None
    notify: str | None = None
    array: str | None = None
    array_param_file: str | None = None
    hold: bool = False
    scan_script: bool = False
    interactive: bool = False

    @property
    def command(self) -> str:
        """The command line: one word is shell text as it is, several are quoted where needed."""
        return self.words[0] if len(self.words) == 1 else shlex.join(self.words)


# Names of options as they may stand on a #OAR line, and the fields they fill.
_SCALARS = {
    "-q": "queue",
    "--queue": "queue",
    "-p": "properties",
    "--property": "properties",
    "--properties": "properties",
    "-n": "name",
    "--name": "name",
    "--project": "project",
    "-d": "directory",
    "--directory": "directory",
    "-O": "stdout",
    "--stdout": "stdout",
    "-E": "stderr",
    "--stderr": "stderr",
    "-r": "reservation",
    "--reservation": "reservation",
    "--checkpoint": "checkpoint",
    "--signal": "signal",
    "--notify": "notify",
    "--array": "array",
    "--array-param-file": "array_param_file",
}
_REPEATED = {
    "-l": "resources",
    "--resource": "resources",
    "-t": "types",
    "--type": "types",
    "-a": "dependencies",
    "--anterior": "dependencies",
    "--after": "dependencies",
}
_FLAGS = {"--hold": "hold"}
_VERBATIM = frozenset({"properties", "resources", "reservation", "notify"})
"""Values with a grammar of their own: only quotes around the whole are taken off."""

_LINE = re.compile(r"#OAR\s+(?P<option>--[a-z-]+|-[A-Za-z])(?:\s*=\s*|\s+|$)(?P<value>.*)", re.ASCII)


def read_script(command: str) -> tuple[Options, tuple[str, ...]]:
    """Return the options on the ``#OAR`` lines of the script that ``command`` begins with, and these lines.

    Raises :class:`UsageError` naming the line that is not understood.
    """
    path = _script_path(command)
    lines = _read_lines(path, executable=True)
    if not lines or not lines[0].startswith("#"):
        raise UsageError(f"the first line of script '{path}' does not begin with '#'", hint="begin it with #!/bin/sh")
    values: dict[str, str] = {}
    repeated: dict[str, tuple[str, ...]] = {}
    flags: dict[str, bool] = {}
    kept = []
    for number, line in enumerate(lines, 1):
        if not re.match(r"#OAR(\s|$)", line):
            continue
        option, value = _option(line.rstrip(), f"{path}, line {number}")
        kept.append(line.rstrip())
        if option in _FLAGS:
            flags[_FLAGS[option]] = True
        elif option in _REPEATED:
            field = _REPEATED[option]
            repeated[field] = (*repeated.get(field, ()), value)
        elif _SCALARS[option] in values:
            raise UsageError(f"{path}, line {number}: {option} is given twice", hint="remove one")
        else:
            values[_SCALARS[option]] = value
    return dataclasses.replace(Options(), **values, **repeated, **flags), tuple(kept)  # type: ignore[arg-type]


def merge(typed: Options, script: Options) -> tuple[Options, list[str]]:
    """Join the two: a single value of the command line wins (with a warning), repeatable ones are appended."""
    changes: dict[str, object] = {}
    warnings = []
    for field in dict.fromkeys(_SCALARS.values()):
        mine, its = getattr(typed, field), getattr(script, field)
        if mine is None:
            changes[field] = its
        elif its is not None and its != mine:
            shown = field.replace("_", "-")
            warnings.append(f"Warning: {shown} '{mine[:80]}' of the command line wins over '{its[:80]}' of the script")
    for field in dict.fromkeys(_REPEATED.values()):
        changes[field] = (*getattr(typed, field), *getattr(script, field))
    changes["hold"] = typed.hold or script.hold
    return dataclasses.replace(typed, **changes), warnings  # type: ignore[arg-type]


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
    found = _LINE.fullmatch(line)
    option = found["option"] if found else ""
    if found is None or not (option in _FLAGS or option in _SCALARS or option in _REPEATED):
        raise UsageError(f"{where}: '{line[:80]}' is not understood", hint="one option of oarsub on each #OAR line")
    value = found["value"].strip()
    if option in _FLAGS:
        if value:
            raise UsageError(f"{where}: {option} takes no value", hint=f"write #OAR {option}")
        return option, ""
    if not value:
        raise UsageError(f"{where}: {option} has no value", hint=f"write #OAR {option} VALUE")
    field = _SCALARS.get(option) or _REPEATED[option]
    return option, _unquoted(value) if field in _VERBATIM else _word(value)


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
