"""What altered, repeated and batched jobs are charged: by the rule of single submissions, and without deadlock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from tests.harness.oarsub_cluster import Connection, Submitter, contents, process
from tests.harness.sample_cluster import ME, Result
from tests.harness.waiting import until, waiting_for_locks

pytestmark = pytest.mark.db


@pytest.fixture(autouse=True)
def _members_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OARPY_SUBMISSION_PROJECTS", "members")


def project(oarsub: Submitter, name: str, *options: str) -> None:
    """Make a project that pays for the user of the tests."""
    for words in (("create", name, *options), ("member", "add", name, ME)):
        result = oarsub(*words, command="oarproject")
        assert (result.status, result.err) == (0, ""), result


def asked(connection: Connection) -> list[tuple[Any, ...]]:
    """The billing units that jobs asked for, by job."""
    return connection.execute(
        "SELECT asked_units FROM jobs JOIN submissions USING (submission_id) ORDER BY job_id"
    ).fetchall()


def left(connection: Connection) -> dict[str, float]:
    return dict(connection.execute("SELECT project, left_hours FROM oar_report.projects").fetchall())


def fail(connection: Connection, jobs: list[int]) -> None:
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE job_id = ANY(%s)", [jobs])


def test_alterations_of_projects_in_opposite_orders_take_turns(
    connection: Connection, oarsub: Submitter, dsn: str, cluster_environment: dict[str, str]
) -> None:
    """The first waits for the second of its projects in the order of names; the other begins meanwhile."""
    for name in ("fire", "flood"):
        project(oarsub, name, "--hours", "100")
    for name in ("flood", "fire", "fire", "flood"):
        oarsub.job_ids("--project", name, "--hold", "-l", "/core=1,walltime=1", "date")
    environment = {**cluster_environment, "OARPY_SUBMISSION_PROJECTS": "members"}
    with psycopg.connect(dsn) as other, ThreadPoolExecutor(2) as pool:
        other.execute("SELECT FROM projects WHERE project = 'flood' FOR NO KEY UPDATE")
        running = []
        for jobs in (("1", "2"), ("3", "4")):
            running.append(pool.submit(process, environment, "oaralter", *jobs, "-l", "walltime=2"))
            until(lambda: waiting_for_locks(connection) == len(running), "both wait in turn")
            with pytest.raises(LockNotAvailable):  # whichever it names first
                connection.execute("SELECT FROM projects WHERE project = 'fire' FOR NO KEY UPDATE NOWAIT")
        other.rollback()
        results: list[Result] = [alteration.result() for alteration in running]
    assert [(result.status, result.err) for result in results] == [(0, "")] * 2, results
    assert asked(connection) == [(2,)] * 4
    assert left(connection) == {"fire": 96, "flood": 96}


def test_an_alteration_of_several_jobs_is_charged_once(connection: Connection, oarsub: Submitter) -> None:
    project(oarsub, "fire", "--hours", "10")
    for _ in range(2):
        oarsub.job_ids("--hold", "-l", "/core=1,walltime=3", "date")
    before = contents(connection)
    result = oarsub("1", "2", "-l", "walltime=6", command="oaralter")
    assert (result.status, result.out) == (3, "")
    assert result.err.startswith("oaralter: project 'fire' has 4 of 10 hours left, and this asks for 6 ("), result
    assert contents(connection) == before
    assert oarsub("1", "2", "-l", "walltime=5", command="oaralter").status == 0
    assert (asked(connection), left(connection)) == ([(5,), (5,)], {"fire": 0})


def test_what_becomes_best_effort_asks_for_no_hours(connection: Connection, oarsub: Submitter) -> None:
    """And a copy of it asks for none, where it would be refused else."""
    project(oarsub, "fire", "--hours", "10")
    members = oarsub.job_ids("--hold", "--array", "2", "-l", "/core=1,walltime=5", "date")
    assert oarsub(str(members[1]), "-q", "besteffort", command="oaralter").status == 0
    assert asked(connection) == [(5,), (None,)]
    assert oarsub("--array", str(members[0]), "-q", "besteffort", command="oaralter").status == 0
    assert (asked(connection), left(connection)) == ([(None,), (None,)], {"fire": 10})
    assert oarsub(str(members[0]), "-q", "default", command="oaralter").status == 0
    assert (asked(connection), left(connection)) == ([(5,), (None,)], {"fire": 5})


def test_a_batch_meets_the_rule_of_single_submissions(
    connection: Connection, oarsub: Submitter, tmp_path: Path
) -> None:
    """A line of a project that waits takes the last hours of its parent; the line before, which had some, stays."""
    project(oarsub, "physics", "--hours", "20")
    project(oarsub, "fire", "--parent", "physics", "--hours", "10", "--when-spent", "wait")
    lines = [
        ("--project", "physics", "--hold", "-l", "/core=3,walltime=5", "date"),
        ("--project", "fire", "--hold", "-l", "/core=4,walltime=3", "date"),
    ]
    for words in lines:
        assert oarsub(*words).status == 0
    assert left(connection) == {"fire": -2, "physics": -7}
    assert oarsub("--sql", "true", command="oardel").status == 0
    fail(connection, [1, 2])
    assert left(connection) == {"fire": 10, "physics": 20}
    (tmp_path / "batch").write_text("".join(f"{' '.join(words)}\n" for words in lines))
    result = oarsub("--batch", str(tmp_path / "batch"))
    assert (result.status, "12 hours, and project 'fire' has 10 in all" in result.err) == (0, True), result
    assert left(connection) == {"fire": -2, "physics": -7}
    refused = oarsub("--project", "physics", "--hold", "-l", "/core=1,walltime=1", "date")
    assert refused.status == 3


def test_a_failed_array_asks_for_its_hours_at_once(
    connection: Connection, oarsub: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(oarsub, "fire", "--hours", "10")
    first, *_ = members = oarsub.job_ids("--hold", "--array", "4", "-l", "/core=1,walltime=2", "date")
    fail(connection, members)
    oarsub.job_ids("--hold", "-l", "/core=1,walltime=4", "date")
    before = contents(connection)
    result = oarsub("--resubmit-failed", str(first))
    assert (result.status, result.out) == (3, ""), result
    assert result.err.startswith("oarsub: project 'fire' has 6 of 10 hours left, and this asks for 8 ("), result
    assert contents(connection) == before
    oarsub("change", "fire", "--hours", "12", command="oarproject")
    statements = list[str]()
    execute = psycopg.Cursor.execute

    def noted(self: psycopg.Cursor[Any], query: Any, *arguments: Any, **options: Any) -> Any:
        statements.append(str(query))
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", noted)
    again = oarsub.job_ids("--resubmit-failed", str(first))
    assert sum("oar_report.projects" in statement for statement in statements) == 1
    assert left(connection) == {"fire": 0}
    fail(connection, again[:1])
    assert oarsub("--resubmit", str(again[0])).status == 0
    assert oarsub("--resubmit", str(first)).status == 3
