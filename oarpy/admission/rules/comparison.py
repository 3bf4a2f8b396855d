"""The effects of a change of the rules: the same submissions go through the rules before and after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oarpy.admission.rules.execution import RuleLimits
from oarpy.admission.rules.process import DEFAULT_LIMITS, RuleSet
from oarpy.admission.rules.rules import RefusedByRule, Rule
from oarpy.admission.rules.site import Site
from oarpy.model.submission import Submission


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The result of the rules for one submission: its final record and notes, or the refusal and the refusing rule."""

    record: dict[str, object]
    notes: tuple[str, ...] = ()
    refusal: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A submission (by its position in the list) with another result."""

    position: int
    submission: Submission
    before: RuleOutcome
    after: RuleOutcome

    def lines(self) -> list[str]:
        """The difference for people, one line for each thing that differs."""
        if self.before.refusal or self.after.refusal:
            return [f"{_verdict(self.before)} -> {_verdict(self.after)}"]
        names = sorted(set(self.before.record) | set(self.after.record))
        pairs = [(name, self.before.record.get(name), self.after.record.get(name)) for name in names]
        lines = [f"{name}: {old!r} -> {new!r}" for name, old, new in pairs if old != new]
        if self.before.notes != self.after.notes:
            lines.append(f"notes: {list(self.before.notes)!r} -> {list(self.after.notes)!r}")
        return lines


def outcome(rules: RuleSet, submission: Submission, site: Site, limits: RuleLimits = DEFAULT_LIMITS) -> RuleOutcome:
    """Run ``rules`` on ``submission``; ``limits`` are for each rule."""
    try:
        tried, trace = rules.run(submission, site, limits=limits)
    except RefusedByRule as error:
        return RuleOutcome({}, refusal=str(error), rule=error.rule)
    return RuleOutcome(tried.to_record(), notes=tuple(trace.notes))


def compare(
    rules_before: Iterable[Rule],
    rules_after: Iterable[Rule],
    submissions: Iterable[Submission],
    site: Site,
    *,
    limits: RuleLimits = DEFAULT_LIMITS,
) -> list[Difference]:
    """Return the submissions that the two sets of rules treat differently, in their order."""
    old, new = RuleSet(rules_before), RuleSet(rules_after)
    differences = []
    for position, submission in enumerate(submissions):
        before = outcome(old, submission, site, limits)
        after = outcome(new, submission, site, limits)
        if before != after:
            differences.append(Difference(position, submission, before, after))
    return differences


def _verdict(result: RuleOutcome) -> str:
    return f"refused: {result.refusal}" if result.refusal else "admitted"
