"""Suspended jobs that are due to continue: each gets its resources back once no job holds them that cannot give way.

They come before all waiting jobs, in the order of their ids: they have begun, and their ends were announced. Running
jobs and accepted reservations bound them, best-effort jobs do not. Job 3 gave back both cores, 4 got one::

    4 4 3 3 3        3 goes on where it was, for the rest of its walltime
    . . 3 3 3
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import or_

from msgspec import structs

from oarpy.scheduler.gantt.exclusive_levels import Blocks
from oarpy.scheduler.gantt.gantt import Claim, Gantt, bits_consumed_from, bits_held
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.consumables import Capacities, Consumer
from oarpy.scheduler.rules.giving_way import Yielding, may_go
from oarpy.scheduler.snapshot import HoldingJob, Snapshot


@dataclass(frozen=True, slots=True)
class Resumption:
    """``job`` goes on at ``start``; the best-effort jobs of ``kill`` must be gone before."""

    job: int
    start: float
    kill: tuple[int, ...] = ()


def resumed(snapshot: Snapshot, wanting: Collection[int]) -> tuple[Snapshot, tuple[Resumption, ...]]:
    """Enter the suspended jobs ``wanting`` from the first date at which they can have their resources back.

    Return the changed snapshot, and these dates. A job that finds no date stays unchanged.
    """
    resumptions = []
    for job in sorted(
        (holder for holder in snapshot.holding if holder.id in wanting and holder.given_back), key=_number
    ):
        start = _earliest(snapshot, job)
        if start is None:
            continue
        again = structs.replace(job, resumes=start, walltime=job.walltime + start - snapshot.now)
        snapshot = replace(
            snapshot, holding=tuple(again if holder.id == job.id else holder for holder in snapshot.holding)
        )
        resumptions.append(Resumption(job.id, start, _victims(snapshot, job) if start == snapshot.now else ()))
    return snapshot, tuple(resumptions)


def going_on(snapshot: Snapshot, resumptions: Iterable[Resumption], starting: Sequence[Consumer]) -> tuple[int, ...]:
    """Return the jobs that continue now.

    A job that gives way does not if another job is ``starting`` on its resources or takes its amounts, or if one on a
    higher level continues there.
    """
    due = {resumption.job for resumption in resumptions if resumption.start == snapshot.now and not resumption.kill}
    if not due:
        return ()
    blocks, jobs = Blocks.of(snapshot), [job for job in snapshot.holding if job.id in due]
    depth, taken, late = Precedence.of(snapshot).depth, reduce(or_, (bits for bits, _ in starting), 0), set[int]()
    jobs.sort(key=depth)
    for level, others in groupby(jobs, key=depth):
        again = {job.id: _has_again(blocks, job) for job in others}
        late |= {job for job, bits in again.items() if level and bits & taken}
        taken = reduce(or_, again.values(), taken)
    if any(job.amounts_given_back for job in jobs):
        late |= _short(snapshot, [job for job in jobs if job.id not in late], starting)
    return tuple(sorted(due - late))


def _short(snapshot: Snapshot, jobs: Iterable[HoldingJob], starting: Iterable[Consumer]) -> set[int]:
    """Return those of ``jobs`` that give way and lack amounts, which others take now."""
    depth, capacities = Precedence.of(snapshot).depth, Capacities(snapshot.consumables, snapshot.platform)
    taken = [(bits_consumed_from(snapshot.platform, job), job.consumes) for job in snapshot.holding] + list(starting)
    short = set()
    for job in jobs:
        bits, amounts = bits_consumed_from(snapshot.platform, job), job.amounts_given_back
        if depth(job) and any(excess > 0 for excess in capacities.excess(bits, amounts, taken).values()):
            short.add(job.id)
        else:
            taken.append((bits, amounts))
    return short


def _has_again(blocks: Blocks, job: HoldingJob) -> int:
    """Return the resources that a suspended job gave back, with the rest of the blocks that it has alone."""
    whole = (blocks.touched(level.name, job.given_back) for level in blocks.of_holder(job))
    return reduce(or_, whole, job.given_back)


def held_up_by(snapshot: Snapshot, resumption: Resumption) -> list[int]:
    """Return the jobs at whose end ``resumption`` may begin, or that are cancelled for it; ascending."""
    by_id = {job.id: job for job in snapshot.holding}
    wanted = by_id[resumption.job].given_back
    ends = [
        holder.id
        for holder in snapshot.holding
        if holder.id != resumption.job
        and holder.end + snapshot.security_time == resumption.start
        and bits_held(snapshot.platform, holder) & wanted
    ]
    return sorted({*ends, *resumption.kill})


def _number(job: HoldingJob) -> int:
    return job.id


def _earliest(snapshot: Snapshot, job: HoldingJob) -> float | None:
    """Return the first instant from which the job can hold its resources for the rest of its walltime."""
    asking = job.asking()
    gantt = Gantt.around(snapshot, asking, (holder for holder in snapshot.holding if holder.id != job.id))
    known = {consumable.name for consumable in snapshot.consumables}
    consumes = tuple(consumption for consumption in job.amounts if consumption.name in known)
    bits, rest, roles = job.given_back | bits_held(snapshot.platform, job), job.end - snapshot.now, roles_of(job)
    levels = gantt.blocks.of_holder(job)
    views, limits = gantt.views(roles, consumes, levels), gantt.limits(asking, roles)
    if not views or bits & ~snapshot.platform.alive:
        return None
    for start in _dates(snapshot, views[0].begins, (view.begins for view in views[1:])):
        claim = Claim(start, rest, bits, consumes, levels)
        end = claim.end + snapshot.security_time
        if any(view.common(start, end) & bits != bits for view in views):
            continue
        amount = gantt.amount(asking, roles, claim)
        if limits is None or not amount.resources or gantt.ledger.excess(limits, start, end, amount) is None:
            return start
    return None


def _dates(snapshot: Snapshot, begins: Iterable[float], others: Iterable[Iterable[float]]) -> list[float]:
    """Return the instants from which more may be free, ascending; quotas too change only when a job ends."""
    ends = {holder.end + snapshot.security_time for holder in snapshot.holding}
    instants = {snapshot.now, *begins, *ends}.union(*others)
    return sorted(instant for instant in instants if instant >= snapshot.now)


def _victims(snapshot: Snapshot, job: HoldingJob) -> tuple[int, ...]:
    """Return the jobs that give way on the resources that the job gave back, and for the amounts that it gave back."""
    blocks, capacities = Blocks.of(snapshot), Capacities(snapshot.consumables, snapshot.platform)
    yielding = Yielding(snapshot, capacities, blocks, may_go(snapshot, snapshot.holding))
    victims = yielding.on(job.given_back, job, blocks.of_holder(job))
    if not job.amounts_given_back:
        return tuple(victims)
    bits = bits_consumed_from(snapshot.platform, job)
    lacking = capacities.excess(bits, job.amounts_given_back, yielding.firm_amounts(job, snapshot.holding))
    return tuple(sorted({*victims, *yielding.for_amounts(job, lacking, victims)}))
