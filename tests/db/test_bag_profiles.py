"""Profiles of bags: jobs take them before the promise. That goes by walltimes, the expected end by the profile."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oarpy.frontend.measuring import Unmeasurable, task_seconds, told
from tests.harness.oarsub_cluster import Connection, Submitter, contents, decide, run_pass
from tests.harness.programs import Programs, make_programs

pytestmark = pytest.mark.db

_TASK = ("-l", "/core=1,walltime=0:10:0", "--answer-timeout", "0")
_MINUTE = 60


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.chdir(tmp_path)
    made = make_programs(tmp_path)
    made.script("seconds", "echo 60")
    (tmp_path / "plain").write_text("60", encoding="utf-8")
    return made


@pytest.fixture
def two_types(connection: Connection, programs: Programs, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Nodes of two types: n2 is fast, n3 and n4 are slow; 4 cores each."""
    connection.execute("ALTER TABLE resources ADD kind text")
    connection.execute("INSERT INTO resource_properties VALUES ('kind', 'text', false)")
    connection.execute(
        "UPDATE resources SET kind = CASE network_address WHEN 'n2' THEN 'fast' ELSE 'slow' END WHERE type = 'default'"
    )
    monkeypatch.setenv("OARPY_SCHEDULER_NODE_TYPE", "kind")
    monkeypatch.setenv("OARPY_SCHEDULER_SECURITY_TIME", "0")
    monkeypatch.setenv("OARPY_SCHEDULER_PROMISED_SHARE", "100")
    return programs


def submitted(oarsub: Submitter, tasks: int, *more: str) -> int:
    """Submit a bag with a profile; return its number. Its answer is not waited for."""
    result = oarsub("--bag", str(tasks), "--profile", "./seconds", *_TASK, *more, "date")
    assert result.status == 6, result
    return int(result.out.rpartition("OAR_ARRAY_ID=")[2])


def takers(connection: Connection, bag: int) -> dict[str, int]:
    """Return the jobs that take the profile of a bag, by type of nodes."""
    query = "SELECT node_type, job_id FROM bag_profiles WHERE bag_id = %s ORDER BY 1"
    return dict(connection.execute(query, [bag]).fetchall())


def ended(connection: Connection, *jobs: int) -> None:
    connection.execute(
        "UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = ANY(%s)", [list(jobs)]
    )
    over = "UPDATE jobs SET state = 'Terminated', left_nothing = true, ended_at = now() WHERE job_id = ANY(%s)"
    connection.execute(over, [list(jobs)])


def profiled(connection: Connection, oarsub: Submitter, bag: int, **seconds: float | None) -> None:
    """Let the jobs run that take the profile; each tells its seconds, or nothing, and ends."""
    run_pass(connection)
    jobs = takers(connection, bag)
    for kind, told_seconds in seconds.items():
        if told_seconds is not None:
            telling = ("--tell", str(jobs[kind]), "--seconds", str(told_seconds))
            assert oarsub(*telling, command="oarrates").status == 0
    ended(connection, *jobs.values())


def told_of(oarsub: Submitter, bag: int) -> dict[str, Any]:
    told_bag: dict[str, Any] = json.loads(oarsub("--bag", str(bag), "-J", command="oarstat").out)
    return told_bag


def minutes(instant: int) -> int:
    return round((instant - datetime.now().timestamp()) / _MINUTE)


def test_a_job_of_the_user_takes_the_profile_on_each_type_before_the_promise(
    connection: Connection, oarsub: Submitter, two_types: Programs
) -> None:
    bag = submitted(oarsub, 8)
    jobs = takers(connection, bag)
    asked = connection.execute(
        "SELECT node_type, command, user_name = (SELECT user_name FROM jobs WHERE job_id = %s), job_name,"
        " properties = format('(kind IN (''%%s'')) AND (drain = ''NO'')', node_type)"
        " FROM bag_profiles JOIN jobs USING (job_id) ORDER BY 1",
        [bag],
    ).fetchall()
    script = f"oarrates --measure {two_types.folder}/seconds"
    assert asked == [("fast", script, True, "profile", True), ("slow", script, True, "profile", True)]
    run_pass(connection)
    states = connection.execute("SELECT state, count(*) FROM jobs GROUP BY 1 ORDER BY 1").fetchall()
    assert states == [("Running", 2), ("Waiting", 8)]
    assert told_of(oarsub, bag)["promise"] is None
    ended(connection, jobs["fast"])
    run_pass(connection)
    assert told_of(oarsub, bag)["changes"] == []


def test_the_promise_goes_by_walltimes_and_the_expected_end_by_the_profile(
    connection: Connection, oarsub: Submitter, two_types: Programs
) -> None:
    bag = submitted(oarsub, 36)
    profiled(connection, oarsub, bag, fast=120, slow=300)
    decide(connection)
    told_bag = told_of(oarsub, bag)
    # 12 cores in three rounds of 10 min; 4 fast and 8 slow ones do 36 tasks of 2 and of 5 min in 10 min
    assert (minutes(told_bag["promise"]), minutes(told_bag["expected"])) == (30, 10)
    assert [(type_["node_type"], type_["seconds"]) for type_ in told_bag["profile"]] == [("fast", 120), ("slow", 300)]
    shown = oarsub("--bag", str(bag), command="oarstat").out
    assert "promised completion : " in shown
    assert "expected completion : " in shown
    assert "profile on fast : 120 s (job " in shown


