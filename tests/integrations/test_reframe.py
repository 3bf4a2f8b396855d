"""ReFrame runs checks as jobs by its scheduler for OAR."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from tests.integrations.conftest import TOOLS, Site

pytestmark = pytest.mark.e2e

CHECKS = """
import reframe as rfm
import reframe.utility.sanity as sn


class Nodes(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sort -u $OAR_NODEFILE; exit"
    num_tasks = 2
    num_tasks_per_node = 1
    time_limit = "5m"

    @sanity_function
    def both(self):
        return sn.assert_eq(sn.count(sn.findall(r"^n[12]$", self.stdout)), 2)


@rfm.simple_test
class Passes(Nodes):
    pass


@rfm.simple_test
class Status(Nodes):
    executable_opts = ["3"]

    @sanity_function
    def of_wait(self):
        return sn.assert_eq(self.job.exitcode, 3 << 8)


@rfm.simple_test
class Fails(Nodes):
    num_tasks = 1
"""


def test_checks_run(site: Site, snippets: Callable[[str], list[str]]) -> None:
    """Checks on two nodes pass, and are told the exit status; one that got a single node fails. Each was a job."""
    (settings,) = snippets("ReFrame")
    (site.folder / "settings.py").write_text(settings, encoding="utf-8")
    (site.folder / "checks.py").write_text(CHECKS, encoding="utf-8")
    words = ("-C", "settings.py", "-c", "checks.py", "--prefix", str(site.folder / "out"), "--nocolor", "-r")
    printed = site.run(str(TOOLS / "reframe"), *words, check=False, variables={"TMPDIR": str(site.folder)})
    results = re.findall(r"^\[ +(OK|FAIL) \] \(\d/3\) (\w+)", printed, re.MULTILINE)
    assert sorted(results) == [("FAIL", "Fails"), ("OK", "Passes"), ("OK", "Status")], printed
    jobs = json.loads(site.cluster.run("oarstat", "--sql", "project = 'reframe'", "-J").stdout or "{}")
    assert {job["state"] for job in jobs.values()} <= {"Terminated", "Error"}
