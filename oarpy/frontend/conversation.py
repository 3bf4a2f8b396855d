"""One command through the gateway: the request, the answers to its questions, its output and its exit status."""

from __future__ import annotations

import os
import sys

from oarpy.frontend.submission_environment import submission_environment
from oarpy.wire.frames import (
    CONTENT,
    ERRORS,
    LARGEST_FRAME,
    MESSAGE,
    OUTPUT,
    VERSION,
    Channel,
    Gone,
    Malformed,
    read_message,
)

try:
    # the module under `socket`, which itself takes longer to load than all of this
    from _socket import AF_UNIX, SOCK_STREAM, socket
except ImportError:
    from socket import AF_UNIX, SOCK_STREAM, socket  # type: ignore[assignment]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

PATIENCE = 300.0
"""Seconds without a frame after which the gateway is given up."""

_CONNECT_TIMEOUT = 10.0
_UNREACHABLE = 6
_USUAL_COLUMNS = 80
_READ = 1 << 16
_VARIABLES = ("NO_COLOR", "FORCE_COLOR", "TERM", "TZ", "OAR_JOB_ID", "OAR_OARSTAT_OUTPUT_FORMAT")
_FILE_VARIABLES = {"oarprint": ("OAR_RESOURCE_PROPERTIES_FILE",), "oarsub": ("OAR_JOB_KEY_FILE",)}
"""The variables that name a file for a command, as an argument would."""
_ALL_VARIABLES = frozenset({"oarnegotiate", "oarsub"})
"""Commands whose jobs get the environment of the caller."""