def test_a_type_without_a_profile_counts_with_the_walltime_and_that_is_told(
    connection: Connection, oarsub: Submitter, two_types: Programs
) -> None:
    bag = submitted(oarsub, 12)
    run_pass(connection)
    jobs = takers(connection, bag)
    failed = ("--tell", str(jobs["slow"]), "--failed", "./seconds prints nothing")
    assert oarsub(*failed, command="oarrates").status == 1
    ended(connection, *jobs.values())
    decide(connection)
    told_bag = told_of(oarsub, bag)
    assert told_bag["promise"] == told_bag["expected"]
    query = "SELECT description FROM event_logs WHERE type = 'NOT_PROFILED' AND job_id = %s ORDER BY event_id"
    events = [text for (text,) in connection.execute(query, [bag])]
    assert events == [
        f"its tasks count with their walltime on nodes of type fast: job {jobs['fast']} ended before it told the"
        " seconds of a task",
        "its tasks count with their walltime on nodes of type slow: ./seconds prints nothing",
    ]
    assert (
        "profile on slow : the walltime (./seconds prints nothing)" in oarsub("--bag", str(bag), command="oarstat").out
    )


def test_a_late_profile_is_ended_and_the_bag_gets_its_promise(
    connection: Connection, oarsub: Submitter, two_types: Programs
) -> None:
    bag = submitted(oarsub, 4)
    run_pass(connection)
    connection.execute("UPDATE bags SET submitted_at = submitted_at - interval '1 hour'")
    decide(connection)
    asked = connection.execute("SELECT job_id, reason FROM kill_requests ORDER BY 1").fetchall()
    jobs = takers(connection, bag)
    assert asked == [(job, f"the profile of bag {bag} is late") for job in sorted(jobs.values())]
    ended(connection, *jobs.values())
    decide(connection)
    assert [change["kind"] for change in told_of(oarsub, bag)["changes"]] == ["PROMISED"]


def test_the_profile_of_a_bag_that_is_deleted_is_ended(
    connection: Connection, oarsub: Submitter, two_types: Programs
) -> None:
    bag = submitted(oarsub, 2)
    run_pass(connection)
    connection.execute("UPDATE jobs SET state = 'Error', ended_at = now() WHERE array_id = %s", [bag])
    decide(connection)
    asked = connection.execute("SELECT reason FROM kill_requests").fetchall()
    assert asked == [(f"bag {bag} is over",)] * 2


def test_only_the_job_itself_tells_and_only_what_is_a_time(
    connection: Connection, oarsub: Submitter, programs: Programs
) -> None:
    bag = submitted(oarsub, 2)
    (job,) = takers(connection, bag).values()
    before = contents(connection)
    for seconds in ("0", "-1", "nan", "1e400", "inf", "", "ten"):
        result = oarsub("--tell", str(job), f"--seconds={seconds}", command="oarrates")
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1), (seconds, result)
    assert oarsub("--tell", str(bag), "--seconds", "5", command="oarrates").status == 4
    assert contents(connection) == before
    connection.execute("UPDATE jobs SET user_name = 'somebody' WHERE job_id = %s", [job])
    assert oarsub("--tell", str(job), "--seconds", "5", command="oarrates").status == 4


@pytest.mark.parametrize("seconds", ["0", "-1", "NaN", "Infinity", "1e300"])
def test_the_database_refuses_what_is_no_time(
    connection: Connection, oarsub: Submitter, programs: Programs, seconds: str
) -> None:
    submitted(oarsub, 2)
    with pytest.raises(psycopg.errors.IntegrityError), connection.transaction():
        connection.execute("UPDATE bag_profiles SET seconds = %s::float8", [seconds])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("true", "prints nothing"),
        ("echo nan", "the seconds 'nan'"),
        ("echo -1", "the seconds '-1'"),
        ("echo 1e400", "the seconds '1e400'"),
        ("echo 12 s", "the seconds '12 s'"),
        ("echo 5; exit 3", "ends with status 3"),
        ("head -c 1000000000 /dev/zero", "prints more than 1048576 bytes"),
        ("kill -9 $$", "ends with status -9"),
    ],
)
def test_what_a_script_prints_that_is_no_time(programs: Programs, text: str, words: str) -> None:
    script = programs.script("wrong", text)
    with pytest.raises(Unmeasurable, match=words):
        task_seconds(script)


def test_the_last_line_of_the_script_is_the_time(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OAR_JOB_ID", "7")
    script = programs.script("right", f"{sys.executable} -c 'print(1, 2); print(12.5)'; echo")
    assert told([script]) == ["--tell", "7", "--seconds", "12.5"]
    assert told([programs.script("no", "true")])[:3] == ["--tell", "7", "--failed"]
