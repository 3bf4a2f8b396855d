"""A script that is scanned for options (``oarsub -S``), and the options on its ``#OAR`` lines."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from oarpy.client.caller import current
from oarpy.client.submission.options import LARGEST_SCRIPT, Options, read_data, script_lines
from oarpy.model.dependency import with_job
from oarpy.model.errors import UsageError
from oarpy.model.submission import FIELDS, OPTIONS

_ON_LINES = {
    word: name
    for name, option in OPTIONS.items()
    if option.script_words is not None
    for word in (*option.words, *option.script_words)
}
"""The fields that options on a #OAR line fill, by the words for them."""

_LINE = re.compile(r"#OAR\s+(?P<option>--[a-z-]+|-[A-Za-z])(?:\s*=\s*|\s+|$)(?P<value>.*)", re.ASCII)


def in_directory(options: Options) -> Options:
    """Return the options with the script found in the present directory when it is named without one."""
    path = _script_path(options.command)
    return options if "/" in path else replace(options, words=(f"./{options.command.lstrip()}",))


@dataclass(frozen=True, slots=True)
class Script:
    """The lines of a file, and all that it has."""

    path: str
    lines: tuple[str, ...]
    data: bytes = b""

    def inline_command(self, arguments: Sequence[str]) -> str:
        """Return a command for any shell that runs the script with its interpreter: it is in no file."""
        first = self.lines[0]
        interpreter = first[2:].strip() if first.startswith("#!") else "/bin/sh"
        words = shlex.join(arguments)
        end = next(word for number in count() if (word := f"END_OF_SCRIPT_{number}") not in self.lines)
        text = "\n".join(self.lines)
        program = f"exec {interpreter} /dev/fd/3 {words} 3<<'{end}'\n{text}\n{end}\n"
        return f"exec /bin/sh -c {shlex.quote(program)}"


def read_script(command: str) -> Script:
    """Read the script that ``command`` begins with. Raises :class:`UsageError` for a file that is no script."""
    path = _script_path(command)
    data = read_data(path, executable=True)
    lines = script_lines(f"file '{path}'", data)
    if data.partition(b"\n")[0].endswith(b"\r"):
        raise UsageError(f"{path}, line 1 ends with a carriage return", hint="no such script can run: dos2unix it")
    if lines == ("",) or "\0" in lines[0]:
        raise UsageError(f"'{path}' is no script", hint="-S reads the #OAR lines of a text")
    return Script(path, lines, data)


def read_input_script() -> Script:
    """Read a script from the caller's standard input. Raises :class:`UsageError` for an empty or a too long script."""
    data = current().read_input(LARGEST_SCRIPT)
    if not data.strip():
        raise UsageError("no script on standard input", hint="oarsub -S - < SCRIPT")
    return Script("standard input", script_lines("standard input", data))


def own_options(script: Script) -> tuple[Options, tuple[str, ...]]:
    """Return the options on the ``#OAR`` lines of a script, and these lines.

    Raises :class:`UsageError` naming the line that is not understood.
    """
    texts: dict[str, str] = {}
    several: dict[str, tuple[str, ...]] = {}
    flags = set()
    kept = []
    for number, line in enumerate(script.lines, 1):
        if not re.match(r"#OAR(\s|$)", line):
            continue
        where = f"{script.path}, line {number}"
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


def _script_path(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"command '{command[:80]}' cannot be split: {error}", hint="-S SCRIPT [ARGUMENT...]") from None
    if not words or "\0" in words[0]:
        raise UsageError("-S without a script", hint="oarsub -S ./script.sh")
    return words[0]


def _option(line: str, where: str) -> tuple[str, str]:
    """Return the option of a ``#OAR`` line as written there, and its value."""
    match = _LINE.fullmatch(line)
    if match is None or match["option"] not in _ON_LINES:
        raise UsageError(f"{where}: '{line[:80]}' is not understood", hint="one option of oarsub on each #OAR line")
    word, value = match["option"], match["value"].strip()
    name = _ON_LINES[word]
    option = OPTIONS[name]
    if value and not option.metavar:
        raise UsageError(f"{where}: {word} takes no value", hint=f"write #OAR {word}")
    if option.metavar and not value:
        raise UsageError(f"{where}: {word} has no value", hint=f"write #OAR {word} VALUE")
    if name != "notify":
        _check_single(word, value, where)
    read = _unquoted(value) if option.verbatim and value else _word(value)
    _check_value(name, read, where)
    return word, read


def _check_single(word: str, value: str, where: str) -> None:
    """Raise :class:`UsageError` for another option behind the value, outside of quotes."""
    try:
        _, *more = shlex.split(value, posix=False) or [""]
    except ValueError:
        return
    for other in more:
        if other.partition("=")[0] in _ON_LINES:
            raise UsageError(f"{where}: '{other[:60]}' after the value of {word}", hint="one option on each #OAR line")


def _check_value(name: str, value: str, where: str) -> None:
    """Raise :class:`UsageError` with the place for a value that the option refuses."""
    option, field = OPTIONS[name], FIELDS[name]
    value = with_job(value, 1) if name == "dependencies" else value  # which job is meant is looked up later
    try:
        if option.read is not None and option.metavar:
            read = option.read((value,) if option.repeated else value)
            if field.check is not None:
                field.check(read)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from None


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
