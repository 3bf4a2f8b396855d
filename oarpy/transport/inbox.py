"""Where everything that arrives from all nodes is collected."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from oarpy.transport.wakeup import WakeupBell
from oarpy.wire.messages import Report


class Inbox:
    """Thread-safe; ``fileno`` is readable while something waits, so that a module can select on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, Report]] = deque()
        self._bell = WakeupBell()
        self._closed = False

    def fileno(self) -> int:
        """Return a descriptor for select, poll or epoll."""
        return self._bell.fileno()

    def put(self, node: str, reports: Iterable[Report]) -> None:
        """Add the reports that arrived from a node; after :meth:`close` they are dropped."""
        with self._lock:
            if self._closed:
                return
            was_empty = not self._waiting
            self._waiting.extend((node, report) for report in reports)
            if was_empty and self._waiting:
                self._bell.ring()

    def drain(self) -> list[tuple[str, Report]]:
        """Take all that waits: (node name, message), in order of arrival for each node. Never blocks."""
        with self._lock:
            if not self._waiting:
                return []
            result = list(self._waiting)
            self._waiting.clear()
            self._bell.quiet()
            return result

    def close(self) -> None:
        """Give the descriptor back."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._waiting.clear()
                self._bell.close()
