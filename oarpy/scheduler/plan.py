"""``plan(snapshot) -> Plan``: one scheduling pass as a pure function.

It places every waiting job. The other decisions of a pass are in :mod:`~oarpy.scheduler.decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from oarpy.model.reasons import Reason
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.passes.planner import Decision, Planner
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.resources.platform import Platform
from oarpy.scheduler.snapshot import Snapshot
from oarpy.scheduler.verdicts import Lapse, Verdict


@dataclass(frozen=True)
class Placement:
    """The decision of the pass about one waiting job.

    ``alternative`` (an index), ``start`` and ``end`` are None, and ``bits`` is 0, when there is no prediction. ``end``
    is start + walltime; the job keeps its resources for the security time after that. ``lapse`` names the limit that
    the job can no longer meet: it will never start. ``offer`` is the date that a refused reservation could have.
    ``victims`` are the best-effort jobs that are cancelled for the job.
    """

    job: int
    verdict: Verdict
    reason: Reason
    platform: Platform
    alternative: int | None = None
    start: float | None = None
    end: float | None = None
    bits: int = 0
    lapse: Lapse | None = None
    offer: float | None = None
    victims: tuple[int, ...] = ()

    @cached_property
    def resources(self) -> list[int]:
        """Ids of the resources, ascending."""
        return self.platform.ids_of(self.bits)


@dataclass(frozen=True, slots=True)
class Plan:
    """The result of a pass: one placement for each waiting job, then for each part, in the snapshot's order.

    ``kill`` are the best-effort jobs to cancel. ``slots`` is the number of periods of the timeline with the same free
    resources and amounts. ``broken`` are the queues whose order failed, with the error. ``unseen`` are jobs without a
    placement because the pass ended before them: none of them starts.
    """

    placements: tuple[Placement, ...]
    kill: tuple[int, ...]
    slots: int
    broken: Mapping[str, str] = field(default_factory=dict)
    unseen: frozenset[int] = frozenset()

    def by_job(self) -> Mapping[int, Placement]:
        """Return the placements keyed by job id."""
        return {placement.job: placement for placement in self.placements}


def plan(snapshot: Snapshot, orders: Mapping[str, Order] = ORDERS, matchers: Matchers | None = None) -> Plan:
    """Place every waiting job of ``snapshot``.

    ``orders`` are the orders that queues may name. ``matchers`` are compiled requests of the snapshot's platform;
    frequent callers should keep them. The same snapshot gives the same plan.
    """
    planner = Planner(snapshot, orders, matchers)
    for turn in planner.turns():
        planner.look_at(turn)
    placements = (placement_of(job.id, planner.decisions[job.id], snapshot.platform) for job in snapshot.asking)
    return Plan(tuple(placements), tuple(sorted(planner.kill)), planner.slots, planner.broken)


def placement_of(job: int, decision: Decision, platform: Platform) -> Placement:
    """Return a decision as the placement that others see."""
    place = decision.found
    if place is None:
        return Placement(job, decision.verdict, decision.reason, platform, lapse=decision.lapse, offer=decision.offer)
    claim = place.claim
    return Placement(
        job,
        decision.verdict,
        decision.reason,
        platform,
        place.option.index,
        claim.start,
        claim.end,
        claim.bits,
        victims=decision.victims,
    )
