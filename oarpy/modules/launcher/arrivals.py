"""Sorts what arrived from the nodes since the last look, before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

from oarpy.transport.jobspec import JobKey
from oarpy.transport.messages import (
    AgentError,
    ChannelLost,
    Checked,
    Checkpointed,
    Cleaned,
    Ended,
    Ready,
    Refused,
    Report,
    Resumed,
    ScriptEnded,
    Started,
    Suspended,
    Unknown,
    WalltimeChanged,
)

CONNECTED = "connected"
LOST = "lost"


@dataclass(slots=True)
class Arrivals:
    """Reports by what they are about, each with the node it came from."""

    channels: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Node to (connected or lost, message, boot id): the latest word counts."""
    ready: dict[str, Ready] = field(default_factory=dict)
    started: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    ended: dict[JobKey, tuple[str, Ended]] = field(default_factory=dict)
    refused: dict[JobKey, tuple[str, Refused]] = field(default_factory=dict)
    unknown: set[JobKey] = field(default_factory=set)
    obeyed: list[tuple[str, WalltimeChanged | Suspended | Resumed]] = field(default_factory=list)
    """What nodes did of what they were told."""
    cleaned: list[tuple[str, Cleaned]] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    """Node to what it cannot do."""
    checkpoints: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    scripts: list[tuple[str, ScriptEnded]] = field(default_factory=list)
    complaints: list[tuple[str, str]] = field(default_factory=list)

    def only(self, heard: Callable[[JobKey, str], bool]) -> Arrivals:
        """Return these without what a node says of jobs that it is not heard about (as if it had not said it)."""
        return replace(
            self,
            started={key: said for key, said in self.started.items() if heard(key, said[0])},
            ended={key: said for key, said in self.ended.items() if heard(key, said[0])},
            refused={key: said for key, said in self.refused.items() if heard(key, said[0])},
            checkpoints={key: said for key, said in self.checkpoints.items() if heard(key, said[0])},
            ready={
                node: replace(ready, jobs=tuple(job for job in ready.jobs if heard(job.key, node)))
                for node, ready in self.ready.items()
            },
        )

    def note(self, node: str, report: Report) -> None:
        """Take in what is not about the program of a job."""
        match report:
            case Checked():
                self.checked[node] = report.problem
            case Checkpointed():
                self.checkpoints[report.key] = (node, report.at)
            case ScriptEnded():
                self.scripts.append((node, report))

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))


def sort(reports: Iterable[tuple[str, Report]], sent: Mapping[JobKey, str] = MappingProxyType({})) -> Arrivals:
    """Return the reports of all nodes, sorted; the order between nodes does not matter.

    Of a job that was sent to a node (``sent``) no other node is heard.
    """
    arrivals = Arrivals()
    for node, report in reports:
        if isinstance(report, (Started, Ended, Refused)) and sent.get(report.key, node) != node:
            continue
        match report:
            case Ready() | ChannelLost():
                _note_channel(arrivals, node, report)
            case Started():
                arrivals.started[report.key] = (node, report.start)
            case Ended():
                arrivals.ended[report.key] = (node, report)
            case Refused():
                arrivals.refused[report.key] = (node, report)
            case Unknown():
                arrivals.unknown.add(report.key)
            case WalltimeChanged() | Suspended() | Resumed():
                arrivals.obeyed.append((node, report))
            case Cleaned():
                arrivals.cleaned.append((node, report))
            case AgentError():
                arrivals.complaints.append((node, report.detail[:500]))
            case _:
                arrivals.note(node, report)
    return arrivals


def _note_channel(arrivals: Arrivals, node: str, report: Ready | ChannelLost) -> None:
    if isinstance(report, Ready):
        arrivals.channels[node] = (CONNECTED, "", report.boot_id)
        arrivals.ready[node] = report
    else:
        arrivals.channels[node] = (LOST, report.reason[:500], "")
        arrivals.ready.pop(node, None)
