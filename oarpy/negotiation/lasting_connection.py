"""A connection of a launcher that reconnects when it is lost, in a thread of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from oarpy.negotiation.exchange import Exchange, Message
from oarpy.negotiation.line_streams import LineStreams
from oarpy.negotiation.messages import NOT_ALLOWED, line_of

_SILENCE = 30.0
"""Seconds of silence before a sign of life is requested; after as many again the connection is given up."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
"""Seconds between two attempts to attach again; each pause is twice as long as the one before.

After a connection that lasted at least the longest pause, the pauses start anew. So two launchers of one job, which
take it from each other, do that slowly.
"""
_LEAVING = 5.0
"""Seconds for the server to notice that the launcher leaves."""


class LastingConnection(threading.Thread):
    """Receives messages, gives signs of life, and attaches again when the connection ends before the job does.

    ``streams`` makes a connection. ``heard`` gets each message that is news; ``ended`` is called once, when no more
    will come. ``lost`` then says why, if the job is not over. After ``patience`` seconds (None: never) without a
    connection it is given up.
    """

    def __init__(
        self,
        streams: Callable[[], LineStreams],
        exchange: Exchange,
        heard: Callable[[Message], None],
        ended: Callable[[], None],
        patience: float | None,
    ) -> None:
        super().__init__(name="negotiated job", daemon=True)
        self.lost = ""
        self.over = False
        self._new_streams = streams
        self._exchange = exchange
        self._heard = heard
        self._ended = ended
        self._patience = patience
        self._pause = _FIRST_PAUSE
        self._away_since: float | None = None
        self._attached_at = time.monotonic()
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._streams = streams()

    def say(self, message: Message) -> None:
        """Send a message; a message that matters later is kept while there is no connection."""
        with self._lock:
            self._exchange.say(message)
            if self._away_since is None:
                self._streams.write(line_of(message))

    def close(self) -> None:
        """Leave, and wait until the server has noticed."""
        self._leaving.set()
        with self._lock:
            self._streams.hang_up()
        if threading.current_thread() is not self and self.is_alive():
            self.join(_LEAVING)

    def run(self) -> None:
        """Receive messages until the job is over, or the connection is given up."""
        try:
            while True:
                self._listen()
                with self._lock:
                    self._streams.hang_up()
                status = self._streams.end()
                if self._leaving.is_set() or self._exchange.ended is not None:
                    return
                if not self._come_again(status):
                    return
        finally:
            if self._exchange.ended is None and not self._leaving.is_set():
                self.lost = self.lost or "what heard the server has failed"
            self.over = True
            self._ended()

    def _come_again(self, status: int) -> bool:
        """Attach over a new connection; return False, and set ``lost``, if that is given up."""
        now = time.monotonic()
        with self._lock:
            if self._away_since is None:
                self._away_since = now
                if now - self._attached_at >= _LONGEST_PAUSE:
                    self._pause = _FIRST_PAUSE
        if status == NOT_ALLOWED:
            self.lost = "the server does not let this launcher speak for the job"
        elif self._exchange.job is None:
            self.lost = f"the connection ended before there was a job (exit status {status})"
        elif self._streams.lasting:
            self.lost = "the connection ended; the launcher is run again"
        elif self._patience is not None and now - self._away_since > self._patience:
            self.lost = f"no connection for {self._patience:g} s"
        if self.lost or self._leaving.wait(self._pause):
            return False
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        with self._lock, suppress(OSError):  # where no process can be started now, it is tried again
            self._streams = self._new_streams()
            self._streams.write(line_of(self._exchange.attach()))
        return True

    def _listen(self) -> None:
        """Receive all messages of this connection."""
        rest, pinged = b"", False
        while True:
            data = self._streams.read(_SILENCE)
            if data is None:
                if pinged:
                    return
                self._write({"message": "ping"})
            elif not data:
                return
            else:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    message = _read(line)
                    if message is None or not self._take(message):
                        return
            pinged = data is None

    def _write(self, message: Message) -> None:
        with self._lock:
            self._streams.write(line_of(message))

    def _take(self, message: Message) -> bool:
        """Handle a message; return whether the connection goes on."""
        word = message["message"]
        if word == "ping":
            self._write({"message": "pong"})
            return True
        if word == "pong":
            return True
        away = self._away_since is not None
        if away and word == "refused" and message["of"] in ("attach", None):
            return bool(message["code"] == NOT_ALLOWED)  # its end will say so
        with self._lock:
            news = self._exchange.hear(message)
            if away and word == "attached":
                self._resume(message)
                return True
            if word == "startNotify" and self._exchange.interrupted:
                self._exchange.interrupted = False
                for repeated in [*self._exchange.again_started()]:
                    self._streams.write(line_of(repeated))
        for new in news:
            self._heard(new)
        return bool(word != "ended")

    def _resume(self, attached: Message) -> None:
        """Send the messages again that were lost with the connection before."""
        self._away_since, self._attached_at = None, time.monotonic()
        self._exchange.interrupted = True
        for repeated in [*self._exchange.again(attached)]:
            self._streams.write(line_of(repeated))


def _read(line: bytes) -> Message | None:
    """Return the message of a line; None for a line that is no message and so not from the server."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "message" in message else None