def connect(path: str) -> socket | None:
    """Return a connection to the gateway, None when none listens there (that this user may reach)."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    connection.settimeout(_CONNECT_TIMEOUT)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    connection.settimeout(PATIENCE)
    return connection


def converse(connection: socket, command: str, arguments: Sequence[str]) -> int:
    """Have the command run by the gateway; return its exit status."""
    channel = Channel(connection)
    talk = _Talk(connection, channel, command, arguments)
    try:
        _begin(channel, _request(command, arguments))
        return talk.follow()
    except (Gone, Malformed) as error:
        return _report(command, f"the gateway left before the command ended: {error} (oarstat shows what was done)")
    except BrokenPipeError:
        return 1
    except OSError as error:
        return _report(command, f"the output cannot be written: {error.strerror}", 1)


class _Talk:
    """The messages and questions of the gateway, in its order."""

    def __init__(self, connection: socket, channel: Channel, command: str, arguments: Sequence[str]) -> None:
        self._connection = connection
        self._channel = channel
        self._command = command
        self._arguments = arguments
        self._sent = b""

    def follow(self) -> int:
        """Print and answer until the exit status comes."""
        while True:
            kind, payload = self._channel.receive()
            if kind in (OUTPUT, ERRORS):
                _write(1 if kind == OUTPUT else 2, payload)
            elif kind == MESSAGE:
                message = read_message(payload)
                status = message.get("exit")
                if "refused" in message:
                    return _report(self._command, str(message["refused"]), _number(status))
                if "exit" in message:
                    return _number(status)
                if "relayed" in message:
                    from oarpy.frontend.relay import relay

                    return relay(self._connection, self._channel.received())
                if "attached" in message:
                    from oarpy.frontend.attachment import attach

                    return _number(attach(self._connection, self._channel, self._command, self._arguments))
                self._answer(message)
            else:
                raise Malformed("content that nobody asked for")

    def _answer(self, question: Mapping[str, object]) -> None:
        if "has_directory" in question:
            self._channel.send_message({"answer": os.path.isdir(_word(question["has_directory"]))})
        elif "has_program" in question:
            self._look_for_program(_word(question["has_program"]))
        elif "program" in question:
            self._tell_of_program(_word(question["program"]))
        elif "file" in question:
            self._send_file(_word(question["file"]), _number(question.get("largest")), question)
        elif "write" in question:
            self._write_private(_word(question["write"]), _word(question.get("named")), _word(question.get("text")))
        elif "input" in question:
            self._send_input(_number(question["input"]))
        elif "last_line" in question:
            self._send_last_line(_word(question["last_line"]))
        elif "edit" in question:
            self._send_edited(_word(question["edit"]), _word(question.get("text")))
        else:
            raise Malformed("a question that is not understood")

    def _look_for_program(self, name: str) -> None:
        from oarpy.frontend.local_files import has_program

        if "/" in name or not self._was_named(name):
            raise Malformed("a program was looked for that was not named")
        self._channel.send_message({"answer": has_program(name)})

    def _tell_of_program(self, name: str) -> None:
        from oarpy.frontend.local_files import program_facts

        if not self._was_named(name):
            raise Malformed("a program was asked about that was not named")
        self._channel.send_message({"answer": program_facts(name)})

    def _send_file(self, path: str, largest: int, question: Mapping[str, object]) -> None:
        from oarpy.frontend.local_files import read_file

        # the gateway may have files read that the command names, but no other file of the user
        if not self._was_named(path):
            raise Malformed("a file was asked for that was not named")
        plain, executable = question.get("plain") is True, question.get("executable") is True
        self._send(lambda: read_file(path, largest, plain=plain, executable=executable))

    def _send_last_line(self, path: str) -> None:
        from oarpy.frontend.local_files import last_line

        if self._command != "oarstat" or not any(word.startswith("--failures") for word in self._arguments):
            raise Malformed("the last line of a file was asked for, and no failures")
        self._channel.send_message({"answer": last_line(path)})

    def _write_private(self, path: str, named: str, text: str) -> None:
        import re

        from oarpy.frontend.local_files import write_private

        parts = re.split("%[a-z]+%", named)
        filled = "[^/]*".join(map(re.escape, parts))
        if not (self._was_named(named) and re.fullmatch(filled, path)):
            raise Malformed("a file was to be written that was not named")
        try:
            write_private(path, text)
        except OSError as error:
            self._channel.send_message({"errno": error.errno or 0, "strerror": error.strerror or str(error)})
        else:
            self._channel.send_message({"answer": True})

    def _send_input(self, largest: int) -> None:
        import select

        if not any(word.endswith("-") for word in self._arguments):
            raise Malformed("standard input was asked for, which was not named")
        content, left = b"", largest + 1
        gateway = self._connection.fileno()
        while left > 0:
            if gateway in select.select([0, gateway], [], [])[0]:
                return  # it waits no more, and says why
            part = os.read(0, min(left, _READ))
            if not part:
                break
            content += part
            left -= len(part)
        self._send(lambda: content)

    def _send_edited(self, name: str, text: str) -> None:
        from oarpy.frontend.editor import EditorFailed, edit

        if "edit" not in self._arguments:
            raise Malformed("an editor was asked for, which was not named")
        try:
            edited = edit(name, text, os.environ)
        except EditorFailed as error:
            self._channel.send_message({"failed": str(error), "hint": error.hint})
        else:
            self._channel.send(CONTENT, edited[:LARGEST_FRAME])

    def _send(self, read: Callable[[], bytes]) -> None:
        try:
            content = read()
        except OSError as error:
            self._channel.send_message({"errno": error.errno or 0, "strerror": error.strerror or str(error)})
            return
        self._sent += content
        self._channel.send(CONTENT, content)

    def _was_named(self, path: str) -> bool:
        """Say whether the path is in the arguments, quoted or not, the file sent before, or the command's variables.

        A script that is named without a directory is asked for as ``./SCRIPT``.
        """
        if self._command == "oarsub" and path.startswith("./") and "/" not in path[2:] and path[2:]:
            return self._was_named(path[2:])
        if any(path in word for word in self._arguments) or os.fsencode(path) in self._sent:
            return True
        if path in (os.environ.get(name) for name in _FILE_VARIABLES.get(self._command, ())):
            return True
        import shlex

        for word in self._arguments:
            try:
                if path in shlex.split(word):
                    return True
            except ValueError:
                continue
        return False


def _begin(channel: Channel, request: Mapping[str, object]) -> None:
    try:
        channel.send_message(request)
    except Gone:
        # refused before all of it was taken: the reason is there to be read
        return


def _request(command: str, arguments: Sequence[str]) -> dict[str, object]:
    try:
        directory = os.getcwd()
    except OSError:
        directory = None
    environment = os.environ
    if command in _ALL_VARIABLES:
        sent = submission_environment()
    else:
        names = (*_VARIABLES, *_FILE_VARIABLES.get(command, ()))
        sent = {name: environment[name] for name in names if name in environment}
    return {
        "version": VERSION,
        "command": command,
        "arguments": list(arguments),
        "directory": directory,
        "environment": sent,
        "terminal": {
            "input": os.isatty(0),
            "output": os.isatty(1),
            "errors": os.isatty(2),
            "columns": _columns(environment),
        },
    }


def _columns(environment: Mapping[str, str]) -> int:
    """Return the width of the terminal as Python's own ``shutil`` would."""
    try:
        columns = int(environment.get("COLUMNS", "0")) or os.get_terminal_size(1).columns
    except (ValueError, OSError):
        columns = _USUAL_COLUMNS
    return columns if 0 < columns <= 10_000 else _USUAL_COLUMNS


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _report(command: str, reason: str, status: int = _UNREACHABLE) -> int:
    sys.stderr.write(f"{command}: {reason}\n")
    return status


def _number(value: object) -> int:
    if type(value) is not int:
        raise Malformed("a number is missing")
    return value


def _word(value: object) -> str:
    if type(value) is not str:
        raise Malformed("a word is missing")
    return value
