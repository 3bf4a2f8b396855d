"""Quotas: the jobs that count for each limit at each instant, and the rules that apply to a job.

On each level the most specific rule applies (a name before ``/`` before ``*``, compared by queue, then project, type,
user), and a job keeps the rules of all levels. A rule limits the sum over all jobs that its key matches; ``/`` keeps a
sum for each value. A rule of an array matches only jobs of the array. A job that lasts through several periods keeps
the rule of each period in that period's part::

    rules          |-- by day: at most 4 --|-- by night: at most 8 --
    held           | 2     | 3     | 1     | 4
    a job of 2             [===============]        breaks the rule until the 3 are over: it begins there, or later
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from math import inf

from oarpy.model.quota_calendar import Span
from oarpy.model.reasons import QuotaLimit
from oarpy.scheduler.order.budgets import BudgetSums, Charge, Overdraft, Project, Projects
from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, WaitingJob

Job = WaitingJob | HoldingJob
Key = tuple[str, str, str, str]
Pattern = tuple[Key, int]
"""The patterns of a rule, and its array."""


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount that a job adds to sums: resources of type default, and their number times the walltime (seconds).

    ``jobs`` is 0 for a part of another one. ``charge`` is what its project is billed, where projects pay.
    """

    resources: int
    seconds: float
    jobs: int = 1
    charge: Charge | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """The rule that applies to a job during [begin, end), with the sums that it limits."""

    rule: QuotaRule
    keys: tuple[Key, ...]
    begin: float = -inf
    end: float = inf

    @property
    def passing(self) -> bool:
        """True for a rule that is not valid always."""
        return self.begin > -inf or self.end < inf

    @property
    def named(self) -> QuotaLimit:
        """The rule, its limits and, unless it is valid always, its period."""
        rule, end = self.rule, self.end if self.end < inf else None
        limits = rule.resources, rule.jobs, rule.resource_hours
        return QuotaLimit(rule.key, *limits, passing=self.passing, period=rule.period if self.passing else "", end=end)

    def counts(self, job: Job) -> bool:
        """Tell whether ``job`` counts for one of the sums; containers and exempt jobs are not looked for here."""
        return _specificity(self.rule, job) is not None and not set(self.keys).isdisjoint(_keys(self.rule, job))


