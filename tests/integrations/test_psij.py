"""The executor for PSI/J sends, follows and cancels jobs for real: its own tests run on a cluster."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.integrations.conftest import ROOT, TOOLS, Site

pytestmark = pytest.mark.e2e

PACKAGE = ROOT / "integrations" / "psij"


def test_its_own_tests_pass(site: Site) -> None:
    """They are those that would be sent along."""
    shutil.copy(PACKAGE / "tests" / "test_oar.py", site.folder)
    words = (str(TOOLS / "python"), "-m", "unittest", "-v", "test_oar")
    printed = site.run(*words, check=False, variables={"PYTHONPATH": str(PACKAGE / "src")})
    assert printed.rstrip().endswith("\nOK"), printed


def test_the_guide_runs_a_job_on_two_nodes(site: Site, snippets: Callable[[str], list[str]]) -> None:
    """Both processes ran, and the job is completed."""
    (text,) = snippets("PSI/J")
    printed = site.script(text, PYTHONPATH=str(PACKAGE / "src"))
    assert printed.splitlines() == ["COMPLETED", "['process 1', 'process 2']"]
