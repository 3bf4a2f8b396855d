"""Members of an array that wait each for one of another array, and jobs of which one runs at a time."""

from __future__ import annotations

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, decide, let_run
from tests.harness.sample_cluster import Shell

pytestmark = pytest.mark.db


def states(connection: Connection, jobs: list[int]) -> list[str]:
    rows = connection.execute("SELECT state FROM jobs WHERE job_id = ANY(%s) ORDER BY job_id", [jobs]).fetchall()
    return [state for (state,) in rows]


def end(connection: Connection, job: int, status: int = 0) -> None:
    connection.execute(
        "UPDATE jobs SET state = 'Terminated', exit_status = %s, ended_at = now(), left_nothing = true"
        " WHERE job_id = %s",
        [status, job],
    )


def test_each_member_waits_for_the_one_of_its_number(connection: Connection, oarsub: Submitter, shell: Shell) -> None:
    first = oarsub.job_ids("--array", "3", "-l", "/core=1,walltime=0:10:0", "./prepare")
    shown = oarsub("--dry-run", "--array", "2", "-a", f"corr:{first[0]}", "-l", "/core=1,walltime=0:10:0", "./use")
    assert shown.status == 0, shown.err
    second = oarsub.job_ids("--array", "3", "-a", f"corr:{first[0]}", "-l", "/core=1,walltime=0:10:0", "./use")
    rows = connection.execute("SELECT job_id, required_job_id, outcome FROM job_dependencies ORDER BY 1").fetchall()
    assert rows == [(job, other, "ok") for job, other in zip(second, first, strict=True)]
    decide(connection)
    assert states(connection, second) == ["Waiting"] * 3
    let_run(connection)
    end(connection, first[0])
    end(connection, first[1], status=256)
    decide(connection)
    assert states(connection, second)[0] != "Waiting"
    assert states(connection, second)[1:] == ["Waiting"] * 2
    why = shell("oarstat", "--why", str(second[1])).out
    assert str(first[1]) in why


def test_arrays_that_do_not_correspond_are_refused(connection: Connection, oarsub: Submitter) -> None:
    first = oarsub.job_ids("--array", "2", "./prepare")
    for asked, said in (
        (("--array", "3", "-a", f"corr:{first[0]}"), f"'corr:{first[0]}': array {first[0]} has no job number 3"),
        (("-a", f"corr:{first[1]}"), f"'corr:{first[1]}': job {first[1]} is no array"),
        (("-a", "corr:99"), "job 99, which does not exist"),
        (("-a", "corr:"), "dependency 'corr:' is not a job id"),
    ):
        for options in ((), ("--dry-run",)):
            refused = oarsub(*options, *asked, "./use")
            assert refused.status != 0
            assert said in refused.err
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (2,)


def test_one_of_a_name_and_user_runs_at_a_time(connection: Connection, oarsub: Submitter, shell: Shell) -> None:
    asked = ("-t", "singleton=backup", "-l", "/core=1,walltime=0:10:0", "./backup")
    one, two = oarsub.job_id(*asked), oarsub.job_id(*asked)
    other = oarsub.job_id("-t", "singleton=report", "-l", "/core=1,walltime=0:10:0", "./report")
    decide(connection)
    assert [state == "Waiting" for state in states(connection, [one, two, other])] == [False, True, False]
    let_run(connection)
    assert "singleton=backup" in shell("oarstat", "--why", str(two)).out
    assert "singleton=backup" in oarsub("--dry-run", *asked).out
    end(connection, one)
    decide(connection)
    assert states(connection, [two])[0] != "Waiting"
    assert oarsub("-t", "singleton", "./backup").status != 0
