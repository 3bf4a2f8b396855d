"""The end of a job on its nodes: each one that can be reached kills what the job left there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.reports import Hears
from oarpy.store.jobs.execution import LiveRow
from oarpy.wire.jobs import JobKey
from oarpy.wire.messages import Clean, Cleaned, Ready

_PATIENCE = 30.0


@dataclass(slots=True)
class _Sweep:
    since: float
    unasked: set[str]
    asked: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Cleaning:
    """Jobs in Finishing, and the nodes whose answer they await. Forgetting it all only repeats the cleaning.

    What a job that was killed has on other nodes than its first gets ``grace`` seconds after TERM, as it had there.
    """

    grace: int
    sweeps: dict[JobKey, _Sweep] = field(default_factory=dict)

    def clean(self, rows: Sequence[LiveRow], channels: Channels) -> list[LiveRow]:
        """Ask the nodes of jobs, each once, to kill what is left of them; return the jobs for which all have answered.

        A node looks through its processes once for all the jobs that it is asked about together. One that is lost is
        not waited for: it is cleaned when it is back, then or later. Nor is one that takes too long.
        """
        orders: dict[tuple[str, int], list[JobKey]] = {}
        for row in rows:
            key = JobKey(row.id, row.attempt)
            sweep = self.sweeps.setdefault(key, _Sweep(time.monotonic(), set(row.nodes)))
            for node in sweep.unasked:
                grace = self.grace if row.failed and node in row.nodes[1:] else 0
                orders.setdefault((node, grace), []).append(key)
        for (node, grace), keys in orders.items():
            if channels.send(node, Clean(tuple(keys), grace)):
                for key in keys:
                    self.sweeps[key].asked.add(node)
        return [row for row in rows if self._is_clean(self.sweeps[JobKey(row.id, row.attempt)], channels)]

    def _is_clean(self, sweep: _Sweep, channels: Channels) -> bool:
        sweep.unasked -= sweep.asked
        sweep.lost |= {node for node in sweep.unasked if not channels.is_pending(node)}
        sweep.lost |= {node for node in sweep.asked if not channels.is_connected(node)}
        sweep.unasked -= sweep.lost
        sweep.asked -= sweep.lost
        return not (sweep.unasked or sweep.asked) or time.monotonic() - sweep.since > _PATIENCE + self.grace

    def hears(self) -> Hears:
        """Return the method for each report that is heard here."""
        return {Cleaned: self.answered, Ready: self._back}

    def _back(self, node: str, _report: Ready) -> None:
        """Ask a node again whose channel was lost."""
        for sweep in self.sweeps.values():
            if node in sweep.asked or node in sweep.lost:
                sweep.asked.discard(node)
                sweep.lost.discard(node)
                sweep.unasked.add(node)

    def answered(self, node: str, report: Cleaned) -> None:
        """Take in the answer of a node; one with processes that resist SIGKILL is suspected, and not waited for."""
        sweep = self.sweeps.get(report.key)
        if sweep is not None:
            sweep.asked.discard(node)

    def forget(self, live: set[int]) -> None:
        """Drop jobs that are not live any more."""
        for key in [key for key in self.sweeps if key.job not in live]:
            del self.sweeps[key]
