"""Cases beside a rule, and comparison of two sets of rules."""

from __future__ import annotations

import pytest

from oarpy.admission.rules.cases import parse_cases, run_cases
from oarpy.admission.rules.comparison import compare
from oarpy.admission.rules.rules import Rule
from oarpy.admission.rules.site import FixedSite
from oarpy.model.errors import UsageError
from oarpy.model.submission import Submission

CASE = '[[case]]\nname = "c"\nsubmission = {{ user = "ann" }}\n{}'


@pytest.mark.parametrize(
    ("rule", "expect", "problems"),
    [
        ("pass", "", ()),
        ("job.queue = 'x'", 'expect.changes.queue = "x"', ()),
        ("job.queue = 'x'", "", ("queue became 'x', expected no change",)),
        ("pass", 'expect.changes.queue = "x"', ("queue became None, expected 'x'",)),
        ("job.queue = 'y'", 'expect.changes.queue = "x"', ("queue became 'y', expected 'x'",)),
        ("pass", 'expect.changes.project = "default"', ("project became 'default', expected 'default'",)),
        ("note('hello')", "", ("notes ['hello'], expected []",)),
        ("note('hello')", 'expect.notes = ["hello"]', ()),
        ("refuse('no way')", 'expect.refused = "no"', ()),
        ("refuse('no way')", 'expect.refused = "yes"', ("refused with 'no way (admission rule r)', expected 'yes'",)),
        ("refuse('no way')", "", ("refused: no way (admission rule r)",)),
        ("pass", 'expect.refused = "no"', ("admitted, expected the refusal 'no'",)),
    ],
)
def test_a_case_tells_what_went_otherwise(rule: str, expect: str, problems: tuple[str, ...]) -> None:
    (result,) = run_cases(Rule("r", rule, enabled=False), parse_cases(CASE.format(expect)))
    assert (result.case, result.problems, result.passed) == ("c", problems, not problems)


def test_a_case_describes_the_site() -> None:
    text = CASE.format(
        'site.now = 2030-01-01T00:00:00Z\nsite.groups = { ann = ["staff"] }\nsite.properties = { mem = "integer" }\n'
        'site.queues = [{ name = "q", priority = 7, active = false }]\n'
        'site.jobs = [{ id = 4, user = "bob", state = "Running", types = ["noop"], reservation = true }]\n'
        'expect.notes = ["2030", "staff", "integer", "7 False", "bob Running noop True"]'
    )
    rule = (
        "note(site.now().year)\nnote(site.groups('ann')[0])\nnote(site.properties()['mem'])\n"
        "q = site.queue('q')\nprint(q.priority, q.active)\nj = site.job(4)\n"
        "print(j.user, j.state, j.types[0], j.reservation)"
    )
    assert run_cases([Rule("r", rule)], parse_cases(text))[0].problems == ()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("x =", "cases are not TOML"),
        ("", "holds [[case]] tables"),
        ("[case]\n", "holds [[case]] tables"),
        (CASE.format("expected = {}"), "c: key 'expected': unknown key (known: expect, name, site, submission)"),
        (CASE.format("expect.change = {}"), "c: expect: key 'change': unknown key (known: changes, notes, refused)"),
        (CASE.format('expect = { refused = "x", notes = [] }'), "a refused submission has no changes"),
        (
            CASE.format("site.time = 5"),
            "c: site: key 'time': unknown key (known: cores, groups, held, jobs, now,",
        ),
        (CASE.format("site.now = 5"), "c: site: key 'now': 5 is not a date"),
        (CASE.format("site.jobs = [{ user = 'x' }]"), "c: site: jobs 1: key 'id': missing"),
        (CASE.format("site.jobs = [{ id = 1 }, { id = 'x' }]"), "c: site: jobs 2: key 'id': 'x' is not a whole number"),
        (CASE.format("site.groups = { ann = 'staff' }"), "c: site: key 'groups': a value in it is not a list"),
        (CASE.format("site.jobs = 5"), "c: site: key 'jobs': 5 is not a list"),
        (CASE.format("site.queues = [5]"), "c: site: key 'queues': 5 is not an object"),
        ('[[case]]\nsubmission = { user = "ann", color = 1 }', "case 1: unknown key 'color' in a submission"),
    ],
)
def test_wrong_cases_are_refused(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cases(text)
    assert part in str(caught.value)


def test_the_effect_of_a_new_version_on_past_submissions() -> None:
    past = [Submission("ann"), Submission("bob", queue="night"), Submission("eve", types=("noop",)), Submission("root")]
    old = [Rule("q", "job.queue = job.queue or 'default'"), Rule("u", "if job.user == 'root': refuse('no root')")]
    new = [
        Rule("q", "if job.queue is None:\n    job.queue = 'day'\n    note('by day')", version=2),
        Rule("u", "if 'noop' in job.types: refuse('no noop')", version=2),
    ]
    differences = compare(old, new, past, FixedSite())
    assert [(found.position, found.lines()) for found in differences] == [
        (0, ["queue: 'default' -> 'day'", "notes: [] -> ['by day']"]),
        (2, ["admitted -> refused: no noop (admission rule u)"]),
        (3, ["refused: no root (admission rule u) -> admitted"]),
    ]
    assert past[0] == Submission("ann")
    assert compare(old, old, past, FixedSite()) == []
