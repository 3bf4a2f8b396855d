"""Sorts what arrived from the nodes since the last look, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oarpy.transport.jobspec import JobKey
from oarpy.transport.messages import (
    AgentError,
    ChannelLost,
    Checked,
    Cleaned,
    Ended,
    Ready,
    Refused,
    Report,
    Started,
    Unknown,
)

CONNECTED = "connected"
LOST = "lost"


@dataclass(slots=True)
class Arrivals:
    """Reports by what they are about, each with the node it came from."""

    channels: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Node to (connected or lost, message, boot id): the latest word counts."""
    ready: dict[str, Ready] = field(default_factory=dict)
    started: dict[JobKey, float] = field(default_factory=dict)
    ended: dict[JobKey, tuple[str, Ended]] = field(default_factory=dict)
    refused: dict[JobKey, tuple[str, Refused]] = field(default_factory=dict)
    unknown: set[JobKey] = field(default_factory=set)
    cleaned: list[tuple[str, Cleaned]] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    """Node to what it cannot do."""
    complaints: list[tuple[str, str]] = field(default_factory=list)

    def __bool__(self) -> bool:
        said = (self.channels, self.started, self.ended, self.refused, self.unknown, self.cleaned, self.checked)
        return any(said) or bool(self.complaints)


def sort(reports: Iterable[tuple[str, Report]]) -> Arrivals:
    """Return the reports of all nodes, sorted; the order between nodes does not matter."""
    arrivals = Arrivals()
    for node, report in reports:
        match report:
            case Ready():
                arrivals.channels[node] = (CONNECTED, "", report.boot_id)
                arrivals.ready[node] = report
            case ChannelLost():
                arrivals.channels[node] = (LOST, report.reason[:500], "")
                arrivals.ready.pop(node, None)
            case Started():
                arrivals.started[report.key] = report.start
            case Ended():
                arrivals.ended[report.key] = (node, report)
            case Refused():
                arrivals.refused[report.key] = (node, report)
            case Unknown():
                arrivals.unknown.add(report.key)
            case Cleaned():
                arrivals.cleaned.append((node, report))
            case Checked():
                arrivals.checked[node] = report.problem
            case AgentError():
                arrivals.complaints.append((node, report.detail[:500]))
            case _:
                continue
    return arrivals
