from __future__ import annotations

from collections.abc import Callable

import pytest

from oarpy.admission.rules.execution import RuleLimits
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import AdmissionTrace, RefusedByRule, Rule, RuleChange, check_syntax
from oarpy.admission.rules.site import FixedSite, JobInfo
from oarpy.model.errors import Unreachable, UsageError
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission


def ann() -> Submission:
    return Submission("ann", alternatives=(parse_request("/nodes=1/core=2"), parse_request("/core=4,walltime=1:0:0")))


def run(
    text: str, submission: Submission | None = None, site: FixedSite | None = None
) -> tuple[Submission, AdmissionTrace]:
    return RuleSet([Rule("mine", text)]).run(submission or ann(), site or FixedSite(), limits=RuleLimits(5))


def refused(text: str, *, time_limit: float = 5) -> RefusedByRule:
    submission = ann()
    with pytest.raises(RefusedByRule) as caught:
        RuleSet([Rule("mine", text)]).run(submission, FixedSite(), limits=RuleLimits(time_limit))
    assert submission == ann()
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert caught.value.exit_status == 3
    assert caught.value.trace.rules[-1].rule == "mine"
    assert caught.value.trace.rules[-1].refusal
    return caught.value


def test_rules_run_by_priority_then_name_and_only_enabled_ones() -> None:
    rules = [
        Rule("late", "note('late')", 9),
        Rule("b", "note('b')", 1),
        Rule("off", "note('off')", 1, enabled=False),
        Rule("a", "note('a')", 1),
    ]
    assert RuleSet(rules).run(ann(), FixedSite())[1].notes == ["a", "b", "late"]


def test_the_trace_tells_what_each_rule_changed() -> None:
    rules = [
        Rule("first", "job.queue = 'night'; note('to the night')", 1),
        Rule("second", "pass", 2),
        Rule("third", "add_type('noop'); set_walltime('0:10:0', only_missing=True)", 3),
    ]
    submission, trace = RuleSet(rules).run(ann(), FixedSite())
    assert [rule.changes for rule in trace.rules] == [
        (RuleChange("queue", None, "night"),),
        (),
        (
            RuleChange("types", [], ["noop"]),
            RuleChange(
                "alternatives",
                [{"resources": "/nodes=1/core=2"}, {"resources": "/core=4", "walltime": 3600}],
                [{"resources": "/nodes=1/core=2", "walltime": 600}, {"resources": "/core=4", "walltime": 3600}],
            ),
        ),
    ]
    assert (submission.queue, submission.types) == ("night", ("noop",))
    lines = trace.lines()
    assert lines[0].startswith("rule first (")
    assert lines[1:3] == ["  queue: None -> 'night'", "  note: to the night"]
    assert not any(rule.refusal for rule in trace.rules)


def test_nothing_is_kept_when_a_later_rule_refuses() -> None:
    submission = ann()
    rules = [Rule("first", "job.queue = 'night'", 1), Rule("second", "refuse('not today')", 2)]
    with pytest.raises(RefusedByRule) as caught:
        RuleSet(rules).run(submission, FixedSite())
    assert submission == ann()
    assert str(caught.value) == "not today (admission rule second)"
    assert [rule.rule for rule in caught.value.trace.rules] == ["first", "second"]
    assert caught.value.trace.lines()[-1] == "  refused: not today"


