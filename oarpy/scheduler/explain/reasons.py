"""Verdicts: the reasons why a job does not start now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import inf
from operator import or_

from msgspec import structs

from oarpy.model.reasons import MOST_NAMED, NamedOutage, QuotaLimit, Reason, ShortAmount, Why
from oarpy.scheduler.gantt.demands import CompiledAlternative, CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Gantt, bits_held
from oarpy.scheduler.gantt.search import Answer, Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.quotas import Job, Limit
from oarpy.scheduler.precedence import Precedence
from oarpy.scheduler.resources.matching import shortage
from oarpy.scheduler.snapshot import Outage, Snapshot, WaitingJob, condition
from oarpy.scheduler.verdicts import Verdict

Explanation = tuple[Verdict, Reason]


class Explainer:
    """Explains verdicts against ``baseline``: the Gantt with the resources held already, without jobs of this pass."""

    def __init__(self, baseline: Gantt, search: Search, options: CompiledRequests, snapshot: Snapshot) -> None:
        self.baseline = baseline
        self._search, self._options, self._snapshot = search, options, snapshot
        self._now = snapshot.now
        self.bound: dict[int, Limit] = {}
        """The quotas that reasons named, by job."""
        self._beside: dict[tuple[object, ...], bool] = {}

    def waiting(self, demand: Demand, ready: float, answer: Answer, gantt: Gantt) -> Explanation:
        """Explain a job that does not start now; ``gantt`` is the current one."""
        if ready > self._now:
            return self._oversized(demand) or self._not_ready(demand, ready, answer)
        if demand.bounded and answer.found is None and (late := self._too_late(demand, ready, gantt)):
            return late
        if answer.fitted is None and answer.found is None:
            impossible = self.impossible(demand, gantt)
            if impossible is not None:
                return impossible
        if demand.limits is not None and (
            answer.fitted == self._now or (answer.fitted is not None and not answer.found)
        ):
            return Verdict.QUOTA, self._reached(self._quota(demand, answer, Why.QUOTA), answer)
        if demand.limits is None:
            beside = self._fits_beside(demand, answer)
        else:
            chosen = demand if answer.found is None else structs.replace(demand, options=(answer.found.option,))
            alone = self._search.at(self.baseline, chosen, self._now)
            if alone.fitted is not None and not alone.found:
                return Verdict.QUOTA, self._quota(demand, alone, Why.QUOTA_OF_RUNNING)
            beside = alone.found is not None
        if not beside and (out := self._outages(demand, answer)):
            return Verdict.RESOURCES_DOWN, self._until(out, answer)
        if short := self._short_stocks(demand, gantt):
            verdict = Verdict.BEHIND_HIGHER_PRIORITY if beside else Verdict.RESOURCES_BUSY
            return verdict, self._until(Reason(Why.SHORT, amounts=short), answer)
        if beside:
            reason = Reason(Why.BEHIND, until=_freed(answer), security=self._security(demand, answer))
            return Verdict.BEHIND_HIGHER_PRIORITY, self._then(reason, answer)
        return Verdict.RESOURCES_BUSY, self._then(self._held_by(demand, answer), answer)

    def _short_stocks(self, demand: Demand, gantt: Gantt) -> tuple[ShortAmount, ...]:
        """Name the consumables that alone keep the job from starting now; ``gantt`` is the current one."""
        for option in demand.options:
            if not option.consumes:
                continue
            plain = structs.replace(demand, options=(replace(option, consumes=()),), limits=None)
            if self._search.at(gantt, plain, self._now).found:
                end = self._now + self._search.hold(option)
                return gantt.stocks.shortage(self._now, end, option.matcher.usable, option.consumes)
        return ()

    def _until(self, reason: Reason, answer: Answer) -> Reason:
        """Return until when resources keep the job waiting, and the quota that does so from then on, if any."""
        freed = _freed(answer)
        return reason if freed is None else self._then(structs.replace(reason, until=freed), answer)

    def _then(self, reason: Reason, answer: Answer) -> Reason:
        """Name the quota that keeps the job waiting from then on, if one does."""
        if answer.found is None or answer.excess is None:
            return reason
        limit = self._limit(answer)
        return structs.replace(reason, quota=limit.quota, budget=limit.budget, quota_until=answer.found.claim.start)

    def _reached(self, reason: Reason, answer: Answer) -> Reason:
        """Say until when a quota or a budget keeps the job waiting, and what resources do after that."""
        if answer.found is None or answer.excess is None:
            return reason
        start, until = answer.found.claim.start, answer.excess.until
        if until >= start:
            return structs.replace(reason, until=start)
        return structs.replace(reason, until=until, at=start)

    def _quota(self, demand: Demand, answer: Answer, kind: Why) -> Reason:
        """Name what keeps ``demand`` from the place that resources allow: a quota, by ``kind``, or a budget.

        Of several, it is the last to end.
        """
        if answer.excess is not None and answer.excess.limit is not None:
            self.bound[demand.job.id] = answer.excess.limit
        limit = self._limit(answer)
        return limit if limit.kind is Why.BUDGET else structs.replace(limit, kind=kind)

    def _limit(self, answer: Answer) -> Reason:
        """Name the quota or the project that forbids the place, or say until when quotas are known."""
        excess = answer.excess
        if excess is not None and excess.overdraft is not None:
            return Reason(Why.BUDGET, budget=excess.overdraft.named)
        limit = None if excess is None else excess.limit
        unknown = QuotaLimit("", end=self.baseline.ledger.horizon)
        return Reason(Why.QUOTA, quota=unknown if limit is None else limit.named)

    def _outages(self, demand: Demand, answer: Answer) -> Reason | None:
        """Name the outages without which the job could start now beside the resources held already."""
        for option in (answer.found.option,) if answer.found else demand.options:
            end, usable = self._now + self._search.hold(option), option.matcher.usable
            views, gone = (
                self.baseline.views(demand.roles, option.consumes, option.levels),
                self._snapshot.out(self._now, end),
            )
            if not views or not gone & usable:
                continue
            free = views[0].common(self._now, end) | gone & ~self._held(demand, end)
            for view in views[1:]:
                free &= view.common(self._now, end)
            bits = option.matcher.match(free & usable)
            met = [outage for outage in self._snapshot.outages if outage.bits & bits and outage.meets(self._now, end)]
            if met:
                named = tuple(map(self._outage, met[:MOST_NAMED]))
                return Reason(Why.OUTAGE, outages=named, more_outages=len(met) - len(named))
        return None

    def _outage(self, outage: Outage) -> NamedOutage:
        what = outage.reason or "nodes that it needs are not available"
        if outage.end == inf:
            return NamedOutage(what, outage.begin)
        return NamedOutage(what, None if outage.begin <= self._now else outage.begin, outage.end)

    def _held(self, demand: Demand, end: float) -> int:
        """Return the resources that jobs hold before ``end``, except jobs that give way and the container around."""
        bits, precedence = 0, Precedence.of(self._snapshot)
        for job in self._snapshot.holding:
            if (
                not precedence.yields(job, demand.job)
                and job.start < end
                and job.end > self._now
                and demand.roles.inside not in roles_of(job).containers
            ):
                bits |= bits_held(self._snapshot.platform, job) | (job.given_back if job.resumes is not None else 0)
        return bits

    def _fits_beside(self, demand: Demand, answer: Answer) -> bool:
        """Tell whether the job could start now beside the resources held already, were it alone in the queue."""
        for option in (answer.found.option,) if answer.found else demand.options:
            views = self.baseline.views(demand.roles, option.consumes, option.levels)
            if option.consumes:
                if self._search.fits(views, option, self._now):
                    return True
                continue
            end = self._now + self._search.hold(option)
            key = option.matcher, *((id(view), bisect_left(view.begins, end)) for view in views)
            if key not in self._beside:
                self._beside[key] = self._search.fits(views, option, self._now)
            if self._beside[key]:
                return True
        return False

    def _not_ready(self, demand: Demand, ready: float, answer: Answer) -> Explanation:
        """Explain a job that may not start yet, whatever is free."""
        job = demand.job
        if job.dates.not_before >= ready:
            verdict, reason = Verdict.DATE, Reason(Why.POSTPONED, until=job.dates.not_before)
        else:
            kind = Why.AFTER_JOBS if any(dependency.earliest for dependency in job.depends_on) else Why.AFTER_END
            verdict, reason = Verdict.DEPENDENCY, Reason(kind, jobs=anteriors(job), until=ready)
        if demand.bounded and answer.found is None:
            return verdict, structs.replace(reason, start_by=_known(demand.start_by), end_by=_known(demand.end_by))
        return verdict, reason

    def _too_late(self, demand: Demand, ready: float, gantt: Gantt) -> Explanation | None:
        """Explain a job that could be placed, but not in time; None if it has no place at any time."""
        free = structs.replace(demand, start_by=inf, end_by=inf)
        place = self._search.earliest(gantt, free, ready).found
        if place is None or (place.claim.start <= demand.start_by and place.claim.end <= demand.end_by):
            return None
        verdict = Verdict.DATE if demand.start_by >= demand.job.dates.start_by else Verdict.DEPENDENCY
        start_by, end_by = _known(demand.start_by), _known(demand.end_by)
        return verdict, Reason(
            Why.TOO_LATE, at=place.claim.start, end=place.claim.end, start_by=start_by, end_by=end_by
        )

    def refused(
        self, demand: Demand, ready: float, answer: Answer, gantt: Gantt
    ) -> tuple[Verdict, Reason, float | None]:
        """Explain a refused reservation, and return a date that it could have (None: never, or not searched)."""
        date = demand.job.reservation or 0
        if (end := date + demand.options[0].walltime) <= self._now:
            return Verdict.RESERVATION, Reason(Why.REFUSED, because=Reason(Why.END_PAST, at=end)), None
        impossible = self.impossible(demand, gantt)
        if impossible is not None and impossible[0] == Verdict.NEVER:
            return *impossible, None
        start = max(date, self._now)
        other = self._search.earliest(gantt, demand, max(start, ready)).found
        date_offered = None if other is None else other.claim.start
        if ready > start:
            reason = Reason(Why.AFTER_END, jobs=anteriors(demand.job), until=ready)
        elif answer.fitted is not None:
            reason = self._quota(demand, answer, Why.QUOTA)
        elif impossible is not None:
            reason = impossible[1]
        else:
            reason = Reason(Why.NOT_FREE, at=start)
        return Verdict.RESERVATION, Reason(Why.REFUSED, because=reason, at=date_offered), date_offered

    def impossible(self, demand: Demand, gantt: Gantt) -> Explanation | None:
        """Explain a job that no time would suit; None if an empty platform could serve it."""
        if too_much := self._oversized(demand):
            return too_much
        if self._is_closed(demand):
            return Verdict.RESOURCES_DOWN, Reason(Why.AWAY)
        name = demand.roles.inside
        if name is None:
            return None
        if not gantt.has_container(name):
            hidden = self._is_besteffort(name) and not demand.job.besteffort
            return Verdict.NEVER, Reason(Why.BESTEFFORT_CONTAINER if hidden else Why.NO_CONTAINER, name)
        if self._search.earliest(gantt.emptied(name), demand, self._now).fitted is None:
            return Verdict.NEVER, Reason(Why.TOO_LARGE_FOR_CONTAINER, name)
        return Verdict.RESOURCES_BUSY, Reason(Why.CONTAINER_FULL, name)

    def _is_besteffort(self, container: str) -> bool:
        """Tell whether a best-effort job opens this container."""
        jobs: tuple[Job, ...] = (*self._snapshot.holding, *self._snapshot.asking)
        return any(job.besteffort and container in roles_of(job).containers for job in jobs)

    def _is_closed(self, demand: Demand) -> bool:
        """Tell whether the resources that the job needs would go away too soon if it started now."""
        for option in demand.options:
            gone = self._snapshot.out(self._now, self._now + self._search.hold(option))
            if not gone or option.matcher.match(option.matcher.usable & ~gone):
                return False
        return True

    def _oversized(self, demand: Demand) -> Explanation | None:
        """Explain a job that the platform cannot serve even when it is empty; None if it can."""
        if any(option.matcher.match(option.matcher.usable) for option in demand.options):
            return None
        job = demand.job
        indexes = {option.index for option in demand.options}
        existing = [option for option in self._options.existing(job) if option.index in indexes]
        if any(option.matcher.match(option.matcher.usable) for option in existing):
            return Verdict.RESOURCES_DOWN, Reason(self._away(existing), self._missing(job, demand.options))
        return Verdict.NEVER, Reason(Why.LACKING, self._missing(job, existing))

    def _away(self, existing: Sequence[CompiledAlternative]) -> Why:
        """Return why resources that could serve a job are kept from it: no longer in use, or not alive."""
        alive = self._snapshot.platform.alive
        drained = reduce(or_, self._snapshot.returning.values(), 0) & alive
        return (
            Why.TOO_FEW_IN_USE
            if any(alternative.matcher.usable & drained for alternative in existing)
            else Why.TOO_FEW_ALIVE
        )

    def _missing(self, job: WaitingJob, options: Sequence[CompiledAlternative]) -> str:
        """Return the shortage of each alternative on an empty platform."""
        texts, shown = [], self._snapshot.shown
        for option in options:
            conditions = [condition(job.properties, group.filter) for group in job.alternatives[option.index].groups]
            texts.append(shortage(option.matcher, [shown.get(text, text) for text in conditions]))
        return "; ".join(dict.fromkeys(texts))

    def _held_by(self, demand: Demand, answer: Answer) -> Reason:
        """Name the jobs whose end, or the end of whose minimum life, the job waits for."""
        freed = _freed(answer)
        if freed is None or answer.found is None:
            return Reason(Why.BUSY)
        claim, whose = answer.found.claim, self._snapshot.whose
        over = whose(self.baseline.released(freed, claim, demand.roles))
        protected = self._giving_way(self.baseline.unprotected(freed, claim, demand.roles), demand)
        young = whose(protected)
        return Reason(
            Why.BUSY,
            self._snapshot.subject_of(protected),
            jobs=tuple(over[:MOST_NAMED]),
            more_jobs=max(0, len(over) - MOST_NAMED),
            until=freed,
            security=self._security(demand, answer),
            young=tuple(young[:MOST_NAMED]),
            more_young=max(0, len(young) - MOST_NAMED),
        )

    def _giving_way(self, jobs: list[int], demand: Demand) -> list[int]:
        """Return those of some jobs that give way to a job."""
        if not jobs:
            return []
        yields = Precedence.of(self._snapshot).yields
        lower = {job.id for job in self._snapshot.holding if yields(job, demand.job)}
        return [job for job in jobs if job in lower]

    def _security(self, demand: Demand, answer: Answer) -> float:
        """Return the security time behind other jobs, if the job waits for their ends."""
        freed, security = _freed(answer), self._snapshot.security_time
        others = demand.roles.inside is not None or any(outage.end == freed for outage in self._snapshot.outages)
        return 0 if freed is None or others else security


def anteriors(job: WaitingJob) -> tuple[int, ...]:
    """Return the jobs that ``job`` depends on."""
    return tuple(dependency.job for dependency in job.depends_on)


def _known(date: float) -> float | None:
    """Return a date, None for one that never comes."""
    return None if date == inf else date


def _freed(answer: Answer) -> float | None:
    """Return when resources allow the job, None when they never do."""
    if answer.found is None:
        return None
    return answer.found.claim.start if answer.excess is None else answer.fitted
