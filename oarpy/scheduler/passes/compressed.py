"""Compression: after early ends, waiting jobs move forward from their places, and no predicted start becomes later.

A new plan after an early end could make a prediction later: a job that moves forward may take the resources of a job
behind it. So compression takes each job in turn, in the order of the queue, out of the plan. It puts the job at the
earliest place that all others leave; its old place is one of those. It repeats this until no job moves: each job then
starts when another one ends. (A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001: "Utilization, predictability,
workloads, and user runtime estimates in scheduling the IBM SP2 with backfilling".) Job 1 has ended early, 2 and 3
wait::

    as they were      2 is taken out     and put back, then 3
    . . . 2 2 3 3     . . . . . 3 3      2 2 3 3 . . .
    . . . 2 2 . .     . . . . . . .      2 2 . . . . .
"""

from __future__ import annotations

from collections.abc import Mapping

from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.passes.continued import ContinuedPass
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot


def compressed_pass(
    snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers, kept: Mapping[int, Claim]
) -> ContinuedPass:
    """Return a pass that began with ``kept``: the claims of the waiting jobs by the last plan; all jobs are plain.

    None of these places is past, and all are free beside the resources held now. A job ends (start + walltime) by its
    place there or earlier. Jobs without a place are placed behind all others.
    """
    compressed = ContinuedPass(snapshot, orders, matchers)
    planner = compressed.planner
    for job in snapshot.waiting:
        if job.id in kept:
            planner.gantt.enter(job, kept[job.id])
    for turn in planner.turns():
        place = kept.get(turn.job.id)
        if place is not None:
            planner.gantt.give_back(place)
        compressed.look_at(turn)
        if place is not None and turn.job.id not in planner.decisions:
            planner.gantt.enter(turn.job, place)  # it is parked
    return compressed
