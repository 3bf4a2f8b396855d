"""What a change of the rules would change: the same submissions through the rules before and after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oarpy.admission.rules.rules import DEFAULT_TIME_LIMIT, RefusedByRule, Rule, RuleSet
from oarpy.admission.rules.site import Site
from oarpy.model.submission import Submission


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """What rules make of one submission: its final record and notes, or the refusal and the rule that refused."""

    record: dict[str, object]
    notes: tuple[str, ...] = ()
    refusal: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A submission (by its position in the list) that fares differently."""

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


def outcome(rules: RuleSet, submission: Submission, site: Site, time_limit: float = DEFAULT_TIME_LIMIT) -> RuleOutcome:
    """Run ``rules`` on ``submission``; each rule may take ``time_limit`` seconds."""
    try:
        tried, trace = rules.run(submission, site, time_limit=time_limit)
    except RefusedByRule as error:
        return RuleOutcome({}, refusal=str(error), rule=error.rule)
    return RuleOutcome(tried.to_record(), notes=tuple(trace.notes))


def compare(
    rules_before: Iterable[Rule],
    rules_after: Iterable[Rule],
    submissions: Iterable[Submission],
    site: Site,
    *,
    time_limit: float = DEFAULT_TIME_LIMIT,
) -> list[Difference]:
    """Return the submissions that the two sets of rules treat differently, in their order."""
    old, new = RuleSet(rules_before), RuleSet(rules_after)
    differences = []
    for position, submission in enumerate(submissions):
        before = outcome(old, submission, site, time_limit)
        after = outcome(new, submission, site, time_limit)
        if before != after:
            differences.append(Difference(position, submission, before, after))
    return differences


def _verdict(result: RuleOutcome) -> str:
    return f"refused: {result.refusal}" if result.refusal else "admitted"
