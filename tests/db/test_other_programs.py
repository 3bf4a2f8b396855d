"""The programs that drive OAR from outside find what they look for. Their ways of reading are written anew here."""

from __future__ import annotations

import json
import re

import pytest

from tests.harness.sample_cluster import Connection, Shell, add_job, add_nodes

pytestmark = pytest.mark.db


def nextflow_states(output: str) -> dict[str, str]:
    """Nextflow greps ``oarstat -f`` for two kinds of lines; the last state line after an id is the job's."""
    found: dict[str, str] = {}
    job = None
    for line in output.splitlines():
        if re.search(r"(Job_Id:|state =)", line) is None:
            continue
        if line.startswith("Job_Id:"):
            job = line.removeprefix("Job_Id:").strip()
        elif job is not None:
            found[job] = line.partition("state =")[2].strip()
    return found


def submitit_states(output: str) -> dict[str, tuple[str, list[str]]]:
    """The OAR plug-in of submitit reads ``oarstat -f -J`` as an object of jobs with a state and nodes."""
    return {job: (about["state"], about["assigned_network_address"]) for job, about in json.loads(output).items()}


@pytest.fixture
def cluster(connection: Connection) -> Connection:
    cores = add_nodes(connection, "node1", "node2", cores=1)
    add_job(connection, "Running", resources=cores, properties="state = 'Alive' AND core > 0", job_name="state = x")
    add_job(connection, "Waiting", message="a message with state = Running in it")
    add_job(connection, "Hold")
    add_job(connection, "Terminated", resources=[])
    return connection


@pytest.mark.usefixtures("cluster")
def test_nextflow_reads_the_states(shell: Shell) -> None:
    assert nextflow_states(shell.done("oarstat", "-f")) == {"1": "Running", "2": "Waiting", "3": "Hold"}
    assert set(nextflow_states(shell.done("oarstat", "-f", "default"))) == {"1", "2", "3"}
    none = shell("oarstat", "-f", "admin")
    assert (none.status, none.out) == (0, "")


@pytest.mark.usefixtures("cluster")
def test_submitit_reads_the_states(shell: Shell) -> None:
    assert submitit_states(shell.done("oarstat", "-f", "-J", "-j", "1", "-j", "4")) == {
        "1": ("Running", ["node1", "node2"]),
        "4": ("Terminated", []),
    }


def test_submitit_finds_a_resubmitted_job_and_the_members_of_an_array(connection: Connection, shell: Shell) -> None:
    add_job(connection, "Terminated", array_id=1)
    add_job(connection, array_id=1, array_index=2)
    again = add_job(connection, resubmit_of=1)
    assert list(json.loads(shell.done("oarstat", "--sql", "resubmit_job_id='1'", "-J"))) == [str(again)]
    assert list(json.loads(shell.done("oarstat", "--sql", "resubmit_job_id='2'", "-J"))) == []
    assert list(json.loads(shell.done("oarstat", "--array", "1", "-J"))) == ["1", "2"]


@pytest.mark.usefixtures("cluster")
def test_jobs_are_cancelled_the_way_the_programs_do(connection: Connection, shell: Shell) -> None:
    shell.done("oardel", "-s", "SIGTERM", "1")
    shell.done("oardel", "-c", "1")
    shell.done("oardel", "2")
    shell.done("oardel", "--array", "3")
    assert connection.execute("SELECT job_id FROM kill_requests ORDER BY 1").fetchall() == [(2,), (3,)]
    assert connection.execute("SELECT signal FROM signal_requests ORDER BY request_id").fetchall() == [(15,), (12,)]
