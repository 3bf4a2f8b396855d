"""The submission: what ``oarsub`` asks for, what admission rules see and may change, what is stored in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from oarpy.model.errors import UsageError
from oarpy.model.request import ResourceRequest, parse_request


@dataclass(slots=True)
class Submission:
    """One call of ``oarsub``, whatever number of jobs it makes.

    ``alternatives`` are the moldable choices, a walltime (seconds) of None and empty groups mean "not said";
    ``checkpoint`` is in seconds before the end of the walltime (0 = none); ``reservation`` is the asked start, with its
    time zone; ``dependencies`` are as written (``7``, ``ok:7``); ``array_parameters`` hold one argument line a member.
    Sequences are tuples, so that a copy is cheap and a change is always an assignment.
    """

    user: str
    groups: tuple[str, ...] = ()
    queue: str | None = None
    project: str = "default"
    name: str = ""
    types: tuple[str, ...] = ()
    properties: str = ""
    alternatives: tuple[ResourceRequest, ...] = ()
    reservation: datetime | None = None
    interactive: bool = False
    command: str = ""
    directory: str = "/"
    stdout: str = ""
    stderr: str = ""
    array_size: int = 1
    array_parameters: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    hold: bool = False
    notify: str = ""
    checkpoint: int = 0
    checkpoint_signal: int = 12
    resubmit_of: int | None = None
    initial_request: str = ""
    submitted_from: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def copy(self) -> Submission:
        """Return an independent copy (every value held is immutable or never changed in place)."""
        return dataclasses.replace(self)

    def update(self, other: Submission) -> None:
        """Take over every value of ``other``."""
        for name in FIELDS:
            setattr(self, name, getattr(other, name))

    def to_record(self) -> dict[str, object]:
        """Return the JSON form kept with the job, without what has its default value."""
        fresh = Submission(self.user)
        values = {name: getattr(self, name) for name in FIELDS}
        return {name: plain(value) for name, value in values.items() if name == "user" or value != getattr(fresh, name)}

    @staticmethod
    def from_record(record: Mapping[str, object]) -> Submission:
        """Read :meth:`to_record`'s form; an alternative may also be a text as after ``-l``.

        Raises :class:`UsageError` naming the key that is unknown or wrong.
        """
        if unknown := sorted(set(record) - set(FIELDS)):
            raise UsageError(f"unknown key '{unknown[0]}' in a submission", hint=f"keys: {', '.join(FIELDS)}")
        if "user" not in record:
            raise UsageError("a submission without user", hint='give it one: user = "ann"')
        submission = Submission("")
        for name, value in record.items():
            try:
                setattr(submission, name, checked(name, value))
            except (TypeError, ValueError) as error:
                raise UsageError(f"submission: {error}") from None
        return submission


FIELDS = tuple(item.name for item in dataclasses.fields(Submission))


def checked(name: str, value: object) -> object:
    """Return ``value`` as the field ``name`` keeps it; raise TypeError or ValueError saying what the field takes."""
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} {error}") from None


def plain(value: object) -> object:
    """Return the JSON form of a field's value."""
    if isinstance(value, ResourceRequest):
        said = {} if value.walltime is None else {"walltime": value.walltime}
        return {"resources": str(value)} | said
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return dict(value) if isinstance(value, Mapping) else value


def _wrong(expected: str, value: object) -> TypeError:
    return TypeError(f"must be {expected}, not {type(value).__name__}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong("text", value)
    if "\0" in value:
        raise ValueError("must not hold a NUL character")
    return value


def _word(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _optional_word(value: object) -> str | None:
    return None if value is None else _word(value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong("true or false", value)
    return value


def _integer(lowest: int, highest: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong("a whole number", value)
        if not lowest <= value <= highest:
            raise ValueError(f"must be between {lowest} and {highest}, not {value}")
        return value

    return check


def _optional_integer(value: object) -> int | None:
    return None if value is None else _integer(1, 2**63 - 1)(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong("a list of texts", value)
    return tuple(_text(item) for item in value)


def _words(value: object) -> tuple[str, ...]:
    return tuple(_word(item) for item in _texts(value))


def _date(value: object) -> datetime | None:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise _wrong("a date or None", value)
    return value if value.tzinfo else value.astimezone()


def _environment(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise _wrong("a table of texts", value)
    return {_word(name): _text(content) for name, content in value.items()}


def _alternatives(value: object) -> tuple[ResourceRequest, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong("a list of resource requests", value)
    return tuple(_alternative(item) for item in value)


def _alternative(value: object) -> ResourceRequest:
    if isinstance(value, ResourceRequest):
        return value
    try:
        if isinstance(value, str):
            return parse_request(value)
        if not isinstance(value, Mapping):
            raise _wrong("a list of resource requests", value)
        text, walltime = _text(value.get("resources", "")), _optional_integer(value.get("walltime"))
        return dataclasses.replace(parse_request(text) if text else ResourceRequest(()), walltime=walltime)
    except UsageError as error:
        raise ValueError(f"wrong: {error}") from None


_CHECKS: dict[str, Callable[[object], object]] = {
    "user": _word,
    "groups": _words,
    "queue": _optional_word,
    "project": _word,
    "name": _text,
    "types": _words,
    "properties": _text,
    "alternatives": _alternatives,
    "reservation": _date,
    "interactive": _boolean,
    "command": _text,
    "directory": _word,
    "stdout": _text,
    "stderr": _text,
    "array_size": _integer(1, 2**31 - 1),
    "array_parameters": _texts,
    "dependencies": _words,
    "hold": _boolean,
    "notify": _text,
    "checkpoint": _integer(0, 2**31 - 1),
    "checkpoint_signal": _integer(1, 64),
    "resubmit_of": _optional_integer,
    "initial_request": _text,
    "submitted_from": _text,
    "environment": _environment,
}
