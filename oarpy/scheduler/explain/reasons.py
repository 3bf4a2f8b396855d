"""Verdicts: why a job that was looked at does not start now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import inf
from operator import or_

from msgspec import structs

from oarpy.scheduler.gantt.demands import CompiledAlternative, CompiledRequests, Demand
from oarpy.scheduler.gantt.gantt import Gantt, bits_held
from oarpy.scheduler.gantt.search import Answer, Search
from oarpy.scheduler.job_roles import roles_of
from oarpy.scheduler.order.quotas import Job, Limit
from oarpy.scheduler.resources.matching import shortage
from oarpy.scheduler.snapshot import Outage, Snapshot, WaitingJob, condition
from oarpy.scheduler.verdicts import Verdict

Explanation = tuple[Verdict, str]


class Explainer:
    """Explains against ``baseline``: the Gantt with what holds resources already, without any job of this pass."""

    def __init__(self, baseline: Gantt, search: Search, options: CompiledRequests, snapshot: Snapshot) -> None:
        self.baseline = baseline
        self._search, self._options, self._snapshot = search, options, snapshot
        self._now, self._show = snapshot.now, snapshot.show_instant
        self.bound: dict[int, Limit] = {}
        """The quotas that were named, by job."""
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
            return Verdict.QUOTA, f"{self._quota(demand, answer)}{self._reached(answer)}"
        if demand.limits is None:
            beside = self._fits_beside(demand, answer)
        else:
            chosen = demand if answer.found is None else structs.replace(demand, options=(answer.found.option,))
            alone = self._search.at(self.baseline, chosen, self._now)
            if alone.fitted is not None and not alone.found:
                return Verdict.QUOTA, f"{self._quota(demand, alone)}, reached by running jobs"
            beside = alone.found is not None
        until, then = self._until(answer), self._then(answer)
        if not beside and (out := self._outages(demand, answer)):
            return Verdict.RESOURCES_DOWN, f"{out}{until and f', so that it waits{until}'}{then}"
        if short := self._short_stocks(demand, gantt):
            verdict = Verdict.BEHIND_HIGHER_PRIORITY if beside else Verdict.RESOURCES_BUSY
            return verdict, f"{short}{until}{then}"
        if beside:
            return (
                Verdict.BEHIND_HIGHER_PRIORITY,
                f"jobs ahead of it take what it needs{until}{self._security(demand, answer)}{then}",
            )
        return Verdict.RESOURCES_BUSY, f"what it needs is held{until}{self._holders(demand, answer)}{then}"

    def _short_stocks(self, demand: Demand, gantt: Gantt) -> str:
        """Say which consumables keep the job from starting now, if nothing else does; ``gantt`` is the current one."""
        for option in demand.options:
            if not option.consumes:
                continue
            plain = structs.replace(demand, options=(replace(option, consumes=()),), limits=None)
            if self._search.at(gantt, plain, self._now).found:
                end = self._now + self._search.hold(option)
                return gantt.stocks.shortage(self._now, end, option.matcher.usable, option.consumes)
        return ""

    def _until(self, answer: Answer) -> str:
        """Say until when resources keep the job waiting."""
        freed = _freed(answer)
        return "" if freed is None else f" until {self._show(freed)}"

    def _then(self, answer: Answer) -> str:
        """Name the quota that keeps the job waiting from then on, if one does."""
        if answer.found is None or answer.excess is None:
            return ""
        return f", then {self._limit_text(answer)} until {self._show(answer.found.claim.start)}"

    def _reached(self, answer: Answer) -> str:
        """Say until when the quota that was named keeps the job waiting, and what resources do after that."""
        if answer.found is None or answer.excess is None:
            return ""
        start, until = answer.found.claim.start, answer.excess.until
        if until >= start:
            return f", reached until {self._show(start)}"
        return f", reached until {self._show(until)}; all that it needs is free at {self._show(start)}"

    def _quota(self, demand: Demand, answer: Answer) -> str:
        """Name the quota that keeps ``demand`` from the place that resources allow; of several, the last to end."""
        if answer.excess is not None and answer.excess.limit is not None:
            self.bound[demand.job.id] = answer.excess.limit
        return self._limit_text(answer)

    def _limit_text(self, answer: Answer) -> str:
        """Name the quota that forbids what was found, or say that nobody knows the quotas of that time."""
        limit = None if answer.excess is None else answer.excess.limit
        if limit is not None:
            return limit.text(self._show)
        return f"it would end beyond {self._show(self.baseline.ledger.horizon)}, until when quotas are known"

    def _outages(self, demand: Demand, answer: Answer) -> str:
        """Name the outages without which the job could start now beside what holds resources already."""
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
            met = [one for one in self._snapshot.outages if one.bits & bits and one.meets(self._now, end)]
            if met:
                return "; ".join(map(self._outage, met[:_MOST_NAMED])) + (" ..." if len(met) > _MOST_NAMED else "")
        return ""

    def _outage(self, one: Outage) -> str:
        what = one.reason or "nodes that it needs are not available"
        if one.end == inf:
            return f"{what} from {self._show(one.begin)} on"
        return f"{what} {'' if one.begin <= self._now else f'from {self._show(one.begin)} '}until {self._show(one.end)}"

    def _held(self, demand: Demand, end: float) -> int:
        """Return the resources that jobs hold before ``end``: not those that give way, nor the container around."""
        bits = 0
        for job in self._snapshot.holding:
            stays = demand.job.besteffort or not job.besteffort
            if (
                stays
                and job.start < end
                and job.end > self._now
                and demand.roles.inside not in roles_of(job).containers
            ):
                bits |= bits_held(self._snapshot.platform, job) | (job.given_back if job.resumes is not None else 0)
        return bits

    def _fits_beside(self, demand: Demand, answer: Answer) -> bool:
        """Tell whether the job could start now beside what holds resources already, were it alone in the queue."""
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
        dates = demand.job.dates
        if dates.not_before >= ready:
            verdict, reason = Verdict.DATE, f"it is postponed until {self._show(dates.not_before)}"
        elif any(dependency.earliest for dependency in demand.job.depends_on):
            verdict, reason = Verdict.DEPENDENCY, f"the jobs it depends on let it start at {self._show(ready)}"
        else:
            verdict, reason = Verdict.DEPENDENCY, f"the job it depends on is expected to end at {self._show(ready)}"
        if demand.bounded and answer.found is None:
            return verdict, f"{reason}, and {self._latest(demand)}"
        return verdict, reason

    def _too_late(self, demand: Demand, ready: float, gantt: Gantt) -> Explanation | None:
        """Explain a job that could be placed, but not in time; None when time is not what it lacks."""
        free = structs.replace(demand, start_by=inf, end_by=inf)
        found = self._search.earliest(gantt, free, ready).found
        if found is None or (found.claim.start <= demand.start_by and found.claim.end <= demand.end_by):
            return None
        verdict = Verdict.DATE if demand.start_by >= demand.job.dates.start_by else Verdict.DEPENDENCY
        span = f"run from {self._show(found.claim.start)} to {self._show(found.claim.end)}"
        return verdict, f"{self._latest(demand)}; the earliest it could {span}"

    def _latest(self, demand: Demand) -> str:
        """Say by when the job has to start and to end."""
        bounds = [
            f"{word} {self._show(date)}"
            for word, date in (("start by", demand.start_by), ("end by", demand.end_by))
            if date < inf
        ]
        return f"it has to {' and '.join(bounds)}"

    def refused(self, demand: Demand, ready: float, answer: Answer, gantt: Gantt) -> tuple[Verdict, str, float | None]:
        """Explain a reservation that is refused, and say when it could be had (None: never, or not looked for)."""
        date = demand.job.reservation or 0
        if date + demand.options[0].walltime <= self._now:
            end = self._show(date + demand.options[0].walltime)
            return Verdict.RESERVATION, f"refused: its end {end} is past", None
        impossible = self.impossible(demand, gantt)
        if impossible is not None and impossible[0] == Verdict.NEVER:
            return *impossible, None
        start = max(date, self._now)
        other = self._search.earliest(gantt, demand, max(start, ready)).found
        date_offered = None if other is None else other.claim.start
        offer = "" if date_offered is None else f", possible at {self._show(date_offered)}"
        if ready > start:
            reason = f"the job it depends on is expected to end at {self._show(ready)}"
        elif answer.fitted is not None:
            reason = self._quota(demand, answer)
        elif impossible is not None:
            reason = impossible[1]
        else:
            reason = f"its resources are not free at {self._show(start)}"
        return Verdict.RESERVATION, f"refused: {reason}{offer}", date_offered

    def impossible(self, demand: Demand, gantt: Gantt) -> Explanation | None:
        """Say why no time would do, None when an empty platform could serve the job."""
        if too_much := self._oversized(demand):
            return too_much
        if closed := self._closed(demand):
            return Verdict.RESOURCES_DOWN, closed
        name = demand.roles.inside
        if name is None:
            return None
        if not gantt.has_container(name):
            hidden = ", but for best-effort jobs" if self._is_besteffort(name) and not demand.job.besteffort else ""
            return Verdict.NEVER, f"no container '{name}' runs or is planned{hidden}"
        if self._search.earliest(gantt.emptied(name), demand, self._now).fitted is None:
            return Verdict.NEVER, f"it does not fit inside container '{name}'"
        return Verdict.RESOURCES_BUSY, f"other jobs fill container '{name}' until it ends"

    def _is_besteffort(self, container: str) -> bool:
        """Tell whether a best-effort job opens this container."""
        jobs: tuple[Job, ...] = (*self._snapshot.holding, *self._snapshot.waiting)
        return any(job.besteffort and container in roles_of(job).containers for job in jobs)

    def _closed(self, demand: Demand) -> str:
        """Say that what the job needs is not there for long enough, were it to start now."""
        for option in demand.options:
            gone = self._snapshot.out(self._now, self._now + self._search.hold(option))
            if not gone or option.matcher.match(option.matcher.usable & ~gone):
                return ""
        return "nodes that it needs are not available for long enough"

    def _oversized(self, demand: Demand) -> Explanation | None:
        """Say what the platform lacks for the job even when it is empty."""
        if any(option.matcher.match(option.matcher.usable) for option in demand.options):
            return None
        job = demand.job
        asked = {option.index for option in demand.options}
        existing = [option for option in self._options.existing(job) if option.index in asked]
        if any(option.matcher.match(option.matcher.usable) for option in existing):
            return Verdict.RESOURCES_DOWN, f"{self._away(existing)}: {self._missing(job, demand.options)}"
        return Verdict.NEVER, self._missing(job, existing)

    def _away(self, existing: Sequence[CompiledAlternative]) -> str:
        """Say what keeps resources from a job that ``existing`` ones could serve."""
        alive = self._snapshot.platform.alive
        drained = reduce(or_, self._snapshot.returning.values(), 0) & alive
        if any(option.matcher.usable & drained for option in existing):
            return "too few resources are Alive and not drained"
        return "too few resources are Alive"

    def _missing(self, job: WaitingJob, options: Sequence[CompiledAlternative]) -> str:
        """Say what each alternative lacks on an empty platform."""
        texts, shown = [], self._snapshot.shown
        for option in options:
            asked = [condition(job.properties, group.filter) for group in job.alternatives[option.index].groups]
            texts.append(shortage(option.matcher, [shown.get(text, text) for text in asked]))
        return "; ".join(dict.fromkeys(texts))

    def _holders(self, demand: Demand, answer: Answer) -> str:
        """Name the jobs whose end, or whose minimum life, the job waits for."""
        freed = _freed(answer)
        if freed is None or answer.found is None:
            return ""
        claim = answer.found.claim
        texts = []
        security = self._security(demand, answer)
        if over := self.baseline.released(freed, claim, demand.roles):
            texts.append(f"{_named('job', self._snapshot.whose(over))} should be over{security}")
        if not demand.job.besteffort and (young := self.baseline.unprotected(freed, claim, demand.roles)):
            texts.append(f"{_named('best-effort job', self._snapshot.whose(young))} may be cancelled")
        return f", when {' and '.join(texts)}" if texts else security

    def _security(self, demand: Demand, answer: Answer) -> str:
        """Say that the job waits for the security time behind other jobs, where it waits for their ends."""
        freed, security = _freed(answer), self._snapshot.security_time
        others = demand.roles.inside is not None or any(one.end == freed for one in self._snapshot.outages)
        return "" if not security or freed is None or others else f", {security:g} s of security time included"


_MOST_NAMED = 5


def _named(what: str, jobs: Sequence[int]) -> str:
    """Write the first few job ids behind the word for them."""
    numbers = ", ".join(map(str, jobs[:_MOST_NAMED])) + (", ..." if len(jobs) > _MOST_NAMED else "")
    return f"{what}{'s' if len(jobs) > 1 else ''} {numbers}"


def _freed(answer: Answer) -> float | None:
    """Return when resources allow the job, None when they never do."""
    if answer.found is None:
        return None
    return answer.found.claim.start if answer.excess is None else answer.fitted
