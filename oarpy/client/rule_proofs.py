"""``oaradmissionrules test --cases``: whether a rule does what the cases beside it expect."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from oarpy.admission.rule_cases import CaseResult, parse_cases, run_cases
from oarpy.admission.rules import Rule, check_syntax
from oarpy.client.rendering import JsonValue
from oarpy.client.rule_trials import read_text
from oarpy.client.rules import DEFAULT_PRIORITY, as_rule, check_name, find
from oarpy.client.session import Session


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of each case of a rule."""

    rule: str
    results: tuple[CaseResult, ...]

    @property
    def failed(self) -> int:
        """How many cases did not come out as expected."""
        return sum(not one.passed for one in self.results)

    def text(self) -> str:
        """Return the failed cases for people, and how many there are."""
        lines = []
        for one in self.results:
            if not one.passed:
                lines += [f"{one.case}:", *(f"  {problem}" for problem in one.problems)]
        lines.append(f"# rule {self.rule}: {len(self.results)} cases, {self.failed} failed")
        return "\n".join(lines) + "\n"

    def record(self) -> dict[str, JsonValue]:
        """Return the JSON object: ``rule``, ``cases`` (``name``, ``passed``, ``problems``)."""
        return {
            "rule": self.rule,
            "cases": [{"name": one.case, "passed": one.passed, "problems": list(one.problems)} for one in self.results],
        }


def prove(session: Session, name: str, text: str | None, path: str) -> Proof:
    """Run rule ``name``, with ``text`` when given, on the cases of the TOML file ``path``.

    The cluster is what each case says it is. A rule is a program that runs where the command runs, which may be the
    server: only an admin may try a text that is not stored.
    """
    if text is None:
        rule = as_rule(find(session, name))
    else:
        session.require_admin("try a rule that is not stored")
        check_name(name)
        rule = Rule(name, text, DEFAULT_PRIORITY)
        check_syntax(rule)
    return Proof(name, tuple(run_cases(dataclasses.replace(rule, enabled=True), parse_cases(read_text(path)))))
