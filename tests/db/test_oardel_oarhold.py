"""``oardel``, ``oarhold``, ``oarresume``: what they write and what they refuse."""

from __future__ import annotations

import json

import pytest

from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]


def kills(connection: Connection) -> list[tuple[int, str, str]]:
    return connection.execute("SELECT job_id, requested_by, state FROM kill_requests ORDER BY 1").fetchall()


def states(connection: Connection) -> dict[int, str]:
    return dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())


def test_oardel_registers_requests(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection)
    add_job(connection, "Running", resources=cores, user="somebody")
    assert shell.done("oardel", "1", "2") == (
        "Deleting the job = 1 ...REGISTERED.\n"
        "Deleting the job = 2 ...REGISTERED.\n"
        "The job(s) [ 1 2 ] will be deleted in the near future.\n"
    )
    assert kills(connection) == [(1, ME, "asked"), (2, ME, "asked")]
    assert json.loads(shell.done("oardel", "-J", "1")) == {"action": "delete", "jobs": [1]}
    assert len(kills(connection)) == 2


def test_oardel_is_heard(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    connection.execute("LISTEN oarpy_events")
    shell.done("oardel", "1")
    assert "kill requested" in {notice.payload for notice in connection.notifies(timeout=5, stop_after=1)}


def test_oardel_array_takes_its_live_jobs(connection: Connection, shell: Shell) -> None:
    add_job(connection, array_id=1)
    add_job(connection, "Terminated", array_id=1, array_index=2)
    add_job(connection, array_id=1, array_index=3)
    shell.done("oardel", "--array", "1")
    assert [job for job, *_ in kills(connection)] == [1, 3]


def test_array_is_a_flag_over_all_ids(connection: Connection, shell: Shell) -> None:
    """``oardel --array A B`` deletes both arrays, and no job called B."""
    for array, index in ((1, 1), (1, 2), (3, 1), (3, 2), (5, 1)):
        add_job(connection, array_id=array, array_index=index)
    shell.done("oarhold", "--array", "1", "3")
    assert states(connection) == {1: "Hold", 2: "Hold", 3: "Hold", 4: "Hold", 5: "Waiting"}
    shell.done("oarresume", "1", "3", "--array")
    assert set(states(connection).values()) == {"Waiting"}
    shell.done("oardel", "--array", "1", "--array", "3")
    assert [job for job, *_ in kills(connection)] == [1, 2, 3, 4]
    result = shell("oardel", "--array")
    assert (result.status, result.err.partition(" (")[0]) == (2, "oardel: no array given")


def test_a_job_that_does_not_finish_is_ended_by_an_admin(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "n1", "n2")
    stuck = add_job(connection, "Running", resources=cores)
    connection.execute("UPDATE jobs SET state = 'Finishing', final_state = 'Terminated' WHERE job_id = %s", [stuck])
    words = ("oardel", "--force-terminate-finishing-job", str(stuck))
    result = shell(*words)
    assert result.status == 1, "too early"
    assert result.err.startswith(f"oardel: job {stuck} is Finishing, for 0 s only (try again in 0:3:40"), result.err
    with connection.transaction():
        connection.execute("SET LOCAL oarpy.rewrite_history = on")
        connection.execute(
            "UPDATE job_state_logs SET during = tstzrange(now() - interval '1 hour', NULL)"
            " WHERE job_id = %s AND state = 'Finishing'",
            [stuck],
        )
    assert shell.done(*words) == f"Force the termination of the job = {stuck} ...DONE.\n"
    assert states(connection) == {stuck: "Terminated"}
    rows = connection.execute("SELECT DISTINCT network_address, state FROM resources ORDER BY 1").fetchall()
    assert rows == [("n1", "Suspected"), ("n2", "Suspected")]
    assert "FORCE_TERMINATE_FINISHING_JOB" in shell.done("oarstat", "-e", "-j", str(stuck))
    assert shell(*words).status == 1
    waiting = add_job(connection)
    result = shell("oardel", "--force-terminate-finishing-job", str(waiting))
    assert result.err == f"oardel: job {waiting} is Waiting and not Finishing (nothing was done)\n"


def test_oardel_condition_takes_live_jobs(connection: Connection, shell: Shell) -> None:
    add_job(connection, project="a")
    add_job(connection, project="b")
    add_job(connection, "Terminated", project="b")
    shell.done("oardel", "--sql", "project = 'b'")
    assert [job for job, *_ in kills(connection)] == [2]


def test_what_cannot_be_deleted_does_not_keep_the_others(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    add_job(connection, "Terminated")
    add_job(connection)
    result = shell("oardel", "2", "9")
    assert (result.status, result.out, kills(connection)) == (4, "", [])
    assert result.err == "oardel: job 2 has already ended (Terminated); job 9 does not exist (oarstat lists the jobs)\n"
    result = shell("oardel", "2")
    assert (result.status, result.out) == (1, "")
    assert result.err == "oardel: job 2 has already ended (Terminated) (nothing was done)\n"
    result = shell("oardel", "1", "2", "3")
    assert (result.status, result.out.count("REGISTERED")) == (1, 2)
    assert result.err == "oardel: job 2 has already ended (Terminated) (the others are deleted)\n"
    assert [job for job, *_ in kills(connection)] == [1, 3]
    result = shell("oardel", "-J", "3", "9")
    assert (result.status, json.loads(result.out)) == (4, {"action": "delete", "jobs": [3]})


def test_signals_go_to_all_or_to_none(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Running", resources=add_nodes(connection, "node1"))
    add_job(connection, "Terminated")
    result = shell("oardel", "-s", "USR1", "1", "2")
    assert (result.status, result.out) == (1, "")
    assert result.err == "oardel: job 2 has already ended (Terminated) (nothing was done)\n"
    assert connection.execute("SELECT FROM signal_requests").fetchall() == []


def test_somebody_elses_job(connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    add_job(connection)
    add_job(connection, user="somebody")
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    for command in (["oardel"], ["oardel", "-s", "TERM"], ["oarhold"], ["oarresume"]):
        words = ["2"] if command == ["oardel"] else ["1", "2"]
        result = shell(*command, *words)
        assert result.status == 5
        assert "job 2 belongs to 'somebody'" in result.err
    assert (kills(connection), set(states(connection).values())) == ([], {"Waiting"})


def test_signals_and_checkpoints(connection: Connection, shell: Shell) -> None:
    cores = add_nodes(connection, "node1")
    add_job(connection, "Running", resources=cores[:1], checkpoint_signal=10)
    add_job(connection, "Running", resources=cores[1:])
    assert shell.done("oardel", "-s", "SIGTERM", "1") == "Sending SIGTERM to the job = 1 ...REGISTERED.\n"
    assert shell.done("oardel", "-c", "1", "2") == (
        "Checkpointing the job = 1 ...REGISTERED.\nCheckpointing the job = 2 ...REGISTERED.\n"
    )
    asked = connection.execute("SELECT job_id, signal, done FROM signal_requests ORDER BY request_id").fetchall()
    assert asked == [(1, 15, False), (1, 10, False), (2, 12, False)]
    assert kills(connection) == []


def test_signals_need_a_running_job(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    for option in (["-c"], ["-s", "USR1"]):
        result = shell("oardel", *option, "1")
        assert result.status == 1
        assert "job 1 is Waiting and cannot" in result.err


def test_hold_and_resume(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    add_job(connection, "Hold")
    assert shell.done("oarhold", "1", "2") == (
        "[1] Hold request was sent to the OAR server.\n[2] Hold request was sent to the OAR server.\n"
    )
    assert states(connection) == {1: "Hold", 2: "Hold"}
    assert shell.done("oarresume", "--sql", "state = 'Hold'") == (
        "[1] Resume request was sent to the OAR server.\n[2] Resume request was sent to the OAR server.\n"
    )
    assert states(connection) == {1: "Waiting", 2: "Waiting"}
    logged = connection.execute("SELECT type, job_id FROM event_logs ORDER BY event_id").fetchall()
    assert logged == [("HOLD_WAITING_JOB", 1), ("RESUME_JOB", 1), ("RESUME_JOB", 2)]


def test_running_jobs_are_not_held(connection: Connection, shell: Shell) -> None:
    add_job(connection)
    add_job(connection, "Running", resources=add_nodes(connection, "node1"))
    for command, what in (("oarhold", "held"), ("oarresume", "resumed")):
        result = shell(command, "1", "2")
        assert result.status == 1
        assert f"job 2 is Running and cannot be {what}" in result.err
    assert states(connection) == {1: "Waiting", 2: "Running"}


def test_an_admin_makes_running_jobs_besteffort_and_back(connection: Connection, shell: Shell) -> None:
    first, second = add_nodes(connection, "node1")[:1], add_nodes(connection, "node2")[:1]
    ordinary = add_job(connection, "Running", resources=first)
    guest = add_job(connection, "Running", resources=second, types=["besteffort", "x"], queue_name="besteffort")
    connection.execute("LISTEN oarpy_events")
    assert shell.done("oardel", "-b", str(ordinary), str(guest)) == (
        f"Adding the type besteffort to the job = {ordinary} ...DONE.\n"
        f"Removing the type besteffort from the job = {guest} ...DONE.\n"
    )
    rows = connection.execute("SELECT job_id, queue_name, types FROM jobs ORDER BY 1").fetchall()
    assert rows == [(ordinary, "besteffort", ["besteffort"]), (guest, "default", ["x"])]
    assert "job changed" in {notice.payload for notice in connection.notifies(timeout=5, stop_after=1)}
    events = connection.execute("SELECT job_id, type FROM event_logs WHERE type LIKE '%BESTEFFORT%' ORDER BY 1")
    assert events.fetchall() == [(ordinary, "ADD_BESTEFFORT_TYPE"), (guest, "REMOVE_BESTEFFORT_TYPE")]
    answer = {"action": "besteffort", "jobs": [{"job_id": ordinary, "besteffort": False}]}
    assert json.loads(shell.done("oardel", "-b", "-J", str(ordinary))) == answer


def test_only_running_jobs_become_besteffort(connection: Connection, shell: Shell) -> None:
    waiting = add_job(connection)
    refused = shell("oardel", "-b", str(waiting))
    assert (refused.status, refused.out) == (1, "")
    assert f"job {waiting} is Waiting" in refused.err
    assert shell("oardel", "-b", "-c", str(waiting)).status == 2
