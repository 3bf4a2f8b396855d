"""``oarstat --priority``: where a job stands in its queue, and the numbers that put it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

from oarpy.client.jobs.explanation_report import RankDocument
from oarpy.client.rendering import Column, Report, Table, TwoForms, elapsed, one_line
from oarpy.client.session import Session
from oarpy.cluster_state.order_plugins import SiteOrders
from oarpy.cluster_state.what_if import read_only
from oarpy.model.errors import NotFound, OarpyError
from oarpy.scheduler.explain.queue_position import QueuePosition, standing
from oarpy.scheduler.order.priorities import Factor, Part
from oarpy.scheduler.order.queue_orders import QUEUE_ORDERS
from oarpy.store.passes.last_answer import standing as stored_standing


class AheadDocument(TypedDict):
    """The jobs before a job in the queue, and the job right before it."""

    jobs: int
    resources: int
    resource_hours: float
    nearest: int | None
    nearest_value: float | None
    nearest_key: Sequence[float]


class KarmaPartDocument(TypedDict):
    """A part of a karma."""

    name: str
    share: float
    target: float
    weight: float
    contribution: float


class FactorDocument(TypedDict):
    """A term of a multifactor priority."""

    name: str
    value: float
    weight: float
    contribution: float
    measured: float
    unit: str


class PriorityDocument(TypedDict):
    """The rank of a waiting job and the numbers behind it, ``docs/guides/priorities.md``."""

    job_id: int
    queue: str
    queues: Sequence[str]
    policy: str
    failure: str | None
    rank: RankDocument | None
    ahead: AheadDocument | None
    key: Sequence[float]
    value: float | None
    resources: int
    karma: Sequence[KarmaPartDocument]
    factors: Sequence[FactorDocument]


def priority(session: Session, job_id: int) -> QueuePosition:
    """Return how a waiting job stands. Raises :class:`NotFound`, :class:`OarpyError` for a job that does not wait."""
    with session.connection.transaction():
        reading = read_only(session.connection, session.snapshot_reader())
        stored = stored_standing(session.connection, job_id)
    if stored is None:
        raise NotFound(f"job {job_id} does not exist", hint="oarstat shows the jobs")
    position = standing(reading.snapshot, job_id, SiteOrders())
    if position is None:
        raise OarpyError(f"job {job_id} is {stored.state}, so it has no rank", hint="only jobs that wait have one")
    return position


def report(position: QueuePosition) -> Report[PriorityDocument]:
    """Return the rank, the jobs ahead, and a line for each number that the policy looks at."""
    return TwoForms(lambda: _text(position), lambda: _record(position))


def _text(position: QueuePosition) -> str:
    lines = [*_rank_lines(position), ""]
    table = _karma_table(position.parts) if position.policy == "fairshare" else _factor_table(position.factors)
    if position.policy in ("fairshare", "multifactor"):
        lines += table.text().splitlines()
        lines += _sum_lines(position)
        if position.policy == "multifactor":
            lines += ["", "The karma is made of", *_karma_table(position.parts).text().splitlines()]
    else:
        lines[-1:] = [_order_line(position), *_key_lines(position)]
    return "".join(f"{one_line(line)}\n" for line in lines)


def _record(position: QueuePosition) -> PriorityDocument:
    ahead = position.ahead
    return {
        "job_id": position.job.id,
        "queue": position.job.queue,
        "queues": [queue.name for queue in position.queues],
        "policy": position.policy,
        "failure": position.failure or None,
        "rank": None if position.place is None else {"place": position.place, "among": position.among},
        "ahead": None
        if ahead is None
        else {
            "jobs": ahead.jobs,
            "resources": ahead.resources,
            "resource_hours": ahead.resource_hours,
            "nearest": ahead.nearest,
            "nearest_value": position.nearest_value,
            "nearest_key": list(position.nearest_key),
        },
        "key": list(position.key),
        "value": position.value,
        "resources": position.size,
        "karma": [
            {
                "name": part.name,
                "share": part.share,
                "target": part.target,
                "weight": part.weight,
                "contribution": part.contribution,
            }
            for part in position.parts
        ],
        "factors": [
            {
                "name": factor.name,
                "value": factor.value,
                "weight": factor.weight,
                "contribution": factor.contribution,
                "measured": factor.measured,
                "unit": factor.unit,
            }
            for factor in position.factors
        ],
    }


def _rank_lines(position: QueuePosition) -> Iterator[str]:
    together = ", ".join(queue.name for queue in position.queues)
    several = f" (planned together: {together})" if len(position.queues) > 1 else ""
    head = f"Job {position.job.id} in queue {position.job.queue}{several}, policy {position.policy}"
    if position.failure:
        yield f"{head}: no order, because {position.failure}."
    elif position.place is None or position.ahead is None:
        yield f"{head}: a reservation is looked at before the other jobs."
    else:
        held = ", were it not held" if position.job.held else ""
        yield f"{head}: rank {position.place} of {position.among}{held}."
        if position.job.nice:
            yield f"With --nice {position.job.nice} it gives way to jobs of {position.job.user} that are less nice."
        if position.ahead.jobs:
            jobs = "1 job" if position.ahead.jobs == 1 else f"{position.ahead.jobs} jobs"
            yield (
                f"Ahead: {jobs} for {position.ahead.resources} resources "
                f"and {position.ahead.resource_hours:.4g} resource-hours, job {position.ahead.nearest} right before."
            )


def _order_line(position: QueuePosition) -> str:
    if "/" in position.policy:
        return "Jobs go by windows of their date of submission, and within one by the policy named before the slash."
    order = QUEUE_ORDERS.get(position.policy)
    if order is None:
        return "The policy is a plug-in."
    nearest = "" if position.nearest_value is None else f"; the job right before has {position.nearest_value:.4f}"
    return order.rule.format(size=position.size, walltime=_walltime(position), value=position.value, nearest=nearest)


def _walltime(position: QueuePosition) -> str:
    return elapsed(position.job.alternatives[0].walltime) if position.job.alternatives else "nothing"


def _key_lines(position: QueuePosition) -> Iterator[str]:
    """Show the numbers of an order that has no better explanation: a plug-in's, or one by windows."""
    if position.key and position.policy not in QUEUE_ORDERS:
        nearest = f"; the job right before has {_key_text(position.nearest_key)}" if position.nearest_key else ""
        yield f"It orders by {_key_text(position.key)}, the smallest goes first{nearest}."


