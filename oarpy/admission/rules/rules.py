"""Admission rules as values: their texts, their effects on a submission, and their refusals."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from oarpy.model.errors import AdmissionRefused, UsageError
from oarpy.model.submission import Submission


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. Lower ``priority`` runs first, equal ones by name; ``id`` is None before it is stored."""

    name: str
    text: str
    priority: int = 50
    enabled: bool = True
    id: int | None = None
    version: int = 1

    @property
    def description(self) -> str:
        """The first line of its docstring or of the comment it begins with."""
        for line in self.text.splitlines():
            if words := line.strip().strip("#\"'").strip():
                return words
        return ""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A field a rule changed; values in JSON form."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.before!r} -> {self.after!r}"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """The effects of one rule, and its seconds. ``refusal`` is empty unless it refused or ``failed`` (at ``line``)."""

    rule: str
    seconds: float
    notes: tuple[str, ...] = ()
    changes: tuple[RuleChange, ...] = ()
    refusal: str = ""
    line: int | None = None
    failed: bool = False


@dataclass(slots=True)
class AdmissionTrace:
    """The effects of the rules on one submission, in the order they ran."""

    rules: list[RuleTrace] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """The lines to show to the user."""
        return [note for rule in self.rules for note in rule.notes]

    def replayed(self, submission: Submission) -> Iterator[tuple[str, Submission]]:
        """Yield each rule that changed something, with ``submission`` after it."""
        for rule in self.rules:
            if rule.changes:
                submission = submission.with_values({change.field: change.after for change in rule.changes})
                yield rule.rule, submission

    def result(self, submission: Submission) -> Submission:
        """Return ``submission`` after all rules."""
        return submission.with_values({change.field: change.after for rule in self.rules for change in rule.changes})

    def lines(self) -> list[str]:
        """Return the trace for users (``oarsub --verbose``): each rule's time, its changes, notes and refusal."""
        lines = []
        for rule in self.rules:
            lines.append(f"rule {rule.rule} ({rule.seconds * 1000:.1f} ms)")
            lines += [f"  {change}" for change in rule.changes]
            lines += [f"  note: {note}" for note in rule.notes]
            lines += [f"  refused: {rule.refusal}"] if rule.refusal else []
        return lines


class RefusedByRule(AdmissionRefused):
    """A rule refused the submission at ``line``; ``trace`` has the rules before it."""

    def __init__(self, message: str, *, hint: str, rule: str, line: int | None, trace: AdmissionTrace) -> None:
        super().__init__(message, hint=hint)
        self.rule = rule
        self.line = line
        self.trace = trace


class RuleFailed(RefusedByRule):
    """A rule, or the process in which rules run, failed."""


def check_syntax(rule: Rule) -> None:
    """Raise :class:`UsageError` with the line when the text of ``rule`` is not Python."""
    try:
        compiled(rule.name, rule.text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise UsageError(f"rule {rule.name}, line {line}: {getattr(error, 'msg', error)}", hint="correct it") from None


@functools.lru_cache(maxsize=1024)
def compiled(name: str, text: str) -> CodeType:
    """Compile a rule under its own file name; kept for the life of the process."""
    return compile(text, file_name(name), "exec", dont_inherit=True)


def file_name(name: str) -> str:
    """Return the file name under which a rule is compiled, so that its errors carry its own line numbers."""
    return f"<rule {name}>"
