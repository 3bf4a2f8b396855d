"""What the agent has to tell the server, collected and sent as one line a turn."""

from __future__ import annotations

from oarpy.transport.agent import record, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OUTCOME = ("start", "end", "status", "reason", "detail", "left", "memory_kills")


class Outbox:
    """Messages waiting to be written to the channel."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._waiting: list[dict[str, Any]] = []

    def say(self, word: str, key: str = "", **values: object) -> None:
        """Queue a message; with a key it is about that job."""
        message: dict[str, Any] = {"type": word}
        pair = record.parse_key(key)
        if pair is not None:
            message["job"], message["attempt"] = pair
        message.update(values)
        self._waiting.append(message)

    def complain(self, text: str) -> None:
        """Queue an error message."""
        self.say("error", detail=text)

    def tell(self, key: str, history: record.History) -> None:
        """Queue what the server must know of a job; nothing when it was only claimed."""
        if history.ended is not None:
            self.say("ended", key, **{name: history.ended.get(name) for name in _OUTCOME})
        elif history.started is not None:
            self.say("started", key, start=history.started["at"])
            if history.suspended:
                self.say("suspended", key, at=history.changed)
            elif history.resumed:
                self.say("resumed", key, at=history.changed)
            if history.checkpoint is not None:
                self.say("checkpoint", key, at=history.checkpoint)

    def flush(self) -> None:
        """Write what waits."""
        if self._waiting:
            messages, self._waiting = self._waiting, []
            wire.write_messages(self._sink, messages)
