"""Frames between a command's process and the gateway: a kind, a length and that number of bytes.

``MESSAGE`` is a JSON object; ``OUTPUT`` and ``ERRORS`` are bytes for standard output and standard error; ``CONTENT`` is
the content of a file. The caller begins with one message, the request. From then on it answers the gateway's messages.
"""

from __future__ import annotations

import struct
import time

from oarpy.wire.json_values import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Mapping

VERSION = 1
"""The version of the messages; a request names it, and the gateway refuses any other."""

MESSAGE, OUTPUT, ERRORS, CONTENT = 1, 2, 3, 4

KNOCK, SPEAKER = 5, 6
"""First frames of the server's own processes alone, see ``openings``; no other frame is of these kinds."""

LARGEST_REQUEST = 16 * 2**20
"""Bytes: the kernel passes at most 2 MiB of arguments and environment to a program, JSON may need six times that."""

LARGEST_FRAME = 16 * 2**20

HEADER = struct.Struct(">BI")

_CHUNK = 2**16


class Malformed(Exception):
    """The other side sent something that is no frame, no message, or not the message that was due."""


class Gone(Exception):
    """The other side closed the connection, or did not take or send a frame in time."""


def pack(kind: int, payload: bytes) -> bytes:
    """Return a frame."""
    return HEADER.pack(kind, len(payload)) + payload


def pack_message(message: Mapping[str, object]) -> bytes:
    """Return the frame of a JSON object; bytes that are not UTF-8 travel as the surrogates Python makes of them."""
    return pack(MESSAGE, write_json(message).encode("ascii"))


def read_header(data: bytes, largest: int) -> tuple[int, int]:
    """Return kind and length; raise :class:`Malformed` for an unknown kind or more than ``largest`` bytes."""
    kind, length = HEADER.unpack(data)
    if not MESSAGE <= kind <= CONTENT:
        raise Malformed(f"frame of unknown kind {kind}")
    if length > largest:
        raise Malformed(f"frame of {length} bytes, at most {largest}")
    return kind, length


def read_message(payload: bytes) -> dict[str, object]:
    """Return the JSON object of a ``MESSAGE``; raise :class:`Malformed` when it is none."""
    try:
        value = read_json(payload)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Malformed("no JSON object")
    return value


def first_frame(data: bytes | bytearray, largest: int) -> tuple[int, bytes] | None:
    """Return (kind, payload) of the frame with which ``data`` begins, None while it is not whole.

    Raises :class:`Malformed`.
    """
    if len(data) < HEADER.size:
        return None
    kind, length = read_header(bytes(data[: HEADER.size]), largest)
    end = HEADER.size + length
    return (kind, bytes(data[HEADER.size : end])) if len(data) >= end else None


class Frames:
    """Cuts arriving bytes, in pieces of any size, into frames."""

    def __init__(self, largest: int = LARGEST_FRAME) -> None:
        self._largest = largest
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return (kind, payload) of each frame that is complete with ``data``. Raises :class:`Malformed`."""
        self._waiting += data
        complete = []
        while frame := first_frame(self._waiting, self._largest):
            complete.append(frame)
            del self._waiting[: HEADER.size + len(frame[1])]
        return complete


class Channel:
    """Whole frames over a connected socket, whose timeout is the time that the other side has for each frame."""

    def __init__(self, connection: _socket.socket) -> None:
        self._socket = connection
        self._waiting = bytearray()

    def send(self, kind: int, payload: bytes) -> None:
        """Send a frame. Raises :class:`Gone`."""
        self._send(pack(kind, payload))

    def send_message(self, message: Mapping[str, object]) -> None:
        """Send a JSON object. Raises :class:`Gone`."""
        self._send(pack_message(message))

    def receive(self, largest: int = LARGEST_FRAME) -> tuple[int, bytes]:
        """Return kind and payload of the next frame. Raises :class:`Malformed` and :class:`Gone`."""
        patience = self._socket.gettimeout()
        until = None if patience is None else time.monotonic() + patience
        try:
            kind, length = read_header(self._take(HEADER.size, until), largest)
            return kind, self._take(length, until)
        finally:
            if until is not None and self._socket.fileno() >= 0:
                self._socket.settimeout(patience)

    def received(self) -> bytes:
        """Return the bytes that belong to no received frame: the channel is read by other means now."""
        rest = bytes(self._waiting)
        self._waiting.clear()
        return rest

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise Gone(str(error)) from None

    def _take(self, count: int, until: float | None) -> bytes:
        while len(self._waiting) < count:
            try:
                data = self._read(max(_CHUNK, count - len(self._waiting)), until)
            except OSError as error:
                raise Gone(str(error)) from None
            if not data:
                raise Gone("the connection was closed")
            self._waiting += data
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        return taken

    def _read(self, most: int, until: float | None) -> bytes:
        """Read once; bytes that arrive one at a time get no more time than bytes that do not arrive."""
        if until is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)
        return self._socket.recv(most)
