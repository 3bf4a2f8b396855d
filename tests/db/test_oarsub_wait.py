"""``oarsub --wait`` without a gateway: what it prints at once, and which exit status it ends with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

import pytest

from oarpy.client.jobs import interactive
from tests.harness.oarsub_cluster import Connection, Submitter, settings
from tests.harness.sample_cluster import add_job

pytestmark = [pytest.mark.db, pytest.mark.kept]


def end(connection: Connection, job: int, status: int | None) -> None:
    """Let a job that waits end in Error."""
    connection.execute("UPDATE jobs SET state = 'toError' WHERE job_id = %s", (job,))
    connection.execute(
        "UPDATE jobs SET state = 'Error', exit_status = %s, ended_at = now() WHERE job_id = %s", (status, job)
    )


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([("Terminated", 0)], 0),
        ([("Terminated", 3 << 8)], 3),
        ([("Terminated", 9)], 137),
        ([("Terminated", 0), ("Error", None)], 1),
        ([("Error", 15), ("Terminated", 7 << 8)], 143),
        ([("Error", 0)], 1),
    ],
)
def test_the_largest_status_counts(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    ends: Sequence[tuple[str, int | None]],
    expected: int,
) -> None:
    monkeypatch.setenv("OARPY_CONFIG", cluster_environment["OARPY_CONFIG"])
    jobs = [add_job(connection, state, status=status) for state, status in ends]
    assert interactive.wait_for_ends(jobs, jobs[0]) == expected


def test_the_object_comes_at_once_and_the_ends_of_an_array_are_heard(
    connection: Connection, oarsub: Submitter, cluster_environment: dict[str, str]
) -> None:
    with subprocess.Popen(
        ["oarsub", "--wait", "-J", "--array", "2", "date"],
        env={**cluster_environment, **settings()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            first, second = json.loads("".join(iter(running.stdout.readline, "}\n")) + "}")["job_ids"]
            end(connection, first, 2 << 8)
            assert running.poll() is None
            end(connection, second, None)
            assert running.communicate(timeout=60) == ("", f"oarsub: 2 of 2 jobs failed: oarstat --failures {first}\n")
            assert running.returncode == 2
        finally:
            running.kill()


@pytest.mark.parametrize(
    ("state", "status", "message", "said"),
    [
        ("Error", 15, "killed: its walltime was over", "exit 143, killed: its walltime was over"),
        ("Terminated", 3 << 8, "R=1,W=1:0:0,J=B", "exit 3"),
        ("Terminated", 9, "R=1,W=1:0:0,J=B; 1 of its processes killed", "exit 137, 1 of its processes killed"),
        ("Error", None, "its working directory is gone", "no exit status, its working directory is gone"),
    ],
)
def test_a_bad_end_is_told(
    connection: Connection,
    cluster_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    state: str,
    status: int | None,
    message: str,
    said: str,
) -> None:
    monkeypatch.setenv("OARPY_CONFIG", cluster_environment["OARPY_CONFIG"])
    job = add_job(connection, state, status=status, message=message)
    interactive.wait_for_ends([job], job)
    assert capfd.readouterr().err == f"oarsub: job {job}: {said}\n"
