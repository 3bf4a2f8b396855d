"""A pass that ends once no other job can start: it has the starts of a full pass, without most of its predictions.

Under conservative backfilling, the free resources of an unshared job only shrink while a pass goes on. So a request
that cannot be served now at one point of the pass cannot be served later. Once this holds for the requests of all
remaining jobs, none of them starts in this pass. No best-effort job gives way to one of them, either. The results of
the jobs already looked at do not depend on the jobs behind them::

    job        free now     result
    1          {1 2 3}      starts on 1 and 2
    2          {3}          asks for two: waits, with a prediction
    3          {3}          starts on 3
    4, 5       {}           left unseen: nothing is free for any of them
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf, nextafter

from oarpy.scheduler.job_roles import EXCLUSIVE, roles_of
from oarpy.scheduler.order.queue_orders import ORDERS, Order
from oarpy.scheduler.passes.planner import Planner
from oarpy.scheduler.plan import Plan, placement_of
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Snapshot, WaitingJob

_Kind = tuple[int, str, tuple[str, ...]]
"""Jobs that ask for the same: the alternatives (one value for all jobs of an array), filter and types."""


def starts_suffice(snapshot: Snapshot) -> bool:
    """Tell whether a pass over ``snapshot`` may end early.

    Under other policies than conservative backfilling free resources may come back in a pass. And some jobs have to see
    others placed: one with a window after another, a new reservation with an anterior or a container.
    """
    suspects = (job for job in snapshot.waiting if job.depends_on or job.reservation is not None)
    return snapshot.policy == "conservative" and not any(map(_looks_at_others, suspects))


def _looks_at_others(job: WaitingJob) -> bool:
    """Tell whether the place of a job depends on placements that this pass may leave out."""
    if job.reservation is not None:
        return bool(job.depends_on) or roles_of(job).inside is not None
    return any(dependency.earliest is not None or dependency.latest is not None for dependency in job.depends_on)


def plan_starts(snapshot: Snapshot, orders: Mapping[str, Order] = ORDERS, matchers: Matchers | None = None) -> Plan:
    """Return the decisions of ``plan(snapshot, orders, matchers)`` for now; ``unseen`` are the jobs without a decision.

    All starts, cancellations and answers to reservations are in it. The snapshot must satisfy :func:`starts_suffice`.
    Jobs that stay parked are among the unseen: the jobs they wait for may not have been looked at.
    """
    planner = Planner(snapshot, orders, matchers)
    hopes = _Hopes(planner, snapshot)
    for stage in planner.stages():
        if hopes.are_gone():
            continue
        for turn in planner.turns_of(stage):
            if not turn.again:
                if turn.job.reservation is None and hopes.are_gone():
                    break
                hopes.look_at(turn.job)
            planner.look_at(turn)
    placements = tuple(
        placement_of(job.id, planner.decisions[job.id], snapshot.platform)
        for job in snapshot.waiting
        if job.id in planner.decisions
    )
    unseen = frozenset(job.id for job in snapshot.waiting).difference(planner.decisions)
    return Plan(placements, tuple(sorted(planner.kill)), planner.slots, planner.broken, unseen)


class _Hopes:
    """The kinds of jobs of which a remaining job may still start."""

    def __init__(self, planner: Planner, snapshot: Snapshot) -> None:
        self._planner = planner
        known = {queue.name for queue in snapshot.queues}
        jobs = [job for job in snapshot.waiting if not job.held and not job.fault and job.queue in known]
        kinds = [_kind(job) for job in jobs]
        self._left = Counter(kinds)
        """Jobs not yet looked at, by kind."""
        self._hopeful = dict(zip(kinds, jobs, strict=True))
        """One job of each kind that may still start."""

    def look_at(self, job: WaitingJob) -> None:
        """Count ``job`` as looked at."""
        if not job.held and not job.fault:
            self._left[_kind(job)] -= 1

    def are_gone(self) -> bool:
        """Tell whether none of the jobs left can start."""
        while self._hopeful:
            kind, job = next(reversed(self._hopeful.items()))
            if self._left[kind] > 0 and self._may_start(job):
                return False
            del self._hopeful[kind]
        return True

    def _may_start(self, job: WaitingJob) -> bool:
        """Tell whether ``job`` could be placed at once, or has to be looked at anyhow."""
        roles = roles_of(job)
        if job.reservation is not None or roles.profile != EXCLUSIVE or roles.inside is not None:
            return True
        gantt, search, now = self._planner.gantt, self._planner.search, self._planner.now
        free = gantt.whole.exclusive.common(now, nextafter(now, inf))
        return any(
            option.matcher.may_fit(free)
            and gantt.bounds.earliest(option.matcher, search.hold(option)) <= now
            and search.fits(gantt.views(roles, levels=option.levels), option, now)
            for option in self._planner.options.alive(job)
        )


def _kind(job: WaitingJob) -> _Kind:
    """Return a key that is equal for jobs that can start exactly in the same cases."""
    return id(job.alternatives), job.properties, job.types
