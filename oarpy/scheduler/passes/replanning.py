"""One pass after another: each gives the plan of :func:`~oarpy.scheduler.plan.plan`, made from the last if possible.

Under conservative backfilling a job gets the earliest place that the jobs ahead of it leave. So a full pass would find
the places of the last pass again if, since then,

- the jobs that hold resources are the same, except for jobs that started as planned: these took their planned
  resources;
- no job waits for half of the free resources, or no job has started: the half would be counted without the started
  jobs;
- the waiting jobs are unchanged, and in the same order; new jobs come behind all of them. Reservations that the last
  pass refused are gone: it held nothing for them;
- no predicted start has gone by: a place that is the earliest from one instant on is the earliest from any later
  instant up to itself.

Then only the new jobs are placed, on the timeline that was kept::

    last pass     1 1 2 2 2 3 3
    this pass     1 1 2 2 2 3 3 4 4        1 has started as planned, 4 is new

The passing of time affects dates, quotas, containers and consumables in ways of their own. So a pass continues at a
later time only if the queue has none of these (:func:`~oarpy.scheduler.passes.changes.is_steady`). Everything else
needs a full pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.passes.changes import (
    Changed,
    LastPass,
    asks_for_half,
    can_be_forgotten,
    changed_since,
    is_plain,
    is_steady,
)
from oarpy.scheduler.passes.compressed import compressed_pass
from oarpy.scheduler.passes.continued import ContinuedPass
from oarpy.scheduler.plan import Placement, Plan, placement_of, plan
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import PassShare, Snapshot


class Planning:
    """Plans again and again. Its memory is a cache: without it, every pass is a full one.

    With ``compression``, early ends do not cause a full pass. Jobs are moved forward from their places instead, and
    plans are no longer those of :func:`~oarpy.scheduler.plan.plan`.
    """

    def __init__(self, *, compression: bool = False) -> None:
        self._compression = compression
        self._last: LastPass | None = None
        self.full_passes = 0
        """The number of plans made anew."""

    @property
    def can_go_on(self) -> bool:
        """Whether a last plan is remembered."""
        return self._last is not None

    def forget(self) -> None:
        """Make the next plan anew."""
        self._last = None

    def plan(self, snapshot: Snapshot, orders: Mapping[str, Order] = ORDERS, matchers: Matchers | None = None) -> Plan:
        """Return ``plan(snapshot, orders, matchers)``."""
        if matchers is None or matchers.platform is not snapshot.platform:
            kept = None if self._last is None else self._last.matchers
            matchers = kept if kept and kept.platform is snapshot.platform else Matchers(snapshot.platform)
        return self.continued(snapshot, orders, matchers) or self._full(snapshot, orders, matchers)

    def continued(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> Plan | None:
        """Return the plan made from the last one; if that is not possible, forget the last plan and return None."""
        # an error on the way leaves nothing half changed behind
        last, self._last = self._last, None
        changed = None if last is None else changed_since(last, snapshot, orders, matchers, early=self._compression)
        if last is None or changed is None:
            return None
        if changed.early:
            return self._compressed(last.placements.values(), snapshot, orders, matchers)
        _go_on(last, snapshot, changed)
        return self._kept(last, snapshot)

    def _compressed(
        self, before: Iterable[Placement], snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers
    ) -> Plan:
        """Move jobs forward from their places ``before``, until no job moves: each round, some end earlier."""
        while True:
            claims = _claims(before)
            compressed = self._remembered(
                compressed_pass(snapshot, orders, matchers, claims), snapshot, orders, matchers
            )
            before = compressed.placements
            places = ((claims[placement.job], placement) for placement in before if placement.job in claims)
            if all((claim.start, claim.end) == (placement.start, placement.end) for claim, placement in places):
                return compressed

    def _kept(self, last: LastPass, snapshot: Snapshot) -> Plan:
        """Return the plan of ``last``, which is remembered."""
        placements = tuple(map(last.placements.__getitem__, (job.id for job in snapshot.waiting)))
        last.foresee(placements)
        planner = last.made.planner
        # no pass goes on from a limited pass: each job that comes or goes changes the shares of all
        if planner.begun and not planner.broken and snapshot.ration == PassShare():
            self._last = last
        return Plan(placements, tuple(sorted(planner.kill)), planner.slots, dict(planner.broken))

    def _full(self, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers) -> Plan:
        """Plan the whole queue anew; under conservative backfilling, keep the pass to go on from."""
        self.full_passes += 1
        if snapshot.policy != "conservative":
            return plan(snapshot, orders, matchers)
        full_pass = ContinuedPass(snapshot, orders, matchers)
        full_pass.run()
        return self._remembered(full_pass, snapshot, orders, matchers)

    def _remembered(
        self, continued: ContinuedPass, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers
    ) -> Plan:
        """Return the plan that a pass over ``snapshot`` has made, and keep the pass."""
        decisions = continued.planner.decisions
        placements = {job.id: placement_of(job.id, decisions[job.id], snapshot.platform) for job in snapshot.waiting}
        anteriors = frozenset(dependency.job for job in snapshot.waiting for dependency in job.depends_on)
        waiting = tuple(job for job in snapshot.waiting if not can_be_forgotten(job, placements[job.id], anteriors))
        known = snapshot if len(waiting) == len(snapshot.waiting) else replace(snapshot, waiting=waiting)
        last = LastPass(
            known,
            orders,
            matchers,
            continued,
            placements,
            frozenset(snapshot.filters) | frozenset(snapshot.filter_errors),
            anteriors,
            is_steady(known),
            any(map(asks_for_half, waiting)),
        )
        return self._kept(last, snapshot)


def _claims(placements: Iterable[Placement]) -> dict[int, Claim]:
    """Return the future claims of jobs."""
    return {
        placement.job: Claim(placement.start, placement.end - placement.start, placement.bits)
        for placement in placements
        if placement.start is not None and placement.end is not None
    }


def _go_on(last: LastPass, snapshot: Snapshot, changed: Changed) -> None:
    """Bring ``last`` to ``snapshot``."""
    for number in last.made.go_on(snapshot, changed.started, changed.fresh):
        last.placements[number] = placement_of(number, last.made.planner.decisions[number], snapshot.platform)
    for job in changed.started:
        del last.placements[job.id]
    jobs = [job for stage in changed.fresh for job in stage.jobs]
    last.snapshot = snapshot
    last.conditions |= frozenset(snapshot.filters) | frozenset(snapshot.filter_errors)
    last.anteriors |= frozenset(dependency.job for job in jobs for dependency in job.depends_on)
    last.steady = last.steady and all(map(is_plain, jobs))
    last.halves = last.halves or any(map(asks_for_half, jobs))
