"""Licences: resources of a type of their own, asked for beside cores, from their creation to the node file."""

from __future__ import annotations

import json

import pytest

from tests.harness.oarsub_cluster import Connection, Submitter, run_pass

pytestmark = pytest.mark.db

MATLAB = "{type = 'license' AND license_name = 'matlab'}/license=%d"


@pytest.fixture
def oarsub(oarsub: Submitter) -> Submitter:
    for command, *arguments in (
        ("oarproperty", "-a", "license_name", "-c"),
        ("oaradmin", "resources", "add", "/license={3}", "--type", "license", "-p", "license_name=matlab"),
        ("oaradmin", "resources", "add", "/license={1}", "--type", "license", "-p", "license_name=ansys"),
    ):
        result = oarsub(*arguments, command=command)
        assert (result.status, result.err) == (0, ""), result
    return oarsub


def states_after_pass(connection: Connection) -> dict[int, str]:
    run_pass(connection)
    return dict(connection.execute("SELECT job_id, state FROM jobs").fetchall())


def test_no_more_licences_are_in_use_than_there_are(connection: Connection, oarsub: Submitter) -> None:
    two = oarsub.job_id("-l", f"/nodes=1/core=1+{MATLAB % 2},walltime=1:0:0", "date")
    other_two = oarsub.job_id("-l", f"/nodes=1/core=1+{MATLAB % 2},walltime=1:0:0", "date")
    one = oarsub.job_id("-l", f"/nodes=1/core=1+{MATLAB % 1},walltime=1:0:0", "date")
    none = oarsub.job_id("-l", "/nodes=3,walltime=1:0:0", "date")
    states = states_after_pass(connection)
    assert states == {two: "Running", other_two: "Waiting", one: "Running", none: "Waiting"}
    held = connection.execute(
        "SELECT job_id, type, count(*) FROM assigned_resources JOIN resources USING (resource_id)"
        " GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    assert held == [(two, "default", 1), (two, "license", 2), (one, "default", 1), (one, "license", 1)]
    found = json.loads(oarsub("--why", str(other_two), "-J", command="oarstat").out)
    assert found["verdict"] == "resources_busy"
    assert two in {holder["job_id"] for holder in found["in_the_way"]}


def test_more_than_there_are_is_refused_and_quotas_do_not_count_licences(
    connection: Connection, oarsub: Submitter
) -> None:
    refused = oarsub("-l", f"/nodes=1/core=1+{MATLAB % 4},walltime=1:0:0", "date")
    assert refused.status == 3
    assert "needs 4 licenses, 3 exist" in refused.err
    connection.execute("INSERT INTO quotas (user_name, max_resources) VALUES ('/', 1)")
    job = oarsub.job_id("-l", f"/nodes=1/core=1+{MATLAB % 3},walltime=1:0:0", "date")
    assert states_after_pass(connection)[job] == "Running"
