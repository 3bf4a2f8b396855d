"""The cache kept from pass to pass, and the part of the queue that a pass plans.

A pass plans the whole queue if it can continue from the last pass, or if the queue is short. Otherwise it does so only
from time to time, because one early end follows the other. The passes between decide only the starts of now, and
predictions wait. Predictions also wait when many jobs come together and there is room for some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf

from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.passes.replanning import Planning
from oarpy.scheduler.passes.starts_only import plan_starts, starts_suffice
from oarpy.scheduler.plan import Plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import PassShare, Snapshot
from oarpy.scheduler.verdicts import Verdict

SHORT = 100
"""The number of waiting jobs up to which the whole queue is always planned; more new jobs in a pass are many."""
PERIOD = 1.0
"""Least seconds between two passes over the whole of a longer queue."""
SHARE = 4
"""The least time between such passes, as a multiple of their own duration, reads and writes included."""
LONGEST = 15.0
"""Seconds of reading and writing that count at most."""


class Memory:
    """Plans pass after pass. ``clock`` returns seconds and never goes back.

    With ``compression`` every pass plans the whole queue: starts depend on the predictions made before.
    """

    def __init__(self, clock: Callable[[], float], *, compression: bool = False) -> None:
        self._clock = clock
        self._compression = compression
        self._planning = Planning(compression=compression)
        self._matchers: Matchers | None = None
        self._due = -inf
        self._puts_off = False
        """True when the last pass put off the next plan of the whole queue."""
        self._next_start: float = inf
        self._known: set[int] | None = None
        """The jobs that waited in the last pass, if there was one."""
        self._limited = False
        """True when the last pass was to look at a part of the jobs only."""

    def forget(self) -> None:
        """Plan the whole queue anew in the next pass."""
        self._planning.forget()
        self._due, self._puts_off = -inf, False

    def plan(
        self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None = None, *, whole: bool
    ) -> Plan:
        """Return a plan of all jobs, or one with jobs ``unseen``, unless it has to be the ``whole`` queue."""
        if matchers is None or matchers.platform is not snapshot.platform:
            matchers = self._matchers_of(snapshot)
        self._puts_off = False
        if snapshot.heads:
            self._planning.forget()
            self._known = self._known or set()
            self._known.update(job.id for job in snapshot.waiting)
            return plan_starts(snapshot, orders, matchers)
        whole = whole or self._compression or not starts_suffice(snapshot)
        plan = None if whole else self._starts_of_many(snapshot, orders, matchers)
        if plan is None:
            plan = self._made(snapshot, orders, matchers, whole=whole)
        self._known = {job.id for job in snapshot.waiting}
        self._limited = snapshot.ration != PassShare()
        if not plan.unseen:
            first = next_start(plan, snapshot.now)
            self._next_start = inf if first is None else first
        return plan

    def decides_starts_only(self) -> bool:
        """Tell whether the next pass need not plan the whole queue, and could not go on from the last one."""
        return not (self._compression or self._planning.can_go_on) and self._clock() < self._due

    def _matchers_of(self, snapshot: Snapshot) -> Matchers:
        """Return the compiled requests of the snapshot's platform; they are made anew only for another platform."""
        if self._matchers is None or self._matchers.platform is not snapshot.platform:
            self._matchers = Matchers(snapshot.platform)
        return self._matchers

    def _starts_of_many(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> Plan | None:
        """Return the plan of the jobs that start now if many jobs are new and any job starts; else None."""
        known = self._known
        if known is None or sum(job.id not in known for job in snapshot.waiting) <= SHORT:
            return None
        plan = plan_starts(snapshot, orders, matchers)
        if not any(placement.verdict is Verdict.STARTS for placement in plan.placements):
            return None
        self._planning.forget()
        if self._due <= (now := self._clock()):
            self._put_off(now, 0.0)
        return plan

    def _made(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers, *, whole: bool) -> Plan:
        """Plan the whole queue, or only the starts of now if the next whole plan is not due yet."""
        began = self._clock()
        plan = self._planning.continued(snapshot, orders, matchers)
        if plan is not None:
            return plan
        if not whole and len(snapshot.waiting) > SHORT and began < self._due:
            return plan_starts(snapshot, orders, matchers)
        plan = self._planning.plan(snapshot, orders, matchers)
        ended = self._clock()
        self._put_off(ended, ended - began)
        return plan

    def _put_off(self, now: float, seconds: float) -> None:
        """Put off the next plan of the whole queue after a pass of ``seconds`` that ended at ``now``."""
        self._due, self._puts_off = now + max(PERIOD, SHARE * seconds), True

    def lasted(self, seconds: float) -> None:
        """Note that the last pass took ``seconds``, reads and writes included: these are most of it for a long queue.

        A pass that stood still, for a lock or a machine that did not answer, does not put off the next plan for long.
        """
        if self._puts_off:
            due = self._due
            self._put_off(self._clock(), min(seconds, LONGEST))
            self._due = max(due, self._due)

    def owed(self, plan: Plan) -> float | None:
        """Return in how many seconds the jobs that ``plan`` leaves out must be planned, None if it leaves out none."""
        if plan.unseen:
            return max(0.0, self._due - self._clock())
        return max(PERIOD, self._due - self._clock()) if self._limited else None

    def next_start(self, plan: Plan, now: float) -> float | None:
        """Return the first planned start after ``now``; jobs that ``plan`` leaves out count by an older plan."""
        first = next_start(plan, now)
        if plan.unseen and now < self._next_start < inf:
            return self._next_start if first is None else min(first, self._next_start)
        return first


def next_start(plan: Plan, now: float) -> float | None:
    """Return the first start after ``now`` that ``plan`` foresees."""
    starts = (placement.start for placement in plan.placements if placement.start is not None and placement.start > now)
    return min(starts, default=None)
