"""``oarstat`` as it stands: other programs read these texts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.harness.sample_cluster import EPOCH, ME, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]


def test_plain_list_has_live_jobs_in_format_2(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Terminated", user="alice")
    add_job(connection, "Waiting", user="alice", message="R=2,W=1:0:0,J=B")
    add_job(connection, "Hold", user="bob")
    assert shell.done("oarstat") == (
        "Job id    S User     Duration   System message\n"
        "--------- - -------- ---------- ------------------------------------------------\n"
        "2         W alice    0:00:00    R=2,W=1:0:0,J=B\n"
        "3         H bob      0:00:00\n"
    )


def test_format_1_shows_dates_in_local_time(connection: Connection, shell: Shell) -> None:
    add_job(connection, job_name="first", user="alice")
    assert shell.done("oarstat", "--format", "1") == (
        "Job id    Name           User           Submission Date     S Queue\n"
        "--------- -------------- -------------- ------------------- - ----------\n"
        "1         first          alice          2026-05-01 12:00:00 W default\n"
    )


def test_format_3_marks_predicted_starts(connection: Connection, shell: Shell) -> None:
    job = add_job(connection, user="alice", job_name="n")
    connection.execute(
        "INSERT INTO gantt_predictions SELECT %s, 'resources_busy', 'job 7 holds node1', moldable_id, %s, %s"
        " FROM moldable_descriptions",
        (job, EPOCH + timedelta(hours=1), EPOCH + timedelta(hours=2)),
    )
    assert shell.done("oarstat", "--format", "3").splitlines()[2] == (
        "1         W alice    n              default    2026-05-01 12:00:00 ~2026-05-01 13:00:00 0:00:00        "
        " (job 7 holds node1)"
    )


def test_format_comes_from_the_environment(
    connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(connection)
    monkeypatch.setenv("OAR_OARSTAT_OUTPUT_FORMAT", "ids")
    assert shell.done("oarstat") == f"{job}\n"


def test_state_of_jobs_as_text_and_json(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Terminated")
    add_job(connection)
    assert shell.done("oarstat", "-s", "-j", "1") == "1: Terminated\n"
    assert json.loads(shell.done("oarstat", "-s", "-j", "1", "2", "-J")) == {"1": "Terminated", "2": "Waiting"}


def test_full_text(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", cores=1)
    add_job(connection, "Terminated", user="alice", resources=cores, status=256, job_name="x", message="R=2")
    assert shell.done("oarstat", "-fj", "1") == (
        "Job_Id: 1\n"
        "    job_array_id = 1\n"
        "    job_array_index = 1\n"
        "    name = x\n"
        "    project = default\n"
        "    owner = alice\n"
        "    queue = default\n"
        "    jobType = PASSIVE\n"
        "    types =\n"
        "    command = date\n"
        "    launchingDirectory = /\n"
        "    stdout_file =\n"
        "    stderr_file =\n"
        "    properties =\n"
        '    wanted_resources = -l "/network_address=1,walltime=1:0:0"\n'
        "    initial_request = oarsub date\n"
        "    message = R=2\n"
        "    reason =\n"
        "    events =\n"
        "    state = Terminated\n"
        "    dependencies =\n"
        "    assigned_resources = 1+2\n"
        "    assigned_hostnames = node1+node2\n"
        "    reserved_resources =\n"
        "    reservation = None\n"
        "    walltime = 1:0:0\n"
        "    submissionTime = 2026-05-01 12:00:00\n"
        "    startTime = 2026-05-01 12:00:00\n"
        "    stopTime = 2026-05-01 12:01:00\n"
        "    scheduledStart =\n"
        "    expectedStart =\n"
        "    exit_code = 256 (1,0,0)\n"
        "    end_reason = exit code 1\n"
        "    cpu_seconds =\n"
        "    memory_peak =\n"
        "    cpuset_name = alice_1\n"
        "    resubmit_job_id =\n"
    )


def test_an_accepted_reservation_starts_at_its_date(connection: Connection, shell: Shell) -> None:
    date = "2026-05-02 08:00:00Z"
    accepted = add_job(connection, reservation_state="Scheduled", reservation_start=date)
    other = add_job(connection, reservation_state="toSchedule", reservation_start=date)
    document = json.loads(shell.done("oarstat", "-J", str(accepted), str(other)))
    assert [document[str(job)]["startTime"] for job in (accepted, other)] == [1777708800, None]
    assert "    startTime = 2026-05-02 08:00:00\n" in shell.done("oarstat", "-f", str(accepted))


def test_json_has_the_keys_of_oar(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", cores=1)
    first = add_job(connection, "Terminated", user="alice", resources=cores)
    second = add_job(connection, types=["besteffort"], stdout_path="OAR.%jobid%.stdout", resubmit_of=first)
    connection.execute("INSERT INTO job_dependencies VALUES (%s, %s, 'ok')", (second, first))
    document = json.loads(shell.done("oarstat", "-J", "-j", "1", "-j", "2"))
    assert list(document) == ["1", "2"]
    assert document["1"] == {
        "Job_Id": 1, "array_id": 1, "array_index": 1, "name": None, "owner": "alice", "job_user": "alice",
        "state": "Terminated", "assigned_resources": [1, 2], "assigned_network_address": ["node1", "node2"],
        "assigned_amounts": {},
        "queue": "default", "command": "date", "launchingDirectory": "/", "jobType": "PASSIVE", "properties": "",
        "reservation": "None", "walltime": 3600, "submissionTime": 1777636800, "startTime": 1777636800,
        "stopTime": 1777636860, "message": "", "scheduledStart": None, "expected_start": None,
        "resubmit_job_id": None, "events": [],
        "wanted_resources": '-l "/network_address=1,walltime=1:0:0"', "project": "default", "cpuset_name": "alice_1",
        "types": [], "dependencies": [], "exit_code": 0, "end_reason": "exit code 0",
        "cpu_seconds": None, "memory_peak": None,
        "stdout_file": "", "stderr_file": "",
        "initial_request": "oarsub date", "reserved_resources": [], "verdict": None, "reason": None,
        "reason_data": None,
    }  # fmt: skip
    assert document["2"]["dependencies"] == [1]
    assert document["2"]["resubmit_job_id"] == 1
    assert document["2"]["stdout_file"] == "OAR.2.stdout"
    assert document["2"]["types"] == ["besteffort"]


def test_what_was_typed_is_for_the_owner_and_admins(
    connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_job(connection, user=ME, request="oarsub mine")
    add_job(connection, user="somebody", request="oarsub secret")
    seen = json.loads(shell.done("oarstat", "-f", "-J"))
    assert seen["2"]["initial_request"] == "oarsub secret"
    assert seen["2"]["environment"] == {"HOME": "/home/me"}
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    seen = json.loads(shell.done("oarstat", "-f", "-J"))
    assert (seen["1"]["initial_request"], seen["2"]["initial_request"]) == ("oarsub mine", None)
    assert (seen["1"]["environment"], seen["2"]["environment"]) == ({"HOME": "/home/me"}, None)
    assert "secret" not in shell.done("oarstat", "-f")


def test_user_queue_and_condition_restrict(connection: Connection, shell: Shell) -> None:
    add_job(connection, user=ME)
    add_job(connection, user="somebody", queue_name="besteffort", types=["besteffort"])
    add_job(connection, "Terminated", user="somebody", resubmit_of=1)
    ids = ["--format", "ids"]
    assert shell.done("oarstat", "-u", *ids) == "1\n"
    assert shell.done("oarstat", "-u", "somebody", *ids) == "2\n"
    assert shell.done("oarstat", *ids, "besteffort") == "2\n"
    assert shell.done("oarstat", *ids, "--sql", "job_user = 'somebody' AND types LIKE '%besteffort%'") == "2\n"
    assert shell.done("oarstat", *ids, "--sql", "resubmit_job_id='1'") == "3\n"


def test_dates_in_conditions_count_from_now(connection: Connection, shell: Shell) -> None:
    add_job(connection)  # on 2026-05-01 at 12:00
    ids = ("--format", "ids", "--sql")
    connection.execute("UPDATE jobs SET submitted_at = now() - interval '2 hours'")
    for condition, shown in (
        ("submission_time > '-3h'", "1\n"),
        ("submission_time > '-1h'", ""),
        ("submission_time BETWEEN 'now - 1d' AND 'now'", "1\n"),
        ("submission_time > 1700000000 AND submission_time < 'tomorrow'", "1\n"),
        ("submission_time < '2026-01-01T00:00Z'", ""),
    ):
        assert shell.done("oarstat", *ids, condition) == shown, condition
    assert "is not a date" in shell("oarstat", *ids, "submission_time > 'someday'").err


def test_arrays(connection: Connection, shell: Shell) -> None:
    add_job(connection, user="alice")
    for index in (1, 2, 3):
        add_job(connection, user="bob", array_id=2, array_index=index)
    assert shell.done("oarstat", "-c").splitlines()[2:] == [
        "1         W alice    0:00:00",
        "3@2       - bob      -",
    ]
    assert shell.done("oarstat", "--array", "2") == (
        "Job id    A. id     A. index S User     Duration   System message\n"
        "--------- --------- -------- - -------- ---------- ------------------------------------------------\n"
        "2         2         1        W bob      0:00:00\n"
        "3         2         2        W bob      0:00:00\n"
        "4         2         3        W bob      0:00:00\n"
    )
    assert len(shell.done("oarstat", "--array").splitlines()) == 6


def test_job_in_the_environment(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    job = add_job(connection)
    add_job(connection)
    monkeypatch.setenv("OAR_JOB_ID", str(job))
    assert shell.done("oarstat", "-s", "-j") == f"{job}: Waiting\n"


def test_missing_ids_are_named_after_those_found(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    result = shell("oarstat", "-s", "-j", "1", "77", "78")
    assert (result.status, result.out) == (4, "1: Waiting\n")
    assert result.err == "oarstat: jobs 77, 78 do not exist (oarstat lists the jobs)\n"
    result = shell("oarstat", "-J", "-j", "77")
    assert (result.status, result.out) == (4, "")


def test_events_and_properties(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", cores=1)
    add_job(connection, "Running", resources=cores)
    connection.execute(
        "INSERT INTO event_logs (at, type, job_id, description) VALUES (%s, 'WALLTIME', 1, 'over')", [EPOCH]
    )
    assert shell.done("oarstat", "-e", "-j", "1") == "[1] 2026-05-01 12:00:00> WALLTIME: over\n"
    assert json.loads(shell.done("oarstat", "-e", "-J"))["1"][0]["type"] == "WALLTIME"
    assert shell.done("oarstat", "-p", "-j", "1") == (
        "resource_id = '1' , type = 'default' , network_address = 'node1' , state = 'Alive' , besteffort = 'YES' ,"
        " core = '1' , cpuset = '0' , deploy = 'NO' , drain = 'NO' , cpu = '1' , host = 'node1'\n"
    )
    assert json.loads(shell.done("oarstat", "-p", "-J"))["1"][0]["host"] == "node1"


def test_text_cannot_break_lines(connection: Connection, shell: Shell) -> None:
    add_job(connection, message="one\ntwo\x1b[31m", command="a\nstate = Terminated")
    assert shell.done("oarstat").splitlines()[2] == "1         W root     0:00:00    one two [31m".replace("root", ME)
    assert "    command = a state = Terminated\n" in shell.done("oarstat", "-f")


def test_gantt(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1", "node2", cores=1)
    add_job(connection, "Terminated", user="alice", resources=cores[:1], seconds=1800)
    job = add_job(connection, user="bob")
    connection.execute(
        "INSERT INTO gantt_predictions SELECT %s, 'resources_busy', '', max(moldable_id), %s, %s, '{[1,2]}'"
        " FROM moldable_descriptions",
        (job, EPOCH + timedelta(minutes=30), EPOCH + timedelta(minutes=90)),
    )
    period = "2026-05-01 12:00, 2026-05-01 13:00"
    assert shell.done("oarstat", "-g", period) == (
        "      2026-05-01 12:00:00                      2026-05-01 13:00:00\n"
        f"node1 {'a' * 30}{'b' * 30}\n"
        f"node2 {'.' * 30}{'b' * 30}\n"
        ". = free, # = several jobs\n"
        "a = job 1 (alice, Terminated): 2026-05-01 12:00:00 - 2026-05-01 12:30:00, 1 resource\n"
        "b = job 2 (bob, Waiting): 2026-05-01 12:30:00 - 2026-05-01 13:30:00, 2 resources\n"
    )
    document = json.loads(shell.done("oarstat", "-J", "-g", period))
    assert [one["job_id"] for one in document["jobs"]] == [1, 2]
    assert document["jobs"][0]["resources"] == cores[:1]


def test_accounting(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Terminated", user="alice", resources=cores, seconds=90)
    shell.done("oaraccounting")
    period = "2026-05-01, 2026-05-02"
    assert shell.done("oarstat", "--accounting", period) == (
        "User           Project        First window starts Last window ends    Asked (seconds) Used (seconds)\n"
        "-------------- -------------- ------------------- ------------------- --------------- --------------\n"
        "alice          default        2026-05-01 00:00:00 2026-05-02 00:00:00 7200            180\n"
    )
    assert shell.done("oarstat", "--accounting", period, "-u", "alice") == (
        "Usage summary for user 'alice' from 2026-05-01 00:00:00 to 2026-05-02 00:00:00:\n"
        "-------------------------------------------------------------------------------\n"
        "Start of the first window: 2026-05-01 00:00:00\n"
        "End of the last window: 2026-05-02 00:00:00\n"
        "Asked consumption: 7200 (0 days 2:00:00)\n"
        "Used consumption: 180 (0 days 0:03:00)\n"
        "By project consumption:\n"
        "  default:\n"
        "    Asked: 7200 (0 days 2:00:00)\n"
        "    Used: 180 (0 days 0:03:00)\n"
    )
    assert json.loads(shell.done("oarstat", "--accounting", period, "-J"))[0]["used"] == 180


@pytest.fixture
def terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Commands whose output is a terminal of 72 columns without colours."""
    monkeypatch.setattr("_pytest.capture.CaptureIO.isatty", lambda _: True)
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setenv("NO_COLOR", "1")
    return shell


