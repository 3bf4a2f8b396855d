"""Running rules over a submission, in this process: each with a namespace and a time limit of its own.

A namespace of its own (:mod:`oarpy.admission.rules.rule_api`) lets no name leak into the next rule. Whatever goes wrong
in a rule refuses the submission with the rule's name and line.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oarpy.admission.rules.rule_api import RuleApi, RuleRefusal
from oarpy.admission.rules.rules import Rule, RuleChange, RuleTrace, compiled, file_name
from oarpy.admission.rules.site import Site
from oarpy.admission.rules.time_limit import TimeExceeded, TimeLimit
from oarpy.model.submission import Submission, plain


@dataclass(frozen=True, slots=True)
class RuleLimits:
    """The limits of one rule: ``seconds``, and ``memory`` in MiB."""

    seconds: float = 2.0
    memory: int = 256


@dataclass(frozen=True, slots=True)
class RulesRun:
    """The traces of the rules, up to the first that refused. If ``spoiled``, the process must not run rules again."""

    traces: list[RuleTrace]
    spoiled: bool = False


def run_rules(
    rules: Iterable[Rule], submission: Submission, site: Site, limits: RuleLimits, begins: Callable[[int], None]
) -> RulesRun:
    """Run ``rules`` in this order; ``begins`` is called with the position of each before it runs."""
    traces, time_limit = [], TimeLimit()
    for position, rule in enumerate(rules):
        begins(position)
        api = RuleApi(submission, site)
        trace, error = _run(rule, api, limits, time_limit)
        traces.append(trace)
        if error is not None:
            return RulesRun(traces, isinstance(error, TimeExceeded | MemoryError))
        submission = api.submission
    return RulesRun(traces)


def failure(rule: str, line: int | None, reason: str) -> str:
    """Return the message for users that a rule failed."""
    place = f" at line {line}" if line else ""
    return f"admission rule {rule} failed{place}: {reason}"


def too_long(limits: RuleLimits) -> str:
    """Return the text for a rule that took too long."""
    return f"it ran longer than {limits.seconds:g} s"


def _run(rule: Rule, api: RuleApi, limits: RuleLimits, time_limit: TimeLimit) -> tuple[RuleTrace, BaseException | None]:
    """Run one rule; return its trace, and the error that ended it."""
    caught: BaseException | None = None
    before, refusal, line = api.submission, "", None
    began = time.perf_counter()
    try:
        time_limit.run(lambda: exec(compiled(rule.name, rule.text), api.namespace()), limits.seconds)
    except RuleRefusal as error:
        caught, line = error, _line(error, rule.name)
        refusal = str(error) or "refused"
    except BaseException as error:
        caught, line = error, _line(error, rule.name)
        refusal = failure(rule.name, line, _reason(error, limits))
    trace = RuleTrace(
        rule=rule.name,
        seconds=time.perf_counter() - began,
        notes=tuple(api.notes),
        changes=() if refusal or api.submission is before else _changes(before, api.submission),
        refusal=refusal,
        line=line,
        failed=bool(refusal) and not isinstance(caught, RuleRefusal),
    )
    return trace, caught


def _changes(before: Submission, after: Submission) -> tuple[RuleChange, ...]:
    """Return the fields that differ, in JSON form."""
    values = vars(after)
    return tuple(
        RuleChange(name, plain(old), plain(new))
        for name, old in vars(before).items()
        if (new := values[name]) is not old and new != old
    )


def _line(error: BaseException, name: str) -> int | None:
    """Return the line of the rule where ``error`` began, also when it was raised by something the rule called."""
    if isinstance(error, SyntaxError) and error.filename == file_name(name):
        return error.lineno
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file_name(name)]
    return lines[-1] if lines else None


def _reason(error: BaseException, limits: RuleLimits) -> str:
    """Return in one line what went wrong in a rule."""
    if isinstance(error, TimeExceeded):
        return too_long(limits)
    if isinstance(error, MemoryError):
        return f"it took more than {limits.memory} MiB of memory"
    if isinstance(error, SyntaxError):
        return f"it is not Python: {error.msg}"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
