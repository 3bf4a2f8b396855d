"""What the launcher itself hears from the nodes: sorted, before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import (
    AgentError,
    ChannelLost,
    Checked,
    Checkpointed,
    Cleaned,
    Ended,
    Ready,
    Recalled,
    Refused,
    Report,
    ScriptEnded,
    Started,
    Stuck,
)

Hears = dict[type[Report], Callable[[str, Any], None]]
"""What a part of the launcher hears: by kind of report, what takes in the name of a node and its report."""

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
    cleaned: list[tuple[str, Cleaned]] = field(default_factory=list)
    stuck: list[tuple[str, Stuck]] = field(default_factory=list)
    checked: dict[str, str] = field(default_factory=dict)
    """Node to what it cannot do."""
    checkpoints: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    scripts: list[tuple[str, ScriptEnded]] = field(default_factory=list)
    recalled: dict[str, Recalled] = field(default_factory=dict)
    """Node to what ran there, for a database that was restored."""
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
                node: ready.replace(jobs=tuple(job for job in ready.jobs if heard(job.key, node)))
                for node, ready in self.ready.items()
            },
        )

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))


def sort(reports: Iterable[tuple[str, Report]], sent: Mapping[JobKey, str] = MappingProxyType({})) -> Arrivals:
    """Return the reports of all nodes that are to be recorded; the order between nodes does not matter.

    Of a job that was sent to a node (``sent``) no other node is heard.
    """
    arrivals = Arrivals()
    all_of: dict[type[Report], list[Any]] = {
        ScriptEnded: arrivals.scripts,
        Cleaned: arrivals.cleaned,
        Stuck: arrivals.stuck,
    }
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
            case Checkpointed():
                arrivals.checkpoints[report.key] = (node, report.at)
            case ScriptEnded() | Cleaned() | Stuck():
                all_of[type(report)].append((node, report))
            case Checked() | Recalled():
                _note_answer(arrivals, node, report)
            case AgentError():
                arrivals.complaints.append((node, report.detail[:500]))
    return arrivals


def _note_channel(arrivals: Arrivals, node: str, report: Ready | ChannelLost) -> None:
    if isinstance(report, Ready):
        arrivals.channels[node] = (CONNECTED, "", report.boot_id)
        arrivals.ready[node] = report
    else:
        arrivals.channels[node] = (LOST, report.reason[:500], "")
        arrivals.ready.pop(node, None)


def _note_answer(arrivals: Arrivals, node: str, report: Checked | Recalled) -> None:
    if isinstance(report, Checked):
        arrivals.checked[node] = report.problem
    else:
        arrivals.recalled[node] = report
