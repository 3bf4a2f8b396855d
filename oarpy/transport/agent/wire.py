"""The channel seen from the node: lines of JSON in, lines of JSON out, and what a message must look like."""

from __future__ import annotations

import json
import os

from oarpy.transport.agent.record import MAXIMUM_ATTEMPT, MAXIMUM_JOB, key_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAXIMUM_LINE = 64 << 20
_encode = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_READ = 1 << 16
"""Bytes: what a pipe holds."""
_BIG = 1 << 53
_MOST_LINES = (1 << 16) - 1


class BadMessage(Exception):
    """A message that cannot be acted on; the text says why."""


class Lines:
    """Cuts what arrives on a descriptor into lines; a line longer than the maximum is dropped and reported."""

    def __init__(self, fd: int, maximum: int = MAXIMUM_LINE) -> None:
        self._fd = fd
        self._buffer = memoryview(bytearray(_READ))
        self._maximum = maximum
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def read(self) -> list[bytes | None] | None:
        """Read once: the lines completed (None for a dropped one); None at the end of the channel."""
        try:
            content = bytes(self._buffer[: os.readv(self._fd, [self._buffer])])
        except OSError:
            return None
        if not content:
            return None
        first, *others = content.split(b"\n")
        lines: list[bytes | None] = []
        self._add(first)
        for part in others:
            lines.append(None if self._skipping else b"".join(self._parts))
            self._parts, self._size, self._skipping = [], 0, False
            self._add(part)
        return lines

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._maximum:
            self._skipping, self._parts = True, []
        elif part:
            self._parts.append(part)


def write_messages(fd: int, messages: list[dict[str, Any]]) -> None:
    """Write messages as one line."""
    content = memoryview(f"{_encode(messages)}\n".encode())
    while content:
        content = content[os.write(fd, content) :]


def parse_message(line: bytes) -> dict[str, Any]:
    """The object on a line; raise :class:`BadMessage` when it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"not JSON: {type(error).__name__}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise BadMessage("not an object with a 'type'")
    return message


def integer(value: Any, least: int = 0, most: int = _BIG) -> bool:
    """Whether a value is a plain integer within bounds."""
    return type(value) is int and least <= value <= most


def _job(value: object) -> bool:
    return integer(value, 0, MAXIMUM_JOB)


def _attempt(value: object) -> bool:
    return integer(value, 0, MAXIMUM_ATTEMPT)


def read_keys(message: dict[str, Any]) -> list[str]:
    """The records' names of the [job, attempt] pairs of a message, each once."""
    jobs = message.get("jobs")
    if not isinstance(jobs, list):
        raise BadMessage(f"{message['type']}: 'jobs' is not a list")
    for pair in jobs:
        if not isinstance(pair, list) or len(pair) != 2 or not _job(pair[0]) or not _attempt(pair[1]):
            raise BadMessage(f"{message['type']}: 'jobs' must hold [job, attempt] pairs")
    return list(dict.fromkeys(key_of(job, attempt) for job, attempt in jobs))


def _text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value and (value.isascii() or _is_path(value))


def _is_path(value: str) -> bool:
    """Whether a text stands for bytes, as names of files and values of the environment do."""
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def _is_line(value: object) -> bool:
    """Whether a text can be written to a file."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(_text(line) and _is_line(line) for line in value)


def _variables(value: object) -> bool:
    return isinstance(value, dict) and (_are_plain(value) or _are_variables(value))


def _are_plain(value: dict[Any, Any]) -> bool:
    """Whether variables are all of plain characters: one look at all of them tells, as nearly always."""
    try:
        names, contents = "".join(value), "".join(value.values())
    except TypeError:
        return False
    plain = names.isascii() and contents.isascii() and "\0" not in names and "\0" not in contents
    return plain and "=" not in names and "" not in value


def _are_variables(value: dict[Any, Any]) -> bool:
    return all(_text(name) and name and "=" not in name and _text(content) for name, content in value.items())


def _seconds(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < _BIG


def _checkpoint(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and len(value) == 2 and _seconds(value[0]) and integer(value[1], 1, 64)


def _numbers(value: object) -> bool:
    return isinstance(value, list) and all(map(integer, value))


def _flag(value: object) -> bool:
    return isinstance(value, bool)


_FIELDS = {
    "job": _job,
    "attempt": _attempt,
    "user": _text,
    "command": _text,
    "shell": _text,
    "login_shell": _flag,
    "directory": _text,
    "environment": _variables,
    "variables": _variables,
    "name": _text,
    "project": _text,
    "array_id": integer,
    "array_index": integer,
    "nodes": _texts,
    "resources": _texts,
    "stdout": _text,
    "stderr": _text,
    "walltime": integer,
    "checkpoint": _checkpoint,
    "kill_grace": _seconds,
    "start_deadline": _seconds,
    "allow_root": _flag,
    "processors": _numbers,
    "memory": integer,
    "keep": _seconds,
}


def read_specs(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The job specifications of a start message; ``shared`` holds what all of them have in common."""
    shared, jobs = message.get("shared", {}), message.get("jobs")
    if not isinstance(shared, dict) or not isinstance(jobs, list):
        raise BadMessage("start: 'shared' must be an object and 'jobs' a list")
    for name, value in shared.items():
        if name not in _FIELDS or not _FIELDS[name](value):
            raise BadMessage(f"start: bad value for '{name[:64]}'")
    specs = []
    for job in jobs:
        if not isinstance(job, dict):
            raise BadMessage("start: a job is not an object")
        for name, value in job.items():
            if name not in _FIELDS or not _FIELDS[name](value):
                raise BadMessage(f"start: bad value for '{name[:64]}' in job {str(job.get('job'))[:20]}")
        spec = {**shared, **job}
        if len(spec) != len(_FIELDS):
            missing = ", ".join(sorted(set(_FIELDS) - set(spec)))
            raise BadMessage(f"start: missing {missing} in job {str(job.get('job'))[:20]}")
        specs.append(spec)
    return specs


def read_script(message: dict[str, Any]) -> tuple[str, str, float, bool, list[dict[str, Any]]]:
    """(kind, program, seconds, only after a prologue, jobs) of a message about a script."""
    kind, program, timeout = message.get("kind"), message.get("program"), message.get("timeout")
    after = message.get("after_prologue")
    if (
        kind not in ("prologue", "epilogue")
        or not _text(program)
        or not program
        or not _seconds(timeout)
        or not _flag(after)
    ):
        raise BadMessage("script: bad value for 'kind', 'program', 'timeout' or 'after_prologue'")
    return kind, program, timeout, after, read_specs(message)  # type: ignore[return-value]


def _terminal(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and set(value) == {"type", "rows", "columns"}
        and _text(value["type"])
        and integer(value["rows"], 1, _MOST_LINES)
        and integer(value["columns"], 1, _MOST_LINES)
    )


_STEP_FIELDS = {
    "job": lambda value: isinstance(value, dict),
    "command": _text,
    "directory": _text,
    "variables": _variables,
    "terminal": _terminal,
    "head": _flag,
    "lead": _flag,
}


def read_step(message: dict[str, Any]) -> dict[str, Any]:
    """The specification of a step; raise :class:`BadMessage`."""
    for name, valid in _STEP_FIELDS.items():
        if name not in message or not valid(message[name]):
            raise BadMessage(f"step: bad value for '{name}'")
    (job,) = read_specs({"jobs": [message["job"]]})
    return {**{name: message[name] for name in _STEP_FIELDS}, "job": job}
