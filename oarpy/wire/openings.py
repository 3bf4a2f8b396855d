"""The first message on a connection to the gateway: a command's request, or a word of the server's own processes.

Such a process announces commands on nodes: that a command called, or the user for whom the process speaks. Any other
message is refused.
"""

from __future__ import annotations

from oarpy.wire.fields import each, flag, optional, text, texts, token, whole
from oarpy.wire.frames import KNOCK, SPEAKER, VERSION, Malformed, pack, pack_message, read_message
from oarpy.wire.json_values import write_json
from oarpy.wire.structure import Structure, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LARGEST_PREFACE = 1024
"""The most bytes of a knock, or of a speaker's message about itself."""

_MOST_COLUMNS = 10_000
_LONGEST_NAME = 255
_LARGEST_UID = (1 << 32) - 2


def _name(value: Any) -> str:
    if type(value) is not str or not 0 < len(value) <= _LONGEST_NAME or not value.isprintable():
        raise ValueError
    return value


def _name_or_none(value: Any) -> str:
    return _name(value) if value != "" else ""


class Knock(Structure):
    """A command on ``node`` wants to be connected; it listens under ``token`` there."""

    node: str = field(_name)
    token: str = field(token)

    def pack(self) -> bytes:
        """Return it as a frame."""
        return pack(KNOCK, write_json(self.entry()).encode("ascii"))


class Speaker(Structure):
    """The rest of the connection comes from a command of user ``uid`` (of the server) on ``node``, or here (empty)."""

    uid: int = field(whole(0, _LARGEST_UID))
    node: str = field(_name_or_none)

    def pack(self) -> bytes:
        """Return it as a frame."""
        return pack(SPEAKER, write_json(self.entry()).encode("ascii"))


class Terminal(Structure):
    """The standard streams of the caller that are terminals, and the characters of a line."""

    input: bool = field(flag)
    output: bool = field(flag)
    errors: bool = field(flag)
    columns: int = field(whole(1, _MOST_COLUMNS))


class Request(Structure):
    """A command as its caller typed it. ``directory`` is None when the current directory is gone."""

    command: str = field(text)
    arguments: tuple[str, ...] = field(each(text))
    directory: str | None = field(optional(text))
    environment: Mapping[str, str] = field(texts)
    terminal: Terminal = field(Terminal.read)


def read_knock(payload: bytes) -> Knock:
    """Return the knock; raise :class:`Malformed`."""
    return Knock.read(read_message(payload))


def read_speaker(payload: bytes) -> Speaker:
    """Return the user for whom the sender speaks; raise :class:`Malformed`, also for root on a node."""
    speaker = Speaker.read(read_message(payload))
    if speaker.node and not speaker.uid:
        raise Malformed("root of a node is nobody here")
    return speaker


def read_request(payload: bytes) -> Request:
    """Return the request; raise :class:`Malformed`, which says what is wrong with it."""
    message = read_message(payload)
    version = message.pop("version", None)
    if type(version) is not int or version != VERSION:
        raise Malformed(f"this gateway speaks version {VERSION} of the protocol")
    return Request.read(message)


def refusal(reason: str, status: int) -> bytes:
    """Return the frame that answers a request that is not run: one line for the user and the exit status."""
    return pack_message({"refused": reason, "exit": status})
