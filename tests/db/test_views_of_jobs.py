"""Views of several jobs: dependencies drawn, failures of an array, and its failed members submitted again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.oarsub_cluster import build
from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes

pytestmark = pytest.mark.db


def require(connection: Connection, job: int, required: int, outcome: str = "any") -> None:
    connection.execute("INSERT INTO job_dependencies VALUES (%s, %s, %s)", (job, required, outcome))


@pytest.fixture
def diamond(connection: Connection) -> None:
    """1 ended, 2 and 3 wait for it, 4 for both; 5 and 6 of an array wait for 4; 7 is alone."""
    add_job(connection, "Terminated", job_name="get")
    for name in ("train", "test", "report"):
        add_job(connection, job_name=name)
    for index in (1, 2):
        add_job(connection, array_id=5, array_index=index, job_name="plots")
    add_job(connection, job_name="alone")
    for job, required, outcome in ((2, 1, "ok"), (3, 1, "notok"), (4, 2, "any"), (4, 3, "any"), (5, 4, "ok")):
        require(connection, job, required, outcome)
    require(connection, 6, 4, "ok")


@pytest.mark.usefixtures("diamond")
def test_dependencies_are_drawn(shell: Shell) -> None:
    assert shell.done("oarstat", "--graph") == (
        "1 T get\n"
        "├─ ok 2 W train\n"
        "│  └─ 4 W report (also after 3)\n"
        "│     └─ ok 5-6 W plots (2 jobs)\n"
        "└─ notok 3 W test\n"
        "   └─ 4 W report (above)\n"
    )


@pytest.mark.usefixtures("diamond")
def test_a_graph_of_named_jobs_has_what_hangs_on_them(shell: Shell) -> None:
    assert shell.done("oarstat", "--graph", "7") == "7 W alone\n"
    assert "5-6 W plots" in shell.done("oarstat", "--graph", "2")
    assert shell.done("oarstat", "--graph", "state:Hold") == ""
    assert shell("oarstat", "--graph", "99").status == 4


@pytest.mark.usefixtures("diamond")
def test_a_graph_for_other_programs(shell: Shell) -> None:
    dot = shell.done("oarstat", "--graph", "dot").splitlines()
    assert (dot[0], dot[-1]) == ("digraph jobs {", "}")
    assert '  1 -> 2 [label="ok"];' in dot
    assert "  2 -> 4;" in dot
    document = json.loads(shell.done("oarstat", "--graph", "-J"))
    assert document["jobs"]["2"] == {"state": "Waiting", "name": "train", "owner": ME}
    assert {"job_id": 4, "required": 3, "outcome": None} in document["dependencies"]
    assert shell("oarstat", "--graph=svg").status == 2


def test_a_circle_made_by_hand_is_drawn_once(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    add_job(connection)
    require(connection, 2, 1)
    connection.execute("ALTER TABLE job_dependencies DISABLE TRIGGER ALL")
    connection.execute("ALTER TABLE job_dependencies DROP CONSTRAINT IF EXISTS job_dependencies_check")
    require(connection, 1, 2)
    assert shell.done("oarstat", "--graph").splitlines()[-1].strip() == f"└─ 1 W {ME} (above)"


@pytest.fixture
def array(connection: Connection, tmp_path: Path) -> None:
    """An array of six: one done, three with exit code 1, one killed by a signal, one for its walltime."""
    cores = add_nodes(connection, "node1", "node2", cores=1)
    for index, state, status, resources in (
        (1, "Terminated", 0, cores[:1]),
        (2, "Terminated", 256, cores[:1]),
        (3, "Terminated", 256, cores[:1]),
        (4, "Terminated", 256, cores[1:]),
        (5, "Terminated", 11, cores[1:]),
        (6, "Error", 15, cores[1:]),
    ):
        add_job(
            connection,
            state,
            status=status,
            resources=resources,
            array_id=1,
            array_index=index,
            launching_directory=str(tmp_path),
            stderr_path="OAR.%jobid%.stderr",
        )
    connection.execute("INSERT INTO event_logs (type, job_id) VALUES ('WALLTIME', 6)")
    (tmp_path / "OAR.2.stderr").write_text("Traceback\nValueError: no such file\n\n")


@pytest.mark.usefixtures("array")
def test_failures_are_grouped_by_cause_and_node(shell: Shell) -> None:
    lines = shell.done("oarstat", "--failures", "1").splitlines()
    assert lines[0] == "Array 1: 6 of 6 ended, 5 failed."
    assert [line.split(maxsplit=5) for line in lines[3:-1]] == [
        ["exit", "code", "1", "node1", "2", "2-3      ValueError: no such file"],
        ["exit", "code", "1", "node2", "1", "4"],
        ["signal", "SEGV", "node2", "1", "5"],
        ["walltime", "node2", "1", "6"],
    ]
    assert lines[-1] == "oarsub --resubmit-failed 1 submits these again."
    document = json.loads(shell.done("oarstat", "--failures", "last", "-J"))
    assert document["failures"][0] == {
        "cause": "exit code 1", "node": "node1", "jobs": [2, 3], "indexes": [2, 3],
        "last_line": "ValueError: no such file",
    }  # fmt: skip


@pytest.mark.usefixtures("array")
def test_nobody_reads_the_output_of_others(
    connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    monkeypatch.setattr("oarpy.client.session.user_name", lambda _: "somebody")
    text = shell.done("oarstat", "--failures", "1")
    assert ("exit code 1" in text, "ValueError" in text) == (True, False)


def test_failures_of_no_array(connection: Connection, shell: Shell) -> None:
    result = shell("oarstat", "--failures", "7")
    assert (result.status, result.err) == (4, "oarstat: array 7 does not exist (oarstat lists the jobs)\n")
    assert shell("oarstat", "--failures", "@name").status == 4
    add_job(connection, "Terminated")
    assert shell.done("oarstat", "--failures", "1") == "Array 1: 1 of 1 ended, 0 failed.\n"


def test_only_failed_members_are_submitted_again(connection: Connection, shell: Shell) -> None:
    build(connection)
    cores = [number for (number,) in connection.execute("SELECT resource_id FROM resources LIMIT 1")]
    for index, status in ((1, 0), (2, 256), (3, 256)):
        add_job(
            connection, "Terminated", array_id=1, array_index=index, status=status, resources=cores,
            command=f"run p{index}", user="daemon",
        )  # fmt: skip
    connection.execute("UPDATE submissions SET request = '{}'")
    assert shell.done("oarsub", "--resubmit-failed", "1") == "OAR_JOB_ID=4\nOAR_JOB_ID=5\nOAR_ARRAY_ID=1\n"
    assert connection.execute(
        "SELECT job_id, array_id, array_index, command, resubmit_of, state FROM jobs WHERE job_id > 3 ORDER BY 1"
    ).fetchall() == [(4, 1, 2, "run p2", 2, "Waiting"), (5, 1, 3, "run p3", 3, "Waiting")]
    assert "0 failed" in shell.done("oarstat", "--failures", "1")
    result = shell("oarsub", "--resubmit-failed", "1")
    assert (result.status, result.err) == (
        4,
        "oarsub: no member of array 1 has failed (oarstat --array 1 shows them)\n",
    )
    assert shell("oarsub", "--resubmit-failed", "1", "--resubmit", "2").status == 2
