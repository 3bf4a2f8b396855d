"""Selectors: words that name jobs, wherever job ids are."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from datetime import datetime, timedelta

import pytest

from oarpy.client.jobs.selection import ids_in_brief, parse_words
from oarpy.model.errors import UsageError
from tests.harness.oarsub_cluster import settings
from tests.harness.sample_cluster import ME, Connection, Shell, add_job, add_nodes

pytestmark = [pytest.mark.db, pytest.mark.kept]

OTHER = "somebody"


def listed(shell: Shell, *words: str) -> list[int]:
    return [int(line) for line in shell.done("oarstat", "--format", "ids", *words).split()]


def asked(connection: Connection) -> list[int]:
    return [job for (job,) in connection.execute("SELECT job_id FROM kill_requests ORDER BY 1")]


@pytest.fixture
def jobs(connection: Connection) -> None:
    """1 ended, 2 and 3 of somebody, 4 runs, 5 to 7 an array named train that waits."""
    cores = add_nodes(connection, "node1")
    add_job(connection, "Terminated")
    add_job(connection, user=OTHER, job_name="train")
    add_job(connection, "Error", user=OTHER)
    add_job(connection, "Running", resources=cores)
    for index in (1, 2, 3):
        add_job(connection, array_id=5, array_index=index, job_name="train")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["1-3"], [1, 2, 3]),
        (["1-2", "6"], [1, 2, 6]),
        (["last"], [5, 6, 7]),
        (["@train"], [2, 5, 6, 7]),
        (["@train", f"user:{OTHER}"], [2]),
        (["1", "@train"], [1, 2, 5, 6, 7]),
        (["-j", "1", "-j", "@train", f"user:{ME}"], [1, 5, 6, 7]),
        (["state:Running,waiting", f"user:{ME}"], [4, 5, 6, 7]),
        (["state:Error"], [3]),
        (["1-4", "state:Error", "state:Running"], [3, 4]),
        ([f"user:{ME},{OTHER}"], [2, 4, 5, 6, 7]),
        (["-u", OTHER], [2]),
        (["-j", "last"], [5, 6, 7]),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_selectors_of_oarstat(shell: Shell, words: list[str], found: list[int]) -> None:
    assert listed(shell, *words) == found


@pytest.mark.usefixtures("jobs")
def test_ended_jobs_by_name_and_by_age(connection: Connection, shell: Shell) -> None:
    now = datetime.now().astimezone()
    for name, age in (("done", timedelta(days=2)), ("done", timedelta(hours=2)), ("train", timedelta(hours=2))):
        add_job(connection, "Terminated", job_name=name, started=now - age, seconds=1, submitted_at=now - age)
    assert listed(shell, "@done") == [9], "the last of that name"
    assert listed(shell, "4", "@done") == [4, 9]
    assert listed(shell, "@train") == [2, 5, 6, 7], "live ones first"
    assert listed(shell, "4", "@train") == [2, 4, 5, 6, 7]
    assert listed(shell, "--since", "3h") == [2, 4, 5, 6, 7, 9, 10]
    assert listed(shell, "--since", "3d", "@done") == [8, 9]
    assert "it ended at" in shell.done("oarstat", "--why", "@done")
    assert shell("oarstat", "--since", "never").status == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("900-1000",), "no job has an id from 900 to 1000"),
        (("@nothing",), "no live job is named 'nothing'"),
        (("-s", "@nothing", "999"), "job 999 does not exist; no job is named 'nothing'"),
        (("-f", "@nothing"), "no live job is named 'nothing'"),
        (("--why", "@nothing"), "no live job is named 'nothing'"),
        (("--failures", "@nothing"), "no job is named 'nothing'"),
        (("--failures", "999"), "array 999 does not exist"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_what_names_no_job_is_not_found(shell: Shell, words: tuple[str, ...], said: str) -> None:
    """Whether it is an id, a range or a name."""
    result = shell("oarstat", *words)
    assert (result.status, result.out, result.err) == (4, "", f"oarstat: {said} (oarstat lists the jobs)\n")


@pytest.mark.usefixtures("jobs")
def test_what_is_there_is_shown_beside_what_is_not(shell: Shell) -> None:
    result = shell("oarstat", "-s", "4", "900-1000")
    assert (result.status, result.out) == (4, "4: Running\n")
    assert "no job has an id from 900 to 1000" in result.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("state:Suspended",), "no waiting or running job in state Suspended"),
        (("-u", "nobody"), "no waiting or running job of nobody"),
        (("-u", "nobody", "-s"), "no waiting or running job of nobody"),
        (("user:nobody", "state:Error"), "no job of nobody in state Error"),
        (("-u", "nobody", "besteffort"), "no waiting or running job of nobody in queue besteffort"),
        (("--sql", "project = 'x'"), "no job that meets the condition"),
    ],
)
@pytest.mark.usefixtures("jobs")
def test_a_list_of_no_jobs_says_so_to_people(shell: Shell, words: tuple[str, ...], said: str) -> None:
    result = shell("oarstat", *words)
    assert (result.status, result.err) == (0, f"oarstat: {said}\n")
    assert shell("oarstat", "-J", *words).err == ""


@pytest.mark.usefixtures("jobs")
def test_failures_are_of_the_array_that_is_meant(connection: Connection, shell: Shell) -> None:
    connection.execute("UPDATE jobs SET job_name = 'mine' WHERE array_id = 5")
    assert json.loads(shell.done("oarstat", "-J", "--failures", "@mine"))["array_id"] == 5
    several = shell("oarstat", "--failures", f"user:{ME},{OTHER}")
    assert (several.status, several.err) == (2, "oarstat: 5 arrays are meant: 1-5 (name one of them)\n")
    result = shell("oarsub", "--resubmit-failed", "999")
    assert (result.status, result.err) == (4, "oarsub: array 999 does not exist (oarstat lists the jobs)\n")


@pytest.mark.usefixtures("jobs")
def test_a_dependency_names_its_job(connection: Connection, shell: Shell) -> None:
    def waits_for(*words: str) -> int:
        job = int(shell.done("oarsub", *words, "date").rpartition("=")[2])
        row = connection.execute("SELECT required_job_id FROM job_dependencies WHERE job_id = %s", [job]).fetchone()
        assert row is not None
        return int(row[0])

    connection.execute("UPDATE jobs SET job_name = 'fetch' WHERE job_id = 6")
    array = shell("oarsub", "-a", "last", "date")
    assert (array.status, array.err) == (2, "oarsub: 3 jobs are meant: 5-7 (name one of them)\n")
    assert waits_for("-a", "ok:@fetch,[+60") == 6
    assert waits_for("-a", "last") == 8
    missing = shell("oarsub", "-a", "@nothing", "date")
    assert (missing.status, missing.err) == (
        4, "oarsub: no live job is named 'nothing' (oarstat lists the jobs)\n"
    )  # fmt: skip


@pytest.mark.usefixtures("jobs")
def test_a_program_is_started_in_the_job_that_is_named(shell: Shell) -> None:
    for command in ("oarsh", "oarsrun"):
        words = (*(("node1",) if command == "oarsh" else ()), "date")
        several = shell(command, "-j", "@train", *words)
        assert (several.status, several.err) == (2, f"{command}: 4 jobs are meant: 2, 5-7 (name one of them)\n")
        assert "job 5" in shell(command, "-j", "5", *words).err


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("12-", "'12-' is not a job id (an id, 12-20, last, @name, state:Running or user:ann,bob)"),
        ("20-12", "'20-12' is not a range of job ids (the smaller one first, as 12-20)"),
        ("0-12", "'0-12' is not a range of job ids (the smaller one first, as 12-20)"),
        ("@", "'@' names no job (@NAME, the name given with oarsub -n)"),
        ("state:Runing", "'Runing' is not a state of jobs (did you mean Running?)"),
        ("state:", "'' is not a state of jobs"),
        ("user:nobdy", "there is no user 'nobdy' (a login name)"),
    ],
)
def test_a_wrong_selector_is_one_line(shell: Shell, word: str, message: str) -> None:
    result = shell("oarstat", word)
    assert result.err.startswith(f"oarstat: {message}")
    assert (result.out, result.err.count("\n"), result.status != 0) == ("", 1, True)


def test_a_user_that_is_none_is_no_empty_list(connection: Connection, shell: Shell) -> None:
    result = shell("oarstat", "-u", "nobdy")
    assert (result.status, result.out, result.err) == (4, "", "oarstat: there is no user 'nobdy' (a login name)\n")
    add_job(connection, "Terminated", user="nobdy")
    assert shell("oarstat", "-u", "nobdy").status == 0
    assert shell("oarstat", "-u", "root").status == 0


@pytest.mark.usefixtures("jobs")
def test_deletion_by_a_selector_says_what_it_touches_and_takes_only_ones_own(
    connection: Connection, shell: Shell
) -> None:
    result = shell("oardel", "@train")
    assert (result.status, result.err) == (0, "3 jobs meant: 5-7\n")
    assert asked(connection) == [5, 6, 7]


@pytest.mark.usefixtures("jobs")
def test_a_range_leaves_out_what_has_ended_and_what_is_others(connection: Connection, shell: Shell) -> None:
    result = shell("oardel", "1-4")
    assert (result.status, result.err, asked(connection)) == (0, "1 job meant: 4\n", [4])
    result = shell("oardel", "1-3")
    assert (result.status, result.err) == (4, "oardel: no live job of yours is meant (oarstat shows what does)\n")


@pytest.mark.usefixtures("jobs")
def test_a_user_named_in_a_selector_is_checked(
    connection: Connection, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oarpy.client.session.is_administrator", lambda *_: False)
    result = shell("oardel", f"user:{OTHER}")
    assert (result.status, asked(connection)) == (5, [])
    assert result.err == f"oardel: job 2 belongs to '{OTHER}', not to '{ME}' (its owner or an admin may)\n"


@pytest.mark.usefixtures("jobs")
def test_a_dry_run_says_and_does_nothing(connection: Connection, shell: Shell) -> None:
    result = shell("oardel", "last", "--dry-run")
    assert (result.status, result.out) == (0, "delete: 5-7 (3 jobs; nothing was done)\n")
    assert asked(connection) == []
    assert shell("oarhold", "5", "--dry-run").out == "hold: 5 (1 job; nothing was done)\n"
    assert connection.execute("SELECT state FROM jobs WHERE job_id = 5").fetchone() == ("Waiting",)


@pytest.mark.usefixtures("jobs")
def test_hold_and_resume_take_those_that_can_be(connection: Connection, shell: Shell) -> None:
    result = shell("oarhold", "state:Waiting,Running", "-J")
    assert (result.status, json.loads(result.out)["jobs"]) == (0, [5, 6, 7])
    result = shell("oarresume", "5-6", "-J")
    assert (result.status, json.loads(result.out)["jobs"]) == (0, [5, 6])


@pytest.mark.usefixtures("jobs")
def test_one_job_is_asked_for_by_a_selector_that_means_one(connection: Connection, shell: Shell) -> None:
    result = shell("oarstat", "--why", "last")
    assert (result.status, result.err) == (2, "oarstat: 3 jobs are meant: 5-7 (name one of them)\n")
    assert shell.done("oarstat", "--why", f"user:{OTHER}").startswith("Job 2")
    assert "job 4" in shell.done("oarwalltime", "state:Running").lower()


def test_last_of_somebody_without_jobs(shell: Shell) -> None:
    result = shell("oardel", "last")
    assert (result.status, result.err) == (4, f"oardel: '{ME}' has submitted no job yet (oarstat lists the jobs)\n")


def test_ids_in_brief() -> None:
    assert ids_in_brief([7, 1, 2, 3, 9, 10]) == "1-3, 7, 9-10"
    assert ids_in_brief([]) == ""
    assert ids_in_brief(range(1, 100, 2)).endswith("23, ...")


def test_a_long_number_is_no_id() -> None:
    with pytest.raises(UsageError):
        parse_words(["9" * 20])


@pytest.mark.usefixtures("connection")
def test_a_terminal_is_told_that_there_are_no_jobs(cluster_environment: dict[str, str]) -> None:
    """A program that reads the list is told nothing."""
    own, terminal = pty.openpty()
    os.set_blocking(own, False)
    try:
        for errors in (terminal, subprocess.PIPE):
            done = subprocess.run(
                ["oarstat"],
                env={**cluster_environment, **settings()},
                stdout=subprocess.PIPE,
                stderr=errors,
                timeout=60,
                check=True,
            )
        assert done.stderr == b""
        assert b"no jobs wait or run; oarstat -j ID shows ended ones" in os.read(own, 4096)
    finally:
        os.close(own)
        os.close(terminal)
