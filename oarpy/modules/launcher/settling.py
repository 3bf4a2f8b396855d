"""The end of a job: nodes kill its remaining processes, the site's epilogues run, then it is closed.

::

    Finishing --Clean to each node that can be reached--> Cleaned --epilogues--> closed, or put back in the line
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from oarpy.configuration import JobSettings
from oarpy.model.job_types import read_types
from oarpy.model.states import JobState
from oarpy.modules.launcher.channels import Channels
from oarpy.modules.launcher.endings import end_of_nothing, resubmit
from oarpy.modules.launcher.parts import Hears, Part, Round
from oarpy.modules.launcher.scripts.hooks import Hooks
from oarpy.modules.launcher.specifications import specification
from oarpy.store.database import Connection
from oarpy.store.jobs import execution, requeueing
from oarpy.store.jobs.execution import Agenda, Launch, LiveRow
from oarpy.wire.jobs import JobKey, JobSpec
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

    The processes of a killed job on its other nodes get ``grace`` seconds after TERM, as on its first node.
    """

    grace: int
    sweeps: dict[JobKey, _Sweep] = field(default_factory=dict)

    def clean(self, rows: Sequence[LiveRow], channels: Channels) -> list[LiveRow]:
        """Ask the nodes of jobs, each once, to kill what is left of them; return the jobs for which all have answered.

        A node looks through its processes once for all jobs of a message. A lost node is not waited for: it is cleaned
        when it is back, or later. Nor is a node that takes too long.
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
        """Return the method for each report that is taken here."""
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


class Settling(Part):
    """Jobs that are Finishing, and jobs that are over without any node."""

    def __init__(self, settings: JobSettings, hooks: Hooks) -> None:
        self._settings = settings
        self._hooks = hooks
        self._cleaning = Cleaning(math.ceil(settings.kill_grace))

    def hears(self) -> Hears:
        """Hear which nodes are clean."""
        return self._cleaning.hears()

    def act(self, turn: Round, agenda: Agenda) -> None:
        """Clean the nodes of Finishing jobs.

        Close the jobs that are clean, and the jobs that are over without any node.
        """
        connection, channels, rows = turn.connection, turn.channels, turn.attention
        clean = self._cleaning.clean([row for row in rows if row.state == JobState.FINISHING], channels)
        idle = [row for row in rows if _is_over_on_no_node(row, turn.now)]
        over = self._conclude(connection, channels, clean)
        if over or idle:
            with connection.transaction():
                ends = [end_of_nothing(row.id, row.kill_reason, turn.now) for row in idle]
                ended = execution.finish(connection, ends)
                over += [] if self._hooks.server_epilogue else ended
                closed = execution.close(connection, [(job, turn.now) for job in over])
                closed += requeueing.requeue(connection, over)
                self._hooks.release(connection, closed)
                resubmit(connection, self._settings, closed, rows)
            self._hooks.let_nodes_forget([row for row in clean if row.id in closed], channels)
        live = {row.id for row in rows}
        self._cleaning.forget(live)
        self._hooks.forget(live)

    def _conclude(self, connection: Connection, channels: Channels, clean: Sequence[LiveRow]) -> list[int]:
        """Run the site's epilogues for jobs that left nothing on their nodes.

        Return the jobs that are over with that.
        """
        if not self._hooks or not clean:
            return [row.id for row in clean]
        launches = execution.launches(connection, [row.id for row in clean], JobState.FINISHING)
        return self._hooks.concluded(
            connection, clean, {launch.spec.job: self._bare(launch) for launch in launches}, channels
        )

    def _bare(self, launch: Launch) -> JobSpec:
        """Return the specification for the site's scripts: without the parts that depend on the node or the user."""
        return specification(launch, {}, self._settings, "", confined=False)


def _is_over_on_no_node(row: LiveRow, now: float) -> bool:
    """Tell whether a job that has nothing on any node is over: it is killed, or runs nothing and its walltime is over.

    If a node still has something of a job that lost its resources, it is ended there when the node says so.
    """
    if row.nodes or row.state == JobState.FINISHING:
        return False
    timed = read_types(row.types).runs_nothing and row.ends_at is not None and row.ends_at <= now
    return row.kill_reason is not None or timed
