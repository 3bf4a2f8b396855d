"""The cases that prove a rule: a given submission and site, with the expected changes, notes or refusal.

They are TOML, one ``[[case]]`` each::

    [[case]]
    name = "a job without a queue goes to the default one"
    submission = { user = "ann" }
    site = { settings = { default_queue = "day" } }
    expect = { changes = { queue = "day" } }

``expect.changes`` lists exactly the fields that change, in JSON form (none when left out). ``expect.notes`` are the
lines shown, ``expect.refused`` is a part of the message of the refusal.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import RefusedByRule, Rule
from oarpy.admission.rules.site import FixedSite
from oarpy.model.errors import UsageError
from oarpy.model.submission import Submission
from oarpy.model.typed_values import Misfit, from_values


class Expectation(Struct, frozen=True, forbid_unknown_fields=True):
    """The expected result of a case."""

    changes: dict[str, Any] | UnsetType = UNSET
    notes: tuple[str, ...] | UnsetType = UNSET
    refused: str | None = None


class CaseEntry(Struct, forbid_unknown_fields=True):
    """A case as it is written."""

    submission: dict[str, Any] = {}
    name: str = ""
    site: FixedSite = FixedSite()
    expect: Expectation = Expectation()


class CaseFile(Struct, forbid_unknown_fields=True):
    """A whole file."""

    case: Annotated[list[CaseEntry], Meta(min_length=1)]


@dataclass(frozen=True, slots=True)
class Case:
    """One case. ``refused`` is None when the submission must be admitted."""

    name: str
    submission: Submission
    site: FixedSite
    changes: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case; ``problems`` is empty if the rule had the expected effects."""

    case: str
    problems: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """True when all was as expected."""
        return not self.problems


def parse_cases(text: str) -> list[Case]:
    """Read cases; raise :class:`UsageError` naming the case and the key that is wrong."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"cases are not TOML: {error}") from None
    try:
        entries = from_values(document, CaseFile).case
    except Misfit as error:
        raise _named(error) from None
    return [_case(entry, number) for number, entry in enumerate(entries, 1)]


def _named(error: Misfit) -> UsageError:
    """Return the error under the name of its case: ``late jobs: site: jobs 2: key 'id': missing``."""
    match error.path:
        case ("case", int(place), *rest):
            case = error.document["case"][place]
            name = case.get("name") if isinstance(case, dict) else None
            inside = Misfit(case, tuple(rest), error.problem, error.hint)
            return inside.error(str(name or f"case {place + 1}"))
    return UsageError("a file of cases holds [[case]] tables and nothing else")


def run_cases(rules: Rule | Sequence[Rule], cases: Sequence[Case]) -> list[CaseResult]:
    """Run ``rules`` (one, or several in their order), enabled or not, on each case."""
    chosen = [rules] if isinstance(rules, Rule) else rules
    ready = RuleSet(dataclasses.replace(rule, enabled=True) for rule in chosen)
    return [CaseResult(case.name, tuple(_problems(ready, case))) for case in cases]


def _problems(rules: RuleSet, case: Case) -> list[str]:
    """Return the expectations of a case that were not met, one line each."""
    before = case.submission.to_record()
    try:
        submission, trace = rules.run(case.submission, case.site)
    except RefusedByRule as error:
        if case.refused is None:
            return [f"refused: {error}"]
        return [] if case.refused in str(error) else [f"refused with '{error}', expected '{case.refused}'"]
    if case.refused is not None:
        return [f"admitted, expected the refusal '{case.refused}'"]
    after = submission.to_record()
    fresh = Submission(submission.user)
    problems = []
    for name in sorted(set(before) | set(after) | set(case.changes)):
        old, new = (record.get(name, getattr(fresh, name, None)) for record in (before, after))
        if name in case.changes and (old == new or new != case.changes[name]):
            problems.append(f"{name} became {new!r}, expected {case.changes[name]!r}")
        elif name not in case.changes and old != new:
            problems.append(f"{name} became {new!r}, expected no change")
    if trace.notes != list(case.notes):
        problems.append(f"notes {trace.notes!r}, expected {list(case.notes)!r}")
    return problems


def _case(entry: CaseEntry, number: int) -> Case:
    """Make a case of an entry. Raises :class:`UsageError` that names the case."""
    name, expect = entry.name or f"case {number}", entry.expect
    if expect.refused is not None and (expect.changes is not UNSET or expect.notes is not UNSET):
        raise UsageError(f"{name}: a refused submission has no changes and no notes")
    try:
        submission = Submission.from_record(entry.submission)
    except UsageError as error:
        raise UsageError(f"{name}: {error.message}", hint=error.hint) from None
    return Case(name, submission, entry.site, expect.changes or {}, expect.notes or (), expect.refused)