def test_a_person_sees_exit_codes_of_what_has_ended(connection: Connection, terminal: Shell) -> None:
    add_job(connection, "Terminated", user="alice", status=256)
    add_job(connection, "Error", user="alice", status=9, message="walltime")
    add_job(connection, user="alice")
    lines = terminal.done("oarstat", "1-3").splitlines()
    assert lines[0] == "Job id S User  Duration Exit System message"
    assert [line.split()[3:] for line in lines[2:]] == [["0:01:00", "1"], ["0:01:00", "KILL", "walltime"], ["0:00:00"]]
    assert max(map(len, lines)) <= 72


def test_exit_codes_are_in_format_3_and_csv_for_programs(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Terminated", user="alice", status=256)
    assert "Exit" not in shell.done("oarstat", "1")
    assert shell.done("oarstat", "--format", "csv", "1").splitlines()[0].split(",")[-4:] == [
        "Exit", "System message", "Project", "End reason"
    ]  # fmt: skip
    assert "0:01:00    1" in shell.done("oarstat", "--format", "3", "1")


def test_why_a_job_ended_is_told_to_programs(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Terminated", user="alice", status=256)
    add_job(connection, "Error", user="alice", status=9)
    add_job(connection, "Error", user="alice", status=9)
    add_job(connection, "Running", user="alice")
    connection.execute(
        "INSERT INTO event_logs (type, job_id, description)"
        " VALUES ('FRAG_JOB_REQUEST', 2, ''), ('KILLED', 2, ''), ('WALLTIME', 3, '')"
    )
    reasons = ["exit code 1", "deleted", "walltime", ""]
    lines = shell.done("oarstat", "--format", "csv", "1-4").splitlines()
    assert [line.rsplit(",", 1)[1] for line in lines[1:]] == reasons
    document = json.loads(shell.done("oarstat", "-J", "1-4"))
    assert [one["end_reason"] or "" for one in document.values()] == reasons


def test_a_person_sees_how_far_an_array_is(connection: Connection, terminal: Shell) -> None:
    add_job(connection, "Terminated", array_id=1, user="alice")
    add_job(connection, "Terminated", array_id=1, array_index=2, user="alice", status=256)
    for index in (3, 4):
        add_job(connection, array_id=1, array_index=index, user="alice")
    add_job(connection, user="bob")
    lines = terminal.done("oarstat", "-c").splitlines()
    assert [line.split()[:3] for line in lines[2:]] == [["4@1", "2/4,", "1"], ["5", "W", "bob"]]
    assert "4@1    2/4, 1 failed - alice" in lines[2]
    assert max(map(len, lines)) <= 72


def test_a_member_that_ran_again_counts_once(connection: Connection, terminal: Shell) -> None:
    add_job(connection, "Terminated", array_id=1, user="alice", status=256)
    add_job(connection, array_id=1, array_index=2, user="alice")
    add_job(connection, "Terminated", array_id=1, array_index=1, user="alice", resubmit_of=1)
    assert "1/2 " in terminal.done("oarstat", "-c").splitlines()[2]


def test_the_compact_form_is_that_of_oar_for_programs(connection: Connection, shell: Shell) -> None:
    for index in (1, 2):
        add_job(connection, array_id=1, array_index=index, user="alice")
    assert shell.done("oarstat", "-c").splitlines()[2] == "2@1       - alice    -"


def test_a_job_that_is_being_killed_says_so(connection: Connection, shell: Shell) -> None:
    """It runs until its nodes have ended it; what programs read of its state stays as it is."""
    cores = add_nodes(connection, "n1")
    job = add_job(connection, "Running", resources=cores, started=datetime.now(UTC))
    assert "Killing" not in shell.done("oarstat")
    shell.done("oardel", str(job))
    for words in (("oarstat",), ("oarstat", "-j", str(job)), ("oarstat", "-f", "-j", str(job))):
        assert f"Killing: oardel by {ME}" in shell.done(*words)
    assert shell.done("oarstat", "-s", "-j", str(job)) == f"{job}: Running\n"
    assert "    state = Running\n" in shell.done("oarstat", "-f", "-j", str(job))
    connection.execute("UPDATE kill_requests SET state = 'done'")
    assert "Killing" not in shell.done("oarstat")


def test_a_job_that_outlives_its_walltime_is_being_killed(connection: Connection, shell: Shell) -> None:
    """Its nodes end it, which takes time when its processes ignore the signal."""
    job = add_job(connection, "Running", resources=add_nodes(connection, "n1"))
    connection.execute("UPDATE jobs SET started_at = now() - interval '59 minutes'")
    assert "Killing" not in shell.done("oarstat")
    connection.execute("UPDATE jobs SET started_at = now() - interval '61 minutes'")
    for words in (("oarstat",), ("oarstat", "-f", "-j", str(job)), ("oarstat", "--top", "--once")):
        assert "Killing: its walltime is over" in shell.done(*words)
    assert shell.done("oarstat", "-s", "-j", str(job)) == f"{job}: Running\n"
    connection.execute("UPDATE jobs SET suspended_time = interval '5 minutes'")
    assert "Killing" not in shell.done("oarstat")


def test_words_for_the_tab_key(connection: Connection, shell: Shell) -> None:
    add_nodes(connection, "node1", cores=1)
    add_job(connection, user="alice", project="p")
    for index in (1, 2):
        add_job(connection, array_id=2, array_index=index)
    add_job(connection, "Terminated")
    assert shell.done("oarstat", "--complete", "jobs") == "3\n2\n"
    assert shell.done("oarstat", "--complete", "arrays") == "2\n"
    assert shell.done("oarstat", "--complete", "users").split() == sorted(["alice", ME])
    assert shell.done("oarstat", "--complete", "projects") == "default\n"
    assert "besteffort\n" in shell.done("oarstat", "--complete", "queues")
    assert shell.done("oarstat", "--complete", "nodes") == "node1\n"
    assert {"cpu", "host"} <= set(shell.done("oarstat", "--complete", "properties").split())
    assert {"cpu=", "nodes=", "walltime="} <= set(shell.done("oarstat", "--complete", "levels").split())
    assert shell.done("oarstat", "--complete", "secrets") == ""


@pytest.mark.parametrize("condition", ["owner = 'alice'", "user = 'alice'"])
def test_a_condition_on_the_owner_is_told_its_column(shell: Shell, condition: str) -> None:
    refused = shell("oarstat", "--sql", condition)
    assert refused.status == 2
    assert refused.err.endswith("(did you mean job_user?)\n")
