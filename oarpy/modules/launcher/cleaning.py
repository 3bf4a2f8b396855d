"""The end of a job on its other nodes: each one that can be reached kills what the job left there."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from oarpy.modules.launcher.channels import Channels
from oarpy.store.execution import LiveRow
from oarpy.transport.jobspec import JobKey
from oarpy.transport.messages import Clean, Cleaned

_PATIENCE = 30.0


@dataclass(slots=True)
class _Sweep:
    waiting_for: set[str]
    since: float


@dataclass(slots=True)
class Cleaning:
    """Jobs in Finishing, and the nodes whose answer they await. Forgetting it all only repeats the cleaning."""

    sweeps: dict[JobKey, _Sweep] = field(default_factory=dict)

    def begin(self, row: LiveRow, nodes: tuple[str, ...], channels: Channels) -> None:
        """Ask ``nodes`` of a job to kill what is left of it, once."""
        key = JobKey(row.id, row.attempt)
        if key not in self.sweeps:
            asked = {node for node in nodes if channels.send(node, Clean((key,)))}
            self.sweeps[key] = _Sweep(asked, time.monotonic())

    def answered(self, node: str, report: Cleaned) -> None:
        """Take in the answer of a node; processes that resist SIGKILL make it wait for the patience to run out."""
        sweep = self.sweeps.get(report.key)
        if sweep is not None and report.left == 0:
            sweep.waiting_for.discard(node)

    def is_clean(self, row: LiveRow, channels: Channels) -> bool:
        """Tell whether all nodes have answered; a node that is lost, or takes too long, is not waited for."""
        sweep = self.sweeps.get(JobKey(row.id, row.attempt))
        if sweep is None:
            return False
        overdue = time.monotonic() - sweep.since > _PATIENCE
        return overdue or not any(channels.is_connected(node) for node in sweep.waiting_for)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for key in [key for key in self.sweeps if key.job not in live]:
            del self.sweeps[key]
