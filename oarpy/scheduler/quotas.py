"""Quotas: who counts for which limit at which instant, and which rule applies to a job.

The most specific rule applies (a name before ``/`` before ``*``, compared by queue, then project, type, user). It
limits the sum over all jobs that its key matches; ``/`` keeps a sum for each value.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from oarpy.scheduler.snapshot import HoldingJob, QuotaRule, WaitingJob

Job = WaitingJob | HoldingJob
Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Amount:
    """What one job adds: resources of type default, and their number times the walltime, in seconds."""

    resources: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Limit:
    """The rule that applies to a job, with the sums that it limits."""

    rule: QuotaRule
    keys: tuple[Key, ...]

    def __str__(self) -> str:
        rule = self.rule
        limits = [
            f"{value:g} {name}"
            for name, value in (
                ("resources", rule.resources),
                ("jobs", rule.jobs),
                ("resource-hours", rule.resource_hours),
            )
            if value >= 0
        ]
        return f"quota {rule.queue},{rule.project},{rule.type},{rule.user}: at most {', '.join(limits)}"


class Sums:
    """Resources, jobs and resource-seconds held over time by the jobs of one key."""

    __slots__ = ("begins", "held")

    def __init__(self) -> None:
        self.begins: list[float] = [float("-inf")]
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
            self.held[index] = resources + amount.resources, jobs + 1, seconds + amount.seconds

    def last_excess(self, begin: float, end: float, rule: QuotaRule, amount: Amount) -> float | None:
        """Return when the last period of [begin, end) ends in which ``amount`` more breaks ``rule``, None if none."""
        if _excessive(rule, amount.resources, 1, amount.seconds):
            return float("inf")
        first = bisect_right(self.begins, begin) - 1
        for index in range(bisect_left(self.begins, end) - 1, first - 1, -1):
            resources, jobs, seconds = self.held[index]
            if _excessive(rule, resources + amount.resources, jobs + 1, seconds + amount.seconds):
                return self.begins[index + 1] if index + 1 < len(self.begins) else float("inf")
        return None

    def _boundary(self, instant: float) -> int:
        index = bisect_left(self.begins, instant)
        if index == len(self.begins) or self.begins[index] != instant:
            self.begins.insert(index, instant)
            self.held.insert(index, self.held[index - 1])
        return index


def _excessive(rule: QuotaRule, resources: int, jobs: int, seconds: float) -> bool:
    """Tell whether sums break a rule. Hours are divided, not limits multiplied: 0.1 h is 360 s exactly this way."""
    return 0 <= rule.resources < resources or 0 <= rule.jobs < jobs or 0 <= rule.resource_hours < seconds / 3600


class Ledger:
    """The sums of every rule, kept while a plan is made."""

    __slots__ = ("_sums", "rules")

    def __init__(self, rules: Sequence[QuotaRule]) -> None:
        self.rules = tuple(rules)
        self._sums: dict[tuple[int, Key], Sums] = {}

    def copy(self) -> Ledger:
        """Return an independent ledger of equal content."""
        twin = Ledger(self.rules)
        twin._sums = {key: sums.copy() for key, sums in self._sums.items()}
        return twin

    def limit(self, job: Job) -> Limit | None:
        """Return the rule that applies to ``job``, the first of equally specific ones."""
        best: tuple[tuple[int, ...], QuotaRule] | None = None
        for rule in self.rules:
            rank = _specificity(rule, job)
            if rank is not None and (best is None or rank < best[0]):
                best = rank, rule
        if best is None or max(best[1].resources, best[1].jobs, best[1].resource_hours) < 0:
            return None
        return Limit(best[1], tuple(_keys(best[1], job)))

    def count(self, job: Job, begin: float, end: float, amount: Amount) -> None:
        """Count ``job`` during [begin, end) for every rule that it matches."""
        for rank, rule in enumerate(self.rules):
            if _specificity(rule, job) is not None:
                for key in _keys(rule, job):
                    self._sums.setdefault((rank, key), Sums()).count(begin, end, amount)

    def last_excess(self, limit: Limit, begin: float, end: float, amount: Amount) -> float | None:
        """Return when the last excess in [begin, end) is over were ``amount`` added; None: the limit holds throughout.

        Infinity: it never fits.
        """
        rank = self.rules.index(limit.rule)
        ends = [self._sums.get((rank, key), _NOTHING).last_excess(begin, end, limit.rule, amount) for key in limit.keys]
        return max((end for end in ends if end is not None), default=None)


_NOTHING = Sums()


def _specificity(rule: QuotaRule, job: Job) -> tuple[int, ...] | None:
    """Return the rank of ``rule`` for ``job`` (smaller is more specific), None when it does not match."""
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
    parts = [values if pattern == "/" else (pattern,) for pattern, values in _fields(rule, job)]
    return [(queue, project, kind, user) for queue, project, kind, user in product(*parts)]


def _fields(rule: QuotaRule, job: Job) -> tuple[tuple[str, tuple[str, ...]], ...]:
    types = tuple(dict.fromkeys(job.types))
    if rule.type not in ("*", "/"):
        types += tuple(word.partition("=")[0] for word in types)
    return (rule.queue, (job.queue,)), (rule.project, (job.project,)), (rule.type, types), (rule.user, (job.user,))
