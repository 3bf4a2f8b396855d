"""What the server's own processes tell the gateway of commands on nodes: that one called, and for whom one speaks."""

from __future__ import annotations

import json
from typing import NamedTuple

from oarpy.frontend.call import is_token
from oarpy.frontend.frames import KNOCK, SPEAKER, Malformed, pack, read_message

LARGEST_PREFACE = 1024
"""Bytes."""

_LONGEST_NAME = 255
_LARGEST_UID = (1 << 32) - 2


class Knock(NamedTuple):
    """A command on ``node`` wants to be connected; it listens under ``token`` there."""

    node: str
    token: str

    def pack(self) -> bytes:
        """Return it as a frame."""
        return pack(KNOCK, json.dumps(self._asdict()).encode("ascii"))


class Speaker(NamedTuple):
    """The rest of the connection comes from a command of user ``uid`` (of the server) on ``node``."""

    uid: int
    node: str

    def pack(self) -> bytes:
        """Return it as a frame."""
        return pack(SPEAKER, json.dumps(self._asdict()).encode("ascii"))


def read_knock(payload: bytes) -> Knock:
    """Return the knock; raise :class:`Malformed`."""
    message = read_message(payload)
    node, token = message.get("node"), message.get("token")
    if message.keys() != set(Knock._fields) or not _is_name(node) or not is_token(token):
        raise Malformed("no knock")
    return Knock(str(node), str(token))


def read_speaker(payload: bytes) -> Speaker:
    """Return for whom is spoken; raise :class:`Malformed`."""
    message = read_message(payload)
    uid, node = message.get("uid"), message.get("node")
    if message.keys() != set(Speaker._fields) or not _is_name(node):
        raise Malformed("no speaker")
    if type(uid) is not int or not 0 < uid <= _LARGEST_UID:
        raise Malformed("nobody who may be spoken for")
    return Speaker(uid, str(node))


def _is_name(text: object) -> bool:
    return isinstance(text, str) and 0 < len(text) <= _LONGEST_NAME and text.isprintable()
