"""A pass over a cluster of real hosts on which applications negotiate: they have their turns among the other jobs.

::

    turns of the planner     job 1    application 2    job 3    application 4
    Gantt                    place    view, place      place    view, place
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from oarpy.model.states import NegotiationState
from oarpy.negotiation.profiles import BusyHosts, Time, Visits
from oarpy.scheduler.negotiation.applications import Application, CountedRequest, NegotiationRules
from oarpy.scheduler.negotiation.clusters import HostCounts, shortened
from oarpy.scheduler.negotiation.events import Event
from oarpy.scheduler.negotiation.ghosts import Ghost
from oarpy.scheduler.negotiation.service import Service
from oarpy.scheduler.order.queue_orders import Order
from oarpy.scheduler.passes.planner import Planner
from oarpy.scheduler.passes.turns import Turn
from oarpy.scheduler.plan import Plan, placement_of
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import NegotiatingJob, Negotiation, Snapshot

SOON = 1
"""Seconds: who fits now, once best-effort jobs are gone, is told so late at the earliest."""


def negotiate(
    snapshot: Snapshot, orders: Mapping[str, Order], matchers: Matchers | None
) -> tuple[Plan, tuple[Event, ...]]:
    """Place every waiting job, applications by their requests; return the plan and what happened to applications."""
    assert snapshot.negotiation is not None
    planner = Planner(snapshot, orders, matchers)
    asked = snapshot.negotiation
    applications = {one.id: _application(one) for one in asked.line}
    gantt = _GanttOccupation(planner, snapshot, asked)
    rules = NegotiationRules(security=snapshot.security_time)
    service = Service(gantt, (), rules, snapshot.now, Visits())
    for turn in planner.turns():
        application = applications.get(turn.job.id)
        if application is None or turn.again:
            planner.look_at(turn)
        else:
            gantt.turn = turn
            service.turn(application)
    placements = (placement_of(job.id, planner.decisions[job.id], snapshot.platform) for job in snapshot.waiting)
    made = Plan(tuple(placements), tuple(sorted(planner.kill)), planner.slots, planner.broken)
    return made, tuple(service.close())


def _application(one: NegotiatingJob) -> Application:
    """Return an application as the rules know it."""
    return Application(
        one.id,
        one.clusters,
        ranked=one.ranked,
        state=NegotiationState(one.state),
        request=CountedRequest(one.hosts, one.walltime, one.tag),
        serial=one.serial,
        shown={name: BusyHosts.of(one.shown[name]) if name in one.shown else _UNSEEN for name in one.clusters},
        told=one.told,
    )


_UNSEEN = BusyHosts((-1.0, inf), (0, -1))
"""What no view is the same as: of a cluster that an application was not shown."""


class _GanttOccupation:
    """The Gantt of a planner as what is occupied; ``turn`` is whose turn it is."""

    def __init__(self, planner: Planner, snapshot: Snapshot, asked: Negotiation) -> None:
        self.turn: Turn | None = None
        self._planner, self._now, self._steps = planner, snapshot.now, asked.view_steps
        self._counts = HostCounts(snapshot.platform, asked.clusters)

    def view(self, clusters: Iterable[str]) -> dict[str, BusyHosts]:
        """Return how many hosts of each cluster are occupied now and later."""
        profiles = self._counts.profiles(self._planner.gantt.whole.exclusive)
        return {name: shortened(profiles.get(name, BusyHosts()).since(self._now), self._steps) for name in clusters}

    def place(self, application: Application) -> Time:
        """Let the planner place the application's job; what it finds is for ever away if it finds nothing."""
        assert self.turn is not None
        self._planner.look_at(self.turn)
        decision = self._planner.decisions.get(application.id)
        if decision is None or decision.found is None:
            return inf
        start = decision.found.claim.start
        # best-effort jobs go first: it is no start yet
        return self._now + SOON if decision.victims and start == self._now else start

    def keep(self, ghost: Ghost) -> None:
        """Add the hosts of a ghost up to its latest end."""

    def give_way(self, unseen: Sequence[Ghost]) -> None:
        """Take from ghosts that were not added yet what started applications have now."""
