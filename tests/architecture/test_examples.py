"""Examples in the pages work: SQL runs, configuration files are accepted, rules compile and do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.admission.rules.cases import parse_cases, run_cases
from oarpy.admission.rules.execution import RuleLimits
from oarpy.admission.rules.process import RuleSet
from oarpy.admission.rules.rules import Rule
from oarpy.admission.rules.site import FixedSite
from oarpy.configuration import load
from oarpy.model.request import parse_request
from oarpy.model.submission import Submission

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def blocks(language: str) -> list[str]:
    """Return every fenced block of a language, in all pages."""
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [block for page in PAGES for block in fence.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.db
@pytest.mark.parametrize(
    "statement",
    [text for text in blocks("sql") if text.startswith("SELECT")],
    ids=lambda text: " ".join(text.split())[:40],
)
def test_queries_run(connection: psycopg.Connection[tuple[Any, ...]], statement: str) -> None:
    """Each query names views and columns that exist."""
    assert connection.execute(statement.encode()).fetchall() == []


@pytest.mark.db
def test_queries_of_examples_in_a_line_run(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """The same for ``oarpy db query "..."`` in guides."""
    found = [
        statement
        for page in PAGES
        for statement in re.findall(r'oarpy db query "([A-Z][^"]*[^".])"', page.read_text(encoding="utf-8"))
    ]
    assert len(found) >= 2
    for statement in found:
        connection.execute(statement.encode())


CASES = "[[case]]"


@pytest.mark.parametrize(
    "text",
    [text for text in blocks("toml") if not text.startswith(CASES)],
    ids=lambda text: text.split("\n", 1)[0],
)
def test_configuration_files_are_accepted(text: str, tmp_path: Path) -> None:
    """Every key of an example is known and of the right type."""
    path = tmp_path / "config.toml"
    path.write_text(text, encoding="utf-8")
    configuration = load({"OARPY_CONFIG": str(path)})
    assert str(path) in configuration.origins.values()


def test_the_cases_of_the_guide_prove_its_rule() -> None:
    """As ``oaradmissionrules test --cases`` would say."""
    (text,) = (block for block in blocks("python") if "night" in block)
    (cases,) = (block for block in blocks("toml") if block.startswith(CASES))
    assert [one.problems for one in run_cases(Rule("long_jobs", text), parse_cases(cases))] == [()]


def test_the_rule_of_the_guide_does_what_its_comment_says() -> None:
    """A long job changes its queue and its user is told; a short one passes."""
    (text,) = (block for block in blocks("python") if "night" in block)
    rules = RuleSet([Rule("long_jobs", text)])
    for walltime, queue in (("13:0:0", "night"), ("1:0:0", "default")):
        asked = Submission("ann", queue="default", alternatives=(parse_request(f"/nodes=1,walltime={walltime}"),))
        submission, trace = rules.run(asked, FixedSite(), limits=RuleLimits(5))
        assert submission.queue == queue
        assert bool(trace.notes) == (queue == "night")
