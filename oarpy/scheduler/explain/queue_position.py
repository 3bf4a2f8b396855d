"""The place of a waiting job in its queue, and the numbers that put it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from oarpy.scheduler.gantt.demands import CompiledRequests
from oarpy.scheduler.order.priorities import Factor, Part, factors, karma_parts
from oarpy.scheduler.order.queue_orders import ORDERS, QUEUE_ORDERS, Candidate, Order, numbers
from oarpy.scheduler.order.ranking import Ranking, by_priority
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import Matchers
from oarpy.scheduler.snapshot import Queue, Snapshot, WaitingJob

Size = Callable[[WaitingJob], int]
"""Number of resources that a job takes."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The jobs looked at before, of the queues planned together: ``resources`` and ``resource_hours`` are sums."""

    jobs: int
    resources: int
    resource_hours: float
    nearest: int | None
    """The job right before."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """The place of a job in its queue.

    ``policy`` is the order of the first of the queues that are planned together; ``failure`` says why it gives no
    order. ``place`` counts from 1 among the ``among`` jobs of these queues that are not held (the job itself always
    counts). It is None for a reservation, which comes before them.

    ``value`` is the number that the order shows for a job, such as its karma; None if the order shows none. ``key`` is
    the sort key of the job in the queue, least first. ``nearest_value`` and ``nearest_key`` belong to the job right
    before.
    """

    job: WaitingJob
    size: int
    queues: tuple[Queue, ...]
    policy: str
    failure: str = ""
    place: int | None = None
    among: int = 0
    ahead: Ahead | None = None
    parts: tuple[Part, ...] = ()
    factors: tuple[Factor, ...] = ()
    value: float | None = None
    nearest_value: float | None = None
    key: tuple[float, ...] = ()
    nearest_key: tuple[float, ...] = ()


def standing(snapshot: Snapshot, job_id: int, orders: Mapping[str, Order] = ORDERS) -> QueuePosition | None:
    """Return the queue position of job ``job_id``; None if it does not wait or its queue does not exist."""
    job = next((other for other in snapshot.waiting if other.id == job_id), None)
    queues = _planned_with(snapshot, job) if job is not None else ()
    if job is None or not queues:
        return None
    size = CompiledRequests(snapshot, Matchers(snapshot.platform)).size
    position = QueuePosition(
        job=job,
        size=size(job),
        queues=queues,
        policy=queues[0].order,
        parts=karma_parts(job, snapshot.priorities),
        factors=factors(job, size(job), snapshot.now, snapshot.priorities),
        value=_value(queues[0].order, job, size, snapshot),
    )
    return position if job.reservation is not None else _ranked(position, snapshot, orders, size)


def _planned_with(snapshot: Snapshot, job: WaitingJob) -> tuple[Queue, ...]:
    """Return the queues that are planned together with that of ``job``; none when it does not exist."""
    for queues in by_priority(snapshot.queues):
        if job.queue in {queue.name for queue in queues}:
            return queues
    return ()


def _ranked(position: QueuePosition, snapshot: Snapshot, orders: Mapping[str, Order], size: Size) -> QueuePosition:
    """Add the place of the job among its rivals, and the numbers of the job right before it."""
    names = {queue.name for queue in position.queues}
    depth = Precedence.of(snapshot).depth
    rivals = [
        other
        for other in snapshot.asking
        if other.queue in names
        and depth(other) == depth(position.job)
        and other.reservation is None
        and (not other.held or other.id == position.job.id)
    ]
    ranked = Ranking(orders, size, snapshot.now, snapshot.priorities).of_queues(rivals, position.queues)
    if position.job.queue in ranked.broken:
        return replace(position, failure=ranked.broken[position.job.queue])
    ordered, keys = ranked.jobs, ranked.keys
    place = [other.id for other in ordered].index(position.job.id)
    before = ordered[:place]
    nearest = before[-1] if before else None
    ahead = Ahead(
        jobs=len(before),
        resources=sum(map(size, before)),
        resource_hours=sum(size(other) * other.alternatives[0].walltime for other in before if other.alternatives)
        / 3600,
        nearest=None if nearest is None else nearest.id,
    )
    nearest_value = None if nearest is None else _value(position.policy, nearest, size, snapshot)
    return replace(
        position,
        place=place + 1,
        among=len(ordered),
        ahead=ahead,
        nearest_value=nearest_value,
        key=numbers(keys[position.job.id]),
        nearest_key=() if nearest is None else numbers(keys[nearest.id]),
    )


def _value(policy: str, job: WaitingJob, size: Size, snapshot: Snapshot) -> float | None:
    """Return the number that the order shows for a job, None if the order shows none."""
    order = QUEUE_ORDERS.get(policy)
    if order is None or order.value is None:
        return None
    return order.value(Candidate(job, snapshot.now, size, snapshot.priorities))
