"""A notifier at work, in this process, on the database of a small cluster."""

from __future__ import annotations

import time
from typing import Any

from oarpy.configuration import Configuration
from oarpy.modules.loop.module import Outcome
from oarpy.modules.notifier.notifier import Notifier
from oarpy.transport.wakeup import readable
from tests.harness.small_cluster import Connection, SmallCluster

_DEADLINE = 30.0


class Desk:
    """A cluster and the notifier at work beside it."""

    def __init__(self, connection: Connection, settings: Configuration) -> None:
        self.cluster = SmallCluster(connection, settings)
        self.cluster.add_nodes("n1", "n2")
        self.notifier = Notifier(settings)
        self.tell()
        connection.execute("DELETE FROM notices")

    def round(self) -> Outcome:
        """Let the notifier work once."""
        return self.cluster.run(self.notifier)

    def tell(self) -> None:
        """Let the notifier work until nothing is under way."""
        until = time.monotonic() + _DEADLINE
        while (outcome := self.round()).again or outcome.pending:
            assert time.monotonic() < until, "the notifier does not come to an end"
            readable(self.notifier.files(), 0.05)

    def rows(self) -> list[tuple[Any, ...]]:
        """Job and tag of what is still to be told."""
        return self.cluster.sql("SELECT job_id, tag FROM notices ORDER BY notice_id")