def test_a_refusal_knows_its_line_also_from_a_function_of_the_rule() -> None:
    error = refused("# first line\ndef check():\n    refuse('no')\n\ncheck()")
    assert (error.rule, error.line) == ("mine", 3)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("x = 1\nx / 0", 2, "admission rule mine failed at line 2: ZeroDivisionError: division by zero"),
        ("def f():\n    return nothing\n\nf()", 2, "NameError: name 'nothing' is not defined"),
        ("x = 1\nif x\n    pass", 2, "it is not Python: expected ':'"),
        ("\n  x = 1", 2, "it is not Python: unexpected indent"),
        ("import os", 1, "ImportError: a rule cannot import os"),
        ("from os import path", 1, "a rule cannot import os"),
        ("open('/etc/passwd')", 1, "name 'open' is not defined"),
        ("eval('1')", 1, "name 'eval' is not defined"),
        ("exec('1')", 1, "name 'exec' is not defined"),
        ("exit(0)", 1, "name 'exit' is not defined"),
        ("raise SystemExit", 1, "name 'SystemExit' is not defined"),
        ("\njob.queue = 3", 2, "TypeError: queue must be text, not int"),
        ("job.queu = 'x'", 1, "AttributeError: a job has no 'queu', only user, groups"),
        ("note(job.owner)", 1, "AttributeError: a job has no 'owner'"),
        ("job.user = 'root'", 1, "job.user cannot be changed by a rule"),
        ("job.types = 'noop'", 1, "types must be a list of texts, not str"),
        ("job.types.append('noop')", 1, "'tuple' object has no attribute 'append'"),
        ("job.hold = 'yes'", 1, "hold must be true or false, not str"),
        ("job.alternatives = ['/core=0']", 1, "count 0 of level 'core'"),
        ("job.properties = 'a = 1;'", 1, "more than one condition"),
        ("add_property('a =')", 1, "UsageError: filter 'a =': syntax error"),
        ("restrict_groups('f(x)')", 1, "function f() is not allowed"),
        ("set_walltime(0)", 1, "a walltime is a number of seconds above 0, not 0"),
        ("set_walltime('long')", 1, "'long' is not a duration"),
        ("set_walltime(60, 2)", 1, "IndexError: no alternative 2, the job has 2"),
        ("read_date('tomorrow')", 1, "'tomorrow' is not a date"),
        ("for i in range(200):\n    note('x')", 2, "more than 100 notes"),
        ("def f():\n    f()\nf()", 2, "RecursionError"),
    ],
)
def test_a_mistake_in_a_rule_refuses_with_its_name_and_line(text: str, line: int, part: str) -> None:
    error = refused(text)
    assert part in str(error)
    assert (error.rule, error.line) == ("mine", line)
    assert error.hint == "tell the administrators"


def test_a_text_that_python_cannot_read_at_all() -> None:
    assert "admission rule mine failed: " in str(refused("x = 1\0"))


@pytest.mark.parametrize(
    "text",
    [
        "while True: pass",
        "while True:\n    try:\n        len([])\n    except Exception:\n        pass",
        "x = 0\nfor i in range(10**12): x += i",
    ],
)
def test_a_rule_that_never_ends_is_interrupted(text: str) -> None:
    error = refused(text, time_limit=0.05)
    assert "ran longer than 0.05 s" in str(error)


def test_an_exit_out_of_the_api_refuses_too() -> None:
    class Leaving(FixedSite, frozen=True):
        def groups(self, user: str) -> tuple[str, ...]:
            raise SystemExit(3)

    with pytest.raises(RefusedByRule, match="mine failed at line 1: SystemExit: 3"):
        RuleSet([Rule("mine", "site.groups('ann')")]).run(ann(), Leaving())


def test_an_unreachable_database_is_not_blamed_on_the_rule() -> None:
    class Lost(FixedSite, frozen=True):
        def groups(self, user: str) -> tuple[str, ...]:
            raise Unreachable("the database does not answer")

    submission = ann()
    with pytest.raises(Unreachable):
        RuleSet([Rule("mine", "job.queue = 'x'\nsite.groups('ann')")]).run(submission, Lost())
    assert submission == ann()


def test_names_do_not_leak_from_rule_to_rule_or_run_to_run() -> None:
    rules = [Rule("a", "secret = 1", 1), Rule("b", "note('secret' if secret else '')", 2)]
    with pytest.raises(RefusedByRule, match="rule b failed at line 1: NameError: name 'secret'"):
        RuleSet(rules).run(ann(), FixedSite())
    text = "try:\n    seen\n    note('leaked')\nexcept Exception:\n    seen = 1"
    assert run(text)[1].notes == run(text)[1].notes == []


