"""``oaradmissionrules test``: the effect of a rule, or of a new version of it, on recent or given submissions."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from oarpy.admission.rules.cases import CaseResult, parse_cases, run_cases
from oarpy.admission.rules.comparison import Difference, compare
from oarpy.admission.rules.rules import Rule, check_syntax
from oarpy.client.caller import current
from oarpy.client.rendering import JsonValue
from oarpy.client.rules.rules import DEFAULT_PRIORITY, as_rule, check_name, find
from oarpy.client.session import Session
from oarpy.client.submission.site import DatabaseSite, rule_limits
from oarpy.model.errors import UsageError
from oarpy.model.submission import Submission
from oarpy.store.platform import admission_rules as store


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of each case of a rule."""

    rule: str
    results: tuple[CaseResult, ...]

    @property
    def failed(self) -> int:
        """The number of cases with another result than the expected one."""
        return sum(not result.passed for result in self.results)

    def text(self) -> str:
        """Return the failed cases for people, and how many there are."""
        lines = []
        for result in self.results:
            if not result.passed:
                lines += [f"{result.case}:", *(f"  {problem}" for problem in result.problems)]
        lines.append(f"# rule {self.rule}: {len(self.results)} cases, {self.failed} failed")
        return "\n".join(lines) + "\n"

    def data(self) -> dict[str, JsonValue]:
        """Return ``rule`` and ``cases`` (``name``, ``passed``, ``problems``)."""
        return {
            "rule": self.rule,
            "cases": [
                {"name": result.case, "passed": result.passed, "problems": list(result.problems)}
                for result in self.results
            ],
        }


def prove(session: Session, name: str, text: str | None, path: str) -> Proof:
    """Run rule ``name``, with ``text`` when given, on the cases of the TOML file ``path``.

    Each case describes its cluster. A rule is a program that runs where the command runs, which may be the server. So
    only an admin may try a text that is not stored.
    """
    if text is None:
        rule = as_rule(find(session, name))
    else:
        session.require_admin("try a rule that is not stored")
        check_name(name)
        rule = Rule(name, text, DEFAULT_PRIORITY)
        check_syntax(rule)
    return Proof(name, tuple(run_cases(dataclasses.replace(rule, enabled=True), parse_cases(read_text(path)))))


MOST_SUBMISSIONS = 10_000
_LARGEST_FILE = 16_000_000
"""Bytes of a file of submissions or cases."""


@dataclass(frozen=True, slots=True)
class Specimen:
    """A submission to try rules on, under the name shown for it."""

    name: str
    submission: Submission


class DifferenceDocument(TypedDict):
    """A submission that would fare differently."""

    submission: str
    user: str
    changes: Sequence[str]


class TrialDocument(TypedDict):
    """The two sets of rules that were compared, the number of submissions, and the submissions with another result."""

    compared: str
    tried: int
    differences: Sequence[DifferenceDocument]


@dataclass(frozen=True, slots=True)
class Trial:
    """A comparison: ``differences`` are by position in ``specimens``; ``compared`` names its two sides."""

    compared: str
    specimens: tuple[Specimen, ...]
    differences: tuple[Difference, ...]

    def text(self) -> str:
        """Return the differences for people."""
        lines = [f"# {self.compared}"]
        for difference in self.differences:
            lines.append(f"{self.specimens[difference.position].name} ({difference.submission.user}):")
            lines += [f"  {line}" for line in difference.lines()]
        lines.append(f"# {len(self.specimens)} submissions tried, {len(self.differences)} would fare differently")
        return "\n".join(lines) + "\n"

    def data(self) -> TrialDocument:
        """Return the results as data for programs."""
        return {
            "compared": self.compared,
            "tried": len(self.specimens),
            "differences": [
                {
                    "submission": self.specimens[difference.position].name,
                    "user": difference.submission.user,
                    "changes": list(difference.lines()),
                }
                for difference in self.differences
            ],
        }


def recent(session: Session, count: int) -> list[Specimen]:
    """Return the newest submissions, of everybody for an admin, else the caller's own."""
    if not 0 < count <= MOST_SUBMISSIONS:
        raise UsageError(f"--last {count} is out of range", hint=f"1 to {MOST_SUBMISSIONS}")
    rows = store.recent_requests(session.connection, count, None if session.is_admin else session.user)
    return [Specimen(f"submission {number}", Submission.from_record(request)) for number, request in rows]


def read_text(path: str) -> str:
    """Read a file of submissions or cases as the caller may. Raises :class:`UsageError`."""
    try:
        data = current().read_file(path, _LARGEST_FILE, plain=False)
        if len(data) > _LARGEST_FILE:
            raise UsageError(f"file '{path}' is larger than {_LARGEST_FILE} bytes", hint="split it")
        return data.decode()
    except OSError as error:
        raise UsageError(f"file '{path}' cannot be read: {error.strerror}", hint="check its name") from None
    except UnicodeDecodeError:
        raise UsageError(f"file '{path}' is not UTF-8 text", hint="it is a TOML file") from None


def from_file(session: Session, path: str) -> list[Specimen]:
    """Read submissions from a TOML file: its keys make one submission, or ``[[submission]]`` tables hold several."""
    try:
        table: Mapping[str, object] = tomllib.loads(read_text(path))
    except ValueError as error:
        raise UsageError(f"submission file '{path}' is not TOML: {error}", hint="key = value lines") from None
    entries = table.get("submission", [table])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"'{path}': submission must be a list of tables", hint="begin each with [[submission]]")
    return [
        Specimen(f"{path} [{place}]", Submission.from_record({"user": session.user, **entry}))
        for place, entry in enumerate(entries, 1)
    ]


def compare_rule(
    session: Session, name: str | None, text: str | None, priority: int | None, specimens: Sequence[Specimen]
) -> Trial:
    """Try ``specimens`` with and without the change.

    With ``text`` the change is that rule ``name`` gets this text (and ``priority``). With ``name`` alone it is that the
    rule is there at all; with neither, that there are any rules. A rule is a program that runs where the command runs,
    which may be the server. So only an admin may try a text that is not stored.
    """
    if text is not None:
        session.require_admin("try a rule that is not stored")
    stored = [as_rule(row) for row in store.rules(session.connection)]
    before, after, compared = stored, stored, "no rules -> the enabled rules"
    if name is None:
        if text is not None:
            raise UsageError("--file without the name of a rule", hint="oaradmissionrules test NAME --file FILE")
        before = []
    elif text is None:
        rule = as_rule(find(session, name))
        others = [stored_rule for stored_rule in stored if stored_rule.name != name]
        before, after = others, [*others, dataclasses.replace(rule, enabled=True)]
        compared = f"without rule {name} -> with it"
    else:
        check_name(name)
        others = [stored_rule for stored_rule in stored if stored_rule.name != name]
        old = next(
            (stored_rule for stored_rule in stored if stored_rule.name == name), Rule(name, "", DEFAULT_PRIORITY)
        )
        new = dataclasses.replace(old, text=text, enabled=True, priority=old.priority if priority is None else priority)
        check_syntax(new)
        after = [*others, new]
        compared = f"the rules as they are -> rule {name} with the text of the file"
    site = DatabaseSite(session, datetime.now().astimezone())
    limits = rule_limits(session.configuration.submission)
    differences = compare(before, after, [specimen.submission for specimen in specimens], site, limits=limits)
    return Trial(compared, tuple(specimens), tuple(differences))
