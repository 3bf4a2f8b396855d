"""A pass before the next pass for applications: it places batch jobs around the places of applications.

::

    pass for all      batch jobs alone      pass for all
    ----|--------------------|-------------------|---->
        places, views        places stay         places, views
               freed hosts --|==== unused =====|--> ghosts
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from oarpy.model.reasons import Reason, Why
from oarpy.negotiation.core.line import Line
from oarpy.scheduler.gantt.gantt import Claim
from oarpy.scheduler.gantt.search import Found
from oarpy.scheduler.job_roles import EXCLUSIVE
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.passes.planner import Decision, Planner
from oarpy.scheduler.plan import Plan, placement_of
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot, WaitingJob
from oarpy.scheduler.verdicts import Verdict


def place_batch_jobs(line: Line, snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None) -> Plan:
    """Place every waiting job but applications, which keep their places; hosts kept back for these stay unused."""
    planner = Planner(snapshot, orders, matchers)
    kept = _kept(snapshot, line)
    planner.gantt.whole.take(snapshot.now, line.next_telling, kept, EXCLUSIVE, all_free=False)
    left_alone = {job.id: _decision(planner, job, line) for job in snapshot.waiting if is_served_later(job)}
    for job in snapshot.waiting:
        if job.id in left_alone and (place := left_alone[job.id].found) is not None:
            planner.gantt.enter(job, place.claim, everywhere=True)
    for turn in planner.turns():
        if turn.job.id in left_alone:
            planner.settle(turn.job, left_alone[turn.job.id])
        else:
            planner.look_at(turn)
    placements = (placement_of(job.id, planner.decisions[job.id], snapshot.platform) for job in snapshot.asking)
    return Plan(tuple(placements), tuple(sorted(planner.kill)), planner.slots, planner.broken)


def is_served_later(job: WaitingJob) -> bool:
    """Tell whether a job is an application that asks, and nothing else keeps it waiting."""
    return job.ranked is not None and job.part is None and not job.held and not job.fault


def _kept(snapshot: Snapshot, line: Line) -> int:
    """Return the hosts kept back, and hosts freed since the last pass that an application in line may use."""
    names = {name for application in line.line for name in application.clusters}
    usable = reduce(or_, (cluster.bits for cluster in line.clusters if cluster.name in names), 0)
    held = reduce(or_, (job.bits or 0 for job in snapshot.holding), 0)
    freed = reduce(or_, (hosts.bits for hosts in line.freed), 0) & usable
    return (freed | reduce(or_, (ghost.bits for ghost in line.ghosts), 0)) & ~held


def _decision(planner: Planner, job: WaitingJob, line: Line) -> Decision:
    """Return the decision of the last pass about an application, shifted to now."""
    place = line.places.get(job.id)
    if place is None:
        return Decision(Verdict.BEHIND_HIGHER_PRIORITY, Reason(Why.NEXT_NEGOTIATION))
    options = planner.options.alive(job)
    if place.start is None or place.end is None or not options:
        return Decision(place.verdict, place.reason)
    start = max(place.start, planner.now)
    claim = Claim(start, place.end - place.start, place.bits)
    return Decision(place.verdict, place.reason, Found(options[0], claim))
