"""Jobs that were sent to their nodes: to which, and since when an answer is awaited."""

from __future__ import annotations

import time
from collections.abc import Iterable

from oarpy.modules.launcher.reports import Hears
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Ended, Refused, Started

PATIENCE = 60.0
"""Seconds for a node to answer a start. Asking again does no harm: a node starts each attempt once."""


class SentStarts:
    """The node of each job that was sent. Forgetting it only sends the job again, which asks what became of it."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.nodes: dict[JobKey, str] = {}
        self._patience = patience
        self._unanswered: dict[JobKey, float] = {}
        """When each was sent, the oldest first."""

    def sent(self, keys: Iterable[JobKey], node: str) -> None:
        """Note what a node is told now."""
        now = time.monotonic()
        for key in keys:
            self.nodes[key] = node
            self._unanswered.pop(key, None)
            self._unanswered[key] = now

    def known(self, keys: Iterable[JobKey], node: str) -> None:
        """Note jobs that a node knows and tells of."""
        self.nodes |= dict.fromkeys(keys, node)

    def hears(self) -> Hears:
        """Return the method for each report that is heard here."""
        return {Started: self._answered, Ended: self._answered, Refused: self._answered}

    def _answered(self, _node: str, report: Started | Ended | Refused) -> None:
        self._unanswered.pop(report.key, None)

    def over(self, keys: Iterable[JobKey]) -> None:
        """Forget jobs that have ended."""
        for key in keys:
            self.nodes.pop(key, None)
            self._unanswered.pop(key, None)

    def lose(self, node: str) -> None:
        """Forget what a node was told: what was on its way when its channel was lost may not have arrived."""
        self.nodes = {key: head for key, head in self.nodes.items() if head != node}
        self._unanswered = {key: since for key, since in self._unanswered.items() if key in self.nodes}

    @property
    def wait(self) -> float:
        """Seconds until the first node has been silent for too long about a job."""
        first = next(iter(self._unanswered.values()), float("inf"))
        return max(0.0, first + self._patience - time.monotonic())

    def give_up(self) -> list[tuple[JobKey, str]]:
        """Forget starts that were not answered in time, so that they are sent again; return them with their nodes."""
        late = time.monotonic() - self._patience
        keys = [key for key, since in self._unanswered.items() if since <= late]
        given_up = [(key, self.nodes[key]) for key in keys]
        self.over(keys)
        return given_up