def _key_text(key: tuple[float, ...]) -> str:
    return f"({', '.join(f'{part:.15g}' for part in key)})"


def _sum_lines(position: QueuePosition) -> Iterator[str]:
    if position.value is None:
        return
    what, best = ("karma", "smallest") if position.policy == "fairshare" else ("priority", "largest")
    nearest = "" if position.nearest_value is None else f"; the job right before has {position.nearest_value:.4f}"
    yield f"Sum: {what} {position.value:.4f}, the {best} goes first{nearest}."


def _karma_table(parts: tuple[Part, ...]) -> Table:
    columns = (Column("Part", 8), Column("Share", 7), Column("Target", 7), Column("Weight", 7), Column("Adds"))
    return Table(
        columns,
        tuple(
            (part.name, f"{part.share:.4f}", f"{part.target:.4f}", f"{part.weight:g}", f"{part.contribution:+.4f}")
            for part in parts
        ),
    )


def _factor_table(factors: tuple[Factor, ...]) -> Table:
    columns = (Column("Factor", 8), Column("Value", 7), Column("Weight", 7), Column("Adds", 8), Column("From"))
    return Table(
        columns,
        tuple(
            (factor.name, f"{factor.value:.4f}", f"{factor.weight:g}", f"{factor.contribution:+.4f}", _origin(factor))
            for factor in factors
        ),
    )


def _origin(factor: Factor) -> str:
    if factor.name == "age":
        return f"waits {elapsed(factor.measured)}"
    return f"{factor.measured:.4g} {factor.unit}"
