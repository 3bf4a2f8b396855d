"""The reports of the agent to the server, collected and sent as one line a turn."""

from __future__ import annotations

from oarpy.transport.agent.job import record
from oarpy.wire.lines import write_line
from oarpy.wire.messages import AgentError, Checkpointed, Ended, Resumed, Started, Suspended, encode_reports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oarpy.wire.messages import Report


class Outbox:
    """Messages waiting to be written to the channel."""

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._waiting: list[Report] = []

    def say(self, report: Report) -> None:
        """Queue a message."""
        self._waiting.append(report)

    def complain(self, text: str) -> None:
        """Queue an error message."""
        self.say(AgentError(text))

    def tell(self, key: str, history: record.History) -> None:
        """Queue the reports on a job for the server; none when it was only claimed."""
        job = record.job_of(key)
        if history.ended is not None:
            self.say(Ended(job, **{name: history.ended[name] for name in Ended.CHECKS if name in history.ended}))
        elif history.started is not None:
            self.say(Started(job, history.started["at"]))
            if history.suspended:
                self.say(Suspended(job, history.changed))
            elif history.resumed:
                self.say(Resumed(job, history.changed))
            if history.checkpoint is not None:
                self.say(Checkpointed(job, history.checkpoint))

    def flush(self) -> None:
        """Write the reports that wait."""
        if self._waiting:
            reports, self._waiting = self._waiting, []
            write_line(self._sink, encode_reports(reports))
