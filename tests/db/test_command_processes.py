"""The installed commands as users start them: real processes, their outputs and exit statuses."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.harness.sample_cluster import Connection, add_job

pytestmark = pytest.mark.db


def test_a_cluster_is_described_used_and_looked_at(connection: Connection, cluster_environment: dict[str, str]) -> None:
    def run(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(words, env=cluster_environment, capture_output=True, text=True, check=False)
        assert done.returncode == status, done
        return done

    added = run("oaradmin", "resources", "add", "/host=node[1-4]/cpu={2}/core={4}", "--transport", "local")
    assert added.stdout == "32 resources added on 4 nodes\n"
    assert run("oarnodes", "-l").stdout == "node1\nnode2\nnode3\nnode4\n"
    job = add_job(connection)
    assert run("oarstat", "-s", "-j", str(job)).stdout == f"{job}: Waiting\n"
    assert json.loads(run("oarstat", "-J").stdout)[str(job)]["state"] == "Waiting"
    assert run("oarhold", str(job)).stdout == f"[{job}] Hold request was sent to the OAR server.\n"
    assert run("oarresume", str(job)).stdout == f"[{job}] Resume request was sent to the OAR server.\n"
    assert run("oardel", str(job)).stdout.startswith(f"Deleting the job = {job} ...REGISTERED.\n")
    missing = run("oardel", "4242", status=4)
    assert (missing.stdout, missing.stderr) == ("", "oardel: job 4242 does not exist (oarstat lists the jobs)\n")


def test_a_reader_that_leaves_is_no_error_worth_a_word(
    connection: Connection, cluster_environment: dict[str, str]
) -> None:
    connection.execute("INSERT INTO submissions DEFAULT VALUES")
    connection.execute(
        "INSERT INTO jobs (submission_id, array_id, array_index, user_name, queue_name, message)"
        " SELECT 1, 1, i, 'alice', 'default', repeat('x', 500) FROM generate_series(1, 1000) AS i"
    )
    with subprocess.Popen(
        ["oarstat"], env=cluster_environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        said = process.stderr.read()
    assert said == b""
