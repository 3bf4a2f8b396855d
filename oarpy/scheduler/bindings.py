"""What holds a job back: the jobs on the resources that it waits for, and the jobs that fill its quota."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oarpy.scheduler.gantt import Claim, bits_held
from oarpy.scheduler.probe import Probe
from oarpy.scheduler.quotas import Job, Ledger
from oarpy.scheduler.roles import roles_of
from oarpy.scheduler.snapshot import QuotaRule


@dataclass(frozen=True, slots=True)
class Holder:
    """A job in the way: it holds ``resources`` of those wanted until ``until`` (security time counted).

    ``running`` is False for one that waits too, ahead in the order, or is an accepted reservation.
    """

    job: int
    resources: int
    until: float
    running: bool


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The rule that applies, and what the jobs it counts hold now; ``jobs`` are those that run or start now."""

    rule: QuotaRule
    resources: int
    resource_hours: float
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Holding:
    job: Job
    claim: Claim
    running: bool


def holders(probe: Probe, claim: Claim | None) -> tuple[Holder, ...]:
    """Return the jobs whose end is what the start of ``claim`` waits for, those on most of its resources first.

    For a claim that begins now: the best-effort jobs which must go first.
    """
    if claim is None:
        return ()
    snapshot = probe.snapshot
    at_once = claim.start == snapshot.now
    found = []
    for one in _everybody(probe):
        until = one.claim.end + snapshot.security_time
        in_the_way = one.running and not _is_seen(one.job, probe) if at_once else until == claim.start
        if in_the_way and (shared := (one.claim.bits & claim.bits).bit_count()):
            found.append(Holder(one.job.id, shared, until, one.running))
    return tuple(sorted(found, key=lambda holder: (-holder.resources, holder.job)))


def quota_use(probe: Probe) -> QuotaUse | None:
    """Return how far the quota of the job is used up now."""
    limit = probe.limit
    if limit is None:
        return None
    ledger, keys = Ledger((limit.rule,)), set(limit.keys)
    now, default_type = probe.snapshot.now, probe.snapshot.platform.default_type
    resources, hours, jobs = 0, 0.0, []
    for one in _everybody(probe):
        counted = ledger.limit(one.job)
        if counted is None or keys.isdisjoint(counted.keys) or not roles_of(one.job).counted:
            continue
        if not _is_seen(one.job, probe):
            continue
        amount = (one.claim.bits & default_type).bit_count()
        if amount and one.claim.start <= now < one.claim.end + probe.snapshot.security_time:
            resources += amount
            hours += amount * one.claim.walltime / 3600
            jobs.append(one.job.id)
    return QuotaUse(limit.rule, resources, hours, tuple(sorted(jobs)))


def _everybody(probe: Probe) -> Iterator[_Holding]:
    """Yield what holds or will hold resources when the probed job is looked at."""
    snapshot = probe.snapshot
    for job in snapshot.holding:
        if job.end > snapshot.now:
            claim = Claim(job.start, job.walltime, bits_held(snapshot.platform, job))
            yield _Holding(job, claim, job.start <= snapshot.now)
    claims = probe.claims()
    for waiting in snapshot.waiting:
        if waiting.id in claims and waiting.id != probe.job.id:
            yield _Holding(waiting, claims[waiting.id], running=False)


def _is_seen(job: Job, probe: Probe) -> bool:
    """Tell whether ``job`` exists to the probed one: best-effort jobs do not for the others."""
    return probe.job.besteffort or not job.besteffort
