"""The jobs that hold another job back: those on the resources that it waits for, and those that fill its quota."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oarpy.scheduler.gantt.exclusive_levels import Blocks
from oarpy.scheduler.gantt.gantt import Claim, bits_held
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.quotas import Job
from oarpy.scheduler.passes.probe import Probe
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.snapshot import QuotaRule


@dataclass(frozen=True, slots=True)
class Holder:
    """A job in the way: it holds ``resources`` of the wanted ones until ``until`` (security time counted).

    ``running`` is False for a waiting job ahead in the order, an accepted reservation, and a suspended job that will
    continue.
    """

    job: int
    resources: int
    until: float
    running: bool


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """The quota rule that binds, and the use of the jobs it counts ``at`` an instant: now, or when its period begins.

    ``begin`` and ``end`` bound the period; they are infinite for a rule that is always valid.
    """

    rule: QuotaRule
    begin: float
    end: float
    at: float
    resources: int
    resource_hours: float
    jobs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Holding:
    job: Job
    claim: Claim
    running: bool

    @property
    def number(self) -> int:
        """The id of the job, or of the job that it is a part of."""
        return self.job.id if self.job.part is None else self.job.part.of


def holders(probe: Probe, claim: Claim | None) -> tuple[Holder, ...]:
    """Return the jobs that must end before ``claim`` can start, those on most of its resources first.

    If best-effort jobs must give way first, return these jobs.
    """
    if claim is None:
        return ()
    snapshot = probe.snapshot
    victims = frozenset(probe.decision.victims)
    roles = roles_of(probe.job)
    in_its_way, blocks = [], Blocks.of(snapshot)
    for hold in _everybody(probe):
        until = hold.claim.end + snapshot.security_time
        in_the_way = hold.job.id in victims if victims else until == claim.start
        if not in_the_way or roles_of(hold.job).admits(roles):
            continue
        both = hold.claim.bits & claim.bits
        both |= blocks.common(claim.levels, claim.bits, hold.claim.levels, hold.claim.bits)
        if shared := both.bit_count():
            in_its_way.append(Holder(hold.number, shared, until, hold.running))
    return tuple(sorted(in_its_way, key=lambda holder: (-holder.resources, holder.job)))


def quota_use(probe: Probe) -> QuotaUse | None:
    """Return the use of the job's quota."""
    limit = probe.limit
    if limit is None:
        return None
    instant, default_type = max(probe.snapshot.now, limit.begin), probe.snapshot.platform.default_type
    resources, hours, jobs = 0, 0.0, []
    yields = Precedence.of(probe.snapshot).yields
    for hold in _everybody(probe):
        # the probed job sees no job that gives way to it
        if not limit.counts(hold.job) or not roles_of(hold.job).counted or yields(hold.job, probe.job):
            continue
        amount = (hold.claim.bits & default_type).bit_count()
        if amount and hold.claim.start <= instant < hold.claim.end + probe.snapshot.security_time:
            resources += amount
            hours += amount * hold.claim.walltime / 3600
            jobs.append(hold.job.id)
    whose = tuple(probe.snapshot.whose(jobs))
    return QuotaUse(limit.rule, limit.begin, limit.end, instant, resources, hours, whose)


def _everybody(probe: Probe) -> Iterator[_Holding]:
    """Yield all jobs that hold or will hold resources at the turn of the probed job."""
    snapshot, blocks = probe.snapshot, Blocks.of(probe.snapshot)
    for job in snapshot.holding:
        if job.end > snapshot.now:
            levels = blocks.of_holder(job)
            claim = Claim(job.start, job.walltime, bits_held(snapshot.platform, job), levels=levels)
            yield _Holding(job, claim, job.start <= snapshot.now)
            if job.resumes is not None:
                again = Claim(job.resumes, job.end - job.resumes, job.given_back, levels=levels)
                yield _Holding(job, again, running=False)
    claims = probe.claims()
    for waiting in snapshot.asking:
        if waiting.id in claims and waiting.id != probe.job.id:
            yield _Holding(waiting, claims[waiting.id], running=False)
