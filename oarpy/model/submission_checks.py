"""The allowed values of single fields of a submission: the form for rules and records, and the limits for storing.

- A *form* converts its argument into the stored value. It raises TypeError or ValueError whose text continues after the
  field's name.
- A *check* raises :class:`UsageError` with one line that names the option, the value and a valid form.
- A *reader* makes a value from the text after an option of ``oarsub``, and raises the same.
"""

from __future__ import annotations

import dataclasses
import re
import signal
from collections.abc import Callable, Mapping
from datetime import datetime

from oarpy.model.dependency import parse_dependency
from oarpy.model.errors import UsageError
from oarpy.model.request import ResourceRequest, parse_request

LONGEST_COMMAND = 131_071
"""The most bytes of one command with its arguments, or of a variable, which Linux passes to a program as one text."""

LONGEST_ENVIRONMENT = 2**20
"""The most bytes of all variables with their values: half of what Linux passes to a program by default."""

LONGEST_PATH = 4096
HIGHEST_SIGNAL = 64
LARGEST_ARRAY = 2**31 - 1
MOST_PROCESSES = 100_000
MOST_ITERATIONS = 100_000_000
_LONGEST_NAME = 200
_MOST_TYPES = 50
_MOST_DEPENDENCIES = 1000
_MOST_ALTERNATIVES = 100

_PRINTABLE = re.compile(r"[ -~]*", re.ASCII)
_OUTPUT = re.compile(r"[a-zA-Z0-9_./\-%\ ]+", re.ASCII)
_SIZE = re.compile(r"[A-Za-z0-9_.+-]{1,100}", re.ASCII)
_MOST_SIZES = 100
_NUMBER = re.compile(r"[0-9]{1,18}", re.ASCII)


def text(value: object) -> str:
    """Take any text without NUL."""
    if not isinstance(value, str):
        raise _wrong("text", value)
    if "\0" in value:
        raise ValueError("must not hold a NUL character")
    return value


def word(value: object) -> str:
    """Take a text that is not empty."""
    content = text(value)
    if not content.strip():
        raise ValueError("must not be empty")
    return content


def optional_word(value: object) -> str | None:
    """Take a word, or None."""
    return None if value is None else word(value)


def boolean(value: object) -> bool:
    """Take true or false."""
    if not isinstance(value, bool):
        raise _wrong("true or false", value)
    return value


