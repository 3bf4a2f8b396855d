"""``oarpy.jobs`` against a cluster: the notebook of its guide cell by cell, the executor, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oarpy.local_cluster.sandbox import Sandbox, local_nodes, running_sandbox

pytestmark = pytest.mark.e2e

GUIDE = Path(__file__).resolve().parents[2] / "docs/guides"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, cluster_database: dict[str, str]) -> Iterator[Sandbox]:
    folder = tmp_path_factory.mktemp("python")
    nodes = local_nodes("/host=node[1-2]/cpu={1}/core={2}")
    with running_sandbox(folder, {"database": cluster_database}, nodes) as running:
        running.wait_for_gateway(30)
        yield running


def python(cluster: Sandbox, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=cluster.directory / "work",
        env=cluster.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def cells(kind: str) -> list[str]:
    notebook = json.loads((GUIDE / "python.ipynb").read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_the_notebook_has_the_code_of_the_page() -> None:
    page = (GUIDE / "python.md").read_text("utf-8")
    assert [f"```python\n{cell}\n```" in page for cell in cells("code")] == [True] * page.count("```python")


def test_the_notebook_runs(cluster: Sandbox) -> None:
    shown = "\nprint(plan['refused'], sorted(set(states.values())), [job.output() for job in members])\n"
    printed = python(cluster, "\n".join(cells("code")) + shown).splitlines()
    assert printed[0] == "Terminated 0"
    assert printed[-2] == "[120, 3628800]"
    assert printed[-1] == "False ['Terminated'] ['one\\n', 'two\\n', 'three\\n']"


def test_why_efficiency_and_cancel(cluster: Sandbox) -> None:
    program = """
from oarpy.jobs import find, submit, wait_for
first = submit("sleep 600", resources="/nodes=2,walltime=1:0:0", name="first")
second = submit(["sh", "-c", "echo out; echo err >&2; exit 3"], resources="core=1,walltime=1:0:0", name="second")
print("job %d" % first.id in second.why(), find("@second") == [second])
first.cancel()
print(second.wait(60), second.exit_code, second.output(), second.errors(), second.efficiency()["cores"], first.wait(60))
third = submit("kill -9 $$", after=[second], types=["idempotent"][:0])
print(third.wait(60), third.exit_code)
try:
    wait_for([submit("sleep 600", hold=True)], 0.2)
except TimeoutError as error:
    print(error)
"""
    assert python(cluster, program).splitlines() == [
        "True True",
        "Terminated 3 out",
        " err",
        " 1 Error",
        "Terminated -9",
        "1 of 1 jobs are not over after 0.2 s",
    ]


def test_an_executor_gives_results_exceptions_and_what_went_wrong(cluster: Sandbox) -> None:
    program = """
import os
from oarpy.jobs import JobExecutor
def end(status): os._exit(status)
with JobExecutor(resources="core=1,walltime=0:5:0") as executor:
    good = executor.submit(sorted, [2, 1], reverse=True)
    wrong = executor.submit(int, "x")
    lost = executor.submit(end, 1)
    held = executor.submit(abs, -1)
    print(good.result(60), repr(wrong.exception(60)))
    print("ended as" in str(lost.exception(60)))
print(sorted(os.listdir(".")) == before if (before := None) else len([n for n in os.listdir(".") if "calls" in n]))
"""
    assert python(cluster, program).splitlines() == [
        "[2, 1] ValueError(\"invalid literal for int() with base 10: 'x'\")",
        "True",
        "0",
    ]


def test_errors_are_the_lines_of_the_commands(cluster: Sandbox) -> None:
    program = """
from oarpy.jobs import CommandFailed, Job, dry_run, submit
for call in (lambda: submit("date", resources="nodes=0"), lambda: submit("date", types=["teleport"]),
             lambda: Job(999).state, lambda: submit("date", colour="red")):
    try:
        call()
    except CommandFailed as failure:
        print(failure.status, failure)
print(bool(dry_run("date", types=["teleport"])["refused"]))
"""
    lines = python(cluster, program).splitlines()
    assert [line[0] for line in lines[:4]] == ["2", "3", "4", "2"]
    assert lines[2] == "4 oarstat: job 999 does not exist (oarstat lists the jobs)"
    assert "No such option: --colour" in lines[3]
    assert lines[4] == "True"