def test_a_rule_cannot_change_the_builtins_of_another() -> None:
    rules = [Rule("a", "len = lambda _: 7", 1), Rule("b", "note(len([]))", 2)]
    assert RuleSet(rules).run(ann(), FixedSite())[1].notes == ["0"]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("note('a\\n  b')", ["a b"]),
        ("print('x', 3)", ["x 3"]),
        ("note(job.user, )", ["ann"]),
        ("note(settings('limit', 4))", ["12"]),
        ("note(settings('other', 4))", ["4"]),
        ("note(site.count_jobs(user='ann'))", ["2"]),
        ("note(site.count_jobs(user='ann', states=['Running']))", ["1"]),
        ("note(site.count_jobs(reservation=True, queue='default', project='default', job_type='noop'))", ["1"]),
        ("note(site.queue('admin').priority)\nnote(site.queue('x'))", ["10", "None"]),
        ("note(site.job(2).state)\nnote(site.job(9))", ["Running", "None"]),
        ("note([j.id for j in site.containers('c')])", ["[1]"]),
        ("note(site.groups('ann'))\nnote(dict(site.properties()))", ["['users']", "{'mem': 'integer'}"]),
        ("note(names_property(\"a = 'type'\", 'type'))\nnote(names_property('', 'type'))", ["False", "False"]),
        ("note(matches('n[0-9]+', 'n12'))\nnote(matches('n', 'n12'))", ["True", "False"]),
        ("note(read_date('2026-02-03 4:05').minute)\nnote(read_date('2026-02-03').hour)", ["5", "0"]),
        ("note([str(r) for r in job.alternatives])", ["['/nodes=1/core=2', '/core=4']"]),
        ("def f(n):\n    return 1 if n < 2 else n * f(n - 1)\nnote(f(5))", ["120"]),
    ],
)
def test_what_a_rule_may_ask_and_say(text: str, notes: list[str]) -> None:
    site = FixedSite(
        settings={"limit": 12},
        members={"ann": ["users"]},
        columns={"mem": "integer"},
        jobs=(
            JobInfo(1, "ann", types=("container=c",)),
            JobInfo(2, "ann", state="Running"),
            JobInfo(3, "bob", types=("noop",), reservation=True),
        ),
    )
    assert run(text, site=site)[1].notes == notes


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("add_type('noop'); add_type('noop')", lambda s: s.types == ("noop",)),
        ("add_type('noop'); drop_type('noop'); drop_type('x')", lambda s: s.types == ()),
        ("for sql in ('a = 1', 'b = 2', 'a = 1'): add_property(sql)", lambda s: s.properties == "(a = 1) AND (b = 2)"),
        ("set_walltime(60)", lambda s: [r.walltime for r in s.alternatives] == [60, 60]),
        ("set_walltime('1h', 1)", lambda s: [r.walltime for r in s.alternatives] == [None, 3600]),
        ("restrict_groups('a = 1'); restrict_groups('a = 1')", lambda s: str(s.alternatives[1]) == "{a = 1}/core=4"),
        ("job.reservation = read_date('2026-02-03')", lambda s: s.reservation.tzinfo is not None),
        ("job.reservation = None; job.queue = None", lambda s: s.reservation is None),
        ("job.alternatives = ['/core=1,walltime=1:0:0']", lambda s: s.alternatives[0].walltime == 3600),
    ],
)  # fmt: skip
def test_what_a_rule_may_change(text: str, check: Callable[[Submission], bool]) -> None:
    submission, _ = run(text)
    assert check(submission)


def test_the_description_is_the_first_line() -> None:
    assert Rule("x", "\n# Keep it short.\npass").description == "Keep it short."
    assert Rule("x", '"""Keep it short.\n\nMore."""\npass').description == "Keep it short."
    assert Rule("x", "").description == ""


def test_syntax_can_be_checked_before_a_rule_is_stored() -> None:
    check_syntax(Rule("fine", "job.queue = 'x'"))
    with pytest.raises(UsageError, match=r"rule bad, line 2: "):
        check_syntax(Rule("bad", "x = 1\ny ="))