def integer(lowest: int, highest: int) -> Callable[[object], int]:
    """Return the form of whole numbers between two bounds."""

    def form(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong("a whole number", value)
        if not lowest <= value <= highest:
            raise ValueError(f"must be between {lowest} and {highest}, not {value}")
        return value

    return form


def optional_integer(value: object) -> int | None:
    """Take a whole number above 0, or None."""
    return None if value is None else integer(1, 2**63 - 1)(value)


def optional_throttle(value: object) -> int | None:
    """Check the number of members of an array that may run at once; None sets no limit."""
    return None if value is None else integer(1, LARGEST_ARRAY)(value)


def optional_number(value: object) -> float | None:
    """Take a finite number of 0 or more, or None."""
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong("a number", value)
    if not 0 <= value < 2**53:
        raise ValueError(f"must be 0 or more, not {value}")
    return float(value)


def texts(value: object) -> tuple[str, ...]:
    """Take a list of texts."""
    if not isinstance(value, list | tuple):
        raise _wrong("a list of texts", value)
    return tuple(text(item) for item in value)


def words(value: object) -> tuple[str, ...]:
    """Take a list of words."""
    return tuple(word(item) for item in texts(value))


def date(value: object) -> datetime | None:
    """Take an instant, as such or in ISO form; without an offset it is of the local time zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise _wrong("a date or None", value)
    return value if value.tzinfo else value.astimezone()


def environment(value: object) -> dict[str, str]:
    """Take variables and their values."""
    if not isinstance(value, Mapping):
        raise _wrong("a table of texts", value)
    return {word(name): text(content) for name, content in value.items()}


def alternatives(value: object) -> tuple[ResourceRequest, ...]:
    """Take requests, each as such, as the text after ``-l``, or as a table of ``resources`` and ``walltime``."""
    if not isinstance(value, list | tuple):
        raise _wrong("a list of resource requests", value)
    return tuple(_alternative(item) for item in value)


def _alternative(value: object) -> ResourceRequest:
    """Take one request in any of its forms."""
    if isinstance(value, ResourceRequest):
        return value
    try:
        if isinstance(value, str):
            return parse_request(value)
        if not isinstance(value, Mapping):
            raise _wrong("a list of resource requests", value)
        request, walltime = text(value.get("resources", "")), optional_integer(value.get("walltime"))
        return dataclasses.replace(parse_request(request) if request else ResourceRequest(()), walltime=walltime)
    except UsageError as error:
        raise ValueError(f"wrong: {error}") from None


def _wrong(expected: str, value: object) -> TypeError:
    """Return the error for a value of another kind."""
    return TypeError(f"must be {expected}, not {type(value).__name__}")


def check_text(what: str, value: str, longest: int) -> None:
    """Raise :class:`UsageError` unless ``value`` is UTF-8 without NUL and of at most ``longest`` bytes."""
    if "\0" in value:
        raise UsageError(f"{what} holds a NUL character", hint="remove it")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise UsageError(f"{what} holds bytes that are not UTF-8", hint="use UTF-8")
    if size(value) > longest:
        raise UsageError(f"{what} of {size(value)} bytes", hint=f"at most {longest}")


def check_command(value: str) -> None:
    """Refuse a command that no program can be given."""
    check_text("command", value, LONGEST_COMMAND)


def check_environment(value: Mapping[str, str]) -> None:
    """Refuse variables that no program can be given."""
    plain = all(name.isascii() and content.isascii() and "\0" not in content for name, content in value.items())
    total = 0
    for name, content in value.items():
        what = f"environment variable {short(name)!a}"
        if not name or "=" in name or "\0" in name:
            raise UsageError(f"{what} has a name that no variable can have", hint="not empty, without = and NUL")
        length = len(name) + len(content) + 1
        if not plain:
            check_text(what, name + content, LONGEST_COMMAND)
            length = size(name) + size(content) + 1
        if length > LONGEST_COMMAND:
            raise UsageError(f"{what} of {length} bytes", hint=f"at most {LONGEST_COMMAND}")
        total += length + 1
    if total > LONGEST_ENVIRONMENT:
        raise UsageError(f"environment of {total} bytes", hint=f"at most {LONGEST_ENVIRONMENT}; unset large variables")


def check_name(value: str) -> None:
    """Refuse the name of a job that is not plain text."""
    _check_printable("--name", value)


def check_project(value: str) -> None:
    """Refuse an empty project, and a project that is not plain text."""
    _check_printable("--project", value)
    if not value:
        raise UsageError("empty project", hint="leave --project out for 'default'")


def check_types(value: tuple[str, ...]) -> None:
    """Refuse types that are too many, empty, or not plain text."""
    if len(value) > _MOST_TYPES:
        raise UsageError(f"{len(value)} job types", hint=f"at most {_MOST_TYPES}")
    for kind in value:
        _check_printable("-t", kind)
        if not kind.strip():
            raise UsageError("empty job type", hint="for example -t besteffort")
        if "," in kind.partition("=")[0]:
            raise UsageError(f"'{short(kind)}' is not one job type", hint="give -t for each")


def check_output(option: str) -> Callable[[str], None]:
    """Return the check that a path may name an output file."""

    def check(path: str) -> None:
        if len(path) > LONGEST_PATH:
            raise UsageError(
                f"output file '{short(path)}' of {option} has {len(path)} characters", hint=f"at most {LONGEST_PATH}"
            )
        if not _OUTPUT.fullmatch(path):
            raise UsageError(
                f"output file '{short(path)}' of {option} is not allowed",
                hint="use letters, digits and _ . / - % space",
            )

    return check


def check_dependencies(value: tuple[str, ...]) -> None:
    """Refuse dependencies that are too many or badly written."""
    if len(value) > _MOST_DEPENDENCIES:
        raise UsageError(f"{len(value)} dependencies", hint=f"at most {_MOST_DEPENDENCIES}")
    for dependency in value:
        parse_dependency(dependency)


def _check_printable(option: str, value: str) -> None:
    """Refuse a value that is not printable ASCII, or is too long."""
    if not _PRINTABLE.fullmatch(value):
        raise UsageError(f"{option} '{short(value)}' is not plain text", hint="use printable ASCII characters")
    if len(value) > _LONGEST_NAME:
        raise UsageError(f"{option} of {len(value)} characters", hint=f"at most {_LONGEST_NAME}")


def read_number(option: str, value: str, lowest: int, highest: int) -> int:
    """Return the whole number of ``option``; raise :class:`UsageError` unless it lies between the two bounds."""
    if not _NUMBER.fullmatch(value.strip()) or not lowest <= int(value) <= highest:
        raise UsageError(
            f"{option} '{short(value)}' is out of range", hint=f"a whole number from {lowest} to {highest}"
        )
    return int(value)


def number(option: str, lowest: int, highest: int) -> Callable[[str], int]:
    """Return the reader of a whole number between two bounds, named ``option`` in errors."""
    return lambda value: read_number(option, value, lowest, highest)


def program(option: str) -> Callable[[str], str]:
    """Return the reader of the name of a program."""

    def read(text: str) -> str:
        if not text:
            raise UsageError(f"{option} '' is no program", hint="name an executable file that is here: chmod +x")
        return text

    return read


def read_sizes(value: str) -> tuple[str, ...]:
    """Return the sizes of processes in the list ``a,b``. Raises :class:`UsageError` for a wrong or repeated size."""
    sizes = tuple(size.strip() for size in value.split(","))
    for size in sizes:
        if not _SIZE.fullmatch(size):
            raise UsageError(
                f"--sizes '{short(value)}' has '{short(size)}', which is no size",
                hint="names of at most 100 letters, digits and _ . + -, with commas between",
            )
        if sizes.count(size) > 1:
            raise UsageError(f"--sizes '{short(value)}' has '{size}' twice", hint="give each size once")
    if len(sizes) > _MOST_SIZES:
        raise UsageError(f"{len(sizes)} sizes of processes", hint=f"at most {_MOST_SIZES}")
    return sizes


def read_signal(value: str) -> int:
    """Return the number of a signal given as ``10``, ``USR1`` or ``SIGUSR1``; raise :class:`UsageError`."""
    name = value.strip().upper()
    if _NUMBER.fullmatch(name) and 1 <= int(name) <= HIGHEST_SIGNAL:
        return int(name)
    known = signal.Signals.__members__
    if number := known.get(name) or known.get(f"SIG{name}"):
        return number.value
    raise UsageError(
        f"'{short(value)}' is not a signal", hint=f"a name such as USR1, or a number from 1 to {HIGHEST_SIGNAL}"
    )


def condition(value: str) -> str:
    """Read the filter of ``-p``."""
    if not value.strip():
        raise UsageError("-p with an empty filter", hint="leave it out for no filter")
    return value.strip()


def requests(values: tuple[str, ...]) -> tuple[ResourceRequest, ...]:
    """Read the alternatives of ``-l``."""
    if len(values) > _MOST_ALTERNATIVES:
        raise UsageError(f"{len(values)} alternatives", hint=f"at most {_MOST_ALTERNATIVES} times -l")
    read = tuple(map(parse_request, values))
    for value, request in zip(values, read, strict=True):
        if len(values) > 1 and not (request.groups or request.consumes):
            given = next((its for its, way in zip(values, read, strict=True) if way.groups and not way.walltime), "")
            raise UsageError(
                f"-l {short(value.strip())} alone is another alternative",
                hint=f"a walltime belongs to its -l: -l {short(given.strip()) or '/nodes=1'},{short(value.strip())}",
            )
    return read


def different(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without duplicates and without surrounding space."""
    return tuple(dict.fromkeys(value.strip() for value in values))


def short(value: str) -> str:
    """Return as much of a value as a line of error shows."""
    return value if len(value) <= 80 else value[:80] + "..."


def size(value: str) -> int:
    """Return the length of a text in bytes of UTF-8."""
    return len(value.encode(errors="surrogatepass"))