@dataclass(frozen=True, slots=True)
class Excess:
    """A quota that would be broken ``until`` an instant (infinity: for ever), the last if there are several.

    ``overdraft`` is what a project lacks, if that is in the way. Else ``limit`` is None when what lies beyond the
    horizon of the calendar is.
    """

    until: float
    limit: Limit | None
    overdraft: Overdraft | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a job: for each level at most one rule at each instant, ascending.

    The job cannot be placed beyond ``horizon``. ``payers`` are the projects whose hours it takes.
    """

    levels: tuple[tuple[Limit, ...], ...]
    horizon: float = inf
    payers: tuple[Project, ...] = ()

    def __iter__(self) -> Iterator[Limit]:
        """Yield every rule that applies at some instant."""
        return chain.from_iterable(self.levels)

    def change_after(self, instant: float) -> float:
        """Return the first instant after ``instant`` at which another rule applies, infinity if none does."""
        changes = []
        for spans in self.levels:
            place = bisect_right(spans, instant, key=_beginning)
            changes += [limit.begin for limit in spans[place : place + 1]]
            changes += [limit.end for limit in spans[max(place - 1, 0) : place] if limit.end > instant]
        return min(changes, default=inf)


class Sums:
    """Resources, jobs and resource-seconds held over time by the jobs of one key."""

    __slots__ = ("begins", "held")

    def __init__(self) -> None:
        self.begins: list[float] = [-inf]
        self.held: list[tuple[int, int, float]] = [(0, 0, 0)]

    def copy(self) -> Sums:
        """Return independent sums of equal content."""
        twin = Sums()
        twin.begins = self.begins.copy()
        twin.held = self.held.copy()
        return twin

    def count(self, begin: float, end: float, amount: Amount) -> None:
        """Add a job that holds ``amount`` during [begin, end)."""
        left = self._boundary(begin)
        right = self._boundary(end)
        for index in range(left, right):
            resources, jobs, seconds = self.held[index]
            self.held[index] = resources + amount.resources, jobs + amount.jobs, seconds + amount.seconds

    def last_excess(self, begin: float, end: float, rule: QuotaRule, amount: Amount) -> float | None:
        """Return when the last period of [begin, end) ends in which ``amount`` more breaks ``rule``, None if none.

        Infinity when ``amount`` alone does.
        """
        if _excessive(rule, amount.resources, amount.jobs, amount.seconds):
            return inf
        first = bisect_right(self.begins, begin) - 1
        for index in range(bisect_left(self.begins, end) - 1, first - 1, -1):
            resources, jobs, seconds = self.held[index]
            if _excessive(rule, resources + amount.resources, jobs + amount.jobs, seconds + amount.seconds):
                return self.begins[index + 1] if index + 1 < len(self.begins) else inf
        return None

    def room(self, instant: float, rule: QuotaRule) -> float:
        """Return how many more resources one more job may hold at ``instant``; how long it lasts is not known."""
        resources, jobs, seconds = self.held[bisect_right(self.begins, instant) - 1]
        if 0 <= rule.jobs < jobs + 1 or 0 <= rule.resource_hours <= seconds / 3600:
            return 0
        return max(0, rule.resources - resources) if rule.resources >= 0 else inf

    def _boundary(self, instant: float) -> int:
        """Make ``instant`` the beginning of a period; return which one."""
        index = bisect_left(self.begins, instant)
        if index == len(self.begins) or self.begins[index] != instant:
            self.begins.insert(index, instant)
            self.held.insert(index, self.held[index - 1])
        return index


def _excessive(rule: QuotaRule, resources: int, jobs: int, seconds: float) -> bool:
    """Tell whether sums break a rule. Hours are divided, not limits multiplied: 0.1 h is 360 s exactly this way."""
    return 0 <= rule.resources < resources or 0 <= rule.jobs < jobs or 0 <= rule.resource_hours < seconds / 3600


class Ledger:
    """The sums of every rule, kept while a plan is made. Beyond ``horizon`` nobody knows which rules are valid.

    ``budgets`` are the hours that projects have, where they pay.
    """

    __slots__ = ("_known", "_patterns", "_regimes", "_sums", "budgets", "horizon", "rules")

    def __init__(self, rules: Sequence[QuotaRule], horizon: float = inf, projects: Projects | None = None) -> None:
        self.rules = tuple(rules)
        self.horizon = horizon
        self.budgets = None if projects is None or not projects.limited else BudgetSums(projects)
        self._regimes = regimes(self.rules)
        # rules that are valid at different times count the same jobs when their patterns are the same
        self._patterns: dict[int, dict[Pattern, QuotaRule]] = {}
        """By array, 0 for the rules that are of none."""
        for rule in reversed(self.rules):
            self._patterns.setdefault(rule.array, {})[_pattern(rule)] = rule
        self._known: dict[tuple[str, str, tuple[str, ...], str, int, bool], Limits | None] = {}
        self._sums: dict[tuple[Pattern, Key], Sums] = {}

    @property
    def counts(self) -> bool:
        """Whether there is anything to count."""
        return bool(self.rules) or self.budgets is not None

    def copy(self) -> Ledger:
        """Return an independent ledger of equal content."""
        return self._with({key: sums.copy() for key, sums in self._sums.items()})

    def _with(self, sums: dict[tuple[Pattern, Key], Sums]) -> Ledger:
        """Return a ledger of the same rules with these sums."""
        twin = object.__new__(Ledger)
        twin.rules, twin.horizon = self.rules, self.horizon
        twin.budgets = None if self.budgets is None else self.budgets.copy()
        twin._regimes, twin._patterns, twin._known = self._regimes, self._patterns, self._known
        twin._sums = sums
        return twin

    def limits(self, job: Job) -> Limits | None:
        """Return the rules that apply to ``job``, None when nothing limits it."""
        pays = self.budgets is not None and not job.besteffort
        key = job.queue, job.project, job.types, job.user, job.array, pays
        if key not in self._known:
            self._known[key] = self._limits(job, pays=pays)
        return self._known[key]

    def count(self, job: Job, begin: float, end: float, amount: Amount) -> None:
        """Count ``job`` during [begin, end) for every rule that it matches, and bill its project."""
        if self.budgets is not None and amount.charge is not None and not job.besteffort:
            self.budgets.count(job.project, amount.charge)
        for array in {0, job.array}:
            for pattern, rule in self._patterns.get(array, _NO_RULES).items():
                if _specificity(rule, job) is not None:
                    for key in _keys(rule, job):
                        self._sums.setdefault((pattern, key), Sums()).count(begin, end, amount)

    def excess(self, limits: Limits, begin: float, end: float, amount: Amount) -> Excess | None:
        """Return the last excess in [begin, end) were ``amount`` added; None: the limits hold throughout."""
        if end > limits.horizon:
            return Excess(inf, None)
        worst: Excess | None = None
        for spans in limits.levels:
            excess = self._excess(spans, begin, end, amount)
            if excess is not None and (worst is None or excess.until > worst.until):
                worst = excess
        if limits.payers and self.budgets is not None and amount.charge is not None:
            lacking = self.budgets.overdraft(limits.payers, amount.charge)
            if lacking is not None and (worst is None or lacking.until > worst.until):
                worst = Excess(lacking.until, None, lacking)
        return worst

    def _excess(self, spans: Sequence[Limit], begin: float, end: float, amount: Amount) -> Excess | None:
        """Return the quota of one level that would be broken last in [begin, end), None if none would."""
        place = len(spans) if end == inf else bisect_left(spans, end, key=_beginning)
        while place and (limit := spans[place - 1]).end > begin:
            left, right = max(begin, limit.begin), min(end, limit.end)
            pattern = _pattern(limit.rule)
            sums = (self._sums.get((pattern, key), _NOTHING) for key in limit.keys)
            ends = [sums_of_key.last_excess(left, right, limit.rule, amount) for sums_of_key in sums]
            last = max((end for end in ends if end is not None), default=None)
            if last is not None:
                return Excess(min(last, limit.end), limit)
            place -= 1
        return None

    def watched(self, limits: Limits) -> Ledger:
        """Return a ledger of its own with the sums that ``limits`` look at, as they are now."""
        twin = self._with({})
        for limit in limits:
            for key in limit.keys:
                if sums := self._sums.get((_pattern(limit.rule), key)):
                    twin._sums[_pattern(limit.rule), key] = sums.copy()
        return twin

    def room(self, limits: Limits, begin: float) -> list[tuple[float, float]]:
        """Return from when on how many more resources one more job may hold, from ``begin`` on.

        Limits of resource-hours count only where nothing is left of them: the rest depends on how long the job lasts.
        """
        instants = {begin, limits.horizon}
        for limit in limits:
            instants |= {limit.begin, limit.end}
            for sums in self._sums_of(limit):
                instants |= {instant for instant in sums.begins if limit.begin < instant < limit.end}
        instants |= {instant for payer in limits.payers for instant in (*payer.begins, payer.until)}
        return [(instant, self._room(limits, instant)) for instant in sorted(instants) if begin <= instant < inf]

    def _room(self, limits: Limits, instant: float) -> float:
        if instant >= limits.horizon or (self.budgets is not None and self.budgets.spent(limits.payers, instant)):
            return 0
        return min(
            (
                sums.room(instant, limit.rule)
                for limit in limits
                if limit.begin <= instant < limit.end
                for sums in self._sums_of(limit)
            ),
            default=inf,
        )

    def _sums_of(self, limit: Limit) -> list[Sums]:
        return [self._sums.get((_pattern(limit.rule), key), _NOTHING) for key in limit.keys]

    def _limits(self, job: Job, *, pays: bool) -> Limits | None:
        """Return the rules that apply to ``job`` in each period, and whose hours it takes; None when nothing does."""
        levels: dict[str, list[Limit]] = {}
        applying: dict[int, list[QuotaRule]] = {}
        for regime in self._regimes:  # regimes of equal content share their rules
            if id(regime.rules) not in applying:
                applying[id(regime.rules)] = _applying(regime.rules, job)
            for rule in applying[id(regime.rules)]:
                spans = levels.setdefault(rule.level, [])
                if spans and spans[-1].rule is rule and spans[-1].end == regime.begin:
                    spans[-1] = replace(spans[-1], end=regime.end)
                else:
                    spans.append(Limit(rule, tuple(_keys(rule, job)), regime.begin, regime.end))
        payers = self.budgets.payers(job.project) if self.budgets is not None and pays else ()
        if not levels and not payers:
            return None
        limits = Limits(tuple(map(tuple, levels.values())), payers=payers)
        return replace(limits, horizon=self.horizon) if any(limit.passing for limit in limits) else limits


@dataclass(frozen=True, slots=True)
class Regime:
    """The rules that are valid during [begin, end)."""

    begin: float
    end: float
    rules: tuple[QuotaRule, ...]


def regimes(rules: Sequence[QuotaRule]) -> tuple[Regime, ...]:
    """Cut time wherever the valid rules change, from minus infinity to infinity."""
    spans = list({rule.valid: None for rule in rules if rule.valid is not None})
    rank = {valid: place for place, valid in enumerate(spans)}
    parts = [(rule, None if rule.valid is None else rank[rule.valid]) for rule in rules]
    instants = sorted({instant for valid in spans for span in valid for instant in span})
    known: dict[tuple[int, ...], tuple[QuotaRule, ...]] = {}
    regimes: list[Regime] = []
    for begin, end in pairwise((-inf, *instants, inf)):
        now_valid = tuple(place for place, valid in enumerate(spans) if _covers(valid, begin))
        if now_valid not in known:
            known[now_valid] = tuple(rule for rule, place in parts if place is None or place in now_valid)
        regimes.append(Regime(begin, end, known[now_valid]))
    return tuple(regimes)


def _beginning(limit: Limit) -> float:
    return limit.begin


def _covers(spans: Sequence[Span], instant: float) -> bool:
    """Tell whether ``instant`` lies in one of the ``spans``, which are ascending."""
    place = bisect_right(spans, (instant, inf)) - 1
    return place >= 0 and spans[place][0] <= instant < spans[place][1]


def _applying(rules: Sequence[QuotaRule], job: Job) -> list[QuotaRule]:
    """Return the rule of each level that applies to ``job``, the first of equally specific ones.

    A rule without limits is left out. The result is in the order of the rules.
    """
    best: dict[str, tuple[tuple[int, ...], QuotaRule]] = {}
    for rule in rules:
        rank = _specificity(rule, job)
        if rank is not None:
            rank = *rank, rule.valid is None  # of equal patterns, that of the period
            if rule.level not in best or rank < best[rule.level][0]:
                best[rule.level] = rank, rule
    return [rule for _, rule in best.values() if max(rule.resources, rule.jobs, rule.resource_hours) >= 0]


def _pattern(rule: QuotaRule) -> Pattern:
    """Return a key that differs for rules that count different jobs."""
    return (rule.queue, rule.project, rule.type, rule.user), rule.array


_NOTHING = Sums()
_NO_RULES: dict[Pattern, QuotaRule] = {}


def _specificity(rule: QuotaRule, job: Job) -> tuple[int, ...] | None:
    """Return the rank of ``rule`` for ``job`` (smaller is more specific), None when it does not match."""
    if rule.array and rule.array != job.array:
        return None
    rank = []
    for pattern, values in _fields(rule, job):
        if pattern == "*":
            rank.append(2)
        elif pattern == "/":
            if not values:
                return None
            rank.append(1)
        elif pattern in values:
            rank.append(0)
        else:
            return None
    return tuple(rank)


def _keys(rule: QuotaRule, job: Job) -> list[Key]:
    """Return the sums of ``rule`` to which ``job`` adds: one for each value in place of ``/``."""
    parts = [values if pattern == "/" else (pattern,) for pattern, values in _fields(rule, job)]
    return [(queue, project, kind, user) for queue, project, kind, user in product(*parts)]


def _fields(rule: QuotaRule, job: Job) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each pattern of ``rule`` with the values of ``job`` that it is held against."""
    types = tuple(dict.fromkeys(job.types))
    if rule.type not in ("*", "/"):
        types += tuple(word.partition("=")[0] for word in types)
    return (rule.queue, (job.queue,)), (rule.project, (job.project,)), (rule.type, types), (rule.user, (job.user,))
