"""The earliest instant at which a job fits.

Resources and quotas are checked in turn, each from the instant at which the other one allows the job to begin::

    ready            fitted             until            start
      | resources: no  | resources: yes   | resources: no  | resources: yes
      |                | quotas: no       |                | quotas: yes

A later alternative is searched only if it would end before the best one so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from oarpy.scheduler.gantt.amount_timeline import StockView
from oarpy.scheduler.gantt.demands import CompiledAlternative, Demand
from oarpy.scheduler.gantt.gantt import Claim, Gantt, Kind
from oarpy.scheduler.gantt.shared_search import first_fit
from oarpy.scheduler.gantt.sharing import Line, SharedLine, View, Views
from oarpy.scheduler.order.quotas import Amount, Excess, Limits


class Leaps:
    """One search past quotas, for ``option``, which holds its resources for ``hold`` seconds.

    Resources that are free throughout a longer time are free in every window inside it. Assume that a request never
    takes less when more is free. Then it takes at least as much in each of these windows as it takes of the common
    resources. If this amount breaks a quota, the search can skip all these windows. The longer time doubles as long as
    the quota is broken, and is halved otherwise::

            start              until         until + hold
              |--- first window ---|              |
              |             |---- last window ----|
              |=== free throughout this time =====|        breaks the quota: go on at until
    """

    def __init__(
        self, gantt: Gantt, views: Sequence[View], limits: Limits, option: CompiledAlternative, hold: float
    ) -> None:
        self._ledger, self._views, self._limits = gantt.ledger, views, limits
        self._matcher, self._walltime, self._hold = option.matcher, option.walltime, hold
        self._counted = gantt.counts_all(option.matcher.usable)
        self._span = hold

    def after(self, start: float) -> float:
        """Return when to look again after a quota was broken at ``start``, infinity if there is no need to.

        That is the first instant at which the least amount breaks no quota. From then on it is each instant at which
        more may be free, or another rule applies.
        """
        if self._counted and (excess := self._excess(start, self._matcher.least)):
            return excess.until
        step = min(self._limits.change_after(start), self._change_after(start))
        until = self._change_after(start + self._span)
        if not self._counted or not self._matcher.grows or until <= step:
            self._span *= 2
            return step
        if excess := self._excess(start, self._matcher.match(self._common(start, until + self._hold)).bit_count()):
            self._span *= 2
            return min(until, excess.until)
        self._span /= 2
        return step

    def _excess(self, start: float, resources: int) -> Excess | None:
        """Return the quota that ``resources`` break at ``start``, and until when they break it."""
        amount = Amount(resources, resources * self._walltime)
        return self._ledger.excess(self._limits, start, start + self._hold, amount)

    def _common(self, begin: float, end: float) -> int:
        """Return the resources that are free throughout [begin, end)."""
        free = self._matcher.usable
        for view in self._views:
            free &= view.common(begin, end)
        return free

    def _change_after(self, instant: float) -> float:
        """Return the next instant at which more may be free."""
        return min((after for view in self._views if (after := view.after(instant)) is not None), default=inf)


class Found(Struct, frozen=True):
    """The chosen alternative and its claim."""

    option: CompiledAlternative
    claim: Claim


class Answer(Struct, frozen=True):
    """``found`` is None when the job fits nowhere.

    ``fitted`` is the first instant that resources alone, without quotas, would allow: for the alternative found, or for
    any of them when none was found. ``excess`` is the quota that forbids it then.
    """

    found: Found | None
    fitted: float | None
    excess: Excess | None = None


class _First(Struct, frozen=True):
    """The first placement that resources allow, and the quota that forbids it."""

    start: float
    excess: Excess | None


class Search:
    """Looks for places on Gantts; jobs keep their resources ``security`` seconds after their walltime."""

    def __init__(self, security: float) -> None:
        self._security = security

    def earliest(self, gantt: Gantt, demand: Demand, ready: float) -> Answer:
        """Find the placement that ends first, starting at ``ready`` or later; the first alternative wins ties."""
        best: Found | None = None
        fitted: _First | None = None
        for option in demand.options:
            latest = demand.before(option)
            if best is not None:
                latest = min(best.claim.end - option.walltime, inf if latest is None else latest)
            claim, first = self._first(gantt, demand, option, ready, latest)
            if claim is not None and (best is None or claim.end < best.claim.end):
                best, fitted = Found(option, claim), first
            elif best is None and first is not None and (fitted is None or first.start < fitted.start):
                fitted = first
        return Answer(best, None) if fitted is None else Answer(best, fitted.start, fitted.excess)

    def at(self, gantt: Gantt, demand: Demand, start: float) -> Answer:
        """Find the placement at exactly ``start`` that ends first."""
        best: Found | None = None
        fitted: float | None = None
        forbidding: Excess | None = None
        for option in demand.options:
            latest = demand.before(option)
            if latest is not None and start >= latest:
                continue
            claim = self._claim(gantt.views(demand.roles, option.consumes, option.levels), option, start)
            if claim is None:
                continue
            fitted = start
            excess = self._excess(gantt, demand, claim)
            if excess is None and (best is None or claim.end < best.claim.end):
                best = Found(option, claim)
            forbidding = forbidding or excess
        return Answer(best, fitted, None if best else forbidding)

    def put_off(self, gantt: Gantt, demand: Demand, place: Found, start: float) -> Answer | None:
        """Return the answer with the same resources from ``start`` on, None if they cannot be had then."""
        claim, latest = replace(place.claim, start=start), demand.before(place.option)
        views, end = gantt.views(demand.roles, claim.consumes, claim.levels), start + self.hold(place.option)
        if latest is not None and start >= latest:
            return None
        if any(claim.bits & ~view.common(start, end) for view in views) or self._excess(gantt, demand, claim):
            return None
        return Answer(Found(place.option, claim), start)

    def hold(self, option: CompiledAlternative) -> float:
        """Return for how many seconds an alternative holds its resources, security time included."""
        return option.walltime + self._security

    def fits(self, views: Views, option: CompiledAlternative, start: float) -> bool:
        """Tell whether resources allow ``option`` at exactly ``start``."""
        return self._claim(views, option, start) is not None

    def _first(
        self, gantt: Gantt, demand: Demand, option: CompiledAlternative, start: float, latest: float | None
    ) -> tuple[Claim | None, _First | None]:
        """Return the first placement of one alternative before ``latest``, and the first that resources allow."""
        views = gantt.views(demand.roles, option.consumes, option.levels)
        kind = self._kind(gantt, views, demand, option)
        leaps: Leaps | None = None
        if demand.limits is not None and not option.matcher.fixed:
            leaps = Leaps(gantt, views, demand.limits, option, self.hold(option))
        fitted: _First | None = None
        instant = start
        while instant < (inf if latest is None else latest):
            claim = self._next(gantt, views, option, instant, latest)
            if claim is None:
                break
            excess = self._excess(gantt, demand, claim)
            fitted = fitted or _First(claim.start, excess)
            if excess is None:
                if kind is not None:
                    gantt.barred[kind] = start, claim.start
                return claim, fitted
            instant = excess.until
            if kind is not None:
                since, until = gantt.barred.get(kind, (inf, inf))
                instant = max(instant, until) if since <= start else instant
            elif leaps is not None:
                instant = min(instant, leaps.after(claim.start))
        if kind is not None and latest is None:
            gantt.barred[kind] = start, inf
        return None, fitted

    def _kind(self, gantt: Gantt, views: Views, demand: Demand, option: CompiledAlternative) -> Kind | None:
        """Return a key shared by requests that add the same to the same sums, on the timeline of the platform.

        Return None for a request whose amounts depend on its place.
        """
        if demand.limits is None or not option.matcher.fixed or not views or views[0] is not gantt.whole.exclusive:
            return None
        if demand.limits.payers:  # what is left of hours depends on when they are used
            return None
        if not self._is_on_one_line(views) or not gantt.counts_all(option.matcher.usable):
            return None
        return option.matcher, option.walltime, option.consumes, id(demand.limits)

    @staticmethod
    def _is_on_one_line(views: Views) -> bool:
        """Tell whether a job's resources and consumables change only where one line of the platform does."""
        return len(views) == 1 or (len(views) == 2 and isinstance(views[1], StockView))

    def _next(
        self, gantt: Gantt, views: Views, option: CompiledAlternative, start: float, latest: float | None
    ) -> Claim | None:
        """Return the first placement that resources allow at ``start``, or later and before ``latest``."""
        if not views:
            return None
        if self._is_on_one_line(views):
            return self._next_alone(gantt, views, option, start, latest)
        instant: float | None = start
        while instant is not None and (latest is None or instant < latest):
            if len(option.matcher.groups) == 1:
                instant = self._skip(views[0], views[1:], option, instant, latest)
            if instant is not None and (claim := self._claim(views, option, instant)):
                return claim
            instant = None if instant is None else _after(views, instant)
        return None

    def _skip(
        self, view: Line, others: Sequence[View], option: CompiledAlternative, start: float, latest: float | None
    ) -> float | None:
        """Return a date before which the views together do not serve a single group, None if they never do.

        While the beginning of a window stays in one slot of the other views, moving it only takes away resources. So
        the resources that the other views share at first are an upper bound for that slot.
        """
        instant: float | None = start
        while instant is not None and (latest is None or instant < latest):
            free = option.matcher.usable
            for other in others:
                free &= other.common(instant, instant + self.hold(option))
            until = _after(others, instant)
            ends = [end for end in (until, latest) if end is not None]
            if option.matcher.may_fit(free):
                fit = view.first_fit(instant, self.hold(option), option.matcher, min(ends, default=None), free)
                if fit is not None:
                    return fit[0]
            instant = until
        return None

    def _next_alone(
        self,
        gantt: Gantt,
        views: tuple[Line, *tuple[View, ...]],
        option: CompiledAlternative,
        start: float,
        latest: float | None,
    ) -> Claim | None:
        """Return the first placement on one line, from its known lower bound on."""
        line = views[0]
        hold, bounds = self.hold(option), gantt.bounds_of(line)
        bound = bounds.earliest(option.matcher, hold, option.consumes)
        begin = max(start, bound)
        if len(views) == 1:
            fit = line.first_fit(begin, hold, option.matcher, latest)
        else:
            alone, partners = (line.alone, line.partners) if isinstance(line, SharedLine) else (line, None)
            stock = StockView(gantt.stocks, option.consumes)
            fit = first_fit(alone, partners, stock, option.gauge, option.matcher, begin, hold, latest)
        if fit is None:
            return None
        if fit[0] > bound and start <= max(bound, gantt.now):
            bounds.note(option.matcher, hold, fit[0], option.consumes)
        return Claim(fit[0], option.walltime, fit[1], option.consumes, option.levels)

    def _claim(self, views: Views, option: CompiledAlternative, start: float) -> Claim | None:
        """Return the placement at exactly ``start`` that resources allow."""
        free = option.matcher.usable if views else 0
        for view in views:
            free &= view.common(start, start + option.walltime + self._security)
        bits = option.matcher.match(free)
        return Claim(start, option.walltime, bits, option.consumes, option.levels) if bits else None

    def _excess(self, gantt: Gantt, demand: Demand, claim: Claim) -> Excess | None:
        """Return the quota that forbids ``claim``, and until when; None when none does."""
        if demand.limits is None:
            return None
        amount = gantt.amount(demand.job, demand.roles, claim)
        if not amount.resources:
            return None
        return gantt.ledger.excess(demand.limits, claim.start, claim.end + self._security, amount)


def _after(views: Sequence[View], instant: float) -> float | None:
    """Return the next instant at which more may be free."""
    return min((after for view in views if (after := view.after(instant)) is not None), default=None)
