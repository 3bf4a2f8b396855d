"""Admission rules: Python texts that change or refuse a submission, each compiled and run by itself.

A rule has a file name of its own (``<rule NAME>``), so its errors carry its own line numbers. It has a namespace of its
own (:mod:`oarpy.admission.rules.rule_api`), so no name leaks into the next. Whatever goes wrong in a rule refuses the
submission with the rule's name and line, and leaves it as it was.
"""

from __future__ import annotations

import functools
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType

from oarpy.admission.rules.rule_api import RuleApi, RuleRefusal
from oarpy.admission.rules.site import Site
from oarpy.admission.rules.time_limit import Limiter, TimeExceeded, limiter
from oarpy.model.errors import AdmissionRefused, Unreachable, UsageError
from oarpy.model.submission import FIELDS, Submission, plain

DEFAULT_TIME_LIMIT = 2.0
"""Seconds one rule may take."""


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
    before: object
    after: object

    def __str__(self) -> str:
        return f"{self.field}: {self.before!r} -> {self.after!r}"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """What one rule did, in how many seconds. ``refusal`` is empty unless it refused or failed (then at ``line``)."""

    rule: str
    seconds: float
    notes: tuple[str, ...] = ()
    changes: tuple[RuleChange, ...] = ()
    refusal: str = ""
    line: int | None = None


@dataclass(slots=True)
class AdmissionTrace:
    """What the rules did to one submission, in the order they ran."""

    rules: list[RuleTrace] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """The lines to show to the user."""
        return [note for rule in self.rules for note in rule.notes]

    def lines(self) -> list[str]:
        """The trace for people (``oarsub --verbose``): each rule's time, then what it changed, said or refused."""
        lines = []
        for rule in self.rules:
            lines.append(f"rule {rule.rule} ({rule.seconds * 1000:.1f} ms)")
            lines += [f"  {change}" for change in rule.changes]
            lines += [f"  note: {note}" for note in rule.notes]
            lines += [f"  refused: {rule.refusal}"] if rule.refusal else []
        return lines


class RefusedByRule(AdmissionRefused):
    """A rule refused the submission, or failed, at ``line``; ``trace`` tells what ran before.

    ``timed_out`` says that the rule was interrupted, perhaps in the middle of a question to the site. A database
    connection behind it may be in the middle of a query: it must not be used again.
    """

    def __init__(
        self, message: str, *, hint: str, rule: str, line: int | None, trace: AdmissionTrace, timed_out: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.rule = rule
        self.line = line
        self.trace = trace
        self.timed_out = timed_out


class RuleSet:
    """The enabled rules in the order they run."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = sorted((rule for rule in rules if rule.enabled), key=lambda rule: (rule.priority, rule.name))

    def run(
        self, submission: Submission, site: Site, *, time_limit: float = DEFAULT_TIME_LIMIT
    ) -> tuple[Submission, AdmissionTrace]:
        """Return what the rules make of ``submission``, and what each did; each may take ``time_limit`` seconds.

        Raises :class:`RefusedByRule` at the first rule that refuses or fails, and lets :class:`Unreachable` through
        when the site cannot be asked.
        """
        trace = AdmissionTrace()
        with limiter() as limits:
            for rule in self.rules:
                submission = _apply(rule, submission, site, trace, limits, time_limit)
        return submission, trace


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
    return compile(text, _file_name(name), "exec", dont_inherit=True)


def _file_name(name: str) -> str:
    return f"<rule {name}>"


def _apply(
    rule: Rule, submission: Submission, site: Site, trace: AdmissionTrace, limits: Limiter, time_limit: float
) -> Submission:
    """Run one rule, add what it did to ``trace``, and return the submission. Raises :class:`RefusedByRule`."""
    api = RuleApi(submission, site)
    began = time.perf_counter()

    def action() -> None:
        exec(compiled(rule.name, rule.text), api.namespace())

    refusal, line, hint, timed_out = "", None, f"admission rule {rule.name}", False
    try:
        limits.run(action, time_limit)
    except (KeyboardInterrupt, Unreachable):
        raise
    except RuleRefusal as error:
        refusal, line = str(error) or "refused", _line(error, rule.name)
    except BaseException as error:
        timed_out = isinstance(error, TimeExceeded)
        line = _line(error, rule.name)
        place = f"admission rule {rule.name} failed at line {line}" if line else f"admission rule {rule.name} failed"
        refusal, hint = f"{place}: {_reason(error, time_limit)}", "tell the administrators"
    trace.rules.append(
        RuleTrace(
            rule=rule.name,
            seconds=time.perf_counter() - began,
            notes=tuple(api.notes),
            changes=() if refusal else _changes(submission, api.submission),
            refusal=refusal,
            line=line,
        )
    )
    if refusal:
        raise RefusedByRule(refusal, hint=hint, rule=rule.name, line=line, trace=trace, timed_out=timed_out) from None
    return api.submission


def _changes(before: Submission, after: Submission) -> tuple[RuleChange, ...]:
    """Return the fields that differ, in JSON form."""
    return tuple(
        RuleChange(name, plain(old), plain(new))
        for name in FIELDS
        if (old := getattr(before, name)) != (new := getattr(after, name))
    )


def _line(error: BaseException, name: str) -> int | None:
    """Return the line of the rule where ``error`` began, also when it was raised by something the rule called."""
    if isinstance(error, SyntaxError) and error.filename == _file_name(name):
        return error.lineno
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == _file_name(name)]
    return lines[-1] if lines else None


def _reason(error: BaseException, time_limit: float) -> str:
    """Say in one line what went wrong in a rule."""
    if isinstance(error, TimeExceeded):
        return f"it ran longer than {time_limit:g} s"
    if isinstance(error, SyntaxError):
        return f"it is not Python: {error.msg}"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
