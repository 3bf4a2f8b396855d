"""A command that the gateway runs for a launcher of the negotiator; its answers are received without waiting."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence

from oarpy.negotiation.modules.handover import Speaking
from oarpy.wire.frames import ERRORS, MESSAGE, OUTPUT, VERSION, Frames, Malformed, pack_message, read_message
from oarpy.wire.openings import Speaker

_READ = 1 << 16
_NO_FILE = 2
UNREACHABLE = 6


class GatewayCall:
    """One command, from the connection to its exit status. ``status`` is None until it has ended."""

    def __init__(self, path: str, speaking: Speaking, uid: int, command: str, arguments: Sequence[str]) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.status: int | None = None
        self.output, self.errors = b"", b""
        request = {
            "version": VERSION,
            "command": command,
            "arguments": list(arguments),
            "directory": speaking.request.directory,
            "environment": dict(speaking.request.environment),
            "terminal": {"input": False, "output": False, "errors": False, "columns": 80},
        }
        self._directory = speaking.request.directory
        self._unsent = Speaker(uid, speaking.node).pack() + pack_message(request)
        self._frames = Frames()
        try:
            self.socket.connect(path)
        except OSError:
            self._fail()

    @property
    def sending(self) -> bool:
        """Whether there is something to send when the connection takes it."""
        return bool(self._unsent) and self.status is None

    def step(self) -> None:
        """Send and receive as much as possible now."""
        try:
            self._flush()
            self._hear()
        except BlockingIOError:
            return
        except (Malformed, OSError):
            self._fail()

    def close(self) -> None:
        """Close the connection; a running command goes on."""
        self.socket.close()

    def answer(self) -> dict[str, object]:
        """Return the object that the command printed; an empty one when it printed something else."""
        try:
            printed = json.loads(self.output)
        except ValueError:
            return {}
        return printed if isinstance(printed, dict) else {}

    def reason(self) -> str:
        """Return its line on standard error, without its name."""
        text = self.errors.decode("utf-8", "replace").strip().splitlines()
        line = text[-1] if text else "the command failed"
        return line.partition(": ")[2] or line

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent)
            except BlockingIOError:
                return
            self._unsent = self._unsent[sent:]

    def _hear(self) -> None:
        while self.status is None:
            data = self.socket.recv(_READ)
            if not data:
                self._fail()
                return
            for kind, payload in self._frames.feed(data):
                if kind == OUTPUT:
                    self.output += payload
                elif kind == ERRORS:
                    self.errors += payload
                elif kind == MESSAGE:
                    self._take(read_message(payload))

    def _take(self, message: dict[str, object]) -> None:
        """Note the end, or answer a question: only the directory of the caller is known."""
        if "exit" in message:
            status = message["exit"]
            self.status = status if isinstance(status, int) else UNREACHABLE
            if "refused" in message:
                self.errors = f"gateway: {message['refused']}".encode("utf-8", "replace")
            return
        if "has_directory" in message:
            answer: dict[str, object] = {"answer": message["has_directory"] == self._directory}
        else:
            answer = {"errno": _NO_FILE, "strerror": "a launcher gives no files"}
        self._unsent += pack_message(answer)
        self._flush()

    def _fail(self) -> None:
        if self.status is None:
            self.status = UNREACHABLE
            self.errors = b"gateway: it does not answer (try again later)"
