"""One connection of a launcher: lines in, lines out, and how far the launcher knows the rows."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping

from oarpy.negotiation.messages import LARGEST_LINE, MALFORMED, TRY_LATER, line_of, refused
from oarpy.negotiation.modules.gateway_call import GatewayCall
from oarpy.negotiation.modules.handover import Speaking
from oarpy.negotiation.modules.resize_messages import ResizeMessages
from oarpy.wire.frames import pack_message

_READ = 1 << 16
_MOST_UNREAD = 1 << 20
"""The most bytes of answers that may wait behind unread data, such as a large view; views do not queue up."""
_MOST_WAITING = 1 << 20
"""Bytes of lines that are taken in while others are carried out."""
SILENCE = 30.0
"""Seconds without a sign of the launcher before one is requested, and between two requests."""
LOST = 60.0
"""Seconds without a sign after which a launcher is lost, and for which it may leave data unread."""


class Conversation:
    """A launcher's connection. ``job`` is the job it speaks for, once known. Instants are monotonic seconds.

    ``seen`` is the last version of the rows sent to it, ``serial`` the number of the last view sent. ``placed`` is when
    the job was given the hosts of the start message.
    """

    def __init__(self, connection: socket.socket, speaking: Speaking, now: float, rate: float) -> None:
        self.socket = connection
        self.speaking = speaking
        self.job: int | None = None
        self.owner_uid = speaking.uid
        self.call: GatewayCall | None = None
        self.calling = ""
        self.tag: object = None
        self.lines: deque[bytes] = deque()
        self.seen: object = None
        self.serial: int | None = None
        self.estimate: object = None
        self.placed: float | None = None
        self.ended = False
        self.growth = ResizeMessages()
        self.at_end = self.closing = False
        self._data = bytearray()
        self._out = bytearray(pack_message({"relayed": True}))
        self._behind = 0
        self._heard = self._asked = self._read_on = self._unread_since = now
        self._rate, self._allowance, self._counted = rate, rate, now

    @property
    def unsent(self) -> bool:
        """Whether something waits for the launcher to read it."""
        return bool(self._out)

    @property
    def reads(self) -> bool:
        """Whether more lines are to be read. They wait while one is carried out, up to a certain amount."""
        return not (self.at_end or self.closing or sum(map(len, self.lines)) > _MOST_WAITING)

    @property
    def over(self) -> bool:
        """Whether nothing is left to be sent or received."""
        if self.closing:
            return self.call is None and not self._out
        return self.at_end and self.call is None and not self.lines and not self._out

    def read(self, now: float) -> None:
        """Receive data, and split it into lines."""
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
            self._out.clear()
        if not data:
            self.at_end = True
            return
        self._heard = now
        self._data += data
        *lines, rest = bytes(self._data).split(b"\n")
        self._data = bytearray(rest)
        for line in lines:
            if len(line) >= LARGEST_LINE:
                self._too_long()
                return
            if not self._may_speak(now):
                self.refuse(None, TRY_LATER, "too many messages a second (negotiation.message_rate)", now)
                self.closing = True
                return
            self.lines.append(line)
        if len(rest) >= LARGEST_LINE:
            self._too_long()

    def _too_long(self) -> None:
        self.say(refused(None, MALFORMED, f"a line is longer than {LARGEST_LINE} bytes with its newline"), self._heard)
        self.closing = True

    def _may_speak(self, now: float) -> bool:
        """Count a message; False when there are too many of them."""
        self._allowance = min(self._rate, self._allowance + (now - self._counted) * self._rate)
        self._counted = now
        self._allowance -= 1
        return self._allowance >= 0

    def say(self, message: Mapping[str, object], now: float) -> None:
        """Send a message, or keep it until it can be sent."""
        line = line_of(message)
        if self._out:
            self._behind += len(line)
        else:
            self._behind, self._unread_since = 0, now
        self._out += line
        self.flush()
        if self._behind > _MOST_UNREAD:
            self.drop()

    def send_on(self, now: float) -> None:
        """Send more of the waiting data: the launcher reads on, which is a sign too."""
        before = len(self._out)
        self.flush()
        if len(self._out) < before:
            self._read_on = self._unread_since = now

    def flush(self) -> None:
        """Send as much as can be sent now."""
        try:
            while self._out:
                sent = self.socket.send(memoryview(self._out)[:_READ])
                del self._out[:sent]
        except BlockingIOError:
            return
        except (OSError, ValueError):
            self.drop()

    def drop(self) -> None:
        """Send no more: the launcher is gone, or reads too slowly."""
        self._out.clear()
        self.closing = self.at_end = True

    def tend(self, now: float) -> None:
        """Ask for a sign of life after some silence of the launcher, and give up after more."""
        unread = self._out and now - self._unread_since > LOST
        if unread or now - max(self._heard, self._read_on) > LOST:
            self.drop()
        elif now - max(self._heard, self._asked) > SILENCE:
            self._asked = now
            self.say({"message": "ping"}, now)

    def refuse(self, of: str | None, code: int, reason: str, now: float, tag: object = None) -> None:
        """Send a refusal with its reason."""
        named = tag if isinstance(tag, str | int) else None
        self.say(refused(of, code, " ".join(reason.split())[:500], named), now)
