"""Orders that use more than sizes and estimates: fair share, several factors, plug-ins.

The order of jobs may change with time and with the usage of others. So the planner of the cluster orders and plans the
whole queue anew at each event. Users and groups of the trace are the users and projects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oarpy.model.errors import OarpyError, UsageError
from oarpy.model.setting_values import POLICIES, PolicyName
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.order.usage_shares import Priorities
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.snapshot import Snapshot
from oarpy.simulation.engines.machine import Machine
from oarpy.simulation.engines.production import FullPasses
from oarpy.simulation.traces.past_usage import PastUsage
from oarpy.simulation.traces.trace import TraceJob


@dataclass(frozen=True, slots=True)
class LiveOrder:
    """An order of the planner by its name; the usage of the last ``window`` seconds is weighted by ``priorities``."""

    name: str
    order: Order
    priorities: Priorities
    window: float


class Ordered(FullPasses):
    """A pass over the whole queue, in the order of that moment, after every event."""

    def __init__(self, jobs: Sequence[TraceJob], live: LiveOrder, machine: Machine, policy: PolicyName) -> None:
        super().__init__(jobs, "fifo", machine, policy)
        self._orders = {**ORDERS, live.name: live.order}
        (queue,) = self._empty.queues
        known = replace(live.priorities, resources=machine.procs)
        self._empty = replace(self._empty, queues=(replace(queue, order=live.name),), priorities=known)
        self._usage = PastUsage.watched(self._empty, live.window)

    def complete(self, job: int, now: float) -> None:
        """Free the resources of ``job``, and add its usage."""
        self._usage.add(self._running[job], now)
        super().complete(job, now)

    def _plan(self, snapshot: Snapshot) -> Plan:
        """Plan with the usage of each user and project within the window."""
        known = self._usage.priorities(snapshot.now, snapshot.holding)
        plan = super()._plan(replace(snapshot, priorities=known))
        if plan.broken:
            raise OarpyError(next(iter(plan.broken.values())), hint="mend the plug-in, or give another --order")
        return plan


def ordered(policy: str, live: LiveOrder, jobs: Sequence[TraceJob], machine: Machine) -> Ordered:
    """Return a fresh scheduler. Raises :class:`UsageError` for a policy that the planner itself does not have."""
    if policy not in POLICIES:
        raise UsageError(
            f"policy '{policy}' does not go with the order '{live.name}'", hint=f"one of {', '.join(POLICIES)}"
        )
    return Ordered(jobs, live, machine, policy)
