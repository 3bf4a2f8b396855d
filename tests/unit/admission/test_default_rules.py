from __future__ import annotations

import pytest

from oarpy.admission.rules.cases import Case, parse_cases, run_cases
from oarpy.admission.rules.default_rules import default_cases, default_rules, read_rule
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import RefusedByRule, Rule, check_syntax
from oarpy.admission.rules.site import FixedSite
from oarpy.model.submission import Submission

CASES = [(rule, case) for rule in default_rules() for case in parse_cases(default_cases(rule))]


@pytest.mark.parametrize(("rule", "case"), CASES, ids=[f"{rule.name}: {case.name}" for rule, case in CASES])
def test_case(rule: Rule, case: Case) -> None:
    assert run_cases(rule, [case])[0].problems == ()


@pytest.mark.parametrize("rule", default_rules(), ids=lambda rule: rule.name)
def test_every_rule_says_what_it_does_and_has_cases(rule: Rule) -> None:
    check_syntax(rule)
    assert rule.description.endswith(".")
    assert "mypy" not in rule.text
    assert parse_cases(default_cases(rule))


def test_the_set_is_that_of_oar_and_its_example_is_off() -> None:
    assert [rule.priority for rule in default_rules()] == list(range(20))
    assert [rule.name for rule in default_rules() if not rule.enabled] == ["example_jobs_per_user"]


def test_a_plain_job_through_all_rules() -> None:
    asked = Submission("ann", groups=("users",), command="sleep 1")
    submission, _ = RuleSet(default_rules()).run(asked, FixedSite())
    assert submission.to_record() == {
        "user": "ann",
        "groups": ["users"],
        "queue": "default",
        "properties": "drain = 'NO'",
        "alternatives": [{"resources": "{type = 'default'}/resource_id=1", "walltime": 7200}],
        "command": "sleep 1",
    }


def test_a_second_pass_changes_nothing() -> None:
    submission = Submission("ann", types=("besteffort", "idempotent"), properties="cpu = 1 OR mem > 4")
    rules = RuleSet(default_rules())
    once, _ = rules.run(submission, FixedSite())
    twice, trace = rules.run(once, FixedSite())
    assert twice.to_record() == once.to_record()
    assert all(rule.changes == () for rule in trace.rules)


def test_a_reservation_in_the_besteffort_queue_is_refused_like_the_type() -> None:
    submission = Submission.from_record(
        {"user": "ann", "queue": "besteffort", "reservation": "2026-01-02T00:00:00+00:00", "alternatives": ["/core=1"]}
    )
    with pytest.raises(RefusedByRule, match="no_besteffort_reservation"):
        RuleSet(default_rules()).run(submission, FixedSite())


@pytest.mark.parametrize("properties", ["cpu = 1 OR " * 908 + "cpu = 1", "NOT " * 98 + "cpu = 1"], ids=["long", "deep"])
def test_a_filter_that_has_no_room_for_the_rules_is_the_users_to_shorten(properties: str) -> None:
    submission = Submission("ann", properties=properties)
    with pytest.raises(RefusedByRule, match=r"once '.*' is added, shorten it \(admission rule "):
        RuleSet(default_rules()).run(submission, FixedSite())


def test_lines_for_type_checkers_are_left_out_and_others_keep_their_numbers() -> None:
    rule = read_rule("x", 3, "# Does it.\n# enabled: no\nrefuse('no')\n# mypy: ignore-errors\n")
    assert (rule.text, rule.enabled, rule.priority) == ("# Does it.\n# enabled: no\nrefuse('no')\n", False, 3)
